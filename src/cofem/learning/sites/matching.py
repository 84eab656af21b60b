"""Sites that match the mixture, and how far the iterations are from their end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.shares import Seen, Shares
from cofem.model.model import Family, Model

# The smallest and the largest precision of a site, relative to that of its cavity.
WEAKEST, STRONGEST = 1e-3, 1e8
# The smallest precision of a cavity, relative to the precision that the column alone would give. It
# prevents a division by zero.
UNSEEN = 1e-10
# Means that differ by more than this many error bars count as apart.
APART = 0.1
# The error bar of a coordinate near zero may be tiny. At least this share of the error bar that the
# data alone would give is used.
LEAST_BAR = 0.01


def site_weight(seen: Seen, variance: Array, ratio: float) -> Array:
    """Return the site's precision over the cavity's, 1/(c Var) − 1, of the mean over the tasks."""
    xp = backend.namespace(variance)
    share = ratio * seen.precision * xp.mean(variance, axis=0)
    # The variance of a coordinate that is certainly zero may underflow to zero.
    return 1 / xp.clip(share, min=1 / (1 + STRONGEST)) - 1


def matching_sites(seen: Seen, mean: Array, variance: Array, ratio: float) -> tuple[Array, Array]:
    """Return the sites under which the coordinates have the mixture's moments."""
    xp = backend.namespace(mean)
    weight = xp.clip(site_weight(seen, variance, ratio), min=WEAKEST, max=STRONGEST)
    # mean (c + a) − v c
    pull = seen.precision * ((mean - seen.value) + mean * weight)
    return seen.precision * weight, pull


def typical_precision(seen: Seen) -> float:
    """Return the mean of c/θ, over the noise precision; a column of zeros hardly counts."""
    xp = backend.namespace(seen.precision)
    return float(xp.mean(seen.precision / seen.unit))


def squared_lengths(family: Family, model: Model, like: Array) -> Array:
    """Return θ: squared columns, or one number for all rows of R."""
    xp = backend.namespace(like)
    norms = family.operator.column_norms_squared(like)
    if model.sparsifier is not None:
        return xp.ones(
            (model.n_precisions,), dtype=norms.dtype, device=backend.device_of(norms)
        ) * xp.mean(norms)
    largest = xp.max(norms)
    # A column of zeros has no unit: it takes that of the longest.
    return xp.where(norms > 0, norms, xp.where(largest > 0, largest, xp.ones_like(largest)))


@dataclass
class Look:
    """The state of an iteration.

    Attributes
    ----------
    apart : float
        The share of coordinates whose two means differ by more than a tenth of an error bar.
    distance : float
        The root mean square difference of the means in error bars, over the directions that
        the data determine.
    clipped : float
        The share of sites whose precision is at its lower limit.
    used : float
        The share of the data that the fit uses up.
    departs : float
        See :class:`~cofem.learning.moments.gaussian.Moments`.
    log_move : float
        The next step of log β.
    weight_move : float
        The last step of the log of the slabs' total weight.
    """

    apart: float = math.inf
    distance: float = math.inf
    clipped: float = 0.0
    used: float = 0.0
    departs: float = 0.0
    log_move: float = math.inf
    weight_move: float = 0.0

    def compare(
        self,
        seen: Sequence[Seen],
        shares: Shares,
        means: Sequence[Array],
        ratios: Sequence[float],
        determined: float,
    ) -> None:
        """Compare the mixture's means with those of the Gaussian posterior.

        Parameters
        ----------
        means : sequence of arrays (L, M)
            Of the Gaussian posterior, one for every family.
        ratios : sequence of float
            The true noise precision of every family over that of its E-step.
        determined : float
            The number of directions that the data determine.
        """
        apart = total = clipped = 0.0
        n = 0
        for i, (s, mean, ratio) in enumerate(zip(seen, means, ratios, strict=True)):
            xp = backend.namespace(s.precision)
            variance = shares.variance[i]
            distance = backend.abs_squared(shares.mean[i] - mean)
            error = distance / xp.maximum(variance, LEAST_BAR**2 / (ratio * s.precision))
            weak = site_weight(s, variance, ratio) < WEAKEST
            kind = s.precision.dtype
            sums = xp.stack(
                [
                    xp.sum(xp.astype(error > APART**2, kind)),
                    xp.sum(error),
                    xp.sum(xp.astype(weak, kind)) * error.shape[0],
                ]
            )
            far, squares, few = backend.to_numpy(sums)  # one transfer
            apart, total, clipped = apart + far, total + squares, clipped + few
            n += int(np.prod(error.shape))
        self.apart, self.clipped = float(apart / n), float(clipped / n)
        self.distance = math.sqrt(float(total) / max(determined, 1.0))
