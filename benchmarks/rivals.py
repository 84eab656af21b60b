"""CoFEM beside scikit-learn's ARDRegression and beside exact EM: time, memory, error."""

from __future__ import annotations

import importlib.util
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import simulate
from cofem.operators import Dense, LinearOperator
from common import GIB, Claim, Result, Table, note
from isolated import Outcome, isolated
from problems import DCT, METHODS, run_fit

TIME_LIMIT = 300.0  # seconds for one run
MEMORY_LIMIT = 16 * GIB
UNDERSAMPLING = 3  # N = D / 3
MATRIX = 1 / UNDERSAMPLING  # the stored Φ, in units of D² numbers


@dataclass(frozen=True)
class Rival:
    """A method, and how many numbers it holds at its peak for N = D/3.

    Attributes
    ----------
    square, linear : float
        The count is square · D² + linear · D numbers of 8 bytes.
    count : str
        What is counted.
    """

    name: str
    square: float
    linear: float
    count: str


ARD = "ARDRegression"
MATRIX_FREE = "CoFEM, operator"
RIVALS = (
    Rival(ARD, 3 + 5 * MATRIX, 0, "the last Σ, the next and its negative; Φ and four copies"),
    Rival("exact EM", 5 + MATRIX, 0, "ΦᵀΦ, I, A, its factor and a work copy; Φ"),
    Rival("Woodbury", 5 * MATRIX + 3 * MATRIX**2, 0, "Φ and four like it; three N × N"),
    Rival("CoFEM, matrix", MATRIX, 176, "Φ, and eleven arrays for each of a block's 16 systems"),
    Rival(MATRIX_FREE, 0, 176, "eleven arrays for each of a block's 16 systems"),
    Rival("CoFEM, operator, β unknown", 0, 176, "the same"),
)
LEARN_NOISE = {ARD, RIVALS[-1].name}


def run(quick: bool) -> Result:
    sizes = [512] if quick else [1024, 2048]
    limit = 60.0 if quick else TIME_LIMIT
    measured = {D: {r.name: _measure(r, D, limit) for r in RIVALS} for D in sizes}
    return Result(
        "Rivals",
        [_table(D, of_size, limit) for D, of_size in measured.items()] + [_limits()],
        [claim for D, of_size in measured.items() for claim in _claims(D, of_size, limit)],
        [
            "DCT, N = D/3, f = 0.12, σ = 0.01, one problem per size, a fresh process for every "
            "run. Every method has its own default stopping rule. ARDRegression has no intercept "
            "and learns the noise; the others are told it unless the table says otherwise.",
            "Arrays of D²: the peak less what the imports take, in units of 8 D² bytes, to hold "
            "against the computed count; it includes some ten MB that BLAS keeps at any size.",
            *(
                f"{name} at D = {D}: {outcome.error}."
                for D, of_size in measured.items()
                for name, outcome in of_size.items()
                if outcome.error
            ),
        ],
    )


def solve_once(name: str, D: int) -> dict[str, Any]:
    """Solve the problem of this size in a process of its own."""
    problem = DCT.problem(D, seed=0)
    if "operator" not in name:
        phi = Dense(_matrix(problem.phi))
        problem = simulate.Problem(problem.name, phi, problem.y, problem.z, problem.noise_std)
    if name == ARD:
        return _ard(problem)
    method = {"exact EM": "em", "Woodbury": "woodbury"}.get(name, "cofem")
    options: dict[str, Any] = {"noise_precision": None} if name in LEARN_NOISE else {}
    fit = run_fit(problem, METHODS[method], **options)
    return {"seconds": fit.seconds, "nrmse": fit.nrmse, "iterations": len(fit.cg_steps)}


def _matrix(phi: LinearOperator, block: int = 64) -> np.ndarray:
    """Write Φ out a few rows at a time: making it must not be the peak of memory."""
    matrix = np.empty(phi.shape)
    for first in range(0, phi.shape[0], block):
        rows = matrix[first : first + block]
        rows[:] = phi.adjoint(np.eye(len(rows), phi.shape[0], first))
    return matrix


