"""z ≥ 0 told to the fit, beside the unconstrained mean cut off at zero.

    python benchmarks/positive.py [--rows NAME …] [--laws LAW …] [--seeds 200 220]
                                  [--keep FILE.npz | --read FILE.npz …] [--write FILE.md]

Kinds of problems are those of ``ordinary_problems.py`` with the values made positive: all equal to
one, absolute values of normal ones, exponential. Both means are of a posterior, so on one problem
either may be nearer to the truth. A fit counts as worse if its error is above 1.05 times that of
the other plus .05 times that of least squares on the true support (the oracle).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import cofem
from common import Claim, Result, Table, describe_machine, print_result, show, write_markdown
from ordinary_problems import (
    Maker,
    Problem,
    blur,
    duplicates,
    equicorrelated,
    kernel,
    plain,
)

KINDS: dict[str, Maker] = {
    "plain": plain,
    "20 × 30": partial(plain, n=20, d=30, k=3),
    "σ = 0.1": partial(plain, sigma=0.1),
    "blur of width 1": partial(blur, width=1),
    "blur of width 2": partial(blur, width=2),
    "blur of width 5": partial(blur, width=5),
    "pairs, r = .999": duplicates,
    "equicorrelated .99": equicorrelated,
    "RBF kernel": kernel,
    "RBF kernel, wide": partial(kernel, width=0.03),
}
Law = Callable[[np.random.Generator, int], np.ndarray]
LAWS: dict[str, Law] = {
    "ones": lambda rng, k: np.ones(k),
    "|normal|": lambda rng, k: np.abs(rng.normal(size=k)),
    "exponential": lambda rng, k: rng.exponential(size=k),
    "lognormal": lambda rng, k: np.exp(rng.normal(size=k)),
    "two sizes": lambda rng, k: np.where(rng.random(k) < 0.3, 10.0, 1.0),
}
# A fit counts as worse above so many times the other's error plus so many times the oracle's.
OTHERS, ORACLES = 1.05, 0.05


def positive(kind: str, law: str, seed: int) -> Problem:
    """Return the problem of that seed with values that are positive."""
    p = KINDS[kind](seed)
    z, where = np.zeros_like(p.z), np.flatnonzero(p.z)
    z[where] = LAWS[law](np.random.default_rng([13, seed]), len(where))
    return Problem(p.phi, p.y + p.phi @ (z - p.z), z, p.sigma)


def errors(problem: Problem) -> list[float]:
    """Return the errors with z ≥ 0, of the mean cut off at zero, and of the oracle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        told = cofem.fit(problem.phi, problem.y, nonnegative=True)
        free = cofem.fit(problem.phi, problem.y)
    means = told.mean, np.maximum(free.mean, 0), problem.oracle()
    return [problem.error(m) for m in means]


COLUMNS = [
    "problem", "values", "oracle %", "cut off %", "z ≥ 0 %", "median ratio", "largest", "worse",
    "better", "ratio of mean squares", "its standard error",
]  # fmt: skip


def row(name: str, kept: dict[str, np.ndarray]) -> list[object]:
    """Return the figures of one kind and law from the errors (seeds, 3)."""
    told, cut, oracle = kept[name].T
    ratio = told / cut
    worse = told > OTHERS * cut + ORACLES * oracle
    better = cut > OTHERS * told + ORACLES * oracle
    squares = np.mean(told**2) / np.mean(cut**2)
    # Of a ratio of two means, by its linear approximation.
    spread = np.std(told**2 - squares * cut**2, ddof=1) / np.sqrt(len(told)) / np.mean(cut**2)
    return [
        *name.split(" | "), *(100 * float(np.median(x)) for x in (oracle, cut, told)),
        float(np.median(ratio)), float(np.max(ratio)), int(worse.sum()), int(better.sum()),
        float(squares), float(spread),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS)[:3])
    parser.add_argument("--seeds", nargs=2, type=int, default=[200, 220])
    parser.add_argument("--keep", type=Path, help="write all errors to this .npz file")
    parser.add_argument("--read", nargs="+", type=Path, help="show what such files hold, instead")
    parser.add_argument("--write", type=Path, help="a Markdown file for the results")
    asked = parser.parse_args()
    began, kept = time.perf_counter(), {}
    for path in asked.read or []:
        with np.load(path) as file:
            kept.update(file)
    if not kept:
        for kind, law in itertools.product(asked.rows, asked.laws):
            problems = (positive(kind, law, seed) for seed in range(*asked.seeds))
            kept[f"{kind} | {law}"] = np.array([errors(p) for p in problems])
            print(*map(show, row(f"{kind} | {law}", kept)), flush=True)
            if asked.keep:
                np.savez(asked.keep, **kept)
    rows = [row(name, kept) for name in kept]
    medians = [r[5] for r in rows]
    count = f"{sum(m <= 1 for m in medians)} of {len(rows)}, largest {max(medians):.3f}"
    claim = Claim("no median ratio is above 1", max(medians) <= 1, count)
    number = len(next(iter(kept.values())))
    table = Table(f"z ≥ 0, and the unconstrained mean cut off at zero; {number} problems a row",
                  COLUMNS, rows)  # fmt: skip
    result = Result("z ≥ 0", [table], [claim])
    seconds = time.perf_counter() - began
    print_result(result, seconds)
    if asked.write:
        command = " ".join(["python benchmarks/positive.py", *sys.argv[1:]])
        write_markdown(result, asked.write, {"command": command, **describe_machine()},
                       quick=False, seconds=seconds)  # fmt: skip


if __name__ == "__main__":
    main()
