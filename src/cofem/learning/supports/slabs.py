"""The slabs of the chains: their variances, and what values of equal magnitude may be."""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.supports.gains import TINY

# The factor between the variances of neighbouring slabs (a coarser grid distinguishes equal from
# unequal coefficients less well), and the smallest one relative to the noise variance.
SCALE_RATIO, SMALLEST_SCALE = 4.0, 3.0
# Coefficients of coherent columns may cancel each other: the largest slab is larger by this factor
# than the largest coefficient with which a single column can explain y.
CANCELLING = 100.0
MOST_SLABS = 24
# Values of equal magnitude: the number of spreads about it, the smallest one in units of the noise
# (variances), and the largest beside the largest coefficient of a single column.
SPREADS, SMALLEST_SPREAD, LARGEST_SPREAD = 8, 0.01, 0.2


def scales_for(correlation: np.ndarray, likely_noise: float) -> np.ndarray:
    """Return slab variances over the noise variance, from just visible to all there can be."""
    top = CANCELLING * max(float(np.max(correlation**2)) * likely_noise, 1.0)
    number = math.ceil(math.log(top / SMALLEST_SCALE, SCALE_RATIO)) + 1
    number = min(max(number, 2), MOST_SLABS)
    return np.asarray(np.geomspace(SMALLEST_SCALE, max(top, 10 * SMALLEST_SCALE), number))


def spreads_for(scales: np.ndarray) -> np.ndarray:
    """Return the variances that values of equal magnitude may have, over the noise variance."""
    top = LARGEST_SPREAD**2 * float(scales[-1]) / CANCELLING
    return np.asarray(np.geomspace(SMALLEST_SPREAD, max(top, 10 * SMALLEST_SPREAD), SPREADS))


def reach_of(largest: float) -> float:
    """Return the largest common magnitude, if one column explains at most ``largest`` of y."""
    return math.sqrt(CANCELLING) * max(largest, TINY)
