"""The mean field h = α/(α + cθ): the c that gives it a trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.solvers.compiled import REORDERED, compiled

# The first steps use only one coordinate in so many, if there are enough coordinates.
THINNED = 16
ENOUGH = 100 * THINNED
# log(c/top) is searched between this, where c is negligible in double precision, and zero.
LOWEST = -45.0
# Newton's steps end below this: the next one would be about its square.
SETTLED = 1e-3
MOST_STEPS = 60


def field_factor(alpha: Any, theta: Any, top: float, trace: Any) -> Any:
    """Return c in [0, top] with Σ α/(α + cθ) = trace, as near as those limits allow.

    A number, or a scalar array that stays on its device; ``trace`` may be one too.

    Examples
    --------
    >>> round(field_factor(np.array([1.0, 3.0]), np.ones(2), 10.0, 1.25), 6)
    1.0
    """
    if backend.has_engine(alpha):
        from cofem.solvers.steps.cuda import sums

        return sums.field_factor(alpha, theta, top, trace)
    trace, n = float(trace), alpha.shape[0]
    low, high = LOWEST, 0.0  # of t = log(c/top)
    if trace >= n:
        return top * math.exp(low)
    t, top_tried = 0.0, True
    if backend.is_numpy(alpha) and n > ENOUGH:
        # Most steps are made with a few of the coordinates.
        few = alpha[::THINNED].copy()
        share = trace * len(few) / n
        t = math.log(field_factor(few, theta[::THINNED].copy(), top, share) / top)
        top_tried = t == 0.0
    for _ in range(MOST_STEPS):
        total, slope = field_sums(alpha, theta, top * math.exp(t))
        excess = total - trace
        if t == 0.0 and excess >= 0:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        # Newton's step, or bisection if that step would leave the bracket.
        following = t + excess / slope if slope > 0 else math.inf
        newton = low < following < high
        if not newton:
            following = (low + high) / 2 if top_tried or following < high else 0.0
            top_tried = top_tried or following == 0.0
        moved, t = abs(following - t), following
        if moved <= SETTLED and newton:
            break
    return top * math.exp(t)


def field_sums(alpha: Any, theta: Any, c: float) -> tuple[float, float]:
    """Return Σ h and Σ h(1 − h) for h = α/(α + cθ): what a trace and its slope need.

    In double precision, and with one transfer from a device.

    Examples
    --------
    >>> field_sums(np.array([1.0, 3.0]), np.ones(2), 1.0)
    (1.25, 0.4375)
    """
    if backend.is_numpy(alpha):
        return _field_sums(alpha, theta, c)
    xp = backend.namespace(alpha)
    below = c * theta
    h, rest = alpha / (alpha + below), below / (alpha + below)  # 1 − h would cancel
    pair = xp.stack([xp.sum(h, dtype=xp.float64), xp.sum(h * rest, dtype=xp.float64)])
    total, spread = backend.to_numpy(pair)
    return float(total), float(spread)


@compiled(**REORDERED)
def _field_sums(alpha: np.ndarray, theta: np.ndarray, c: float) -> tuple[float, float]:
    total = slope = 0.0
    for j in range(alpha.shape[0]):
        h = np.float64(alpha[j]) / (alpha[j] + c * theta[j])
        total += h
        slope += h * (1 - h)
    return total, slope