def _ard(problem: simulate.Problem) -> dict[str, Any]:
    from sklearn.linear_model import ARDRegression

    assert isinstance(problem.phi, Dense)
    matrix = problem.phi.matrix
    began = time.perf_counter()
    model = ARDRegression(fit_intercept=False).fit(matrix, problem.y)
    seconds = time.perf_counter() - began
    error = simulate.nrmse(model.coef_, problem.z)
    return {"seconds": seconds, "nrmse": error, "iterations": int(model.n_iter_)}


def _measure(rival: Rival, D: int, limit: float) -> Outcome:
    note(f"rivals: {rival.name}, D = {D}")
    if rival.name == ARD and importlib.util.find_spec("sklearn") is None:
        return Outcome(None, 0, error="scikit-learn is not installed")
    preload = ["scipy.linalg", "scipy.optimize"]  # what is imported late would count as data
    if rival.name == ARD:
        preload.append("sklearn.linear_model")
    return isolated(solve_once, timeout=limit, preload=preload, name=rival.name, D=D)


def _table(D: int, measured: dict[str, Outcome], limit: float) -> Table:
    columns = ["method", "seconds", "iterations", "NRMSE %", "peak MB", "arrays of D²"]
    rows: list[list[Any]] = []
    for name, outcome in measured.items():
        if outcome.error:
            rows.append([name, "failed", "", "", "", ""])
        elif outcome.timed_out:
            rows.append([name, f"over {limit:.0f}", "", "", outcome.peak / 1e6, ""])
        else:
            value = outcome.value
            arrays = (outcome.peak - outcome.before) / (8 * D**2)
            rows.append([name, value["seconds"], value["iterations"], value["nrmse"],
                         outcome.peak / 1e6, arrays])  # fmt: skip
    return Table(f"D = {D}, N = {D // UNDERSAMPLING}", columns, rows)


def _limits() -> Table:
    """Return the computed sizes at which memory runs out."""
    rows = [[r.name, _count(r), _largest(r), r.count] for r in RIVALS]
    return Table(
        f"Computed, not measured: the largest D = 3N within {MEMORY_LIMIT // GIB} GiB",
        ["method", "numbers held", "largest D", "what is counted"],
        rows,
    )


def _count(rival: Rival) -> str:
    parts = []
    if rival.square:
        parts.append(f"{rival.square:.2g} D²")
    if rival.linear:
        parts.append(f"{rival.linear:g} D")
    return " + ".join(parts)


def _largest(rival: Rival) -> int:
    """Solve square · D² + linear · D = limit / 8 for D."""
    numbers = MEMORY_LIMIT / 8
    if not rival.square:
        return int(numbers / rival.linear)
    root = math.sqrt(rival.linear**2 + 4 * rival.square * numbers)
    return int((root - rival.linear) / (2 * rival.square))


def _claims(D: int, measured: dict[str, Outcome], limit: float) -> list[Claim]:
    ours = measured[MATRIX_FREE]
    if ours.value is None:
        return [Claim(f"D = {D}: CoFEM ran", False, ours.error or f"over {limit:.0f} s")]
    claims = []
    for name in (ARD, "exact EM"):
        other = measured[name]
        text = f"D = {D}: CoFEM through the operator is faster than {name}"
        if other.error:
            claims.append(Claim(text, None, other.error))
            continue
        lower = "at least " if other.timed_out else ""
        seconds = limit if other.timed_out else other.value["seconds"]
        gain = seconds / ours.value["seconds"]
        claims.append(Claim(text, gain > 1, f"{lower}{gain:.1f} times"))
        text = f"D = {D}: CoFEM through the operator needs less memory than {name}"
        evidence = f"peaks of {ours.peak / 1e6:.0f} and {other.peak / 1e6:.0f} MB"
        claims.append(Claim(text, ours.peak < other.peak, evidence))
    ard = measured[ARD]
    if ard.value is not None:
        text = f"D = {D}: CoFEM's error is below ARDRegression's"
        ours_error, theirs = ours.value["nrmse"], ard.value["nrmse"]
        evidence = f"{ours_error:.2f} % and {theirs:.2f} %"
        claims.append(Claim(text, ours_error < theirs, evidence))
    return claims
