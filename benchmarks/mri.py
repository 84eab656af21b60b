"""MRI as it is measured, one table: errors, intervals by region, lesions, and the rivals.

Run: python benchmarks/mri.py [--only WORDS] [--seeds N] [--first-seed S] [--no-rivals]
         [--only-rivals] [--no-wavelets] [--keep ROWS.jsonl] [--write TABLE.md]
     python benchmarks/run.py mri
With --keep every case and seed is written down when it is done, and read instead of measured the
next time: a run that was stopped goes on, and --seeds 0 prints what is there. The rivals have rows
of their own there (--only-rivals measures them alone), for they stay when our code changes.
A case is named OBJECT/MASK R σ; of "coils" the true sensitivities are given, of "espirit" they
are estimated. --only lists words of which a case's name must have one, such as "atlas/lines" or
"faint". Seeds decide mask, noise and lesions together; without noise two are enough. "small" is the
atlas with faint lesions at half its size, for all kinds of masks; the other objects have their own
size.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import mri_rivals as rivals
from cofem import mri
from common import Claim, Result, Table, describe_machine, note, print_result, write_markdown
from mri_data import Truth, coil_maps, load, mask, measured
from mri_scores import bar_scores, error_percent, kept_contrast, ssim

Case = tuple[str, str, float, float, int]  # object, kind of mask, undersampling, noise, coils
# Every kind of mask with every undersampling and noise, on 96 × 96 pixels with faint lesions.
GRID: list[Case] = [
    ("small", kind, factor, sigma, 0)
    for kind in ("lines", "power", "radial", "poisson", "shared")
    for factor in (3, 4, 8)
    for sigma in (0.0, 0.03, 0.1)
]
CASES: list[Case] = [
    *GRID,
    ("atlas", "power", 4, 0.0, 0),
    ("atlas", "power", 4, 0.03, 0),
    ("atlas", "lines", 3, 0.0, 0),
    ("atlas", "lines", 4, 0.0, 0),
    ("atlas", "lines", 4, 0.03, 0),
    ("atlas", "lines", 4, 0.1, 0),
    ("atlas", "shared", 4, 0.0, 0),
    ("atlas", "lines", 8, 0.0, 0),
    ("atlas", "radial", 4, 0.0, 0),
    ("atlas", "poisson", 4, 0.0, 0),
    ("atlas", "poisson", 4, 0.1, 0),
    ("faint", "lines", 4, 0.03, 0),
    ("faint", "power", 4, 0.03, 0),
    ("patient", "lines", 4, 0.0, 0),
    ("patient", "lines", 4, 0.03, 0),
    ("patient", "lines", 4, 0.1, 0),
    ("patient", "power", 4, 0.01, 0),
    ("camera", "lines", 3, 0.0, 0),
    ("phantom", "lines", 4, 0.01, 0),
    ("sagittal", "lines", 3, 0.0, 0),
    ("sagittal", "power", 3, 0.0, 0),
    ("echoes", "lines", 3, 0.0, 0),
    ("echoes", "power", 3, 0.0, 0),
    ("coils", "equispaced", 4, 0.02, 8),
    ("coils", "equispaced", 7, 0.02, 8),
    ("coils", "lines", 6, 0.02, 8),
    ("espirit", "equispaced", 4, 0.02, 8),
    ("espirit", "equispaced", 7, 0.02, 8),
    ("volume", "power", 4, 0.01, 0),
]
OURS, RIVALS = "ours", ("TV", "wavelets")
QUICK = ("atlas/lines R4 σ0.00", "faint/lines")
WITHOUT_NOISE = 2  # draws of a case without noise: there only the mask is drawn


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="words of the cases' names")
    parser.add_argument("--seeds", type=int, default=1, help="masks and noise draws a case")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--only-rivals", action="store_true")
    parser.add_argument("--no-wavelets", action="store_true", help="the slowest of the rivals")
    parser.add_argument("--keep", type=Path, help="a file for what was measured")
    parser.add_argument("--option", nargs="*", default=[], help="of ImageOptions, NAME=NUMBER")
    parser.add_argument("--write", type=Path, help="a Markdown file for the tables")
    asked = parser.parse_args(arguments)
    options = dict(word.split("=") for word in asked.option)
    changes = {name: type(getattr(mri.ImageOptions(), name))(v) for name, v in options.items()}
    began = time.perf_counter()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    rivals_asked = () if asked.no_rivals else ("TV",) if asked.no_wavelets else ("TV", "wavelets")
    kept = Kept(asked.keep)
    ours = not asked.only_rivals
    rows = measure(asked.only, seeds, rivals_asked, mri.ImageOptions(**changes), kept, ours)
    result, seconds = result_of(rows), time.perf_counter() - began
    print_result(result, seconds)
    if asked.write is not None:
        write_markdown(result, asked.write, describe_machine(), quick=False, seconds=seconds)
    return 0


def run(quick: bool) -> Result:
    """Measure for run.py: five noise draws where there is noise; quick: two cases, one draw."""
    if quick:
        return result_of(measure(QUICK, range(1), RIVALS, mri.ImageOptions()))
    return result_of(measure((), range(5), RIVALS, mri.ImageOptions()))


class Kept:
    """What was measured before, by case, seed and who was measured."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[tuple[str, int, str], dict[str, float]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["case"], row["seed"], row["who"]] = row["scores"]

    def add(self, case: str, seed: int, who: str, scores: dict[str, float]) -> None:
        """Write a case down."""
        self.rows[case, seed, who] = scores
        if self.path is not None:
            row = {"case": case, "seed": seed, "who": who, "scores": scores}
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def means(self, case: str) -> dict[str, float]:
        """Return the mean over seeds of everything that was measured for each of them."""
        means: dict[str, float] = {}
        names = sorted({who for name, _, who in self.rows if name == case})
        seeds = [{s for name, s, w in self.rows if (name, w) == (case, who)} for who in names]
        common = set.intersection(*seeds) if seeds else set()  # the same draws for everyone
        for who in names:
            found = [self.rows[case, seed, who] for seed in sorted(common)]
            if not found:
                return {}
            keys = [key for key in found[0] if all(key in scores for scores in found)]
            means |= {key: float(np.mean([s[key] for s in found])) for key in keys}
            if who == OURS:
                spread = float(np.std([s["ours"] for s in found], ddof=1)) if len(found) > 1 else 0
                means |= {"seeds": len(found), "± over seeds": spread}
        return means


