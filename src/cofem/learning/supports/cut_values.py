"""The values of the non-zero coordinates if none may be negative, drawn in a chain. Compiled.

Slabs are normal laws N(m, v σ²) cut off at zero: half-normal, m = 0, or about the magnitude of
:mod:`cofem.learning.supports.equal`.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.sites.truncated_normal import standard_moments
from cofem.learning.supports.gains import ROUNDING, log_twice_normal, precision_of
from cofem.solvers.compiled import compiled

Matrix = np.ndarray
Generator = np.random.Generator


@compiled
def draw_values(
    gram: Matrix, correlation: Matrix, means: Matrix, scales: Matrix, places: Matrix,
    slabs: Matrix, k: int, beta: float, values: Matrix, draw: bool, random: Generator,
) -> tuple[float, float]:  # fmt: skip
    """Draw values above zero if asked to; return log W without the first to be drawn, and its.

    The first to be drawn is the last on the list. With L Lᵀ = Φ_SᵀΦ_S + diag(1/v) the i-th is
    normal given those behind it, with spread 1/(√β L_ii).
    """
    if k == 0:
        return 0.0, 0.0
    factor = np.linalg.cholesky(precision_of(gram, scales, places, slabs, k))
    mean = np.empty(k)
    for i in range(k):
        mean[i] = correlation[places[i]] + means[slabs[i]] / scales[slabs[i]]
        for m in range(i):
            mean[i] -= factor[i, m] * mean[m]
        mean[i] /= factor[i, i]
    rest = last = 0.0
    for i in range(k - 1, -1, -1):
        # mean holds L⁻¹(Φ_Sᵀy + m/v): the i-th row of Lᵀz = that + noise.
        centre = mean[i]
        for m in range(i + 1, k):
            centre -= factor[m, i] * values[m]
        ratio = centre * math.sqrt(beta)
        if draw:
            values[i] = above_zero(ratio, random) / (math.sqrt(beta) * factor[i, i])
        kept = log_twice_normal(ratio) - log_twice_of_slab(means, scales, slabs[i], beta)
        if i == k - 1:
            last = kept
        else:
            rest += kept
    return rest, last


@compiled
def log_twice_of_slab(means: Matrix, scales: Matrix, slab: int, beta: float) -> float:
    """Return log 2 P(z > 0) of a slab that is not cut off."""
    if means[slab] == 0:
        return 0.0
    return log_twice_normal(means[slab] * math.sqrt(beta / scales[slab]))


@compiled
def refresh_values(
    gram: Matrix,
    correlation: Matrix,
    power: float,
    means: Matrix,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    beta: float,
    values: Matrix,
    sums: Matrix,
    counts: bool,
    random: Generator,
) -> float:
    """Draw every value given the others, and add their moments to the sums if it counts.

    Returns ‖y − Φ_S z‖² + Σ (z − m)²/v.
    """
    precision = precision_of(gram, scales, places, slabs, k)
    for i in range(k):
        pull = correlation[places[i]] + means[slabs[i]] / scales[slabs[i]]
        centre = pull + precision[i, i] * values[i]
        for m in range(k):
            centre -= precision[i, m] * values[m]
        spread = 1 / math.sqrt(beta * precision[i, i])
        ratio = centre / precision[i, i] / spread
        values[i] = spread * above_zero(ratio, random)
        if counts:
            _, mean, variance = standard_moments(ratio)
            sums[0, places[i]] += spread * mean
            sums[1, places[i]] += spread**2 * (variance + mean**2)
            sums[2, places[i]] += 1
    energy = power
    for i in range(k):
        middle, v = means[slabs[i]], scales[slabs[i]]
        energy += middle**2 / v - 2 * (correlation[places[i]] + middle / v) * values[i]
        for m in range(k):
            energy += precision[i, m] * values[i] * values[m]
    return max(energy, ROUNDING * power)


@compiled
def draw_noise(
    n: int,
    k: int,
    energy: float,
    beta: float,
    means: Matrix,
    scales: Matrix,
    slabs: Matrix,
    random: Generator,
) -> float:
    """Draw the noise precision given the values.

    Their law is a gamma law but for what the slabs lose at zero, which depends on β where they are
    not half-normal: so it is a proposal.
    """
    found = float(random.gamma(0.5 * (n + k), 1.0) / (0.5 * energy))
    gained = 0.0
    for i in range(k):
        gained += log_twice_of_slab(means, scales, slabs[i], beta)
        gained -= log_twice_of_slab(means, scales, slabs[i], found)
    return found if gained >= 0 or math.log(random.random()) < gained else beta


@compiled
def above_zero(t: float, random: Generator) -> float:
    """Draw from N(t, 1) cut off below zero; where it is far below, by Robert's rejection."""
    if t > -0.5:
        while True:
            found = t + random.standard_normal()
            if found > 0:
                return found
    rate = 0.5 * (math.sqrt(t * t + 4) - t)
    while True:
        found = random.standard_exponential() / rate
        if math.log(random.random()) < -0.5 * (found - t - rate) ** 2:
            return found
