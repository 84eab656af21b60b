"""Thirteen indicators: python benchmarks/calcium_indicators.py [--cells 0:8:2] [--rates 30].

Correlations at σ = 0.2 and 0.05 s, F1 of events within 0.1 s, probabilities claimed and true,
constants found and counts, beside suite2p's OASIS, OASIS AR(2), OASIS with a threshold, and
CASCADE's network trained on the other sets (its column is quoted). Medians over a set's
recordings, means over sets. Without options: both at 30 Hz, where CASCADE stands beside, and at
the native rates.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from calcium_sets import CASCADE, SIGMAS, Cell, cells, correlation, f1_of_frames, rivals
from cofem.calcium import deconvolve, detection
from cofem.calcium.scoring import real_events

DATA = Path(os.environ.get("COFEM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
# A class with fewer events is not judged.
ENOUGH = 200


def measure(cell: Cell, options: dict[str, Any], others: bool) -> dict[str, Any]:
    """Return all figures of one recording."""
    began = time.process_time()
    found = deconvolve(cell.dff, cell.rate, n_jobs=1, **options)
    row: dict[str, Any] = {"seconds": time.process_time() - began}
    for sigma in SIGMAS:
        row[f"here {sigma}"] = correlation(found.spikes, cell, sigma)
    row["F1"] = detection(cell.spike_times, found.events()["time"]).f1
    table = found.events(0.05)
    near, own = real_events(table["time"], table["probability"], cell.spike_times)
    row["classes"] = np.stack([table["probability"], own, near], axis=1)
    row |= {"decay": found.tau_d, "rise": found.tau_r, "curvature": found.curvature}
    row["limit"] = float(found.at_limit)
    row["count"] = float(np.sum(found.spike_counts)) / max(len(cell.spike_times), 1) - 1
    if others:
        began = time.process_time()
        made = rivals(cell)
        row["rivals' seconds"] = time.process_time() - began
        for name, estimate in made.items():
            for sigma in SIGMAS:
                row[f"{name} {sigma}"] = correlation(estimate, cell, sigma)
        row["F1 threshold"] = f1_of_frames(made["threshold"], cell)
    return row


def table(rows: dict[str, list[dict[str, Any]]], others: bool) -> list[str]:
    """Return the lines of the table of sets."""
    columns = ["here 0.2", "suite2p 0.2", "AR2 0.2", "CASCADE 0.2", "here 0.05", "suite2p 0.05",
               "AR2 0.05", "CASCADE 0.05", "F1", "F1 threshold", "decay", "rise", "curvature",
               "limit", "count", "|count|", "seconds"]  # fmt: skip
    if not others:
        columns = [c for c in columns if not c.startswith(("suite2p", "AR2", "F1 t"))]
    lines = [f"| set | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    all_values = []
    for name, found in rows.items():
        values = []
        for column in columns:
            if column.startswith("CASCADE"):
                values.append(CASCADE.get(name, (np.nan,) * 2)[column.endswith("0.05")])
            elif column == "|count|":
                values.append(np.median([abs(row["count"]) for row in found]))
            elif column == "limit":
                values.append(np.mean([row["limit"] for row in found]))
            else:
                values.append(np.median([row[column] for row in found]))
        all_values.append(values)
        lines.append(f"| {name} | {' | '.join(f'{v:.3f}' for v in values)} |")
    means = np.nanmean(all_values, axis=0)
    lines.append(f"| mean | {' | '.join(f'{v:.3f}' for v in means)} |")
    return lines


def reliability(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the lines on claimed and true probabilities, over all sets and set by set."""
    columns = ("class", "events", "said", "a spike of its own", "a spike within 0.1 s")
    lines = [f"| {' | '.join(columns)} |", "|---" * 5 + "|"]
    every = np.concatenate([row["classes"] for found in rows.values() for row in found])
    for low, chosen in _classes(every):
        said, own, near = every[chosen].mean(axis=0)
        lines.append(f"| {low:.1f} | {chosen.sum()} | {said:.3f} | {own:.3f} | {near:.3f} |")
    lines += ["", "Farthest outside the two counts, in a class with enough events:", ""]
    text = []
    for name, found in rows.items():
        table = np.concatenate([row["classes"] for row in found])
        text.append(f"{name} {_outside(table):.3f}")
    lines.append(f"all {_outside(every):.3f}; " + ", ".join(text))
    return lines


