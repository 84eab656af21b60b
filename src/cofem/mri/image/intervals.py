"""Draws of the Gaussian posterior, widened by what held-out samples showed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.fit import Measured
from cofem.mri.image.held_out import CENTRES, Evidence
from cofem.operators import Smoothing

DRAW_WIDTH = 1.0  # pixels over which squared draws are averaged for a standard deviation
MOVE_WIDTH = 1.0  # and the squared differences of fits, of which there are fewer
DARK, DARK_WIDTH = 0.05, 1.0  # beside the images' level, after averaging: no object is there
# Of the variance that hidden things add, how much the left-out samples have seen already, and how
# much of the rest is left at least. (With all of it the edges were covered less, in much noise.)
SEEN_TWICE, LEAST_LEFT = 0.5, 0.5
# Of the mean variance, in the object and outside: no pixel is thought to be known exactly. Inside,
# an edge map that misses a texture says so (camera man: 0.86 covered without it, 0.92 with it).
LEAST_SHARE, LEAST_OUTSIDE = 0.02, 1e-4


@dataclass(frozen=True)
class Spread:
    """How a draw of the Gaussian posterior is changed.

    The posterior is too sure of long waves and not sure enough of short ones where whole bands
    of k-space are missing: it takes the edges it has learned for granted. ``filters`` multiply
    every frequency by what held-out samples showed. ``map`` multiplies every pixel: more where
    the image moved when samples were left out.

    Attributes
    ----------
    data : KSpace or TrajectoryData
    filters : array (L, *shape)
    map : array (L, P)
    """

    data: Measured
    filters: np.ndarray | None
    map: np.ndarray | float = 1.0

    @classmethod
    def learned(
        cls,
        data: Measured,
        image: np.ndarray,
        plain: np.ndarray,
        evidence: Evidence,
        marks: np.ndarray,
    ) -> Spread:
        """Return the spread that the evidence asks for.

        ``image`` (L, P) is the mean and ``plain`` (S, L, P) are draws of the Gaussian posterior
        around it; ``marks`` (L, P) add their variance.
        """
        if not evidence.moved:
            own = cls(data, None).std(plain) ** 2
            return cls(data, None, np.sqrt(1 + marks / np.where(own > 0, own, 1)))
        radius = data.image_radius()
        curves = data.between * np.tile(evidence.curve(), (data.n_sets, 1))
        logs = np.log(np.maximum(radius, CENTRES[0]))
        filters = np.stack([np.exp(np.interp(logs, np.log(CENTRES), c)) for c in curves])
        own = cls(data, filters).std(plain) ** 2
        moved = np.mean([np.abs(x - image) ** 2 for x in evidence.moved], axis=0)
        dark = dark_pixels(image, data)
        both = less_by(shared_out(own, moved, dark, data), marks, ~dark)
        factor = np.sqrt((both + marks) / np.where(own > 0, own, 1))
        return cls(data, filters, np.where(own > 0, factor, 1.0))

    def draws(self, plain: np.ndarray) -> np.ndarray:
        """Return draws (S, L, P) of the Gaussian posterior as draws of the wider one."""
        if self.filters is None:
            return np.asarray(plain * self.map)
        shape = (*plain.shape[:-1], *self.data.shape)
        more = backend.done_there(self._filtered, plain.reshape(shape), self.data.like)
        more = more.reshape(plain.shape)
        # What was measured is known up to its noise: only the rest is changed.
        more = more - self.data.seen(more)
        if not np.iscomplexobj(plain):
            more = more.real
        return np.asarray((plain + more) * self.map)

    def _filtered(self, x: Array) -> Array:
        fft, axes = backend.fft_module(x), tuple(range(-len(self.data.shape), 0))
        filters = backend.from_numpy(np.asarray(self.filters) - 1, x)
        found: Array = fft.ifftn(fft.fftn(x, axes=axes) * filters, axes=axes)
        return found

    def std(self, plain: np.ndarray) -> np.ndarray:
        """Return the standard deviation (L, P) from draws of the Gaussian posterior."""
        squares = np.mean(np.abs(self.draws(plain)) ** 2, axis=0)
        return np.asarray(np.sqrt(_averaged(squares, self.data, DRAW_WIDTH)))


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
    """Return variance (L, P) without some of what ``marks`` will add to it, (L, P).

    The left-out samples, which decided how large it is in all, have seen the errors of hidden
    things too: they would be counted twice.
    """
    where = bright if bright.any() else ~bright
    there = variance[:, where].mean(axis=1)
    more = marks[:, where].mean(axis=1) / np.where(there > 0, there, 1)
    return np.asarray(variance * np.maximum(1 - SEEN_TWICE * more, LEAST_LEFT)[:, None])


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
