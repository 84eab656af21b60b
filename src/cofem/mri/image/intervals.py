"""Draws of the Gaussian posterior, widened by what held-out samples showed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.fit import Draws, Measured
from cofem.mri.image.held_out import CENTRES, Evidence
from cofem.operators import Smoothing

DRAW_WIDTH = 1.0  # pixels over which squared draws are averaged for a standard deviation
MOVE_WIDTH = 1.0  # and the squared differences of fits, of which there are fewer
DARK, DARK_WIDTH = 0.05, 1.0  # beside the images' level, after averaging: no object is there
# Of the prior's part of the variance, how much is left at least when that of hidden things is taken
# out of it. (With nothing left edges were covered less in much noise: 0.92 in place of 0.93.)
LEAST_LEFT = 0.25
# Beyond the highest sample nothing says how the curve goes on: how much of it, in logarithms, is as
# at that sample. The rest is as at the same distance in directions that were measured.
AS_AT_EDGE = 0.5
# Of the mean variance, in the object and outside: no pixel is thought to be known exactly. Inside,
# an edge map that misses a texture says so (camera man: 0.86 covered without it, 0.92 with it).
LEAST_SHARE, LEAST_OUTSIDE = 0.02, 1e-4


@dataclass(frozen=True)
class Spread:
    """How the prior's part of a draw is changed.

    The posterior is too sure of long waves where whole bands of k-space are missing: it takes the
    edges it has learned for granted. ``filters`` multiply every frequency by what held-out samples
    showed. ``map`` multiplies every pixel: more where the image moved when samples were left out.
    The noise's part is known as well as the noise is, and stays as it is.

    Attributes
    ----------
    data : KSpace or TrajectoryData
    filters : array (L, *shape)
    map : array (L, P)
    """

    data: Measured
    filters: np.ndarray | float
    map: np.ndarray | float = 1.0

    @classmethod
    def learned(
        cls,
        data: Measured,
        image: np.ndarray,
        plain: Draws,
        evidence: Evidence,
        marks: np.ndarray,
    ) -> Spread:
        """Return the spread that the evidence asks for.

        ``image`` (L, P) is the mean and ``plain`` are draws of the Gaussian posterior around it;
        ``marks`` (L, P) add their variance.
        """
        filters = filters_of(evidence, data)
        own = _variance(cls(data, filters).of_prior(plain.prior), data)
        both, dark = own, dark_pixels(image, data)
        if evidence.moved:
            moved = np.mean([np.abs(x - image) ** 2 for x in evidence.moved], axis=0)
            both = less_by(shared_out(own, moved, dark, data), marks, ~dark)
        factor = np.sqrt((both + marks) / np.where(own > 0, own, 1))
        return cls(data, filters, np.where(own > 0, factor, 1.0))

    def draws(self, plain: Draws) -> np.ndarray:
        """Return draws (S, L, P) of the Gaussian posterior as draws of the wider one."""
        return np.asarray(plain.noise + self.of_prior(plain.prior) * self.map)

    def of_prior(self, prior: np.ndarray) -> np.ndarray:
        """Return the prior's part of draws (S, L, P) with every frequency changed."""
        shape = (*prior.shape[:-1], *self.data.shape)
        found = backend.done_there(self._filtered, prior.reshape(shape), self.data.like)
        found = found.reshape(prior.shape)
        return np.asarray(found if np.iscomplexobj(prior) else found.real)

    def _filtered(self, x: Array) -> Array:
        fft, axes = backend.fft_module(x), tuple(range(-len(self.data.shape), 0))
        filters = backend.from_numpy(np.asarray(self.filters), x)
        found: Array = fft.ifftn(fft.fftn(x, axes=axes) * filters, axes=axes)
        return found

    def std(self, plain: Draws) -> np.ndarray:
        """Return the standard deviation (L, P) from draws of the Gaussian posterior."""
        prior = _variance(self.of_prior(plain.prior) * self.map, self.data)
        return np.asarray(np.sqrt(_variance(plain.noise, self.data) + prior))


def filters_of(evidence: Evidence, data: Measured) -> np.ndarray:
    """Return what every frequency of every image is multiplied by, (L, *shape)."""
    usual = 0.5 * np.log(evidence.excess)
    curves = usual + data.between * (np.tile(evidence.curve(), (data.n_sets, 1)) - usual)
    places = np.log(CENTRES)

    def at(radius: np.ndarray, curve: np.ndarray) -> np.ndarray:
        return np.asarray(np.interp(np.log(np.maximum(radius, CENTRES[0])), places, curve))

    radius = data.image_radius()
    reach = np.tile(data.reach(), (data.n_sets, *[1] * len(data.shape)))
    logs = [
        (1 - AS_AT_EDGE) * at(radius, curve) + AS_AT_EDGE * at(edge, curve)
        for curve, edge in zip(curves, reach, strict=True)
    ]
    return np.exp(np.stack(logs))


def _variance(draws: np.ndarray, data: Measured) -> np.ndarray:
    return _averaged(np.mean(np.abs(draws) ** 2, axis=0), data, DRAW_WIDTH)


def _averaged(x: np.ndarray, data: Measured, width: float) -> np.ndarray:
    averaged = backend.done_there(Smoothing(data.shape, width).forward, x, data.like)
    return np.asarray(np.maximum(averaged, 0.0))


def dark_pixels(image: np.ndarray, data: Measured) -> np.ndarray:
    """Return where no contrast shows anything, boolean (P,)."""
    power = np.abs(image) ** 2
    total = power.sum(axis=1, keepdims=True)
    level = np.sum(power**2, axis=1, keepdims=True) / np.where(total > 0, total, 1)
    joint = np.mean(power / np.where(level > 0, level, 1), axis=0)
    near: np.ndarray = _averaged(joint, data, DARK_WIDTH)
    return near < DARK**2


def less_by(variance: np.ndarray, marks: np.ndarray, bright: np.ndarray) -> np.ndarray:
    """Return variance (L, P) without what ``marks`` will add to it, (L, P), in the mean.

    The left-out samples, which decided how large it is in all, have seen the errors of hidden
    things too: they would be counted twice.
    """
    where = bright if bright.any() else ~bright
    there = variance[:, where].mean(axis=1)
    more = marks[:, where].mean(axis=1) / np.where(there > 0, there, 1)
    return np.asarray(variance * np.maximum(1 - more, LEAST_LEFT)[:, None])


def shared_out(own: np.ndarray, moved: np.ndarray, dark: np.ndarray, data: Measured) -> np.ndarray:
    """Return the variance ``own`` (L, P), moved to where the image moved, (L, P).

    Its total stays what held-out samples made it. Where nothing is seen the posterior does not
    know that it is outside: there its mean, beside the object's, is that of how far the
    pixels moved.
    """
    both: np.ndarray = np.sqrt(own * _averaged(moved, data, MOVE_WIDTH))
    bright = ~dark
    if not bright.any():
        bright, dark = dark, bright
    for index, variance in enumerate(both):
        if not variance[bright].mean() > 0:
            both[index] = own[index]
            continue
        if dark.any():
            ratio = min(moved[index, dark].mean() / moved[index, bright].mean(), 1.0)
            outside = variance[dark].mean()
            shape = variance[dark] / outside if outside > 0 else 1.0
            # Few fits say where in the dark: half of it is spread evenly.
            variance[dark] = variance[bright].mean() * ratio * (shape + 1) / 2
        variance += np.where(bright, LEAST_SHARE, LEAST_OUTSIDE) * variance.mean()
        variance *= own[index].mean() / variance.mean()
    return both
