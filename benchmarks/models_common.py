"""What the measurements of the models share: a fit, its error, its coverage."""

from __future__ import annotations

from typing import Any

import numpy as np

import cofem
from cofem import simulate

PROBLEMS, QUICK_PROBLEMS = 10, 3


def fitted(phi: Any, y: Any, sigma: float, **options: Any) -> cofem.Posterior:
    """Fit 60 iterations, whatever the mean still does."""
    return cofem.fit(phi, y, **({"noise_precision": sigma**-2, "max_iter": 60, "tol": 0} | options))


def error(post: Any, truth: np.ndarray) -> float:
    return simulate.nrmse(post.mean if isinstance(post, cofem.Posterior) else post, truth)


def median(rows: list[list[float]]) -> list[float]:
    return [float(value) for value in np.median(np.array(rows, dtype=float), axis=0)]


def coverage(post: cofem.Posterior, truth: np.ndarray) -> float:
    low, high = post.interval(0.95)
    return 100 * float(np.mean((low <= truth) & (truth <= high)))
