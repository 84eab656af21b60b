"""What a mixture's components say of every coordinate as it is seen: the sums over them.

The formulas stand in :mod:`cofem.learning.sites.mixture`. NumPy arrays go through compiled loops,
other libraries through arrays of components by coordinates, half-normal slabs through the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.mixture_kernels import compiled_shares, truncated_shares
from cofem.model.model import Tie

# Numbers of one array of components by coordinates, on a device.
AT_ONCE = 1 << 26


@dataclass(frozen=True)
class Seen:
    """How the data and the other coordinates see each coordinate of a family of tasks.

    Attributes
    ----------
    value : array (L, M)
        v, where each coordinate would be without a prior of its own; (1, P, M) for P problems.
    precision : array (M,)
        c, how well that is known; the same for the L tasks. (P, M) for P problems, and then one
        number for a problem times θ.
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
    told : function
        Returns ``weights`` and ``log_evidence``; for an array on a device it waits.
    """

    mean: list[Array]
    variance: list[Array]
    spike: Array
    told: Callable[[], tuple[Any, Any]]

    @property
    def weights(self) -> Any:
        """The mean probability of every component: the weights that the data ask for."""
        return self._told[0]

    @property
    def log_evidence(self) -> Any:
        """Σ_j log ∫ (coordinate as seen) (prior), beside that of the spike alone."""
        return self._told[1]

    @cached_property
    def _told(self) -> tuple[Any, Any]:
        # One cached property, not two: up to Python 3.11 each has a lock that all instances share,
        # and what is told may ask another instance. With two, threads waited for each other.
        return self.told()


def normal_shares(
    seen: Sequence[Seen],
    scales: Any,
    log_weights: Any,
    ratios: Sequence[Any],
    half: float,
    tie: Tie,
) -> Shares:
    """Return the sums for normal slabs.

    Parameters
    ----------
    seen : sequence of Seen
        One for every family.
    scales, log_weights : ndarray (K + 1,), or array (P, K + 1)
        Of the components; the first is the spike.
    ratios : sequence of float, or of array (P,)
        The true noise precision of every family over that of its E-step.
    half : float
        ½, or 1 if complex.
    tie : Tie
    """
    first = seen[0].precision
    if len(seen) == 1 and tie.labels is None and backend.is_numpy(first) and first.ndim == 1:
        size = backend.abs_squared(backend.to_numpy(seen[0].value))
        power, unit = first * np.sum(size, axis=0), backend.to_numpy(seen[0].unit)
        shrinkage, spread, spike, weights, evidence = compiled_shares(
            power,
            first,
            unit,
            ratios[0] * scales,
            log_weights,
            ratios[0],
            half,
            len(seen[0].value),
        )
        mean, variance = _moments(seen[0], shrinkage, spread, ratios[0])
        return Shares([mean], [variance], spike, lambda: (weights, float(evidence)))
    return _array_shares(seen, scales, log_weights, ratios, half, tie)


def _array_shares(
    seen: Sequence[Seen],
    scales: Any,
    log_weights: Any,
    ratios: Sequence[Any],
    half: float,
    tie: Tie,
) -> Shares:
    """Do the same in any array library, for several families and groups, or for many problems.

    All components at once, which a device wants, for as many coordinates as stay in memory.
    """
    n = int(seen[0].precision.shape[-1])
    size = n if tie.labels is not None else max(AT_ONCE // math.prod(scales.shape), 1)
    blocks = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    parts = [
        _block_of_shares(
            [Seen(s.value[..., block], s.precision[..., block], s.unit[block]) for s in seen],
            scales, log_weights, ratios, half, tie,
        )
        for block in blocks
    ]  # fmt: skip
    if len(parts) == 1:
        return parts[0]
    xp = backend.namespace(seen[0].precision)

    def told() -> tuple[Any, Any]:
        weights = sum(p.weights * (p.spike.shape[-1] / n) for p in parts)
        return weights, sum(p.log_evidence for p in parts)

    return Shares(
        [xp.concat([p.mean[i] for p in parts], axis=-1) for i in range(len(seen))],
        [xp.concat([p.variance[i] for p in parts], axis=-1) for i in range(len(seen))],
        xp.concat([p.spike for p in parts], axis=-1),
        told,
    )


def _block_of_shares(
    seen: Sequence[Seen],
    scales: Any,
    log_weights: Any,
    ratios: Sequence[Any],
    half: float,
    tie: Tie,
) -> Shares:
    """Return the sums over components by coordinates, (K + 1, M) or (P, K + 1, M)."""
    first = seen[0].precision
    xp, many = backend.namespace(first), first.ndim > 1
    column, logs = (_like(x, first)[..., None] for x in (scales, log_weights))
    kept: list[Array] = []
    for ratio, s in zip(ratios, seen, strict=True):
        tasks, ratio = s.value.shape[0], backend.column(ratio, first)
        known = ratio * s.precision / s.unit
        rho = column * (known[:, :1] if many else known)[..., None, :]
        kept.append(1 / (1 + rho))
        power = (half * ratio) * s.precision * xp.sum(backend.abs_squared(s.value), axis=0)
        evidence = power[..., None, :] * (rho * kept[-1]) - (half * tasks) * xp.log1p(rho)
        if tie.labels is not None:
            evidence = xp.stack([tie.sums(evidence[k, :]) for k in range(len(scales))])
        logs = logs + evidence
    largest = xp.max(logs, axis=-2)
    parts = xp.exp(logs - largest[..., None, :])
    total = xp.sum(parts, axis=-2)
    parts = parts / total[..., None, :]
    moments = []
    for ratio, s, inverse in zip(ratios, seen, kept, strict=True):
        mean = xp.sum(parts * inverse, axis=-2)
        spread = xp.sum(parts * (inverse - mean[..., None, :]) ** 2, axis=-2)
        moments.append(_moments(s, mean, spread, backend.column(ratio, first)))
    log_total = largest + xp.log(total)
    if tie.labels is not None:  # a group's evidence counts once
        log_total = log_total / tie.counts(log_total)
    evidence = xp.sum(log_total, axis=-1)[..., None]
    both = xp.concat([xp.mean(parts, axis=-1), evidence], axis=-1)
    later = None if many else backend.Later(both)  # one transfer

    def told() -> tuple[Any, Any]:
        if later is None:
            found = xp.astype(both, xp.float64)
            return found[:, :-1], found[:, -1]
        numbers = later.numpy().astype(np.float64)
        return numbers[:-1], float(numbers[-1])

    return Shares(
        [mean for mean, _ in moments],
        [variance for _, variance in moments],
        parts[..., 0, :],
        told,
    )


def _like(x: Any, like: Array) -> Array:
    """Return scales or weights in the library and the precision of ``like``."""
    xp = backend.namespace(like)
    if not backend.is_numpy(x):
        return xp.astype(x, like.dtype)
    kind = np.float32 if xp.finfo(like.dtype).bits == 32 else np.float64
    return backend.from_numpy(x.astype(kind), like)


def _moments(seen: Seen, kept: Array, spread: Array, ratio: Any) -> tuple[Array, Array]:
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
        np.concatenate(
            [
                np.broadcast_to(r * backend.to_numpy(getattr(s, name)), v.shape).astype(np.float64)
                for r, s, v in zip(factors, seen, values, strict=True)
            ]
        )
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
        home(mean), home(variance), backend.from_numpy(spike.astype(dtype), like),
        lambda: (weights, float(evidence)),
    )  # fmt: skip
