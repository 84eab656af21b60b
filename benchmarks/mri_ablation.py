"""Multi-contrast MRI: against joint total variation with its oracle λ, and what each part brings.

The atlas is looked for in the folder that COFEM_DATA names, else in ../shared/data beside the
repository. Without it nothing is measured. Run: python benchmarks/mri_ablation.py
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import cofem
from cofem import mri
from cofem.mri.figures import coverage
from common import Claim, Result, Table, note, print_result

FILE = "sri24_pd_t2_t1_200x200.npz"
AUTHOR, R4 = "masks_author_seed1111_49lines", "masks_r4_seed{}_50lines"
CASES = [(AUTHOR, 0.0), (AUTHOR, 0.01), (AUTHOR, 0.03), (R4.format(0), 0.0), (R4.format(1), 0.0)]
OPTIONS: dict[str, Any] = {"real": True, "centered": False}
# What the model is without its parts, from the plain one on.
STEPS = {
    "one α a pixel": {"ties": "pixel", "coupling": 0.0, "shrinkage": 0.0},
    "+ coupling, 0.6 pixel": {"ties": "pixel", "coupling": 0.6, "shrinkage": 0.0},
    "+ one α a direction": {"ties": "axis", "coupling": 0.6, "shrinkage": 0.0},
    "covariance of directions": {"ties": "directions"},
    "covariance of contrasts": {"ties": "contrasts"},
    "covariance of both (image)": {},
    "image, coupling 0.5": {"coupling": 0.5},
    "image, coupling 0.8": {"coupling": 0.8},
    "image, shrinkage 0.05": {"shrinkage": 0.05},
    "image, shrinkage 0.3": {"shrinkage": 0.3},
    "image, no floor": {"floor": 0.01},
    "image, 4 draws": {"n_draws": 4},
}


def run(quick: bool) -> Result:
    """Measure; quick: one mask, and no gradient model."""
    path = find_data()
    if path is None:
        return Result("MRI", [], [Claim("image beats joint TV", None, f"{FILE} is not here")])
    with np.load(path) as atlas:
        truth = atlas["images"]
        masks = {name: atlas[name] for name in {mask for mask, _ in CASES}}
    warm_up()
    cases = CASES[:1] if quick else CASES
    rows, maps, claims = [], [], []
    for name, sigma in cases:
        note(f"mri: {name}, σ = {sigma:g}")
        kspace = measured(truth, masks[name], sigma)
        rows.append(row := compare(kspace, masks[name], truth, sigma, quick))
        maps.append(row.pop("map"))
        maps[-1] = {"mask": short(name), "σ": sigma} | maps[-1]
        rows[-1] = {"mask": short(name), "σ": sigma} | row
        claims.append(
            Claim(
                f"image is better than joint TV with its best λ: {short(name)}, σ = {sigma:g}",
                row["image"] < row["joint TV"],
                f"{row['image']:.2f} % and {row['joint TV']:.2f} %",
            )
        )
        claims.append(
            Claim(
                "image takes at most 5 times one run of joint TV",
                row["s image"] <= 5 * row["s joint TV"],
                f"{row['s image'] / row['s joint TV']:.1f} times",
            )
        )
    tables = [as_table("NRMSE in %, and seconds", rows), as_table("The map of std", maps)]
    if not quick:
        tables.append(as_table("What each part brings, NRMSE in %", ablation(truth, masks[AUTHOR])))
        tables.append(as_table("A head that is nearly piecewise constant", drawn_head()))
        claims += gradient_claims(rows)
    notes = [
        "λ of joint TV is the best of a grid for the truth; its time is that of one run of 200 "
        "iterations. Every other column was told nothing. Conjugate symmetry is used by all. "
        "Correlation: of std with |error|, by contrast, inside the brain; covered: pixels "
        "inside the 95 % interval; ratio: rms error over rms std."
    ]
    return Result("Multi-contrast MRI", tables, claims, notes)


def find_data() -> Path | None:
    """Return the atlas's file where it is there."""
    return data_file(FILE)


def data_file(name: str) -> Path | None:
    """Return a file of the folder mri of the data where it is there."""
    root = os.environ.get("COFEM_DATA")
    folder = Path(root) if root else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = folder / "mri" / name
    return path if path.is_file() else None


