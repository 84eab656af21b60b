"""A few numbers that say how close an iteration of expectation propagation is to its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.matching import WEAKEST, site_weight
from cofem.learning.sites.shares import Seen, Shares

# Means that differ by more than this many error bars count as apart.
APART = 0.1
# The error bar of a coordinate near zero may be tiny. At least this share of the error bar that the
# data alone would give is used.
LEAST_BAR = 0.01


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
