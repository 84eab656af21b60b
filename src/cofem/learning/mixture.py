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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Tie
from cofem.learning.mixture_kernels import compiled_shares, truncated_shares

# Neighbouring scales differ by this factor in variance, two in size: a finer grid changes the
# error by less than one per cent.
SCALE_RATIO = 4.0
# The largest scale over the power per non-zero coordinate that the data have if a fifth of what
# they can determine is non-zero: one coordinate may hold nearly all of it.
LARGEST_SCALE = 40.0
# 24 scales span 4^24: coefficients from 1 to 10^7.
N_SCALES = 24
# The share of what the data can determine that is non-zero in the beginning.
FIRST_SHARE = 0.2
# In the beginning that share is spread over so many scales; one that is added later has the
# same weight at first.
FIRST_SPREAD = 14
# A slab whose variance is below this share of the noise that a coordinate is seen with cannot
# be told from the spike; it would let dense, small coefficients explain the noise.
FAINTEST = 1.0
# Fewer data than unknowns determine at most this many non-zeros per datum.
MOST_PER_DATUM = 0.5
# Numbers of one array of components by coordinates, on a device.
AT_ONCE = 1 << 26


@dataclass(frozen=True)
class Seen:
    """How the data and the other coordinates see each coordinate of a family of tasks.

    Attributes
    ----------
    value : array (L, M)
        v, where each coordinate would be without a prior of its own.
    precision : array (M,)
        c, how well that is known; the same for the L tasks.
    unit : array (M,)
        θ times the noise precision that scales are measured in: the prior is on z_j √θ_j.
    """

    value: Array
    precision: Array
    unit: Array


@dataclass(frozen=True)
class Shares:
    """What the prior makes of every coordinate as it is seen.

    Attributes
    ----------
    mean, variance : array (L, M), one for every family
        Of the coordinates.
    spike : array (M,)
        The probability of zero.
    weights : ndarray (K + 1,)
        The mean probability of every component: the weights that the data ask for.
    log_evidence : float
        Σ_j log ∫ (coordinate as seen) (prior), beside that of the spike alone.
    """

    mean: list[Array]
    variance: list[Array]
    spike: Array
    weights: np.ndarray
    log_evidence: float


@dataclass(frozen=True)
class MixturePrior:
    """The prior, and how much larger than in the beginning the noise precision is.

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
    """

    scales: np.ndarray
    weights: np.ndarray
    tie: Tie
    half: float
    most: float
    first: np.ndarray
    nonnegative: bool = False

    @classmethod
    def beginning(
        cls, power: float, n_data: int, n_unknowns: int, tie: Tie, half: float,
        nonnegative: bool = False,
    ) -> MixturePrior:  # fmt: skip
        """Return the prior to begin with.

        Parameters
        ----------
        power : float
            Σ|y|² times the noise precision of the beginning.
        n_data, n_unknowns : int
            N and D.
        """
        share = FIRST_SHARE * min(n_data, n_unknowns) / n_unknowns
        top = LARGEST_SCALE * power / (share * n_unknowns)
        scales = np.concatenate([[0.0], top * SCALE_RATIO ** -np.arange(N_SCALES, dtype=float)])
        weights = np.full(N_SCALES + 1, share / FIRST_SPREAD)
        weights[0] = 1 - share
        most = MOST_PER_DATUM * n_data / n_unknowns if n_data < n_unknowns else 1.0
        return cls(scales, weights, tie, half, most, weights, nonnegative)

    def in_use(self, visible: float) -> np.ndarray:
        """Return which components stand above the noise of a typical coordinate."""
        used = self.scales * visible >= FAINTEST
        used[:2] = True
        return np.asarray(used)

    def given(self, seen: Sequence[Seen], ratios: Sequence[float], visible: float) -> Shares:
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
        used = self.in_use(visible)
        weights = np.where(used, self.weights, 0.0)
        which = np.flatnonzero(weights > 0)
        logs = np.log(weights[which] / weights.sum())
        parts = seen, self.scales[which], logs, ratios, self.half, self.tie
        found = (rectified_shares if self.nonnegative else _shares)(*parts)
        total = np.zeros_like(self.weights)
        total[which] = found.weights
        return replace(found, weights=total)

    def learned(self, shares: Shares, visible: float) -> MixturePrior:
        """Return the prior with the weights that the data ask for."""
        used = self.in_use(visible)
        asked = shares.weights
        slabs = float(asked[1:].sum())
        if slabs > self.most:
            asked = asked * (self.most / slabs)
            asked[0] = 1 - self.most
        return replace(self, weights=np.where(used, asked, self.first))


def _shares(
    seen: Sequence[Seen],
    scales: np.ndarray,
    log_weights: np.ndarray,
    ratios: Sequence[float],
    half: float,
    tie: Tie,
) -> Shares:
    first = seen[0].precision
    if len(seen) == 1 and tie.labels is None and backend.is_numpy(first):
        power = seen[0].precision * np.sum(backend.abs_squared(seen[0].value), axis=0)
        shrinkage, spread, spike, weights, evidence = compiled_shares(
            power, first, seen[0].unit, ratios[0] * scales, log_weights, ratios[0], half,
            len(seen[0].value),
        )
        mean, variance = _moments(seen[0], shrinkage, spread, ratios[0])
        return Shares([mean], [variance], spike, weights, float(evidence))
    return _array_shares(seen, scales, log_weights, ratios, half, tie)


