"""Intervals of single coordinates, and which coordinates are not zero."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.marginals import Marginals, support_by_probability

if TYPE_CHECKING:
    from cofem.result.posterior import Posterior


def interval_of(post: Posterior, level: float) -> tuple[Array, Array]:
    """Return :meth:`Posterior.interval`: equal probability lies below and above."""
    _check_level(level)
    if backend.is_complex(post.gaussian_mean):
        raise ValueError("a complex coordinate has no interval; use std for its spread")
    if isinstance(post.marginals, Marginals) and post.prior == "ard":
        return post.marginals.shortest(level)
    if post.marginals is not None:
        edges = (1 - level) / 2, (1 + level) / 2
        low, high = (post.marginals.quantile(p) for p in edges)
        return low, high
    xp = backend.namespace(post.gaussian_mean)
    reach = float(ndtri((1 + level) / 2)) * xp.sqrt(post.gaussian_variance)
    low, high = post.gaussian_mean - reach, post.gaussian_mean + reach
    if post.nonnegative:  # the probability of all negative values lies at zero
        return xp.clip(low, min=0.0), xp.clip(high, min=0.0)
    return low, high


def support_of(post: Posterior, level: float) -> Array:
    """Return :meth:`Posterior.support`."""
    _check_level(level)
    if post.marginals is not None and post.prior == "mixture":
        return support_by_probability(post.marginals.probability, level)
    xp = backend.namespace(post.gaussian_mean)
    if backend.is_complex(post.gaussian_mean):
        radius = math.sqrt(-math.log(1 - level))  # |z − μ|²/Σ is exponential
        return xp.abs(post.gaussian_mean) > radius * post.std
    if post.nonnegative and post.marginals is None:
        return post.probability_of_zero < (1 - level) / 2
    low, high = interval_of(post, level)
    return (low > 0) | (high < 0)


def _check_level(level: Any) -> None:
    if not (isinstance(level, numbers.Real) and 0 < float(level) < 1):
        raise ValueError(f"level must be between 0 and 1 (0.95 for 95 %), got {level!r}")