def measure(
    only: Any,
    seeds: range,
    rivals_asked: tuple[str, ...],
    options: mri.ImageOptions,
    kept: Kept | None = None,
    ours: bool = True,
) -> list[dict[str, Any]]:
    """Return a row for every case: the means over its seeds."""
    rows, kept = [], kept or Kept(None)
    for case in CASES:
        name = named(case)
        if only and not any(word in name for word in only):
            continue
        for seed in seeds if case[3] > 0 else seeds[:WITHOUT_NOISE]:
            for who in (*((OURS,) if ours else ()), *rivals_asked):
                if (name, seed, who) not in kept.rows:
                    scores = one(case, seed, who, options)
                    if scores:
                        kept.add(name, seed, who, scores)
        means = kept.means(name)
        if not means:
            note(f"mri: nothing was measured of {name}")
            continue
        rows.append({"case": name} | means)
        note("  ".join(f"{k} {v:.3g}" if k != "case" else str(v) for k, v in rows[-1].items()))
    return rows


def named(case: Case) -> str:
    """Return the name of a case."""
    where, kind, factor, sigma, coils = case
    return f"{where}/{kind} R{factor:g} σ{sigma:.2f}" + (f" {coils} coils" if coils else "")


def one(case: Case, seed: int, who: str, options: mri.ImageOptions) -> dict[str, float]:
    """Measure a case once; empty where its data are not there."""
    where, kind, factor, sigma, coils = case
    truth = load(where, seed)
    if truth is None:
        return {}
    sampled = mask(kind, truth.images.shape, factor, seed)
    maps = coil_maps(truth.images.shape[1:], coils) if coils else None
    kspace = measured(truth, sampled, sigma, seed, maps)
    if where == "espirit" and maps is not None:  # the maps are estimated, and their phase is free
        true, maps = maps, mri.coil_sensitivities(kspace)
        turn = np.exp(1j * np.angle(np.sum(maps.conj() * true, axis=0)))
        truth = replace(truth, images=truth.images * turn)
    if who != OURS:
        return rival_scores(kspace, sampled, maps, truth, sigma, who)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mri.reconstruct(
            kspace, sampled, real=truth.real, sensitivities=maps, options=options
        )
    seconds = time.process_time() - began
    row = {"ours": error_percent(found.image, truth)}
    if truth.images.ndim == 3:
        row["SSIM"] = ssim(found.image, truth.images)
    row |= bar_scores(found.image, found.std, truth) | kept_contrast(found.image, truth)
    row["σ found"] = float(np.mean(found.noise_std))
    row["s"] = seconds
    row["EM"] = len(found.history["iteration"])
    row["CG"] = sum(found.history["cg_steps"])
    return row