def measured(truth: np.ndarray, mask: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    """Return the samples with complex white noise, E|ε|² = σ²."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(truth.shape) + 1j * rng.standard_normal(truth.shape)
    return np.where(mask, np.fft.fft2(truth, norm="ortho") + noise * sigma / 2**0.5, 0)


def compare(
    kspace: np.ndarray, mask: np.ndarray, truth: np.ndarray, sigma: float, quick: bool
) -> dict[str, Any]:
    """Run every method on one case."""
    grid = weights(sigma)
    row: dict[str, Any] = {}
    for name, isotropic in (("joint TV", False), ("joint TV, isotropic", True)):
        errors, seconds = [], []
        for weight in grid if not isotropic else tuple(1.5 * w for w in grid):
            began = time.perf_counter()
            image = mri.joint_total_variation(
                kspace, mask, weight=weight, isotropic=isotropic, **OPTIONS
            )
            seconds.append(time.perf_counter() - began)
            errors.append(100 * mri.nrmse(image, truth))
        row[name] = min(errors)
        if not isotropic:
            row["s joint TV"] = min(seconds)
    began = time.perf_counter()
    found = mri.reconstruct(kspace, mask, **OPTIONS)
    row["s image"] = time.perf_counter() - began
    row["image"] = 100 * mri.nrmse(found.image, truth)
    row["CG steps"] = sum(found.history["cg_steps"])
    if not quick and os.environ.get("COFEM_MRI_GRADIENT", "1") != "0":
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cofem.ConvergenceWarning)
            gradient = mri.reconstruct(kspace, mask, model="gradient", **OPTIONS)
        row["s gradient"] = time.perf_counter() - began
        row["gradient"] = 100 * mri.nrmse(gradient.image, truth)
    row["map"] = map_of(found, truth)
    return row


def map_of(found: mri.Reconstruction, truth: np.ndarray) -> dict[str, Any]:
    """Compare std with the error, inside the brain."""
    inside = np.any(truth > 0, axis=0)
    error = np.abs(found.image - truth)
    pairs = zip(found.std, error, strict=True)
    correlations = [np.corrcoef(s[inside], e[inside])[0, 1] for s, e in pairs]
    ratio = np.sqrt(np.mean(error[:, inside] ** 2) / np.mean(found.std[:, inside] ** 2))
    return {
        "correlation": ", ".join(f"{value:.2f}" for value in correlations),
        "covered": float(coverage(found.image, found.std, truth, np.array([0.95]))[0]),
        "ratio": float(ratio),
        "noise found": ", ".join(f"{value:.4f}" for value in found.noise_std),
    }


def ablation(truth: np.ndarray, mask: np.ndarray) -> list[dict[str, Any]]:
    """Take the model apart."""
    rows = []
    for name, changes in STEPS.items():
        note(f"mri: {name}")
        row: dict[str, Any] = {"model": name}
        for sigma in (0.0, 0.03):
            options = replace(mri.ImageOptions(), **changes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cofem.ConvergenceWarning)
                found = mri.reconstruct(
                    measured(truth, mask, sigma), mask, options=options, max_iter=20,
                    n_samples=2, **OPTIONS,
                )  # fmt: skip
            row[f"σ = {sigma:g}"] = 100 * mri.nrmse(found.image, truth)
            row[f"CG steps, σ = {sigma:g}"] = sum(found.history["cg_steps"])
        rows.append(row)
    return rows


def drawn_head() -> list[dict[str, Any]]:
    """Compare on the phantom, which is total variation's own world."""
    truth = np.fft.ifftshift(mri.phantom((200, 200)), axes=(1, 2))
    mask = np.fft.ifftshift(mri.power_rule_mask(truth.shape, 4, 5, seed=0), axes=(1, 2))
    rows = []
    for sigma in (0.0, 0.01):
        note(f"mri: phantom, σ = {sigma:g}")
        kspace = measured(truth, mask, sigma)
        row: dict[str, Any] = {"σ": sigma}
        row["joint TV"] = min(
            100 * mri.nrmse(
                mri.joint_total_variation(kspace, mask, weight=weight, **OPTIONS), truth
            )
            for weight in weights(sigma)
        )  # fmt: skip
        for coupling in (0.7, 0.5):
            options = mri.ImageOptions(coupling=coupling)
            found = mri.reconstruct(kspace, mask, options=options, **OPTIONS)
            covered = coverage(found.image, found.std, truth, np.array([0.95]))[0]
            row[f"image, {coupling:g} pixel"] = 100 * mri.nrmse(found.image, truth)
            row[f"covered, {coupling:g} pixel"] = float(covered)
        rows.append(row)
    return rows


def gradient_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """Return what was said of the paper's model, where it was run."""
    first = rows[0]
    if "gradient" not in first:
        return []
    ratio = first["s gradient"] / first["s image"]
    return [
        Claim(
            "gradient reaches the paper's 2.9 % on its mask",
            first["gradient"] <= 2.9,
            f"{first['gradient']:.3f} %",
        ),
        Claim("image is 5 times faster than gradient", ratio >= 5, f"{ratio:.0f} times"),
    ]


def weights(sigma: float) -> tuple[float, ...]:
    """Return the λ that joint total variation chooses from."""
    return (3e-5, 1e-4, 3e-4) if sigma == 0 else tuple(sigma * c for c in (0.15, 0.22, 0.3, 0.4))


def warm_up() -> None:
    """Compile everything on a small phantom."""
    x = mri.phantom((32, 32))
    mask = mri.power_rule_mask(x.shape, 2, 3)
    mri.reconstruct(mri.to_kspace(x) * mask, mask, real=True)


def short(name: str) -> str:
    """Return a mask's name for a table."""
    return name.removeprefix("masks_")


def as_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return rows with equal keys as a table."""
    return Table(title, list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    start = time.perf_counter()
    print_result(run(quick=False), time.perf_counter() - start)
