"""The marginals of the posterior under the learned prior: an atom at zero, and normals.

A coordinate that is seen as v with precision c has the posterior

    r_0 δ_0 + Σ_k r_k N(g_k v, g_k / c),

in the notation of :mod:`cofem.learning.sites.mixture`. No array of size D × K is kept: the
probabilities r_k are computed again when they are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.rectified import shortest_interval
from cofem.model.model import Tie

# A normal of width zero is a step; its width is at least this, so that nothing is divided by zero.
LEAST_STD = 1e-300
# A spike of less weight than this is there for its logarithm only: nothing is zero.
NO_ATOM = 1e-100
# Halvings of the bracket of a quantile: 2⁻⁵⁰ of its width.
HALVINGS = 50
# A bracket reaches so many error bars beyond the outermost normal.
REACH = 12.0


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """The numbers that define the marginals, in the shape of z: (D,), or (L, D) for L tasks.

    Attributes
    ----------
    value, precision, unit : array
        v, c and θβ: the k-th slab of coordinate j has the variance scales[k] / unit_j.
    scales, weights : ndarray (K + 1,)
        Of the components in use; the first is the spike.
    tie : Tie
        Groups that share their scale; tasks always do.
    nonnegative : bool
        The normals are cut off at zero.
    mean, variance, probability : array
        Of the coordinates, and P(z_j ≠ 0). Where no coordinate is zero under the prior (the dense
        end), this probability is averaged over that end and the best sparse one.
    """

    value: Array
    precision: Array
    unit: Array
    scales: np.ndarray
    weights: np.ndarray
    tie: Tie
    nonnegative: bool
    mean: Array
    variance: Array
    probability: Array

    def of_one_task(self) -> Marginals:
        """Return the same without the axis of tasks."""
        names = ("value", "precision", "unit", "mean", "variance", "probability")
        return replace(self, **{name: getattr(self, name)[0, ...] for name in names})

    def shares(self, columns: Array | None = None) -> Array:
        """Return the probabilities (K + 1, n) of the components at some columns, or at all."""
        xp = backend.namespace(self.precision)
        if self.tie.labels is not None and columns is not None:
            return xp.take(self.shares(), columns, axis=1)
        value, precision, unit = (
            x if x.ndim == 2 else x[None, :] for x in (self.value, self.precision, self.unit)
        )
        if columns is not None:
            value, precision, unit = (xp.take(x, columns, axis=1) for x in (value, precision, unit))
        half = 1.0 if backend.is_complex(value) else 0.5
        power, over = backend.abs_squared(value) * precision, precision / unit
        logs = []
        for scale, weight in zip(self.scales, self.weights, strict=True):
            rho = float(scale) * over
            g = rho / (1 + rho)
            terms = half * xp.sum(power * g - xp.log1p(rho), axis=0)
            if self.nonnegative and scale > 0:
                terms = terms + xp.sum(_log_twice_above(value * xp.sqrt(g * precision)), axis=0)
            logs.append(self.tie.sums(terms) + math.log(weight))
        stacked = xp.stack(logs)
        parts = xp.exp(stacked - xp.max(stacked, axis=0))
        return parts / xp.sum(parts, axis=0)

    def quantile(self, p: float) -> Array:
        """Return the p-quantile of every coordinate.

        Most coordinates are zero so surely that both ends of an interval are the atom.
        """
        probability = np.atleast_2d(backend.to_numpy(self.probability))
        found = np.zeros(probability.shape)
        # Only if so much of the mass is off the atom can the quantile be there.
        off = probability > min(p, 1 - p) if self.weights[0] > NO_ATOM else probability >= 0
        rows, columns = np.nonzero(off)
        if len(rows):
            unique, place = np.unique(columns, return_inverse=True)
            index = backend.from_numpy(unique, self.precision)
            shares = backend.to_numpy(self.shares(index)).astype(np.float64)[:, place]
            value, precision, unit = (
                np.atleast_2d(backend.to_numpy(x))[rows, columns].astype(np.float64)
                for x in (self.value, self.precision, self.unit)
            )
            rho = self.scales[1:, None] * precision / unit
            g = rho / (1 + rho)
            parts = list(zip(shares[1:], g * value, np.sqrt(g / precision), strict=True))
            quantile = _cut_quantile if self.nonnegative else _quantile
            found[rows, columns] = quantile(parts, shares[0], p)
        result = found.reshape(self.mean.shape).astype(backend.to_numpy(self.mean).dtype)
        return backend.from_numpy(result, self.mean)

    def shortest(self, level: float) -> tuple[Array, Array]:
        """Return the shortest intervals if the last component is certain and z ≥ 0.

        An interval with equal probability below and above could never begin at zero, where the
        density of a law that is cut off there may be largest.
        """
        rho = float(self.scales[-1]) * self.precision / self.unit
        g = rho / (1 + rho)
        return shortest_interval(g * self.value, g / self.precision, level)

    def draw(self, deviations: Array, seed: int) -> Array:
        """Return draws (n, …) whose marginals are these.

        Which component a coordinate comes from is drawn for each alone (coordinates that share
        their scale share it); how it departs from that component's mean is the joint
        ``deviations`` (n, …), of unit variance, so that coordinates depart together as in the
        Gaussian posterior.
        """
        xp = backend.namespace(deviations)
        columns = self.unit.shape[-1]
        uniform = backend.Random(seed, 7).uniform((deviations.shape[0], columns), deviations)
        if self.tie.labels is not None:
            first = np.unique(self.tie.labels, return_index=True)[1][self.tie.labels]
            uniform = xp.take(uniform, backend.from_numpy(first, uniform), axis=1)
        if deviations.ndim == 3:
            uniform = uniform[:, None, :]
        over, shares = self.precision / self.unit, self.shares()
        below, kept = shares[0, :], xp.zeros_like(uniform) + 0 * over
        for k in range(1, len(self.scales)):
            rho = float(self.scales[k]) * over
            inside = (uniform >= below) & (uniform < below + shares[k, :])
            kept = xp.where(inside, rho / (1 + rho), kept)
            below = below + shares[k, :]
        mean, std = kept * self.value, xp.sqrt(kept / self.precision)
        drawn = mean + std * deviations
        if self.nonnegative:
            drawn = backend.from_numpy(
                _cut_draw(*(backend.to_numpy(x) for x in (mean, std, deviations))), deviations
            )
        return xp.astype(drawn, deviations.dtype, copy=False)


def _log_twice_above(t: Array) -> Array:
    """Return log 2Φ(t)."""
    return backend.from_numpy(np.log(2.0) + log_ndtr(backend.to_numpy(t)), t)


def _cut_draw(mean: np.ndarray, std: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Turn normal deviations into draws of N(mean, std²) cut off at zero, place for place."""
    safe = np.where(std > 0, std, 1.0)
    t = mean / safe
    # P(z > x) = Φ(t − x/σ)/Φ(t), inverted in logarithms so that it holds far out.
    upper = ndtri_exp(log_ndtr(-deviation) + log_ndtr(t))
    return np.where(std > 0, np.maximum(mean - safe * upper, 0.0), 0.0)


