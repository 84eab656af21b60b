"""Averages of ends: where several explain y about equally well, each counts by its evidence.

Near the limit of what can be recovered starts end at different sets of non-zeros, and each end is
too sure of its own. What is true of the posterior, a mixture of them, are its mean and variance and
the probabilities that coordinates are not zero. The marginals of an average have these three: an
atom at zero and one normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.marginals import Marginals

# Ends are averaged if each has at least this share of the probability: less would hardly be seen
# in intervals of 95 %.
LEAST_SHARE = 0.05
# Ends are the same if their means differ by less than this share of the spread (root mean square
# over the coordinates): below it the average adds a hundredth to a variance.
ALIKE = 0.2
# How much broader than its posterior the slab of an average is: not to be seen in double precision.
BROAD = 1e12
# The weight of the spike: as good as none, with a logarithm.
NO_SPIKE = 1e-300
# The logarithm of the odds of the slab where there is an atom, and the range of its variance over
# that of its posterior: wide enough for all probabilities that differ from 0 and 1 by 1e-6.
LOG_ODDS, BROADNESS = 20.0, (1e6, 1e30)
# A probability of zero below this is not told from none, and one above one minus this from one.
UNSURE = 1e-6
# The least share of a variance that is the normal's: moments of several ends are rounded.
ROUNDING = 1e-6


def sigmoid(log_odds: float) -> float:
    """Return the probability at these log odds.

    Examples
    --------
    >>> sigmoid(0.0), sigmoid(-1e9)
    (0.5, 9.85967654375977e-305)
    """
    return 1 / (1 + math.exp(min(-log_odds, 700.0)))


def worth_averaging(
    known: Sequence[Marginals], logs: Sequence[float], own: Sequence[bool] | None = None
) -> dict[int, float]:
    """Return the shares of the ends that count, by their places; the best one first.

    Parameters
    ----------
    known : sequence of Marginals
    logs : sequence of float
        Log evidences; ends that are the same count once, with the largest.
    own : sequence of bool
        Which of them have a probability of their own, also where they are the same.
    """
    order = sorted(range(len(logs)), key=lambda i: -logs[i])
    kept = order[:1]
    for i in order[1:]:
        near = logs[i] - logs[kept[0]] > math.log(LEAST_SHARE)
        counts = own is not None and own[i]
        if near and (counts or not any(_alike(known[i], known[j]) for j in kept)):
            kept.append(i)
    parts = [math.exp(logs[i] - logs[kept[0]]) for i in kept]
    return {i: part / math.fsum(parts) for i, part in zip(kept, parts, strict=True)}


def averaged(known: Sequence[Marginals], shares: Sequence[float], atoms: bool = True) -> Marginals:
    """Return marginals with the mean, the variance and P(z ≠ 0) of the mixture of all.

    Without ``atoms`` they are normal.
    """
    first = known[0]
    xp = backend.namespace(first.mean)

    def mixed(arrays: list[Array]) -> Array:
        return sum((s * a for s, a in zip(shares, arrays, strict=True)), start=0 * arrays[0])

    mean = mixed([m.mean for m in known])
    spread = mixed([backend.abs_squared(m.mean - mean) for m in known])
    variance = mixed([m.variance for m in known]) + spread
    probability = xp.clip(mixed([m.probability for m in known]), min=0.0, max=1.0)
    found = replace(first, mean=mean, variance=variance, probability=probability)
    if atoms:
        return _with_atoms(found)
    # Under a slab that is far broader than its posterior, that is where it is seen.
    broad = BROAD * float(xp.max(variance * first.unit))
    return replace(
        found, value=mean, precision=1 / variance, scales=np.array([0.0, broad]),
        weights=np.array([NO_SPIKE, 1.0]),
    )  # fmt: skip


def _with_atoms(found: Marginals) -> Marginals:
    """Return an atom and one normal with this mean, variance and P(z ≠ 0).

    The normal is where the coordinate is seen, under a slab so broad that it does not move it. How
    broad decides the odds of the atom: e^LOG_ODDS √(1 + ρ)^-1 exp(c v²/2) for real coordinates.
    """
    xp = backend.namespace(found.mean)
    half = 1.0 if backend.is_complex(found.mean) else 0.5
    chance = xp.clip(found.probability, min=UNSURE, max=1 - UNSURE)
    # Where the atom is no more than that, it is left to the normal: its width would be a small
    # difference of large numbers.
    part = xp.where(found.probability > 1 - UNSURE, xp.ones_like(chance), chance)
    value = found.mean / part
    between = (1 - part) * backend.abs_squared(value)
    precision = part / xp.maximum(found.variance - between * part, ROUNDING * found.variance)
    power = found.tie.sums(xp.sum(backend.abs_squared(value) * precision, axis=0))
    rows = xp.sum(xp.ones_like(precision), axis=0)  # one for every task
    wanted = LOG_ODDS + half * power - (xp.log(chance) - xp.log1p(-chance))
    low, high = BROADNESS
    rho = xp.exp(
        xp.clip(wanted / (half * found.tie.sums(rows)), min=math.log(low), max=math.log(high))
    )
    odds = math.exp(LOG_ODDS)
    return replace(
        found, value=value, precision=precision, unit=BROAD * precision / rho,
        scales=np.array([0.0, BROAD]), weights=np.array([1.0, odds]) / (1 + odds),
    )  # fmt: skip


def _alike(one: Marginals, other: Marginals) -> bool:
    xp = backend.namespace(one.mean)
    apart = xp.sum(backend.abs_squared(one.mean - other.mean))
    spread = xp.sum(one.variance) + xp.sum(other.variance)
    return not float(apart) > ALIKE**2 * float(spread) / 2
