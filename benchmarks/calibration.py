"""Simulation-based calibration of every model with a generative form: a table and histograms.

    python benchmarks/calibration.py [--problems 600] [--write FILE.md] [--picture FILE.png]

Models, problems and ranks are those of tests/learning/calibration_cases.py, which the tests run
with 150 problems each; the seeds here are others.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.stats import binom

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "learning"))

from calibration_cases import BINS, KINDS, QUANTITIES, histogram, p_value, ranks  # noqa: E402

mpl.use("agg")
from matplotlib import pyplot as plt  # noqa: E402

FIRST_SEED = 1000
# One false alarm in a thousand runs of the whole table (Bonferroni).
LEVEL = 1e-3 / (len(KINDS) * len(QUANTITIES))
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#DDDDDD"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=600)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + options.problems)
    found = {}
    for name in KINDS:
        found[name] = np.array([ranks(name, seed) for seed in seeds])
        print(name, *(f"{p_value(column):.2g}" for column in found[name].T), flush=True)
    text = page(found, options.problems)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    if options.picture:
        draw(found, options.problems, options.picture)


def page(found: dict[str, np.ndarray], problems: int) -> str:
    """Return the table of p-values."""
    lines = [
        "# Simulation-based calibration", "",
        f"`python benchmarks/calibration.py --problems {problems}`, "
        f"{datetime.date.today().isoformat()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}. {problems} problems a model, noise and prior known, "
        f"χ² on {BINS} bins. Uniform ranks are rejected below {LEVEL:.1e}: one false alarm in a "
        "thousand runs of the whole table.", "",
        "| model | " + " | ".join(f"{q}: p" for q in QUANTITIES) + " | rejected |",
        "|---|" + "---:|" * len(QUANTITIES) + "---|",
    ]  # fmt: skip
    for name, columns in found.items():
        values = [p_value(column) for column in columns.T]
        bad = [q for q, p in zip(QUANTITIES, values, strict=True) if p < LEVEL]
        cells = " | ".join(f"{p:.2g}" for p in values)
        lines.append(f"| {name} | {cells} | {', '.join(bad) or 'none'} |")
    return "\n".join([*lines, ""])


def draw(found: dict[str, np.ndarray], problems: int, path: Path) -> None:
    """Draw the histograms; the band holds a bin in 99 of 100 cases if ranks are uniform."""
    low, high = binom.interval(0.99, problems, 1 / BINS)
    figure, axes = plt.subplots(
        len(found), len(QUANTITIES), figsize=(8, 1.15 * len(found)), sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for row, (name, columns) in zip(axes, found.items(), strict=True):
        for axis, column in zip(row, columns.T, strict=True):
            axis.axhspan(low, high, color=GREY)
            color = ORANGE if p_value(column) < LEVEL else BLUE
            axis.bar((np.arange(BINS) + 0.5) / BINS, histogram(column), 0.8 / BINS, color=color)
        row[0].set_ylabel(
            name.replace(", ", ",\n"), rotation=0, ha="right", va="center", fontsize=9
        )
    for axis, quantity in zip(axes[0], QUANTITIES, strict=True):
        axis.set_title(f"rank of {quantity}", fontsize=10)
    figure.supxlabel("rank of the truth among the draws, as a share of them", fontsize=10)
    figure.suptitle(
        f"Problems per bin, of {problems}; grey: 99 % of bins if the draws hold; orange: rejected",
        fontsize=10,
    )
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