def _cut_quantile(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], spike: np.ndarray, p: float
) -> np.ndarray:
    high = np.max([np.maximum(mean, 0) + REACH * std for _, mean, std in parts], axis=0)
    low = np.zeros_like(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = sum(
            share * np.exp(np.minimum(log_ndtr((mean - middle) / std) - log_ndtr(mean / std), 0.0))
            for share, mean, std in parts
        )
        low, high = np.where(above > 1 - p, middle, low), np.where(above > 1 - p, high, middle)
    return np.where(spike >= p, 0.0, (low + high) / 2)


def _quantile(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], spike: np.ndarray, p: float
) -> np.ndarray:
    low = np.min([mean - REACH * std for _, mean, std in parts], axis=0)
    high = np.max([mean + REACH * std for _, mean, std in parts], axis=0)
    below = sum(share * ndtr(-mean / np.maximum(std, LEAST_STD)) for share, mean, std in parts)
    at_zero = (below <= p) & (p <= below + spike)
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        mass = sum(
            share * ndtr((middle - mean) / np.maximum(std, LEAST_STD)) for share, mean, std in parts
        ) + spike * (middle >= 0)
        low, high = np.where(mass < p, middle, low), np.where(mass < p, high, middle)
    return np.where(at_zero, 0.0, (low + high) / 2)


def support_by_probability(probability: Array, level: float) -> Array:
    """Return the largest set whose expected share of zeros is at most 1 − level.

    Examples
    --------
    >>> support_by_probability(np.array([0.99, 0.2, 1.0, 0.9]), 0.95)
    array([ True, False,  True,  True])
    """
    p = backend.to_numpy(probability).ravel()
    order = np.argsort(-p, kind="stable")
    false = np.cumsum(1 - p[order]) / np.arange(1, len(p) + 1)
    count = int(np.searchsorted(false, 1 - level, side="right"))
    chosen = np.zeros(len(p), dtype=bool)
    chosen[order[:count]] = True
    return backend.from_numpy(chosen.reshape(probability.shape), probability)
