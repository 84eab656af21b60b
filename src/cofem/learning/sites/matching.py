"""Sites that match moments, and how far the iterations are from their end.

Each coordinate's prior is replaced by a Gaussian site exp(−a u²/2 + b u). Without its own site, a
coordinate is known by the data and the other sites as a value v with precision c (its cavity). The
true prior, together with this cavity, gives a mean and a variance, and the new site is the one that
gives the same two numbers. At the end these means and the mean of the Gaussian posterior under all
sites agree.

P problems with one Φ are fitted side by side as one. Then arrays have a row for every problem
before their last axis, and what is a float for one problem is an array (P,).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
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


def site_weight(seen: Seen, variance: Array, ratio: Any) -> Array:
    """Return the site's precision over the cavity's, 1/(c Var) − 1, of the mean over the tasks."""
    xp = backend.namespace(variance)
    share = backend.column(ratio, variance) * seen.precision * xp.mean(variance, axis=0)
    # The variance of a coordinate that is certainly zero may underflow to zero.
    return 1 / xp.clip(share, min=1 / (1 + STRONGEST)) - 1


def matching_sites(
    seen: Seen, mean: Array, variance: Array, ratio: Any, weakest: Any = WEAKEST
) -> tuple[Array, Array]:
    """Return the sites under which the coordinates have the prior's moments.

    ``weakest`` is the smallest precision of a site, relative to that of its cavity.
    """
    xp = backend.namespace(mean)
    weight = xp.clip(site_weight(seen, variance, ratio), min=weakest)
    # mean (c + a) − v c
    pull = seen.precision * ((mean - seen.value) + mean * weight)
    return seen.precision * weight, pull


def typical_precision(seen: Seen) -> Any:
    """Return the mean of c/θ, over the noise precision; a column of zeros hardly counts."""
    xp = backend.namespace(seen.precision)
    return backend.as_number(xp.mean(seen.precision / seen.unit, axis=-1))


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
    """The state of an iteration: floats, or arrays (P,) of P problems.

    Attributes
    ----------
    apart : float
        The share of coordinates whose two means differ by more than a tenth of an error bar.
    distance : float
        The root mean square difference of the means in error bars, over the directions that
        the data determine.
    used : float
        The share of the data that the fit uses up.
    departs : float
        See :class:`~cofem.learning.moments.gaussian.Moments`.
    log_move : float
        The next step of log β.
    weight_move : float
        The last step of the log of the slabs' total weight.
    """

    apart: Any = math.inf
    distance: Any = math.inf
    used: Any = 0.0
    departs: Any = 0.0
    log_move: Any = math.inf
    weight_move: Any = 0.0

    def compare(
        self,
        seen: Sequence[Seen],
        shares: Shares,
        means: Sequence[Array],
        ratios: Sequence[Any],
        determined: Any,
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
        apart: Any = 0.0
        total: Any = 0.0
        n = 0
        for i, (s, mean, ratio) in enumerate(zip(seen, means, ratios, strict=True)):
            xp = backend.namespace(s.precision)
            known = backend.column(ratio, s.precision) * s.precision
            distance = backend.abs_squared(shares.mean[i] - mean)
            error = distance / xp.maximum(shares.variance[i], LEAST_BAR**2 / known)
            far = xp.astype(error > APART**2, s.precision.dtype)
            sums: Any = xp.stack([xp.sum(x, axis=(0, -1)) for x in (far, error)])
            if sums.ndim == 1:
                sums = backend.to_numpy(sums)  # one transfer
            apart, total = apart + sums[0, ...], total + sums[1, ...]
            n += error.shape[0] * error.shape[-1]
        self.apart, total = backend.as_number(apart / n), backend.as_number(total)
        xp = backend.functions_of(total)
        self.distance = xp.sqrt(total / backend.functions_of(determined).clip(determined, min=1.0))


class MatchedSites(abc.ABC):
    """The sites of every family, how the coordinates are seen without them, and the next ones.

    Parameters
    ----------
    model : Model
        Its noise precisions are those of the E-steps.
    units : list of arrays (M,)
        θ of every family, times the noise precision that the prior's scales are measured in.
    precisions : list of arrays (M,), or (P, M)
        Of the first sites.
    """

    def __init__(self, model: Model, units: list[Array], precisions: list[Array]) -> None:
        self.model, self.units, self.precisions = model, units, precisions
        like = model.like
        xp = backend.namespace(like)
        self.pulls = [
            xp.zeros(
                (*f.y.shape[:-1], model.n_precisions), dtype=like.dtype,
                device=backend.device_of(like),
            )
            for f in model.families
        ]  # fmt: skip
        self.needs_variances = True
        self.products = 0
        self.iteration = 0
        self.look = Look()
        self.seen: list[Seen] = []
        self.shares: Shares | None = None
        # With P problems: which of them still iterate. The others keep what they have found.
        self.going: Array | None = None

    @property
    @abc.abstractmethod
    def ratios(self) -> list[Any]:
        """The noise precision of every family over that of its E-step."""

    @abc.abstractmethod
    def _least_seen(self, i: int) -> float:
        """Return the smallest precision of a cavity in a family, over the coordinate's unit."""

    def _weakest(self, seen: Seen) -> Any:
        """Return the smallest precision of a site, relative to that of its cavity."""
        return WEAKEST

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return where the E-steps start: at the last means."""
        return means

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return precision and pull of every family, at the model's noise precision."""
        return list(zip(self.precisions, self.pulls, strict=True))

    def moments_of(self, i: int) -> tuple[Array, Array]:
        """Return mean (L, M) and variance (L, M) of the coordinates of a family."""
        assert self.shares is not None
        return self.shares.mean[i], self.shares.variance[i]

    def _see(self, moments: Sequence[Moments]) -> None:
        """Find how the coordinates of every family are seen without their sites."""
        self.seen = []
        for i, m in enumerate(moments):
            xp, precision, unit = backend.namespace(m.cavity), self.precisions[i], self.units[i]
            cavity = xp.maximum(m.cavity, self._least_seen(i) * unit)
            # ((a + c) μ − b)/c, written so that large sites do not cancel.
            value = m.sparse_mean + (precision * m.sparse_mean - self.pulls[i]) / cavity
            self.seen.append(Seen(value, cavity, unit))

    def _move_sites(self, damping: float) -> None:
        """Move the sites to those that match; ``damping`` is the share of the new ones."""
        for i, seen in enumerate(self.seen):
            wanted, pull = matching_sites(
                seen, *self.moments_of(i), self.ratios[i], self._weakest(seen)
            )
            xp = backend.namespace(wanted)
            mixed = (1 - damping) * xp.log(self.precisions[i]) + damping * xp.log(wanted)
            self.precisions[i] = self._if_going(xp.exp(mixed), self.precisions[i])
            mixed = (1 - damping) * self.pulls[i] + damping * pull
            self.pulls[i] = self._if_going(mixed, self.pulls[i])

    def _if_going(self, new: Any, old: Any) -> Any:
        """Return what is new, and of problems that have ended what is old."""
        if self.going is None:
            return new
        going = self.going if new.ndim == 1 else self.going[:, None]
        return backend.namespace(new).where(going, new, old)
