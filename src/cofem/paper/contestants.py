"""The methods of the figures, as the paper sets them, and how each is drawn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cofem.learning.convergence import DivergenceWarning
from cofem.simulate import Problem


@dataclass(frozen=True)
class Contestant:
    """A method under the name that tables and legends give it.

    Attributes
    ----------
    name : str
        In the CSV and the legend.
    make : function
        From a problem to a method of :func:`cofem.fit`.
    color, marker, line : str, str, Any
        Marker and line differ as colours do, so that grey print can be read.
    told : bool
        Whether it gets the noise and the paper's prior, and runs as many iterations as the others.
        False: ``cofem.fit(phi, y)`` as a user calls it, which learns both and ends by itself.
    """

    name: str
    make: Callable[[Problem], Any]
    color: str
    marker: str
    line: Any
    told: bool = True


def _exact(problem: Problem) -> Any:
    """Return EM by the cheaper of its two forms, which have the same iterates."""
    from cofem import EM, Woodbury

    n_rows, n_columns = problem.phi.shape
    return (Woodbury if n_rows < n_columns else EM)(initial_precision=1.0)


def _exact_from_data(problem: Problem) -> Any:
    """Return the same from our default's start, which matters where 50 iterations are few."""
    from cofem import EM, Woodbury

    n_rows, n_columns = problem.phi.shape
    return (Woodbury if n_rows < n_columns else EM)()


def _other_exact(problem: Problem) -> Any:
    from cofem import EM, Woodbury

    n_rows, n_columns = problem.phi.shape
    return (EM if n_rows < n_columns else Woodbury)(initial_precision=1.0)


def _em(problem: Problem) -> Any:
    from cofem import EM

    return EM(initial_precision=1.0)


def _irls(problem: Problem) -> Any:
    from cofem import Woodbury

    return Woodbury(initial_precision=1.0)


def _amp(problem: Problem) -> Any:
    import cofem

    return cofem.AMP(inner_steps=10, initial_precision=1.0)


def _vi(problem: Problem) -> Any:
    import cofem

    return cofem.VI(initial_precision=1.0)


def _sequential(problem: Problem) -> Any:
    import cofem

    return cofem.Sequential()


def _paper(problem: Problem) -> Any:
    from cofem import CoFEM

    return CoFEM.paper()


def _ours(problem: Problem) -> Any:
    from cofem import CoFEM

    return CoFEM()


EXACT = Contestant("EM/IRLS", _exact, "#000000", "o", "-")
EXACT_FROM_DATA = Contestant("EM/IRLS, our start", _exact_from_data, "#888888", "+", ":")
CHECK = Contestant("EM/IRLS check", _other_exact, "#000000", "", ":")
EM = Contestant("EM", _em, "#000000", "o", "-")
IRLS = Contestant("IRLS", _irls, "#56B4E9", "X", (0, (5, 1)))
AMP = Contestant("AMP", _amp, "#E69F00", "^", "--")
VI = Contestant("VI", _vi, "#CC79A7", "v", ":")
SEQUENTIAL = Contestant("Seq", _sequential, "#009E73", "s", "-.")
PAPER = Contestant("CoFEM, paper's setting", _paper, "#0072B2", "D", (0, (3, 1, 1, 1)))
OURS = Contestant("CoFEM, our default", _ours, "#D55E00", "*", "-")
LEARNED = Contestant(
    "learned prior, noise unknown", lambda problem: "auto", "#7A3E9D", "P", (0, (1, 1)), told=False
)

ALL = {
    c.name: c
    for c in (EXACT, EXACT_FROM_DATA, CHECK, EM, IRLS, AMP, VI, SEQUENTIAL, PAPER, OURS, LEARNED)
}


def run_contestant(name: str, problem: Problem, max_iter: int, seed: int) -> dict[str, Any]:
    """Fit, with the noise known unless it is learned, and return the numbers for the figures.

    Seq counts single additions, deletions and re-estimations, so it gets as many as it
    takes; the others run exactly ``max_iter`` iterations, or end by themselves.
    """
    import cofem
    from cofem.simulate import nrmse

    contestant = ALL[name]
    # What the paper compares are ways to the same answer: one prior, and the noise given.
    told: dict[str, Any] = {"noise_precision": problem.noise_precision, "prior": "ard"}
    if name == SEQUENTIAL.name:
        told |= {"max_iter": 20 * problem.phi.shape[1]}
    else:
        told |= {"max_iter": max_iter, "tol": 0.0}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", cofem.ConvergenceWarning)
        post = cofem.fit(
            problem.phi,
            problem.y,
            method=contestant.make(problem),
            seed=seed,
            **(told if contestant.told else {}),
        )
    error = nrmse(post.mean, problem.z)
    return {
        "nrmse": error if math.isfinite(error) else math.inf,
        "diverged": int(any(issubclass(w.category, DivergenceWarning) for w in warned)),
        "iterations": len(post.history["iteration"]),
        "products": int(post.history["products"][-1]),
        "seconds": float(post.history["seconds"][-1]),
    }
