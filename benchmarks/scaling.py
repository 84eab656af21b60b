"""How time, CG steps and memory grow with D."""

from __future__ import annotations

from typing import Any

import numpy as np

from common import Claim, Result, Table, best_of, note, slope
from isolated import isolated
from problems import DCT, METHODS, run_fit

ITERATIONS = 30
MEMORY_LIMIT = 3e9  # bytes, at D = 2^20
LARGEST = 2**20
STEADY = 1.1  # CG steps "do not grow" if they grow by less than a tenth
SLOPE_FROM = 2**16  # below, what does not depend on D shows


def run(quick: bool) -> Result:
    powers = range(13, 17) if quick else range(14, 21)
    measured = {2**k: _measure(2**k) for k in powers}
    large = [D for D in measured if D >= SLOPE_FROM] if not quick else list(measured)
    slopes = {
        "seconds": slope(large, [measured[D]["seconds"] for D in large]),
        "memory": slope(large, [measured[D]["peak"] - measured[D]["before"] for D in large]),
    }
    return Result(
        "Growth with the number of unknowns",
        [_table(measured), _slopes(slopes, large)],
        _claims(measured),
        [
            f"DCT, N = D/3, f = 0.12, σ = 0.01, β given, {ITERATIONS} iterations, a fresh process "
            "for every size. CG steps are those of the slowest system of an iteration, the "
            "mean's; the sum includes the reporting step.",
            "The slope of memory is that of the peak less what the imports take. A transform "
            "costs D log D, a slope of about 1.07 in this range.",
        ],
    )


def fit_once(D: int, repeats: int) -> dict[str, Any]:
    """Fit in this process, which is a fresh one."""
    problem = DCT.problem(D, seed=0)
    seconds, fit = best_of(
        repeats, lambda: run_fit(problem, METHODS["cofem"], max_iter=ITERATIONS, tol=0.0)
    )
    return {
        "seconds": seconds,
        "steps": sum(fit.cg_steps),
        "mean_steps": fit.learning_steps,
        "products": fit.products,
        "nrmse": fit.nrmse,
    }


def _measure(D: int) -> dict[str, Any]:
    note(f"scaling: D = {D}")
    outcome = isolated(fit_once, D=D, repeats=3 if D <= 2**15 else 1)
    if outcome.error:
        raise RuntimeError(f"scaling: {outcome.error}")
    return {**outcome.value, "peak": outcome.peak, "before": outcome.before}


def _table(measured: dict[int, dict[str, Any]]) -> Table:
    columns = ["D", "seconds", "CG steps", "per iteration", "products", "peak MB",
               "bytes per unknown", "NRMSE %"]  # fmt: skip
    rows = [
        [D, m["seconds"], m["steps"], m["mean_steps"], m["products"], m["peak"] / 1e6,
         (m["peak"] - m["before"]) / D, m["nrmse"]]
        for D, m in measured.items()
    ]  # fmt: skip
    return Table("One fit at every size", columns, rows)


def _slopes(slopes: dict[str, float], sizes: list[int]) -> Table:
    return Table(
        f"Slope on a log-log plot, D = {_power(sizes[0])} to {_power(sizes[-1])}",
        ["of", "slope"],
        [[name, value] for name, value in slopes.items()],
    )


def _power(D: int) -> str:
    return f"2^{int(np.log2(D))}"


def _claims(measured: dict[int, dict[str, Any]]) -> list[Claim]:
    smallest, largest = min(measured), max(measured)
    growth = measured[largest]["mean_steps"] / measured[smallest]["mean_steps"]
    text = "D = 2^20 in under 3 GB"
    if LARGEST in measured:
        peak = measured[LARGEST]["peak"]
        memory = Claim(text, peak < MEMORY_LIMIT, f"{peak / 1e9:.2f} GB")
    else:
        peak = measured[largest]["peak"]
        memory = Claim(text, None, f"{peak / 1e9:.2f} GB at D = {_power(largest)}")
    return [
        memory,
        Claim(
            f"CG steps per iteration do not grow from D = {_power(smallest)} to {_power(largest)}",
            growth <= STEADY,
            f"ratio {growth:.2f}",
        ),
    ]
