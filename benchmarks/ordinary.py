"""The headline function on ordinary problems, beside the oracle and what else there is.

    python benchmarks/ordinary.py [--ours] [--rows NAME …] [--seeds 0 20] [--data LEADFIELD.npz]
                                  [--stopping] [--write]

A row is a kind of problem (``ordinary_problems.py``). A fit fails if its error is above 1.5
times the oracle's (least squares on the true support) plus 3 points; needles: above twice the
oracle's. ``--ours`` leaves the rivals out; ``--stopping`` measures where fits stop instead.
Without options all of it takes an hour or two, ``--ours`` some minutes, and
``--ours --rows plain --seeds 0 5`` a second.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cofem
from common import Claim, Result, Table, describe_machine, finish, show
from grid import exact_em
from ordinary_problems import Maker, Problem, with_measured_leadfield

SEEDS = 20
# Rivals take minutes on problems with so many entries: fewer seeds there.
LARGE, SEEDS_IF_LARGE = 500_000, 2
# Exact EM and the stopping statement run so many iterations, far more than fits need.
LONG = 300


@dataclass(frozen=True)
class Score:
    """What one method made of one problem."""

    error: float
    failed: bool
    beta: float
    seconds: float
    prior: str = ""
    warned: bool = False
    products: int = 0


def failed(problem: Problem, error: float, row: str) -> bool:
    """Whether an error is too far from the oracle's."""
    oracle = problem.error(problem.oracle())
    limit = 2 * oracle if row.startswith("needles") else 1.5 * oracle + 0.03
    return not error <= limit


