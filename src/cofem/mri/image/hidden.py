"""What the prior may have hidden: discs that the data could show, and that learning took away.

Learning decides at every pixel whether there is an edge, and the Gaussian posterior takes that
decision for granted. A small or faint thing may be lost in it. Here the decision is looked at
again. For a disc d of every place and radius the question is: what would its amplitude a be if
the prior did not act on it? To first order

    a | y ~ N(v · dᵀPμ, v),    1/v = dᵀ(P − P Q⁻¹ P)d,

P = RᵀTR the prior's precision, Q the posterior's, μ the mean: dᵀPμ is how hard the prior pulls at
the disc. If the prior is right, this pull has variance 1/v, so its size in standard deviations, the
score test of the disc, needs no truth, and 1/v no solves of its own: if a draw δ = Q⁻¹(ε + η) was
made of η ~ N(0, P), then η − Pδ has the covariance P − P Q⁻¹ P at once for every disc.

A disc is there or it is not: the odds are those of a prior (a slab and a spike) and of the data.
What is probable is put back into the image, and everything that is possible widens the interval.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.image.fit import ImageFit
from cofem.operators import Smoothing

HIDING = 2  # stream of random numbers, beside those of model.py
DRAWS, DRAW_RTOL = 8, 0.01
PLACES = 1.5  # pixels over which squared draws are averaged: 8 draws become more than 100
RADII = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)  # up to 3 the discs of a grid differ by these
ODDS = 0.4  # that a pixel is part of a hidden disc of a given radius, before the data
SHOWN = 0.25  # of these odds for the image: what is put back in vain is an error
SLAB = 0.3  # amplitude of a disc, beside the images' level
NORMAL_MEDIAN = 0.6745  # of |t|, where t is normal
LEAST_PRECISION = 1e-6  # beside the largest: an average of squares may be zero
MOST_LOG_ODDS = 50.0  # e^50 is certain enough, and does not overflow
# A disc of this many standard deviations is overlooked in 5 % of the cases, by a test that sees one
# in 5 % of the places where there is none (Currie, Analytical Chemistry 40, 586, 1968).
DETECTED = 3.29


@dataclass(frozen=True)
class Discs:
    """Discs of one radius at every pixel of one real image, (*shape).

    Attributes
    ----------
    radius : float
    amplitude, variance : array
        Of the disc where the prior does not act on it.
    response : array
        What a unit of amplitude changes the disc's pixels by, in the mean: less than one where
        the rest of the image gives way.
    """

    radius: float
    amplitude: Array
    variance: Array
    response: Array


class Hidden:
    """The prior's pull in a fit, and what it would be by chance.

    Parameters
    ----------
    fit : ImageFit
    bright : boolean array (P,)
        Where the object is.
    visible : boolean array (L, P)
        Where the data see anything; twice as many rows where there are two sets of coil maps.
    seed : int
    """

    def __init__(self, fit: ImageFit, bright: np.ndarray, visible: np.ndarray, seed: int) -> None:
        model, state = fit.model, fit.learned
        self.fit, self.shape = fit, model.edges.shape
        self._visible = visible.reshape(-1, *self.shape)
        self._bright = bright.reshape(self.shape) & self._visible
        matrix = model.precision(state.prior, state.noise_std, phase=state.phase)
        like = model.first
        data, prior = matrix.pushes_apart(Random(seed, HIDING, 0), DRAWS, like)
        found = matrix.solve(data + prior, None, DRAW_RTOL, model.options.max_cg_steps).x
        pulls = matrix.prior_force(found)
        by_chance = matrix.images(prior - pulls)
        if state.row is None:
            raise TypeError("the prior's pull is that of a mean that was solved for")
        force = matrix.prior_force(state.row)
        self._parts = (
            matrix.images(force)[0, ...], by_chance, matrix.images(found), matrix.images(pulls)
        )  # fmt: skip
        squares = [(np.fft.fftfreq(side) * side) ** 2 for side in self.shape]
        self._squares = [backend.from_numpy(square, like) for square in squares]

    def put_back(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what is put back, and the variance of what may be there, (L, P), in units."""
        pairs = [self._of_image(index) for index in range(self.fit.model.edges.n_images)]
        xp = backend.namespace(self._parts[0])
        image, variance = (xp.stack([xp.reshape(pair[i], (-1,)) for pair in pairs]) for i in (0, 1))
        # Of real and imaginary parts it is the sum: |√a + i√b|² = a + b.
        return self.fit.in_units(image), np.abs(self.fit.in_units(xp.sqrt(variance))) ** 2

    def detection_limit(self, radius: float) -> np.ndarray:
        """Return the amplitude that a disc must have to be noticed, (L, P), in units."""
        n_contrasts = len(self.fit.units)  # of complex images the parts in phase
        found = [next(self._discs(index, (radius,))) for index in range(n_contrasts)]
        variances = np.stack([backend.to_numpy(disc.variance).ravel() for disc in found])
        return np.asarray(DETECTED * np.sqrt(variances) * self.fit.units)

    def _of_image(self, index: int) -> tuple[Array, Array]:
        """Sum over all discs that cover a pixel: at most one of them is there."""
        like = self._parts[0]
        xp = backend.namespace(like)
        totals = xp.zeros((4, *self.shape), dtype=xp.float64, device=backend.device_of(like))
        add = backend.in_one_launch(_added, like)
        for discs in self._discs(index, RADII):
            (totals,) = add(
                totals, discs.amplitude, discs.variance, discs.response,
                self._squared(discs.radius), *self._squares,
            )  # fmt: skip
        totals = totals * backend.from_numpy(self._visible[index % len(self._visible)], like)
        odds, first, second, moved = (totals[i, ...] for i in range(4))
        odds = xp.clip(odds, min=np.finfo(float).tiny)
        there, shown = odds / (1 + odds), SHOWN * odds / (1 + SHOWN * odds)
        # What is there with half the odds stays out of the image, and in the interval.
        image = shown**2 * moved / odds
        mean = there * first / odds
        variance = there * second / odds - mean**2 + (mean - image) ** 2
        return image, xp.clip(variance, min=0.0)

    def _discs(self, index: int, radii: tuple[float, ...]) -> Iterator[Discs]:
        parts = [x[..., index, :] for x in self._parts]
        xp, fft = backend.namespace(parts[0]), backend.fft_module(parts[0])
        bright = self._bright[index % len(self._bright)]
        axes = tuple(range(-len(self.shape), 0))
        spectra = [fft.rfftn(xp.reshape(x, (*x.shape[:-1], *self.shape)), axes=axes) for x in parts]
        number = int(np.count_nonzero(bright))
        middle = np.array([max(number - 1, 0) // 2, min(number // 2, bright.size - 1)])
        there = [backend.from_numpy(x, parts[0]) for x in (bright, middle)]
        score = backend.in_one_launch(_scored, parts[0])
        for radius in radii:
            found = score(
                *spectra, *there, self._squared(radius), *self._squares,
                smooth=_places(self.shape, PLACES), beyond=np.inf if number else 0.0,
            )  # fmt: skip
            yield Discs(radius, *found)

    def _squared(self, radius: float) -> Array:
        return backend.from_numpy(np.array([radius**2]), self._squares[0])


@functools.lru_cache(maxsize=8)
def _places(shape: tuple[int, ...], width: float) -> Smoothing:
    return Smoothing(shape, width)


def _scored(
    pull: Array, chance: Array, draws: Array, pulls: Array,
    bright: Array, middle: Array, squared: Array, *squares: Array,
    smooth: Smoothing, beyond: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return amplitude, variance and response of a disc at every pixel, from spectra.

    ``middle`` are the places of the median among as many numbers as there are ``bright`` pixels,
    and ``beyond`` is the score of the others.
    """
    xp, fft, shape = backend.namespace(pull), backend.fft_module(pull), bright.shape
    axes = tuple(range(-len(shape), 0))
    disc = _inside(squared, squares)
    weight = xp.astype(xp.real(fft.rfftn(disc, axes=axes)), backend.real_dtype(pull.dtype, xp))

    def covered(spectrum: Array) -> Any:
        return fft.irfftn(spectrum * weight, s=tuple(shape), axes=axes)

    def near(x: Array) -> Any:
        flat = smooth.forward(xp.reshape(x, (-1,)))
        return xp.astype(xp.reshape(flat, tuple(shape)), xp.float64)

    force = xp.astype(covered(pull), xp.float64)
    precision = near(xp.mean(covered(chance) ** 2, axis=0))
    largest = xp.max(precision)
    least = xp.maximum(precision, LEAST_PRECISION * largest)
    precision = xp.where(largest > 0, least, xp.ones_like(precision))
    response = near(xp.mean(covered(draws) * covered(pulls), axis=0)) / xp.sum(disc)
    # Where the model does not fit, the pull is larger than by chance everywhere.
    scores = xp.where(bright, xp.abs(force) / xp.sqrt(precision), xp.full_like(force, beyond))
    ranked: Any = xp.reshape(scores, (-1,))
    if backend.is_numpy(ranked):  # which can put two numbers in their places alone
        ranked = np.partition(ranked, backend.to_numpy(middle))
    else:
        ranked = xp.sort(ranked)
    wrong = xp.clip(xp.mean(xp.take(ranked, middle)) / NORMAL_MEDIAN, min=1.0)
    return force / precision, wrong**2 / precision, xp.clip(response, min=0.0, max=1.0)


def _added(
    totals: Array, amplitude: Array, variance: Array, response: Array,
    squared: Array, *squares: Array,
) -> tuple[Array]:  # fmt: skip
    """Add what discs at all places bring to the pixels that they cover."""
    xp, fft = backend.namespace(totals), backend.fft_module(totals)
    axes, disc = tuple(range(-len(squares), 0)), _inside(squared, squares)
    spread = variance + SLAB**2
    share = SLAB**2 / spread
    log = 0.5 * amplitude**2 / variance * share - 0.5 * xp.log(spread / variance)
    own = ODDS / xp.sum(disc) * xp.exp(xp.clip(log, max=MOST_LOG_ODDS))
    mean = share * amplitude
    parts = own * xp.stack([xp.ones_like(mean), mean, mean**2 + share * variance, mean * response])
    spectrum = fft.rfftn(parts, axes=axes) * xp.real(fft.rfftn(disc, axes=axes))
    return (totals + fft.irfftn(spectrum, s=tuple(disc.shape), axes=axes),)


def _inside(squared: Array, squares: tuple[Array, ...]) -> Any:
    """Return a disc around pixel 0, ones and zeros, from squared distances along every axis.

    Examples
    --------
    >>> axis = (np.fft.fftfreq(16) * 16) ** 2
    >>> [float(_inside(np.array([r**2]), (axis, axis)).sum()) for r in (1.0, 1.5)]
    [5.0, 9.0]
    """
    xp, n = backend.namespace(squared), len(squares)
    distance: Any = 0.0
    for axis, square in enumerate(squares):
        along = [1] * n
        along[axis] = -1
        distance = distance + xp.reshape(square, tuple(along))
    return xp.astype(distance <= squared, xp.float64)