def _array_shares(
    seen: Sequence[Seen],
    scales: np.ndarray,
    log_weights: np.ndarray,
    ratios: Sequence[float],
    half: float,
    tie: Tie,
) -> Shares:
    """Do the same in any array library, for several families and groups.

    All components at once, which a device wants, for as many coordinates as stay in memory.
    """
    n = int(seen[0].precision.shape[0])
    size = n if tie.labels is not None else max(AT_ONCE // len(scales), 1)
    blocks = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    parts = [
        _block_of_shares(
            [Seen(s.value[:, block], s.precision[block], s.unit[block]) for s in seen],
            scales, log_weights, ratios, half, tie,
        )
        for block in blocks
    ]  # fmt: skip
    if len(parts) == 1:
        return parts[0]
    xp = backend.namespace(seen[0].precision)
    weights = [p.weights * (p.spike.shape[0] / n) for p in parts]
    return Shares(
        [xp.concat([p.mean[i] for p in parts], axis=1) for i in range(len(seen))],
        [xp.concat([p.variance[i] for p in parts], axis=1) for i in range(len(seen))],
        xp.concat([p.spike for p in parts]),
        np.sum(weights, axis=0),
        sum(p.log_evidence for p in parts),
    )


def _block_of_shares(
    seen: Sequence[Seen],
    scales: np.ndarray,
    log_weights: np.ndarray,
    ratios: Sequence[float],
    half: float,
    tie: Tie,
) -> Shares:
    first = seen[0].precision
    xp = backend.namespace(first)
    dtype = backend.to_numpy(first[:1]).dtype
    column, logs = (
        backend.from_numpy(x.astype(dtype)[:, None], first) for x in (scales, log_weights)
    )
    kept: list[Array] = []
    for ratio, s in zip(ratios, seen, strict=True):
        rho = column * (ratio * s.precision / s.unit)
        kept.append(1 / (1 + rho))
        power = (half * ratio) * s.precision * xp.sum(backend.abs_squared(s.value), axis=0)
        evidence = power * (rho * kept[-1]) - (half * s.value.shape[0]) * xp.log1p(rho)
        if tie.labels is not None:
            evidence = xp.stack([tie.sums(evidence[k, :]) for k in range(len(scales))])
        logs = logs + evidence
    largest = xp.max(logs, axis=0)
    parts = xp.exp(logs - largest)
    total = xp.sum(parts, axis=0)
    parts = parts / total
    moments = []
    for ratio, s, inverse in zip(ratios, seen, kept, strict=True):
        mean = xp.sum(parts * inverse, axis=0)
        spread = xp.sum(parts * (inverse - mean) ** 2, axis=0)
        moments.append(_moments(s, mean, spread, ratio))
    log_total = largest + xp.log(total)
    if tie.labels is not None:  # a group's evidence counts once
        log_total = log_total / tie.counts(log_total)
    told = xp.concat([xp.mean(parts, axis=1), xp.reshape(xp.sum(log_total), (1,))])
    told = backend.to_numpy(told).astype(np.float64)  # one transfer
    return Shares(
        [mean for mean, _ in moments],
        [variance for _, variance in moments],
        parts[0, :],
        told[:-1],
        float(told[-1]),
    )


def _moments(seen: Seen, kept: Array, spread: Array, ratio: float) -> tuple[Array, Array]:
    """Return mean v E g and variance E g / c + |v|² Var g, from 1 − E g and Var g."""
    variance = (1 - kept) / (ratio * seen.precision) + backend.abs_squared(seen.value) * spread
    return seen.value * (1 - kept), variance


def rectified_shares(
    seen: Sequence[Seen],
    scales: np.ndarray,
    log_weights: np.ndarray,
    ratios: Sequence[float],
    half: float,
    tie: Tie,
) -> Shares:
    """Do the same for slabs that are half-normal; on the host, in double precision."""
    like = seen[0].precision
    values = [backend.to_numpy(s.value).astype(np.float64) for s in seen]
    value = np.concatenate(values)
    precision, unit = (
        np.concatenate([
            np.broadcast_to(r * backend.to_numpy(getattr(s, name)), v.shape).astype(np.float64)
            for r, s, v in zip(factors, seen, values, strict=True)
        ])
        for name, factors in (("precision", ratios), ("unit", [1.0] * len(seen)))
    )
    labels = np.arange(value.shape[1]) if tie.labels is None else tie.labels
    mean, variance, spike, weights, evidence = truncated_shares(
        value, precision, unit, scales, log_weights, labels, int(labels.max()) + 1
    )
    dtype = backend.to_numpy(like[:1]).dtype
    ends = np.cumsum([len(v) for v in values])[:-1]

    def home(rows: np.ndarray) -> list[Array]:
        return [backend.from_numpy(part.astype(dtype), like) for part in np.split(rows, ends)]

    return Shares(
        home(mean), home(variance), backend.from_numpy(spike.astype(dtype), like), weights,
        float(evidence),
    )  # fmt: skip
