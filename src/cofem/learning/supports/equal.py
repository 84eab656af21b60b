"""Values of equal magnitude: two slabs about ±m, whose m and spread are learned. Compiled.

A coordinate of these slabs has the law N(±m, v σ²), both signs equally probable; m has a flat
prior on [−reach, reach], and v is one of a grid. With b the means of all coordinates of a set,
y − Φb takes the place of y in :mod:`cofem.learning.supports.chain`, and joining with slab (μ, v)
makes q smaller by (v t² + 2 μ t − μ² s) / (1 + v s). As a function of m, q is a parabola: given the
set and v, m has a Student law (a normal one if the noise is known), and its integral is known.
Where nothing is below zero there is one slab, about m > 0 (``signs`` is one).

m is a value of columns of length one, so that the units of columns change nothing; or of columns as
the user has them, where that is clearly more probable (:mod:`cofem.learning.supports.sampler`).
The law is a part of the mixture and not in its place: coordinates join it where the data say so,
and the others keep a slab of their own.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.supports.gains import ROUNDING, TINY, look, precision_of
from cofem.solvers.compiled import compiled

# The prior's count of this law: that of all other slabs together.
COUNT = 1.0
# Log odds of a slab that is not used: finite, since sums with it are formed.
NEVER = -1e30

Matrix = np.ndarray
Generator = np.random.Generator


@compiled
def shift_of(gram: Matrix, means: Matrix, slabs: Matrix, k: int) -> Matrix:
    """Return ΦᵀΦb."""
    found = np.zeros(gram.shape[1])
    for i in range(k):
        if means[slabs[i]] != 0:
            found += means[slabs[i]] * gram[i]
    return found


@compiled
def see(
    gram: Matrix,
    squares: Matrix,
    correlation: Matrix,
    power_of_y: float,
    means: Matrix,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    s: Matrix,
    t: Matrix,
) -> float:
    """Write s and t of every column, and return q, with y − Φb in the place of y."""
    shift, power = shift_of(gram, means, slabs, k), power_of_y
    for i in range(k):  # ‖y − Φb‖² = ‖y‖² − bᵀ(2 Φᵀy − ΦᵀΦb)
        power -= means[slabs[i]] * (2 * correlation[places[i]] - shift[places[i]])
    power = max(power, ROUNDING * power_of_y)
    return look(gram, squares, correlation - shift, power, scales, places, slabs, k, s, t)


@compiled
def draw_share(
    slabs: Matrix,
    k: int,
    used: bool,
    spike: float,
    log_odds: Matrix,
    random: Generator,
    signs: int = 2,
) -> None:
    """Draw the weight of this law over that of the spike, the same part of it for every sign."""
    first, held = len(log_odds) - signs, COUNT
    for i in range(k):
        held += slabs[i] >= first
    log_odds[first:] = NEVER
    if used:
        log_odds[first:] = math.log(max(random.gamma(held, 1.0), TINY) / (signs * spike))


@compiled
def log_prior(slabs: Matrix, k: int, d: int, pseudo_count: float, number: int) -> float:
    """Return the log probability of the set and its slabs, the weights integrated out.

    Up to a constant. There are ``number`` slabs; in the last two are values of equal magnitude,
    with both signs as probable.
    """
    found, last = math.lgamma(d - k + 1.0), number - 2
    held = np.zeros(number)
    for i in range(k):
        held[slabs[i]] += 1
    for a in range(last):
        found += math.lgamma(held[a] + pseudo_count) - math.lgamma(pseudo_count)
    equal = held[last] + held[last + 1]
    return float(found + math.lgamma(equal + COUNT) - equal * math.log(2))


@compiled
def draw_equal(
    gram: Matrix,
    correlation: Matrix,
    power_of_y: float,
    spreads: Matrix,
    reach: float,
    places: Matrix,
    slabs: Matrix,
    k: int,
    beta: float,
    degrees: float,
    heat: float,
    means: Matrix,
    scales: Matrix,
    random: Generator,
    signs: int = 2,
) -> float:
    """Draw v, with m integrated out, and then m given v; write them into ``means`` and ``scales``.

    Return the logarithm of the width of m's conditional law beside its prior: what the density at
    one m has to be multiplied by. An m out of reach is not taken, and its v neither: the pair is
    a proposal from the law without that bound, and so accepted with probability one or zero.
    """
    first = len(scales) - signs
    sides = np.zeros(k)
    for i in range(k):
        if slabs[i] >= first:
            sides[i] = 1.0 if slabs[i] == first else -1.0
    held = np.sum(np.abs(sides))
    if held == 0:
        scales[first:] = spreads[int(random.random() * len(spreads))]
        drawn = (2 * random.random() - 1) * reach
        _put(means, first, abs(drawn) if signs == 1 else drawn)
        return 0.0
    old, logs, fits = scales[first], np.empty(len(spreads)), np.empty((len(spreads), 3))
    for a in range(len(spreads)):
        scales[first:] = spreads[a]
        factor = np.linalg.cholesky(precision_of(gram, scales, places, slabs, k))
        fits[a] = _parabola(gram, correlation, power_of_y, places, factor, sides)
        # log p(y, S | v) to the power heat, with m integrated out.
        logs[a] = -0.5 * heat * held * math.log(spreads[a]) - 0.5 * math.log(fits[a, 2])
        for i in range(k):
            logs[a] -= heat * math.log(factor[i, i])
        if beta > 0:
            logs[a] -= 0.5 * heat * beta * fits[a, 0]
        else:
            logs[a] -= 0.5 * (heat * degrees - 1) * math.log(fits[a, 0])
    odds = np.exp(logs - np.max(logs))
    left, a = random.random() * np.sum(odds), -1
    while left > 0 and a < len(spreads) - 1:
        a += 1
        left -= odds[a]
    a = max(a, 0)
    least, middle, curvature = fits[a]
    freedom = max(heat * degrees - 1, 1.0)
    noise = 1 / (heat * beta) if beta > 0 else least / (2 * random.gamma(freedom / 2, 1.0))
    drawn = middle + math.sqrt(noise / curvature) * random.standard_normal()
    scales[first:] = old
    if abs(drawn) < reach and (signs == 2 or drawn > 0):
        scales[first:] = spreads[a]
        _put(means, first, drawn)
    usual = 1 / beta if beta > 0 else least / freedom
    return 0.5 * math.log(2 * math.pi * usual / curvature) - math.log(2 * reach)


@compiled
def _put(means: Matrix, first: int, magnitude: float) -> None:
    for i in range(first, len(means)):
        means[i] = magnitude if i == first else -magnitude


@compiled
def _parabola(
    gram: Matrix,
    correlation: Matrix,
    power_of_y: float,
    places: Matrix,
    factor: Matrix,
    signs: Matrix,
) -> tuple[float, float, float]:
    """Return the least q over m, where it is, and the factor of (m − that)² in q."""
    k = len(signs)
    right = np.zeros((k, 2))  # Φ_Sᵀy, and Φ_Sᵀ times the sum of columns with their signs
    power, cross, square = power_of_y, 0.0, 0.0
    for i in range(k):
        right[i, 0] = correlation[places[i]]
        for other in range(k):
            right[i, 1] += gram[i, places[other]] * signs[other]
        cross += signs[i] * right[i, 0]
        square += signs[i] * right[i, 1]
    floor = ROUNDING * max(square, 1.0)
    seen = np.linalg.solve(factor, right)
    for i in range(k):
        power -= seen[i, 0] ** 2
        cross -= seen[i, 0] * seen[i, 1]
        square -= seen[i, 1] ** 2
    square = max(square, floor)
    return max(power - cross**2 / square, ROUNDING * power_of_y), cross / square, square
