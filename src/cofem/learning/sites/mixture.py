"""A spike and a grid of slabs: one prior for all coordinates, with weights that are learned.

Every coordinate, in units in which its column of Φ has length one, is zero with probability
w_0 and otherwise normal with one of the variances s_k of a fixed grid. A few numbers describe
all coordinates, so the data determine them, and the noise precision with them: that is what
one free precision for every coordinate cannot offer (``docs/prior.md``).

A coordinate is seen through the data and all other coordinates as a value v with precision c.
Under the k-th slab its posterior is normal with mean g_k v and variance g_k / c, where
g_k = ρ_k / (1 + ρ_k) and ρ_k = s_k c / θ, θ the squared length of its column. The slab's
evidence, beside that of the spike, is

    e_k = ½ (v² c g_k − log(1 + ρ_k)),          without the half if complex.

Coordinates that share their scale (tasks, groups) add up their evidences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.shares import Seen, Shares, normal_shares, rectified_shares
from cofem.model.model import Tie

# The factor between the variances of neighbouring slabs, a factor of two between standard
# deviations: a finer grid changes the error by less than one per cent.
SCALE_RATIO = 4.0
# The largest scale, relative to the mean power of a non-zero coordinate if FIRST_SHARE of what the
# data can determine is non-zero: one coordinate may have nearly all of the power.
LARGEST_SCALE = 40.0
# 24 scales span 4^24: coefficients from 1 to 10^7.
N_SCALES = 24
# At the start, so many of the coordinates that the data can determine are taken to be non-zero.
FIRST_SHARE = 0.2
# At the start that weight is divided equally among so many scales; a scale that is added later
# starts with the same weight as each of these.
FIRST_SPREAD = 14
# A slab is used only if its variance is larger than this times 1/c, the variance of what is seen of
# a coordinate. A smaller slab cannot be distinguished from the spike, and it would explain the
# noise by many small coefficients.
FAINTEST = 1.0
# With fewer data than unknowns the data determine only a limited number of non-zeros. For random
# orthonormal rows the limit of state evolution is .36 + .54 N/D non-zeros per datum, and .47 + .58
# N/D if z is complex (real and imaginary part are zero together), to within .035 for N/D from .05
# to .8 (``phase_transition.py`` in the benchmarks). A tenth more is allowed. The keys are ½, and 1
# if complex.
MOST_PER_DATUM = {0.5: (1.1 * 0.36, 1.1 * 0.54), 1.0: (1.1 * 0.47, 1.1 * 0.58)}
# The smallest total weight of the slabs, so that its logarithm is finite and slabs can come back.
LEAST_SLABS = 1e-12
# That limit is for single tasks. For tasks that share their zeros this smaller one is used: with
# the larger one some fits ended with nearly all coordinates non-zero.
MOST_IF_JOINT = 0.5


def most_per_datum(ratio: Any, half: float = 0.5) -> Any:
    """Return how many non-zeros a datum can tell apart, at ``ratio`` data per unknown.

    ``half`` is ½, or 1 if z is complex.

    Examples
    --------
    >>> round(most_per_datum(1 / 3), 2), round(most_per_datum(1 / 3, 1.0), 2)
    (0.59, 0.73)
    """
    few, more = MOST_PER_DATUM[half]
    return few + more * ratio


@dataclass(frozen=True)
class MixturePrior:
    """The prior of one problem, or those of P problems, where arrays are (P, K + 1) on a device.

    Attributes
    ----------
    scales : ndarray (K + 1,)
        Slab variances times the noise precision of the beginning; the first is zero, the spike.
    weights : ndarray (K + 1,)
        Of the components, those that are not in use included.
    tie : Tie
        Groups of coordinates that share their scale.
    half : float
        ½, or 1 if complex.
    most : float
        The largest total weight of the slabs.
    first : ndarray (K + 1,)
        The weights of the beginning.
    nonnegative : bool
        Slabs are half-normal: nothing is below zero.
    held : float
        If above zero, the total weight of the slabs, which then is not learned.
    """

    scales: Any
    weights: Any
    tie: Tie
    half: float
    most: float
    first: Any
    nonnegative: bool = False
    held: float = 0.0

    @classmethod
    def beginning(
        cls, power: Any, n_data: int, n_unknowns: int, tie: Tie, half: float,
        nonnegative: bool = False, joint: bool = False,
    ) -> MixturePrior:  # fmt: skip
        """Return the prior to begin with.

        Parameters
        ----------
        power : float, or array (P,)
            Σ|y|² times the noise precision of the beginning.
        n_data, n_unknowns : int
            N and D.
        joint : bool
            Whether they are those of several tasks.
        """
        share = FIRST_SHARE * min(n_data, n_unknowns) / n_unknowns
        top = LARGEST_SCALE * power / (share * n_unknowns)
        scales: Any = np.concatenate([[0.0], SCALE_RATIO ** -np.arange(N_SCALES, dtype=float)])
        weights: Any = np.full(N_SCALES + 1, share / FIRST_SPREAD)
        weights[0] = 1 - share
        if not isinstance(power, float):
            scales, weights = (backend.from_numpy(x, power) for x in (scales, weights))
            top, weights = top[:, None], weights + 0 * top[:, None]
        scales = top * scales
        ratio = n_data / n_unknowns
        line = MOST_IF_JOINT if joint else most_per_datum(ratio, half)
        most = min(line * ratio, 1.0) if ratio < 1 else 1.0
        return cls(scales, weights, tie, half, most, weights, nonnegative)

    @property
    def slabs(self) -> Any:
        """The total weight of all but the spike; never quite zero."""
        spike = backend.as_number(self.weights[..., 0])
        return backend.functions_of(spike).clip(1 - spike, min=LEAST_SLABS)

    def in_use(self, visible: Any) -> Any:
        """Return which components stand above the noise of a typical coordinate."""
        return (self.scales * backend.column(visible, self.scales) >= FAINTEST) | (self._places < 2)

    @property
    def _places(self) -> Array:
        xp = backend.namespace(self.scales)
        return xp.arange(self.scales.shape[-1], device=backend.device_of(self.scales))

    def components(self, visible: float) -> tuple[np.ndarray, np.ndarray]:
        """Return scales and weights of the components in use."""
        used = self.in_use(visible) & (self.weights > 0)
        return self.scales[used], self.weights[used] / self.weights[used].sum()

    def given(self, seen: Sequence[Seen], ratios: Sequence[Any], visible: Any) -> Shares:
        """Return what the components say where every family sees the coordinates like this.

        Parameters
        ----------
        seen : sequence of Seen
            Precisions are those at the noise precision of the family's E-step.
        ratios : sequence of float
            The true noise precision of every family over that of its E-step.
        visible : float
            The inverse of the smallest scale that stands out of the noise.
        """
        xp = backend.namespace(self.weights)
        weights: Any = xp.where(self.in_use(visible), self.weights, 0 * self.weights)
        if weights.ndim > 1:  # every problem uses others of them: none is left out
            logs = _log_or_minus_infinity(weights / xp.sum(weights, axis=-1)[:, None])
            return normal_shares(seen, self.scales, logs, ratios, self.half, self.tie)
        which = np.flatnonzero(weights > 0)
        logs = np.log(weights[which] / weights.sum())
        parts = seen, self.scales[which], logs, ratios, self.half, self.tie
        found = (rectified_shares if self.nonnegative else normal_shares)(*parts)

        def told() -> tuple[np.ndarray, float]:
            total = np.zeros_like(self.weights)
            total[which] = found.weights
            return total, found.log_evidence

        return replace(found, told=told)

    def learned(self, shares: Shares, visible: Any) -> MixturePrior:
        """Return the prior with the weights that the data ask for."""
        asked, most = shares.weights, self.held or self.most
        least = LEAST_SLABS if self.held else most
        xp = backend.namespace(asked)
        slabs = backend.as_number(xp.sum(asked[..., 1:], axis=-1))
        of = backend.functions_of(slabs)
        limited = asked * backend.column(most / of.clip(slabs, min=least), asked)
        spike = of.where(slabs > least, 1 - most + 0 * slabs, backend.as_number(asked[..., 0]))
        weights = xp.where(self._places == 0, backend.column(spike, asked), limited)
        return replace(self, weights=xp.where(self.in_use(visible), weights, self.first))


def _log_or_minus_infinity(x: Array) -> Array:
    xp = backend.namespace(x)
    there = x > 0
    return xp.where(there, xp.log(xp.where(there, x, xp.ones_like(x))), 0 * x - math.inf)