def score(row: str, problem: Problem, method: Callable[[Problem], object]) -> Score:
    """Run a method; what it cannot fit counts as an error of 100 %."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = method(problem)
        except (ValueError, np.linalg.LinAlgError, FloatingPointError):
            found = np.zeros_like(problem.z)
    seconds = time.perf_counter() - began
    warned = any(issubclass(w.category, cofem.ConvergenceWarning) for w in caught)
    if isinstance(found, np.ndarray):
        error = problem.error(found)
        return Score(error, failed(problem, error, row), float("nan"), seconds)
    error = problem.error(found.mean)
    return Score(
        error, failed(problem, error, row), found.noise_precision / problem.beta, seconds,
        found.prior, warned, int(found.history["products"][-1]),
    )  # fmt: skip


def ours(problem: Problem) -> object:
    return cofem.fit(problem.given, problem.y)


def ours_told(problem: Problem) -> object:
    return cofem.fit(problem.given, problem.y, noise_precision=problem.beta)


def em(problem: Problem) -> np.ndarray:
    return exact_em(problem.phi, problem.y, problem.beta)


def regressor(problem: Problem) -> np.ndarray:
    from cofem.sklearn import SparseBayesRegressor

    return SparseBayesRegressor(fit_intercept=False).fit(problem.phi, problem.y).coef_


def omp(problem: Problem) -> np.ndarray:
    from sklearn.linear_model import OrthogonalMatchingPursuitCV

    most = min(min(problem.phi.shape) // 2, 60)
    model = OrthogonalMatchingPursuitCV(fit_intercept=False, max_iter=most)
    return model.fit(problem.phi, problem.y).coef_


def lasso(problem: Problem) -> np.ndarray:
    from sklearn.linear_model import LassoCV

    return LassoCV(fit_intercept=False).fit(problem.phi, problem.y).coef_


def ard_regression(problem: Problem) -> np.ndarray:
    from sklearn.linear_model import ARDRegression

    return ARDRegression(fit_intercept=False).fit(problem.phi, problem.y).coef_


OURS = {"fit": ours, "fit, noise known": ours_told}
RIVALS = {"exact EM, noise known": em, "regressor": regressor, "OMP-CV": omp, "LassoCV": lasso,
          "ARDRegression": ard_regression}  # fmt: skip


# -- tables --------------------------------------------------------------------


def measure(rows: dict[str, Maker], seeds: range, rivals: int) -> list[Table]:
    """Return the table of our fits, and that of the rivals on the first ``rivals`` seeds."""
    own, others = [], []
    for row, make in rows.items():
        problems = [make(seed) for seed in seeds]
        oracle = 100 * float(np.median([p.error(p.oracle()) for p in problems]))
        scores = {name: [score(row, p, f) for p in problems] for name, f in OURS.items()}
        own.append([row, oracle, *_own(scores["fit"]), *_told(scores["fit, noise known"])])
        _say(own[-1])
        for name, found in scores.items():
            _say_failures(row, name, seeds, problems, found)
        if rivals:
            few = SEEDS_IF_LARGE if problems[0].phi.size > LARGE else rivals
            others.append([row, *_rivals(row, problems[:few])])
            _say(others[-1])
    columns = ["problem", "oracle %", "failures", "error %", "worst %", "β̂/β", "least", "largest",
               "mixture", "warned", "products", "s", "noise known: failures", "error %", "mixture",
               "warned", "s"]  # fmt: skip
    tables = [Table(f"cofem.fit(Φ, y), medians of {len(seeds)} problems", columns, own)]
    if rivals:
        columns = ["problem", "problems", "oracle %"]
        for name in RIVALS:
            columns += [f"{name}: failures", "error %", "s"]
        tables.append(Table("What else there is, medians", columns, others))
    return tables


def _say(cells: list) -> None:
    """Show a row as soon as it is there."""
    print("  " + " | ".join(map(show, cells)), file=sys.stderr, flush=True)


def _count(flags: Sequence[bool]) -> str:
    return f"{np.sum(flags)}/{len(flags)}"


def _own(found: list[Score]) -> list:
    beta = [s.beta for s in found]
    return [
        _count([s.failed for s in found]), 100 * float(np.median([s.error for s in found])),
        100 * max(s.error for s in found), float(np.median(beta)), min(beta), max(beta),
        _count([s.prior == "mixture" for s in found]), _count([s.warned for s in found]),
        int(np.median([s.products for s in found])), float(np.median([s.seconds for s in found])),
    ]  # fmt: skip


def _told(found: list[Score]) -> list:
    return [
        _count([s.failed for s in found]), 100 * float(np.median([s.error for s in found])),
        _count([s.prior == "mixture" for s in found]), _count([s.warned for s in found]),
        float(np.median([s.seconds for s in found])),
    ]  # fmt: skip


def _rivals(row: str, problems: list[Problem]) -> list:
    oracle = 100 * float(np.median([p.error(p.oracle()) for p in problems]))
    cells = [len(problems), oracle]
    for method in RIVALS.values():
        found = [score(row, p, method) for p in problems]
        error = 100 * float(np.median([s.error for s in found]))
        seconds = float(np.median([s.seconds for s in found]))
        cells += [_count([s.failed for s in found]), error, seconds]
    return cells


def _say_failures(row, name, seeds, problems, found) -> None:
    for seed, problem, s in zip(seeds, problems, found, strict=True):
        if s.failed:
            print(
                f"     {row} seed {seed}, {name}: {s.error:.1%} (oracle "
                f"{problem.error(problem.oracle()):.1%}), β̂/β {s.beta:.3g}, {s.prior}"
                f"{', warned' if s.warned else ''}",
                file=sys.stderr,
                flush=True,
            )


# -- where fits stop -----------------------------------------------------------


def watched(problem: Problem, **options) -> tuple[cofem.Posterior, bool, list[float]]:
    """Return a fit, whether it warned, and the error after every iteration."""
    path: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(problem.given, problem.y, **options,
                         callback=lambda state: path.append(problem.error(state.mean)))  # fmt: skip
    return post, bool(caught), path


def stopping(rows: dict[str, Maker], seeds: range) -> tuple[Table, np.ndarray]:
    """Return where fits with prior="ard" stop, beside the best iteration of a long run.

    And for every problem this ratio, whether it warned, and whether fit(Φ, y) did.
    """
    table, every = [], []
    for row, make in rows.items():
        found, iterations = [], []
        for seed in seeds:
            problem = make(seed)
            told = {"noise_precision": problem.beta, "prior": "ard"}
            post, warned, _ = watched(problem, **told)
            _, _, path = watched(problem, **told, tol=0, max_iter=LONG)
            _, ours_warned, _ = watched(problem)
            found.append([problem.error(post.mean) / min(path), warned, ours_warned])
            iterations.append(len(post.history["iteration"]))
        ratios, warned, ours_warned = np.array(found).T
        table.append([row, float(np.median(ratios)), float(np.quantile(ratios, 0.9)),
                      float(ratios.max()), int(np.median(iterations)), _count(warned > 0),
                      _count(ours_warned > 0)])  # fmt: skip
        _say(table[-1])
        every += found
    columns = ["problem", "error at the end over the smallest on the way: median", "9 in 10",
               "largest", "iterations", "warned", "fit(Φ, y) warned"]  # fmt: skip
    title = f'Where prior="ard" stops, noise known, {len(seeds)} problems each'
    return Table(f"{title}; the way is {LONG} iterations", columns, table), np.array(every)


def chosen_rows(rows: dict[str, Maker], names: list[str]) -> dict[str, Maker]:
    """Return the rows whose names begin with one of these; all if there are none."""
    return {r: m for r, m in rows.items() if not names or any(r.startswith(n) for n in names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS))
    parser.add_argument("--data", type=Path, help="an .npz file with a leadfield")
    parser.add_argument("--ours", action="store_true", help="without rivals")
    parser.add_argument("--rival-seeds", type=int, default=SEEDS, help="as many for the rivals")
    parser.add_argument("--stopping", action="store_true", help="where fits stop, instead")
    parser.add_argument("--write", type=Path, help="a Markdown file for the results")
    asked = parser.parse_args()
    machine, began = describe_machine(), time.perf_counter()
    rows = chosen_rows(with_measured_leadfield(asked.data), asked.rows)
    seeds = range(*asked.seeds)
    if asked.stopping:
        table, every = stopping(rows, seeds)
        tables, median = [table], float(np.median(every[:, 0]))
        shares, count = np.mean(every[:, 1:], axis=0), f"{len(every)} problems"
        claims = [
            Claim("the error at the end is at most 1.05 times the smallest, in the median",
                  median <= 1.05, f"{median:.3f}, {count}"),
            Claim('prior="ard" warns on at most 2 %', bool(shares[0] <= 0.02), f"{shares[0]:.1%}"),
            Claim("fit(Φ, y) warns on at most 2 %", bool(shares[1] <= 0.02), f"{shares[1]:.1%}"),
        ]  # fmt: skip
    else:
        tables = measure(rows, seeds, 0 if asked.ours else asked.rival_seeds)
        failures = {r[0]: int(r[2].split("/")[0]) for r in tables[0].rows}
        bad = [r for r, n in failures.items() if n > len(seeds) / 20]
        claims = [Claim("at most one failure in 20 on every row", not bad, ", ".join(bad) or "all")]
    result = Result("Ordinary problems", tables, claims)
    finish(result, began, machine, asked.write)


if __name__ == "__main__":
    main()