def rival_scores(
    kspace: np.ndarray, sampled: np.ndarray, maps: Any, truth: Truth, sigma: float, who: str
) -> dict[str, float]:
    """Return the errors of a rival with its best λ, SSIM and lesions of joint TV."""
    axes = truth.images.ndim - 1
    grid = rivals.weights(sigma)
    common = (kspace, sampled, maps, truth.real)
    if who == "TV":
        image, _ = rivals.best(lambda w: rivals.total_variation(*common, w), grid, truth)
        zero = error_percent(rivals.zero_filled(kspace, maps, axes), truth)
        row = {"zero-filled": zero, "TV": error_percent(image, truth)}
        if axes == 2:
            row["TV SSIM"] = ssim(image, truth.images)
        return row | {f"TV {name}": value for name, value in kept_contrast(image, truth).items()}
    image, _ = rivals.best(lambda w: rivals.group_wavelets(*common, w), grid, truth)
    row = {"wavelets": error_percent(image, truth)}
    if maps is not None:
        image, _ = rivals.best(lambda w: rivals.sigpy_wavelets(kspace, maps, w), grid, truth)
        row["SigPy"] = error_percent(image, truth)
    return row


def result_of(rows: list[dict[str, Any]]) -> Result:
    """Return the tables and what they bear out."""
    if not rows:
        return Result("MRI", [], [Claim("image beats joint TV", None, "no data are here")])
    groups = [
        ("Errors: NRMSE in %, SSIM, seconds of processor time",
         ("seeds", "ours", "± over seeds", "TV", "wavelets", "SigPy", "zero-filled", "SSIM",
          "TV SSIM", "σ found", "s", "EM", "CG")),
        ("95 % intervals: the share that is covered, by region",
         ("object", "edges", "interior", "background", "background std/err",
          "err/std", "corr", "corr if exact")),
        ("Lesions: the share of their contrast that is kept, and covered",
         ("wide kept", "TV wide kept", "wide cov", "small kept", "TV small kept", "small cov",
          "real kept", "TV real kept", "real cov")),
    ]  # fmt: skip
    tables = []
    for title, columns in groups:
        there = [c for c in columns if any(c in row for row in rows)]
        kept = [row for row in rows if any(c in row for c in there)]
        if there and kept:
            cells = [[row["case"], *[row.get(c, "") for c in there]] for row in kept]
            tables.append(Table(title, ["case", *there], cells))
    claims = [
        Claim(f"better than joint TV with its best λ: {row['case']}", row["ours"] < row["TV"],
              f"{row['ours']:.2f} and {row['TV']:.2f} %")
        for row in rows if "TV" in row and "ours" in row
    ]  # fmt: skip
    claims += [
        Claim(f"95 % intervals cover 0.90 to 0.97 of the object: {row['case']}",
              0.90 <= row["object"] <= 0.97, f"{row['object']:.3f}")
        for row in rows if "object" in row
    ]  # fmt: skip
    notes = [
        "λ of TV, wavelets and SigPy is the best for the truth, their grids widened until the best "
        "is inside; cofem is told nothing. Object: above a twentieth of the brightest; edges: the "
        "fifth of it with the largest gradients. corr: of std with |error| inside the object; if "
        "exact: were errors normal with this std. s: seconds of processor time. A rival is left "
        "empty where it was not run for every seed."
    ]
    return Result("MRI as it is measured", tables, claims, notes)


if __name__ == "__main__":
    raise SystemExit(main())
