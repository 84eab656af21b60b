"""The standard normal law truncated at zero, for compiled loops over single coordinates."""

from __future__ import annotations

import math

from cofem.solvers.compiled import compiled

# Above this t, by erfc: what cancels in the variance there costs three digits at most. Below
# it, by a continued fraction, whose first TERMS terms are exact to rounding for t ≤ −4.
FRACTION_BELOW = -4.0
TERMS = 60


@compiled
def standard_moments(t: float) -> tuple[float, float, float]:
    """Return λ(t) = φ(t)/Φ(t), and mean and variance of N(t, 1) truncated to z > 0.

    The mean is t + λ and the variance 1 − λ(t + λ). Far below zero λ = x + 1/(x + 2/(x + …)),
    x = −t, and both differences are taken inside the fraction.

    Examples
    --------
    >>> [round(x, 6) for x in standard_moments(0.0)]
    [0.797885, 0.797885, 0.36338]
    >>> [round(x, 9) for x in standard_moments(-1e3)]
    [1000.000999998, 0.000999998, 1e-06]
    """
    if t > FRACTION_BELOW:
        density = math.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
        hazard = density / (0.5 * math.erfc(-t / math.sqrt(2)))
        above = t + hazard
        return hazard, above, max(1 - hazard * above, 0.0)
    x = -t
    tail = x
    for i in range(TERMS, 2, -1):
        tail = x + i / tail
    tail = 2 / tail
    above = 1 / (x + tail)
    # 1 − (x + above) above = (tail − above)/(x + tail)
    return x + above, above, (tail - above) * above
