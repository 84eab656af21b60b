"""Unusual problems, and whether a fit is honest: odd noise, odd rows, odd matrices.

    python benchmarks/ordinary_unusual.py [--ordinary] [--rows NAME …] [--seeds 0 5]
                                          [--write FILE.md]

Kinds beside those of ``ordinary_problems.py`` (with ``--ordinary`` those), fitted by ``fit(Φ, y)``
with nothing else said but ``intercept=True`` where data have an offset; beside least squares on the
true support (the oracle), OMP and the lasso with cross-validation. And what intervals and support
say: how many intervals of 95 % hold the truth, how much of the support is false.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import cofem
from common import Claim, Result, Table, describe_machine, finish, show
from ordinary import chosen_rows, failed, lasso, omp
from ordinary_problems import ORDINARY, Problem
from unusual_problems import CENTRED, UNUSUAL

SEEDS = 5


def centred(problem: Problem) -> Problem:
    """Return the problem without its means, for methods that know of no intercept."""
    phi = np.asarray(problem.phi, float)
    return replace(problem, phi=phi - phi.mean(axis=0), y=problem.y - problem.y.mean())


def row(name: str, problems: list[Problem], rivals: bool) -> list[object]:
    """Return the figures of one kind."""
    inside, ones_inside, zeros, ones, named, false = 0, 0, 0, 0, 0, 0
    errors, seconds, oracles, others = [], [], [], []
    failures = warned = 0
    for p in problems:
        began = time.perf_counter()
        offset = name.startswith(CENTRED)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = cofem.fit(p.given, p.y, intercept=offset)
        seconds.append(time.perf_counter() - began)
        warned += bool(caught)
        low, high = post.interval()
        slack = 1e-9 * np.maximum(abs(low), abs(high))
        held, there = (low - slack <= p.z) & (p.z <= high + slack), p.z != 0
        inside, zeros = inside + np.sum(held[~there]), zeros + np.sum(~there)
        ones_inside, ones = ones_inside + np.sum(held[there]), ones + np.sum(there)
        chosen = post.support()
        named, false = named + np.sum(chosen), false + np.sum(chosen & ~there)
        plain = centred(p) if offset else replace(p, phi=np.asarray(p.phi, float))
        errors.append(p.error(post.mean))
        failures += failed(plain, errors[-1], name)
        oracles.append(p.error(plain.oracle()))
        others.append(
            [_rival(method, plain) for method in (omp, lasso)] if rivals else [np.nan] * 2
        )
    cells = [100 * float(np.median(e)) for e in (oracles, errors, *np.transpose(others))]
    return [
        name, *cells, f"{failures}/{len(problems)}", f"{warned}/{len(problems)}",
        100 * float(ones_inside / max(ones, 1)), 100 * float(inside / zeros if zeros else np.nan),
        100 * float((inside + ones_inside) / (zeros + ones)), int(named),
        100 * float(false / max(named, 1)), float(np.median(seconds)),
    ]  # fmt: skip


def _rival(method, problem: Problem) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return problem.error(method(problem))
        except ValueError:  # too few data for cross-validation
            return 1.0


COLUMNS = [
    "problem", "oracle %", "fit %", "OMP-CV %", "LassoCV %", "failures", "warned",
    "intervals that hold: non-zeros %", "zeros %", "all %", "in the support", "false %", "s",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ordinary", action="store_true", help="the kinds of ordinary.py, ours")
    parser.add_argument("--rows", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS))
    parser.add_argument("--write", type=Path, help="a Markdown file for the results")
    asked = parser.parse_args()
    machine, began = describe_machine(), time.perf_counter()
    rows = []
    for name, make in chosen_rows(ORDINARY if asked.ordinary else UNUSUAL, asked.rows).items():
        problems = [make(seed) for seed in range(*asked.seeds)]
        rows.append(row(name, problems, not asked.ordinary))
        print("  " + " | ".join(map(show, rows[-1])), file=sys.stderr, flush=True)
    worse = [r[0] for r in rows if not asked.ordinary and r[2] > 1.05 * min(r[3], r[4]) + 1]
    claims = [Claim("nowhere worse than OMP and the lasso", not worse, ", ".join(worse) or "all")]
    title = f"cofem.fit(Φ, y), {len(problems)} problems each, medians and shares"
    result = Result("Unusual problems", [Table(title, COLUMNS, rows)], claims)
    finish(result, began, machine, asked.write)


if __name__ == "__main__":
    main()
