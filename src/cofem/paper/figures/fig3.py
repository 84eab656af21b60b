"""Figure 3: how many probes and how many conjugate-gradient steps."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend, simulate, theory
from cofem.paper.claims import Row
from cofem.paper.contestants import ALL, OURS, PAPER
from cofem.paper.figures.fig3_claims import check
from cofem.paper.figures.fig3_drawing import draw
from cofem.paper.report import write_page
from cofem.paper.study import Job, Outcome, Run, open_files, run_jobs, selected
from cofem.solvers import ShiftedGram, rademacher, solve

SIZE, ITERATION, DRAWS = 1024, 50, 1000
BLOCK = 2048  # probes at a time: 16 MiB
ITERATIONS = (50, 100)
PROBES, QUICK_PROBES = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16)
POWERS, QUICK_POWERS = tuple(range(8, 16)), (8, 10, 12, 14)
TOLERANCE, MOST_STEPS = 1e-4, 5000

KEYS = {"a": ("K", "seed", "method", "draws"), "b": ("D", "seed", "method")}
COLUMNS = {
    "a": {
        "K": int, "seed": int, "method": str, "draws": int, "nrmse": float,
        "monte_carlo": float, "lemma": float, "theorem": float, "theorem_best": float,
        "h_unscaled": float, "h_unscaled_lemma": float, "h_scaled": float,
        "h_scaled_lemma": float, "h_bound": float, "worst_share": float,
    },
    "b": {
        "D": int, "seed": int, "method": str,
        **{f"{name}_{T}": int for name in ("with", "without") for T in ITERATIONS},
        **{f"spread_{T}": float for T in ITERATIONS},
    },
}  # fmt: skip


def plan(run: Run) -> list[Job]:
    """List every trial: panel (a) by probes, panel (b) by size and setting."""
    few = QUICK_PROBES if run.quick else PROBES
    seeds = range(run.seed, run.seed + run.trials)
    # Panel (a) is one problem in the paper; a few show how much that matters.
    first = [
        Job("a", {"K": K, "seed": seed, "method": contestant.name, "draws": DRAWS})
        for seed in seeds[: 3 if run.quick else 5]
        for contestant in (PAPER, OURS)
        for K in few
    ]
    second = [
        Job("b", {"D": 2**power, "seed": seed, "method": contestant.name})
        for seed in seeds
        for power in (QUICK_POWERS if run.quick else POWERS)
        for contestant in (PAPER, OURS)
    ]
    return first + second


def measure(panel: str, **key: Any) -> Row:
    """Make one trial."""
    return measure_probes(**key) if panel == "a" else measure_steps(**key)


# -- (a) ---------------------------------------------------------------------------


def measure_probes(K: int, seed: int, method: str, draws: int) -> Row:
    """Compare the spread of the estimated diagonal with its bounds.

    The systems are solved exactly, so that all the spread is the probes'.
    """
    state = _state(seed, method)
    alpha, sigma = state.alpha, state.sigma
    root = np.sqrt(alpha)
    H = root[:, None] * sigma * root
    h = np.diag(H)
    plain, scaled = _spread(sigma, K, draws, seed), _spread(H, K, draws, seed)
    exact_plain, exact_scaled = theory.probe_std(sigma, K), theory.probe_std(H, K)
    return {
        "nrmse": state.nrmse,
        "monte_carlo": float(plain.max()),
        "lemma": float(exact_plain.max()),
        "theorem": state.bound / math.sqrt(K),
        "theorem_best": state.best_bound / math.sqrt(K),
        "h_unscaled": float((alpha * plain).max()),
        "h_unscaled_lemma": float((alpha * exact_plain).max()),
        "h_scaled": float(scaled.max()),
        "h_scaled_lemma": float(exact_scaled.max()),
        "h_bound": 0.5 / math.sqrt(K),
        "worst_share": float((exact_scaled / np.sqrt(h * (1 - h) / K)).max()),
    }


@dataclass(frozen=True, eq=False)
class _State:
    """A fit at iteration 50: α, Σ, its error, and Theorem 1's bounds for one probe."""

    alpha: np.ndarray
    sigma: np.ndarray
    nrmse: float
    bound: float
    best_bound: float