def _classes(table: np.ndarray) -> list[tuple[float, np.ndarray]]:
    found = []
    for low in np.arange(0.0, 1.0, 0.1):
        chosen = (table[:, 0] >= low) & (table[:, 0] < low + 0.1 + (low > 0.85))
        if chosen.any():
            found.append((float(low), chosen))
    return found


def _outside(table: np.ndarray) -> float:
    off = [0.0]
    for _, chosen in _classes(table):
        if chosen.sum() >= ENOUGH:
            said, own, near = table[chosen].mean(axis=0)
            off.append(max(own - said, said - near))
    return float(max(off))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default="0:8", help="which of a set, as a slice: 0:8:2")
    parser.add_argument("--rates", default="30,native", help="resampled to these, in Hz; native")
    parser.add_argument("--nu", type=float, default=None, help="add noise up to CASCADE's ν")
    parser.add_argument("--named", action="store_true", help="tell the indicator")
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--response", default="auto")
    parser.add_argument("--sets", default="", help="only sets whose name starts so, by commas")
    parser.add_argument("--out", type=Path, default=None, help="also write the lines to a file")
    asked = parser.parse_args()
    numbers = range(1000)[slice(*(int(x) if x else None for x in asked.cells.split(":")))]
    wanted = tuple(asked.sets.split(",")) if asked.sets else ("",)
    folder = DATA / "calcium" / "indicators"
    if not folder.is_dir():
        raise FileNotFoundError(f"no recordings in {folder}: set COFEM_DATA")
    warnings.simplefilter("ignore")
    for given in asked.rates.split(","):
        lines = one_rate(
            asked, folder, numbers, wanted, None if given == "native" else float(given)
        )
        print("\n".join(lines), flush=True)
        if asked.out is not None:
            with asked.out.open("a", encoding="utf-8") as stream:
                stream.write("\n".join(lines) + "\n")
    return 0


def one_rate(
    asked: argparse.Namespace,
    folder: Path,
    numbers: range,
    wanted: tuple[str, ...],
    rate: float | None,
) -> list[str]:
    """Measure all recordings at one rate and return the lines of all tables."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in cells(folder, numbers, rate, asked.nu):
        if not cell.dataset.startswith(wanted):
            continue
        options = {"method": asked.method, "response": asked.response}
        if asked.named:
            options["indicator"] = cell.indicator
        rows.setdefault(cell.dataset, []).append(measure(cell, options, not asked.no_rivals))
        print(f"  {cell.dataset} {cell.number}", file=sys.stderr, flush=True)
    told = "the native rate" if rate is None else f"{rate:g} Hz"
    number = sum(len(found) for found in rows.values())
    lines = [f"## {number} recordings at {told}", ""]
    if asked.named or asked.nu is not None or asked.method != "auto":
        lines += [f"named: {asked.named}, ν: {asked.nu}, method: {asked.method}", ""]
    lines += [*table(rows, not asked.no_rivals), "", *reliability(rows), ""]
    return lines if asked.no_rivals else [*lines, *behind(rows), ""]


def behind(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return in which sets a rival's median is above ours, and in how many counts are near."""
    lines = []
    for rival, ours in (
        *((f"{name} {sigma}", f"here {sigma}") for name in ("suite2p", "AR2") for sigma in SIGMAS),
        ("F1 threshold", "F1"),
    ):
        lost = []
        for name, found in rows.items():
            there, here = (np.median([row[c] for row in found]) for c in (rival, ours))
            if there > here:
                lost.append(f"{name} ({here:.3f}, {there:.3f})")
        lines.append(f"- behind {rival}: {', '.join(lost) or 'nowhere'}")
    near = [n for n, found in rows.items() if np.median([abs(r["count"]) for r in found]) <= 0.25]
    return [*lines, f"- counts within 25 % in the median recording: {', '.join(near) or 'none'}"]


if __name__ == "__main__":
    sys.exit(main())
