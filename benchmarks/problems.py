"""The four dictionaries that the claims speak of, and fits that several benchmarks share."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import cofem
from cofem import simulate
from cofem.simulate import Problem


@dataclass(frozen=True)
class Dictionary:
    """A family of problems, one for every size and seed.

    Attributes
    ----------
    name : str
        What the tables call it.
    make : function
        ``make(D, seed=…, sparsity=…, noise_std=…)``.
    sparsity : float
        The fraction of unknowns that are not zero.
    exact : str
        The faster of the two exact methods: Woodbury where N < D.
    """

    name: str
    make: Callable[..., Problem]
    sparsity: float
    exact: str

    def problem(self, D: int, seed: int, noise_std: float = 0.01) -> Problem:
        """Draw a problem; the same arguments give the same one."""
        return self.make(D, seed=seed, sparsity=self.sparsity, noise_std=noise_std)


GAUSSIAN = Dictionary("Gaussian, f = 0.06", simulate.gaussian, 0.06, "woodbury")
DCT = Dictionary("DCT, f = 0.12", simulate.dct, 0.12, "woodbury")
DENSER_DCT = Dictionary("DCT, f = 0.14", simulate.dct, 0.14, "woodbury")
CONVOLUTION = Dictionary("convolution, f = 0.2", simulate.convolution, 0.2, "em")
DICTIONARIES = (GAUSSIAN, DCT, DENSER_DCT, CONVOLUTION)

METHODS: dict[str, Any] = {
    "cofem": cofem.CoFEM(),
    "paper": cofem.CoFEM.paper(),
    "em": cofem.EM(),
    "woodbury": cofem.Woodbury(),
}


@dataclass(frozen=True)
class Fit:
    """The numbers that are left of a fit."""

    nrmse: float
    coverage: float
    products: int
    cg_steps: tuple[int, ...]
    seconds: float
    noise_precision: float

    @property
    def learning_steps(self) -> float:
        """Mean CG steps of an iteration; the last one's count holds the reporting step too."""
        steps = self.cg_steps[:-1] or self.cg_steps
        return float(np.mean(steps))


def run_fit(problem: Problem, method: Any, **options: Any) -> Fit:
    """Fit sparse Bayesian learning with the true noise precision, unless told otherwise."""
    options.setdefault("noise_precision", problem.noise_precision)
    options.setdefault("prior", "ard")
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        post = cofem.fit(problem.phi, problem.y, method=method, **options)
    seconds = time.perf_counter() - began
    return Fit(
        nrmse=simulate.nrmse(post.mean, problem.z),
        coverage=coverage(post, problem.z),
        products=int(post.history["products"][-1]),
        cg_steps=tuple(int(s) for s in post.history["cg_steps"]),
        seconds=seconds,
        noise_precision=float(post.noise_precision),
    )


@cache
def fit_of(dictionary: Dictionary, D: int, seed: int, method: str, max_iter: int = 50) -> Fit:
    """Run exactly ``max_iter`` iterations; asked for again, the numbers are remembered."""
    return run_fit(dictionary.problem(D, seed), METHODS[method], max_iter=max_iter, tol=0.0)


def coverage(post: cofem.Posterior, z: np.ndarray) -> float:
    """Percentage of the non-zeros of z that lie in their 95 % interval."""
    low, high = post.interval(0.95)
    inside = (low <= z) & (z <= high)
    return float(100 * np.mean(inside[z != 0]))
