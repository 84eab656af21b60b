"""The mixtures of P problems and what they make of their coordinates: arrays (P, K + 1).

The formulas are those of :mod:`cofem.learning.sites.mixture` and ``shares``. Cavities are one
number times the squared column lengths here, so that a slab's ρ is one number for a problem too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.mixture import FAINTEST, LEAST_SLABS, MixturePrior
from cofem.learning.sites.shares import AT_ONCE


@dataclass(frozen=True)
class Told:
    """What the prior makes of every coordinate: mean, variance, P(zero), (P, D); weights asked."""

    mean: Array
    variance: Array
    spike: Array
    weights: Array


@final
@dataclass(frozen=True)
class Priors:
    """Slab variances and weights, (P, K + 1), as :class:`MixturePrior` has them for one problem."""

    scales: Array
    weights: Array
    first: MixturePrior

    @classmethod
    def beginning(cls, first: MixturePrior, power: Array) -> Priors:
        """Return the priors to begin with; ``first`` is that of a problem of power one."""
        xp = backend.namespace(power)
        scales, weights = (backend.from_numpy(x, power) for x in (first.scales, first.weights))
        return cls(power[:, None] * scales, xp.ones_like(power)[:, None] * weights, first)

    def only(self, kept: Array) -> Priors:
        """Return those of some of the problems."""
        take = backend.namespace(self.scales).take
        return Priors(take(self.scales, kept, axis=0), take(self.weights, kept, axis=0), self.first)

    @property
    def slabs(self) -> Array:
        """The total weight of all but the spike, (P,)."""
        xp = backend.namespace(self.weights)
        return xp.clip(1 - self.weights[:, 0], min=LEAST_SLABS)

    def in_use(self, visible: Array) -> Array:
        """Return which components stand above the noise of a typical coordinate."""
        xp = backend.namespace(self.scales)
        places = xp.arange(self.scales.shape[1], device=backend.device_of(self.scales))
        return (self.scales * visible[:, None] >= FAINTEST) | (places < 2)[None, :]

    def learned(self, asked: Array, visible: Array) -> Priors:
        """Return the priors with the weights that the data ask for, (P, K + 1)."""
        xp, most = backend.namespace(asked), self.first.most
        slabs = xp.sum(asked[:, 1:], axis=1)
        over = slabs > most
        shrunk = asked * (most / xp.where(over, slabs, most + 0 * slabs))[:, None]
        spike = xp.where(over, 1 - most + 0 * slabs, asked[:, 0])[:, None]
        weights = xp.concat([spike, shrunk[:, 1:]], axis=1)
        first = backend.from_numpy(self.first.first, asked)
        return Priors(self.scales, xp.where(self.in_use(visible), weights, first), self.first)

    def told(self, value: Array, precision: Array, known: Array, visible: Array) -> Told:
        """Return moments and weights, as many problems at a time as stay in memory.

        Parameters
        ----------
        value, precision : array (P, D)
            v, and c at the true noise precision.
        known : array (P,)
            c/θ, the same for all coordinates.
        visible : array (P,)
        """
        xp = backend.namespace(value)
        number, n = int(value.shape[0]), int(value.shape[1])
        size = max(1, AT_ONCE // (n * int(self.scales.shape[1])))
        weights = xp.where(self.in_use(visible), self.weights, 0 * self.weights)
        weights = weights / xp.sum(weights, axis=1)[:, None]
        rho = self.scales * known[:, None]
        there = weights > 0
        logs = xp.log(xp.where(there, weights, xp.ones_like(weights)))
        logs = logs - self.first.half * xp.log1p(rho)
        logs = xp.where(there, logs, -math.inf + 0 * weights)
        kind = precision.dtype
        rho, logs = xp.astype(rho, kind), xp.astype(logs, kind)
        parts = [
            _told(value[i : i + size, :], precision[i : i + size, :], rho[i : i + size, :],
                  logs[i : i + size, :], self.first.half)
            for i in range(0, number, size)
        ]  # fmt: skip
        if len(parts) == 1:
            return parts[0]
        names = ("mean", "variance", "spike", "weights")
        return Told(*(xp.concat([getattr(p, name) for p in parts]) for name in names))


def _told(value: Array, precision: Array, rho: Array, logs: Array, half: float) -> Told:
    xp = backend.namespace(value)
    kept = 1 / (1 + rho)
    size = backend.abs_squared(value)
    evidence = logs[:, :, None] + (rho * kept)[:, :, None] * (half * precision * size)[:, None, :]
    parts = xp.exp(evidence - xp.max(evidence, axis=1)[:, None, :])
    parts = parts / xp.sum(parts, axis=1)[:, None, :]
    mean = xp.sum(parts * kept[:, :, None], axis=1)
    spread = xp.sum(parts * (kept[:, :, None] - mean[:, None, :]) ** 2, axis=1)
    weights = xp.mean(xp.astype(parts, xp.float64), axis=2)
    return Told(value * (1 - mean), (1 - mean) / precision + size * spread, parts[:, 0, :], weights)
