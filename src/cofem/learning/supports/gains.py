"""What a set of non-zero coordinates leaves unexplained, and what each other column would explain.

The notation is that of :mod:`cofem.learning.supports.chain`. All functions are compiled.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.solvers.compiled import compiled

# A part of a column, or of y, that is smaller than this relative to the whole is only rounding.
ROUNDING = 1e-14
# Odds smaller than exp(NEGLIGIBLE) times the largest ones count as zero.
NEGLIGIBLE = -40.0
# The smallest weight, so that its logarithm is finite.
TINY = 1e-300
# Below this t the normal distribution function is computed by a continued fraction, whose first
# TERMS terms are exact to 1e-10 there.
FRACTION_BELOW, TERMS = -4.0, 16

Matrix = np.ndarray


@compiled
def precision_of(gram: Matrix, scales: Matrix, places: Matrix, slabs: Matrix, k: int) -> Matrix:
    """Return Φ_SᵀΦ_S + diag(1/v)."""
    found = np.empty((k, k))
    for i in range(k):
        for m in range(k):
            found[i, m] = gram[i, places[m]]
        found[i, i] += 1 / scales[slabs[i]]
    return found


@compiled
def look(
    gram: Matrix,
    squares: Matrix,
    correlation: Matrix,
    power_of_y: float,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    s: Matrix,
    t: Matrix,
) -> float:
    """Write s and t of every column, whose squared lengths are ``squares``; return q."""
    s[:] = squares
    t[:] = correlation
    if k == 0:
        return power_of_y
    factor = np.linalg.cholesky(precision_of(gram, scales, places, slabs, k))
    q = power_of_y
    seen = np.empty((k, len(s)))
    right = np.empty(k)
    # Rows of L⁻¹ G by forward substitution.
    for i in range(k):
        seen[i] = gram[i]
        right[i] = correlation[places[i]]
        for m in range(i):
            seen[i] -= factor[i, m] * seen[m]
            right[i] -= factor[i, m] * right[m]
        seen[i] /= factor[i, i]
        right[i] /= factor[i, i]
        s -= seen[i] * seen[i]
        t -= right[i] * seen[i]
        q -= right[i] ** 2
    for j in range(len(s)):
        s[j] = max(s[j], ROUNDING)
    return max(q, ROUNDING * power_of_y)


@compiled
def log_one_sided(t: float) -> float:
    """Return log 2Φ(t) + t²/2, Φ the standard normal distribution.

    It is what a coordinate gains whose slab is half-normal, if t is its mean over its spread.

    Examples
    --------
    >>> round(log_one_sided(0.0), 6), round(log_one_sided(-1e3), 6)
    (0.0, -7.133548)
    """
    if t > FRACTION_BELOW:
        return 0.5 * t * t + math.log(math.erfc(-t / math.sqrt(2)))
    # Mills' ratio: 1/(x + 1/(x + 2/(x + …))), x = −t.
    tail = -t
    for i in range(TERMS, 0, -1):
        tail = i / tail - t
    return 0.5 * math.log(2 / math.pi) - math.log(tail)


@compiled
def log_twice_normal(t: float) -> float:
    """Return log 2Φ(t)."""
    if t > FRACTION_BELOW:
        return math.log(math.erfc(-t / math.sqrt(2)))
    return log_one_sided(t) - 0.5 * t * t


@compiled
def gains(
    scales: Matrix,
    log_odds: Matrix,
    means: Matrix,
    s: Matrix,
    t: Matrix,
    q: float,
    free: Matrix,
    beta: float,
    degrees: float,
    heat: float,
    logs: Matrix,
    positive: bool = False,
) -> tuple[float, float]:
    """Write the log odds of every free coordinate and slab; return their sum and its scale.

    If ``positive``, slabs are cut off at zero: for that β must be given. Most coordinates are
    often far from any odds that count, and are passed over without a logarithm for every slab.
    """
    least = (
        _least_top(scales, log_odds, means, s, t, q, free, beta, degrees, heat, positive)
        + NEGLIGIBLE
    )
    best_odds, top, total = np.max(log_odds), -math.inf, 0.0
    for j in range(len(s)):
        if (
            not free[j]
            or _most(
                t[j], s[j], q, best_odds, log_odds, means, scales, beta, degrees, heat, positive
            )
            < least
        ):
            logs[j] = -math.inf
            continue
        for a in range(len(scales)):
            gain = _gain(scales[a], means[a], s[j], t[j], q, beta, degrees, positive)
            logs[j, a] = log_odds[a] + heat * gain
            top = max(top, logs[j, a])
    for j in range(len(s)):
        for a in range(len(scales)):
            if logs[j, a] - top > NEGLIGIBLE:
                total += math.exp(logs[j, a] - top)
    return total, top


@compiled
def _gain(
    v: float, m: float, s: float, t: float, q: float, beta: float, degrees: float, positive: bool
) -> float:
    """Return the log evidence with which a coordinate of the slab N(m, v) joins."""
    grown = 1 + v * s
    if positive:  # both the slab and what it becomes are cut off at zero
        found = log_one_sided((v * t + m) * math.sqrt(beta / (v * grown))) - 0.5 * math.log(grown)
        return found - log_one_sided(m * math.sqrt(beta / v)) if m > 0 else found
    fall = (v * t * t + m * (2 * t - m * s)) / grown
    return _likelier(fall, q, beta, degrees) - 0.5 * math.log(grown)


@compiled
def _likelier(fall: float, q: float, beta: float, degrees: float) -> float:
    """Return by how much the log likelihood grows where ``fall`` is taken off q."""
    if beta > 0:
        return 0.5 * beta * fall
    return -0.5 * degrees * math.log(max(1 - fall / q, ROUNDING))


@compiled
def _most(
    t: float,
    s: float,
    q: float,
    best_odds: float,
    log_odds: Matrix,
    means: Matrix,
    scales: Matrix,
    beta: float,
    degrees: float,
    heat: float,
    positive: bool,
) -> float:
    """Return what the log odds of a coordinate are at most, by few logarithms.

    A slab takes at most t²/s off q.
    """
    fall = t * t / max(s, ROUNDING)
    if not positive:
        return best_odds + heat * _likelier(fall, q, beta, degrees)
    found = best_odds + heat * log_one_sided(math.copysign(math.sqrt(beta * fall), t))
    for a in range(len(scales)):
        if means[a] > 0:  # not of a half-normal slab
            own = log_odds[a] + heat * _gain(scales[a], means[a], s, t, q, beta, degrees, True)
            found = max(found, own)
    return found


@compiled
def _least_top(
    scales: Matrix,
    log_odds: Matrix,
    means: Matrix,
    s: Matrix,
    t: Matrix,
    q: float,
    free: Matrix,
    beta: float,
    degrees: float,
    heat: float,
    positive: bool,
) -> float:
    """Return the largest log odds of one coordinate that promises much.

    The largest of all is no less, so that what is far below this one is far below that.
    """
    promising, most = -1, -math.inf
    for j in range(len(s)):
        promise = t[j] * (abs(t[j]) if positive else t[j]) / max(s[j], ROUNDING)
        if free[j] and promise > most:
            promising, most = j, promise
    found = -math.inf
    if promising >= 0:
        for a in range(len(scales)):
            gain = _gain(
                scales[a], means[a], s[promising], t[promising], q, beta, degrees, positive
            )
            found = max(found, log_odds[a] + heat * gain)
    return found


@compiled
def score(
    gram: Matrix,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    log_odds: Matrix,
    q: float,
    beta: float,
    degrees: float,
) -> float:
    """Return log p(y | S, v) + log p(S, v) at the present weights, up to a constant."""
    found = -0.5 * (beta * q if beta > 0 else degrees * math.log(q))
    if k:
        factor = np.linalg.cholesky(precision_of(gram, scales, places, slabs, k))
        for i in range(k):
            grown = math.log(factor[i, i]) + 0.5 * math.log(scales[slabs[i]])
            found += log_odds[slabs[i]] - grown
    return found


@compiled
def pick(logs: Matrix, top: float, total: float, random: np.random.Generator) -> tuple[int, int]:
    """Draw a coordinate and a slab with these odds."""
    left, last = random.random() * total, (0, 0)
    for j in range(logs.shape[0]):
        for a in range(logs.shape[1]):
            if logs[j, a] - top > NEGLIGIBLE:
                last = (j, a)
                left -= math.exp(logs[j, a] - top)
                if left <= 0:
                    return last
    return last
