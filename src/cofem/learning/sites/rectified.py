"""Moments of a normal distribution truncated to z > 0, without cancellation.

With σ² = Σ_jj, t = μ/σ and the hazard λ(t) = φ(t)/Φ(t): mean σ(t + λ), second
moment σ²(1 + t² + tλ), variance σ²(1 − λ(t + λ)). For t far below zero each of
these is a difference of nearly equal numbers; there the series of Mills' ratio
for x = −t → ∞ is summed term by term instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.rectified_table import compiled_second_moment

# Below this t the series is used. Above it, the differences lose a factor of t⁴ to cancellation;
# below it, the smallest term of the series is e^(−t²/2). Here both errors are small enough.
SERIES_BELOW = -12.0
SERIES_BELOW_SINGLE = -7.0
_TERMS = 24


def _hazard(t: Array) -> Array:
    """φ(t)/Φ(t) = √(2/π) / erfcx(−t/√2), which neither over- nor underflows."""
    return math.sqrt(2 / math.pi) / backend.erfcx(-t / math.sqrt(2))


def _tail_moments(x: Array) -> tuple[Array, Array]:
    """E[z] and E[z²] in units of σ for t = −x, x large.

    ∫₀^∞ z^k e^(−xz − z²/2) dz expanded in the Gaussian factor: with
    I_k = Σ_m (−1)^m (k+2m)! / (2^m m! x^(k+2m+1)), E[z^k] = I_k / I_0. The series
    is asymptotic, so it is cut where its terms stop falling.
    """
    xp = backend.namespace(x)
    inverse = 1 / (x * x)
    sums = []
    for k in range(3):
        term = xp.ones_like(x) * math.factorial(k)
        total = term
        frozen = xp.zeros(x.shape, dtype=xp.bool, device=backend.device_of(x))
        for m in range(1, _TERMS):
            following = -term * inverse * ((k + 2 * m) * (k + 2 * m - 1) / (2.0 * m))
            frozen = frozen | (xp.abs(following) >= xp.abs(term))
            term = xp.where(frozen, 0 * term, following)
            total = total + term
        sums.append(total)
    return sums[1] / (sums[0] * x), sums[2] / (sums[0] * x * x)


def _standard_moments(t: Array) -> tuple[Array, Array, Array]:
    """E[z], E[z²] and the variance for σ = 1."""
    xp = backend.namespace(t)
    switch = SERIES_BELOW_SINGLE if t.dtype == xp.float32 else SERIES_BELOW
    far = t < switch
    near = xp.where(far, switch * xp.ones_like(t), t)
    hazard = _hazard(near)
    first = near + hazard
    # Not E[z²] − E[z]²: for large t the variance is one part in t² of these.
    second, variance = 1 + near * first, 1 - hazard * first
    tail_first, tail_second = _tail_moments(xp.where(far, -t, -switch * xp.ones_like(t)))
    return (
        xp.where(far, tail_first, first),
        xp.where(far, tail_second, second),
        xp.where(far, tail_second - tail_first**2, variance),
    )


def rectified_second_moment(mean: Array, variance: Array) -> Array:
    """E[z²] of N(mean, variance) truncated to z > 0.

    Examples
    --------
    >>> import numpy as np
    >>> rectified_second_moment(np.array([0.0, 3.0]), np.array([1.0, 1e-6])).round(6)
    array([1.      , 9.000001])
    """
    if backend.is_numpy(mean):
        return compiled_second_moment(mean, backend.to_numpy(variance))
    xp = backend.namespace(mean)
    return variance * _standard_moments(mean / xp.sqrt(variance))[1]


def rectified_moments(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of N(mean, variance) truncated to z > 0.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = rectified_moments(np.array([0.0]), np.array([1.0]))
    >>> first.round(6), second.round(6)
    (array([0.797885]), array([0.36338]))
    """
    xp = backend.namespace(mean)
    sigma = xp.sqrt(variance)
    first, _, spread = _standard_moments(mean / sigma)
    return sigma * first, variance * xp.clip(spread, min=0.0)


def clipped_moments(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of max(0, x), x ~ N(mean, variance).

    With probability Φ(μ/σ) it is the normal law cut off at zero, and zero otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = clipped_moments(np.array([0.0, 9.0]), np.array([1.0, 1.0]))
    >>> first.round(6), second.round(6)
    (array([0.398942, 9.      ]), array([0.340845, 1.      ]))
    """
    inside = 1 - probability_of_zero(mean, variance)
    first, spread = rectified_moments(mean, variance)
    return inside * first, inside * (spread + (1 - inside) * first**2)


def probability_of_zero(mean: Array, variance: Array) -> Array:
    """P(z = 0) := ½ erfc(μ/√(2Σ)), the mass that rectification moves to zero.

    Examples
    --------
    >>> import numpy as np
    >>> probability_of_zero(np.array([0.0, 3.0]), np.array([1.0, 1.0])).round(6)
    array([0.5    , 0.00135])
    """
    xp = backend.namespace(mean)
    x = mean / xp.sqrt(2 * variance)
    positive = 0.5 * backend.erfcx(xp.abs(x)) * xp.exp(-x * x)
    return xp.where(x >= 0, positive, 1 - positive)


def rectified_quantile(mean: Array, variance: Array, probability: Any) -> Array:
    """Quantiles of N(mean, variance) truncated to z > 0.

    P(z > q) = Φ((μ − q)/σ) / Φ(μ/σ) is inverted in logarithms, so it holds far out.

    Examples
    --------
    >>> import numpy as np
    >>> rectified_quantile(np.array([0.0]), np.array([1.0]), 0.5).round(6)
    array([0.67449])
    """
    sigma = np.sqrt(backend.to_numpy(variance))
    t = backend.to_numpy(mean) / sigma
    p = backend.to_numpy(probability) if backend.is_array(probability) else probability
    upper = special.ndtri_exp(np.log1p(-np.asarray(p)) + special.log_ndtr(t))
    quantile = np.maximum(sigma * (t - upper), 0.0)
    return backend.from_numpy(quantile.astype(sigma.dtype), mean)


def shortest_interval(mean: Array, variance: Array, level: float) -> tuple[Array, Array]:
    """Return the shortest interval that holds a share of N(mean, variance) truncated to z > 0.

    It is symmetric about the mean, or begins at zero where that would reach below it.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = shortest_interval(np.array([9.0, 0.0]), np.ones(2), 0.95)
    >>> low.round(2), high.round(2)
    (array([7.04, 0.  ]), array([10.96,  1.96]))
    """
    centre, sigma = backend.to_numpy(mean), np.sqrt(backend.to_numpy(variance))
    reach = sigma * special.ndtri(0.5 * (1 + level * special.ndtr(centre / sigma)))
    inside = centre > reach
    low = np.where(inside, centre - reach, 0.0)
    upper = backend.to_numpy(rectified_quantile(mean, variance, level))
    high = np.where(inside, centre + reach, upper)
    return (
        backend.from_numpy(low.astype(centre.dtype), mean),
        backend.from_numpy(high.astype(centre.dtype), mean),
    )