@functools.lru_cache(maxsize=1)
def _state(seed: int, method: str) -> _State:
    problem = simulate.dct(SIZE, seed)
    beta = problem.noise_precision
    alpha = _precisions(problem, method, seed, (ITERATION,))[ITERATION]
    phi = backend.to_numpy(problem.phi.to_dense())
    sigma = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
    mean = beta * sigma @ (phi.T @ problem.y)
    bounds = [
        theory.std_bound(problem.phi, problem.z != 0, beta, 1, theta) for theta in (None, "best")
    ]
    return _State(alpha, sigma, simulate.nrmse(mean, problem.z), *bounds)


def _spread(matrix: np.ndarray, K: int, draws: int, seed: int) -> np.ndarray:
    """Return the empirical standard deviation of the estimate by K probes, (D,)."""
    total = np.zeros(len(matrix))
    squares = np.zeros(len(matrix))
    exact = np.diag(matrix)
    block = max(1, BLOCK // K)
    for first in range(0, draws, block):
        rows = min(block, draws - first)
        number = (seed * draws + first) * 100 + K
        p = backend.to_numpy(rademacher(rows * K, len(matrix), matrix, seed=number))
        one = np.mean((p * (p @ matrix)).reshape(rows, K, -1), axis=1) - exact
        total += one.sum(axis=0)
        squares += (one**2).sum(axis=0)
    return np.asarray(np.sqrt((squares - total**2 / draws) / (draws - 1)))


# -- (b) ---------------------------------------------------------------------------


def measure_steps(D: int, seed: int, method: str) -> Row:
    """Count CG steps to 1e-4 at two iterations, with and without the preconditioner.

    Both settings solve the paper's systems: the mean's and 20 unscaled probes', stopped
    together by the Frobenius norm.
    """
    problem = simulate.dct(D, seed)
    found: Row = {}
    beta, phi = problem.noise_precision, problem.phi
    theta = np.ones(D) if method == PAPER.name else phi.column_norms_squared()
    for T, alpha in _precisions(problem, method, seed, ITERATIONS).items():
        probes = backend.to_numpy(rademacher(20, D, alpha, seed + T))
        systems = np.vstack([beta * phi.adjoint(problem.y)[None], probes])
        for name, preconditioner in (("with", beta * theta + alpha), ("without", None)):
            solved = solve(
                ShiftedGram(phi, beta, alpha), systems, preconditioner=preconditioner,
                rtol=TOLERANCE, max_steps=MOST_STEPS, joint=True,
            )  # fmt: skip
            found[f"{name}_{T}"] = int(solved.steps.max())
        found[f"spread_{T}"] = float(alpha.max() / alpha.min())
    return found


def _precisions(
    problem: simulate.Problem, method: str, seed: int, at: tuple[int, ...]
) -> dict[int, np.ndarray]:
    """Return α as it enters the E-steps of the given iterations."""
    import cofem

    kept: dict[int, np.ndarray] = {}

    def keep(state: Any) -> bool:
        if state.iteration in at:
            kept[state.iteration] = np.array(state.precision)
        return bool(state.iteration >= max(at))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        cofem.fit(
            problem.phi, problem.y, noise_precision=problem.noise_precision, seed=seed,
            method=ALL[method].make(problem), prior="ard", max_iter=max(at) + 1, tol=0.0,
            callback=keep,
        )  # fmt: skip
    return kept


# -- the figure ----------------------------------------------------------------------


def run_figure(run: Run) -> Outcome:
    """Make what is missing, then draw and judge everything."""
    files = {
        panel: open_files(run.out, "fig3", [panel], COLUMNS[panel], KEYS[panel])[panel]
        for panel in COLUMNS
    }
    jobs = plan(run)
    run_jobs("figure 3", jobs, files, measure, workers=run.jobs, report=run.report)
    rows = selected(files, jobs)
    claims = check(rows)
    picture = draw(rows, run.out)
    setting = [
        "DCT, N = D/3, f = 0.12, σ = 0.01 and known",
        f"(a): D = {SIZE}, α at iteration {ITERATION} of CoFEM in either setting, Σ exact, "
        f"{DRAWS} Monte-Carlo draws for each K; S in Theorem 1 is the true support",
        f"(b): CG steps for the mean and 20 probes together, ‖R‖_F ≤ {TOLERANCE:g} ‖B‖_F, from "
        "zero; θ = 1 in the paper's setting, Jacobi's θ in ours",
        "Every trial is in fig3a.csv and fig3b.csv",
    ]
    path = write_page(
        run.out / "fig3.md", "Figure 3: probes and steps", run, setting, [picture], claims
    )
    return Outcome(path, (picture,), tuple(claims))
