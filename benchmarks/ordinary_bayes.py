"""What the best possible estimator makes of ordinary problems, told how they were made.

    python benchmarks/ordinary_bayes.py [--rows NAME …] [--seeds 0 20] [--sweeps 4000] [--write]

It is told the law: how many coefficients are non-zero, the noise, and that the values are ±1; or
only that they are normal of variance one, which is more than ``fit`` is told and less than the
truth where they are ±1. Its posterior is summed over all sets and signs where these are few, and
sampled by parallel tempering elsewhere (``ordinary_told.py``).
The mean is the estimator of least mean square error, the mode that which is most often all right.
No estimator at all can be right more often than the largest probability of a ball that is as wide
as an answer may be wrong; a ball of twice the radius around one of the draws contains it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from common import Claim, Result, Table, describe_machine, finish
from ordinary import chosen_rows, failed, ours
from ordinary_problems import ORDINARY, Problem
from ordinary_told import Told, told_signs, told_size

# Rows on which some fits fail.
HARD = ("needles, normal", "20 × 30, σ = .3", "leadfield, 10 dB", "RBF kernel, wide",
        "blur of width 2", "blur of width 5", "Vandermonde", "σ = 0.3")  # fmt: skip


def right_at_most(problem: Problem, row: str, told: Told) -> float:
    """Return a bound of the probability with which any one answer can be right."""
    oracle = problem.error(problem.oracle())
    size = np.linalg.norm(problem.z)
    radius = size * (2 * oracle if row.startswith("needles") else 1.5 * oracle + 0.03)
    squares = np.sum(told.draws**2, axis=1)
    apart = squares[:, None] + squares - 2 * told.draws @ told.draws.T
    inside = (apart <= (2 * radius) ** 2 + 1e-9) @ told.weights
    return min(1.0, float(inside.max()) + max(0.0, 1 - float(told.weights.sum())))


def measure(row: str, seeds: range, sweeps: int) -> list:
    """Return a row of the table."""
    make, found = ORDINARY[row], []
    for seed in seeds:
        problem = make(seed)
        nan = float("nan")
        mine = problem.error(ours(problem).mean)
        cells = [problem.error(problem.oracle()), mine, failed(problem, mine, row)]
        if np.all(np.abs(problem.z[problem.z != 0]) == 1):
            told = told_signs(problem, sweeps, seed)
            errors = [problem.error(told.mean), problem.error(told.mode)]
            cells += [errors[0], *(failed(problem, e, row) for e in errors)]
            cells += [1 - right_at_most(problem, row, told), told.apart]
        else:
            cells += [nan] * 5
        told = told_size(problem, sweeps, seed)
        error = problem.error(told.mean)
        cells += [
            error,
            failed(problem, error, row),
            1 - right_at_most(problem, row, told),
            told.apart,
        ]
        found.append([float(c) for c in cells])
        print(f"  {row} {seed}: " + " ".join(f"{c:.3f}" for c in found[-1]), file=sys.stderr,
              flush=True)  # fmt: skip
    table = np.array(found)
    middle, total, worst = (
        100 * np.median(table, axis=0),
        table.sum(axis=0),
        100 * table.max(axis=0),
    )

    def count(i: int) -> str:
        return f"{int(total[i])}/{len(table)}" if total[i] == total[i] else "—"

    return [row, middle[0], middle[1], count(2), middle[3], count(4), count(5), total[6], worst[7],
            middle[8], count(9), total[10], worst[11]]  # fmt: skip


def _claim(who: str, rows: list, n: int, columns: tuple[int, ...]) -> Claim:
    """Say on which rows the better of these estimators fails at most once in twenty."""
    counts = {r[0]: [int(r[i].split("/")[0]) for i in columns if r[i] != "—"] for r in rows}
    reached = [row for row, c in counts.items() if c and min(c) <= n / 20]
    text = f"{who}, at most one failure in 20 on every row"
    return Claim(text, len(reached) == len(rows), "on " + (", ".join(reached) or "none"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=list(HARD), help="beginnings of names")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    parser.add_argument("--sweeps", type=int, default=4000)
    parser.add_argument("--write", type=Path, help="a Markdown file for the results")
    asked = parser.parse_args()
    machine, began = describe_machine(), time.perf_counter()
    rows = [
        measure(r, range(*asked.seeds), asked.sweeps) for r in chosen_rows(ORDINARY, asked.rows)
    ]
    bound = ["anybody: failures at least, expected", "two runs apart, largest, %"]
    columns = ["problem", "oracle %", "fit(Φ, y) %", "failures", "told ±1: mean %", "failures",
               "mode: failures", *bound, "told the size: mean %", "failures", *bound]  # fmt: skip
    n = asked.seeds[1] - asked.seeds[0]
    title = f"Told the number of non-zeros, the noise and the law, {n} problems each, medians"
    claims = [_claim("told ±1", rows, n, (5, 6)), _claim("told the size", rows, n, (10,))]
    result = Result("Ordinary problems, told the law", [Table(title, columns, rows)], claims)
    finish(result, began, machine, asked.write)


if __name__ == "__main__":
    main()
