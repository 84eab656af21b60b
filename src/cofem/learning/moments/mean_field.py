"""The mean field: one number c for how precisely the data and the others know each coordinate.

c_j = 1/Σ_jj − α_j. Where the columns of Φ are not coherent, c_j = c θ_j with one number c, and h_j
= α_j Σ_jj = α_j/(α_j + cθ_j); c follows from the trace of H. So few probes with loose tolerances
are enough, and their remaining noise disturbs no single coordinate. If columns are coherent this
does not hold, and the probes show it: their estimates of 1 − h_j = c_j/(α_j + c_j) deviate from the
mean field by more than their own noise. This excess, relative to the field, is returned, and the
certificate refuses the end if it is large. (A cavity for every coordinate from its own noisy
estimate was tried, with averages over iterations and with shrinkage: the iterations never settled,
and the answers were worse on convolutions too.)
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.compiled import REORDERED, compiled
from cofem.solvers.probes import DiagonalEstimate

# The first steps use only one coordinate in so many, if there are enough coordinates.
THINNED = 16
ENOUGH = 100 * THINNED
# log(c/top) is searched between this, where c is negligible in double precision, and zero.
LOWEST = -45.0
# Newton's steps end below this: the next one would be about its square.
SETTLED = 1e-3
MOST_STEPS = 60
# Steps for many problems at once between looks, each of which waits for the device.
LOOK = 4
# The weight that the sums of an iteration keep in the next one.
MEMORY = 0.8


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


def fields(a: Array, theta: Array, trace: Array) -> Array:
    """Return for every problem the c in [0, 1] with Σ_j a/(a + cθ) = trace, (P,).

    As :func:`field_factor` finds it for one.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([[1.0, 3.0], [1.0, 3.0]])
    >>> fields(a, np.ones(2), np.array([1.25, 1.75])).round(4)
    array([1.    , 0.2214])
    """
    xp = backend.namespace(a)
    low, high = xp.full_like(trace, LOWEST), xp.zeros_like(trace)
    t, settled = xp.zeros_like(trace), trace != trace
    for step in range(MOST_STEPS):
        below = backend.column(xp.exp(t), a) * theta
        h, rest = a / (a + below), below / (a + below)
        total, slope = (xp.sum(x, axis=1, dtype=xp.float64) for x in (h, h * rest))
        excess = total - trace
        settled = settled | ((t == 0) & (excess >= 0))
        low, high = xp.where(excess > 0, t, low), xp.where(excess > 0, high, t)
        newton = t + excess / xp.where(slope > 0, slope, xp.ones_like(slope))
        inside = (slope > 0) & (low < newton) & (newton < high)
        following = xp.where(settled, t, xp.where(inside, newton, (low + high) / 2))
        settled = settled | (inside & (xp.abs(following - t) <= SETTLED))
        t = following
        if step % LOOK == LOOK - 1 and bool(xp.all(settled)):
            break
    return xp.exp(xp.where(trace >= a.shape[1], xp.full_like(t, LOWEST), t))


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


@final
class Cavities:
    """Precisions of the cavities, one number for all, and how wrong that is.

    For P problems side by side α is an array (P, M), and every number is one of each, (P,).

    Parameters
    ----------
    unit : array (M,)
        θ, squared column norms.
    noise_precision : float
        β: c_j is at most βθ_j.
    """

    def __init__(self, unit: Array, noise_precision: float) -> None:
        self._unit, self._top = unit, noise_precision
        self._excess: Any = 0.0
        self._size: Any = 0.0

    def update(self, found: DiagonalEstimate, alpha: Array) -> tuple[Array, Array]:
        """Return c, in the shape of α, and two sums for :meth:`departed`.

        ``found`` estimates h by probes scaled by √α.
        """
        xp = backend.namespace(alpha)
        trace = xp.sum(found.diagonal, axis=-1, dtype=xp.float64)
        if alpha.ndim > 1:
            factor = self._top * fields(alpha / self._top, self._unit, trace)
            field = backend.column(factor, alpha) * self._unit
        else:
            field = self._unit * field_factor(alpha, self._unit, self._top, trace)
        expected = field / (alpha + field)
        n = found.n_probes
        noise = found.variance / n if n > 1 else expected * (1 - expected)
        departure = (1 - found.diagonal - expected) ** 2 - noise
        sums = xp.stack([xp.sum(departure, axis=-1), xp.sum(expected**2, axis=-1)])
        return field, xp.astype(sums, xp.float64)

    def departed(self, sums: Any, iteration: int) -> Any:
        """Return how far c is from what the probes see, root mean square.

        Iteration 1 forgets what was before.
        """
        keep = 0.0 if iteration == 1 else MEMORY
        excess, size = (backend.as_number(sums[i, ...]) for i in (0, 1))
        self._excess = keep * self._excess + (1 - keep) * excess
        self._size = keep * self._size + (1 - keep) * size
        xp = backend.functions_of(size)
        share = self._excess / xp.where(self._size > 0, self._size, math.inf + 0 * size)
        return xp.sqrt(xp.clip(share, min=0.0))

    def of_problems(self, where: Array) -> Cavities:
        """Return those of some of P problems, which have these numbers."""
        other, take = Cavities(self._unit, self._top), backend.namespace(where).take
        other._excess, other._size = (take(x, where, axis=0) for x in (self._excess, self._size))
        return other
