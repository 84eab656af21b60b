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

from collections.abc import Iterator
from dataclasses import dataclass

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
    amplitude: np.ndarray
    variance: np.ndarray
    response: np.ndarray


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
        self._axes = tuple(range(-len(self.shape), 0))
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
        self._smooth = Smoothing(self.shape, PLACES)

    def put_back(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what is put back, and the variance of what may be there, (L, P), in units."""
        pairs = [self._of_image(index) for index in range(self.fit.model.edges.n_images)]
        image, variance = (np.stack([pair[i].ravel() for pair in pairs]) for i in (0, 1))
        # Of real and imaginary parts it is the sum: |√a + i√b|² = a + b.
        return self.fit.in_units(image), np.abs(self.fit.in_units(np.sqrt(variance))) ** 2

    def detection_limit(self, radius: float) -> np.ndarray:
        """Return the amplitude that a disc must have to be noticed, (L, P), in units."""
        n_contrasts = len(self.fit.units)  # of complex images the parts in phase
        found = [next(self._discs(index, (radius,))) for index in range(n_contrasts)]
        limits = np.stack([np.sqrt(disc.variance).ravel() for disc in found])
        return np.asarray(DETECTED * limits * self.fit.units)

    def _of_image(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Sum over all discs that cover a pixel: at most one of them is there."""
        totals = np.zeros((4, *self.shape))
        for discs in self._discs(index, RADII):
            kernel, area = disc(self.shape, discs.radius)
            spread = discs.variance + SLAB**2
            share = SLAB**2 / spread
            log = 0.5 * discs.amplitude**2 / discs.variance * share
            log = np.minimum(log - 0.5 * np.log(spread / discs.variance), MOST_LOG_ODDS)
            own = ODDS / area * np.exp(log)
            mean = share * discs.amplitude
            parts = own * np.stack([
                np.ones_like(mean), mean, mean**2 + share * discs.variance, mean * discs.response
            ])  # fmt: skip
            totals += self._covering(parts, kernel)
        totals *= self._visible[index % len(self._visible)]
        odds, first, second, moved = totals
        odds = np.maximum(odds, np.finfo(float).tiny)
        there, shown = odds / (1 + odds), SHOWN * odds / (1 + SHOWN * odds)
        # What is there with half the odds stays out of the image, and in the interval.
        image = shown**2 * moved / odds
        mean = there * first / odds
        variance = there * second / odds - mean**2 + (mean - image) ** 2
        return image, np.maximum(variance, 0.0)

    def _discs(self, index: int, radii: tuple[float, ...]) -> Iterator[Discs]:
        parts = [x[..., index, :] for x in self._parts]
        xp, fft = backend.namespace(parts[0]), backend.fft_module(parts[0])
        bright = self._bright[index % len(self._bright)]
        spectra = [
            fft.rfftn(xp.reshape(x, (*x.shape[:-1], *self.shape)), axes=self._axes) for x in parts
        ]
        for radius in radii:
            kernel, area = disc(self.shape, radius)
            weight = xp.astype(self._transformed(kernel, parts[0]), parts[0].dtype)
            pull, chance, draws, pulls = (
                fft.irfftn(x * weight, s=self.shape, axes=self._axes) for x in spectra
            )
            force = backend.to_numpy(pull).astype(float)
            precision = self._near(xp.mean(chance**2, axis=0))
            if not precision.max() > 0:
                precision = np.ones(self.shape)
            precision = np.maximum(precision, LEAST_PRECISION * precision.max())
            response = self._near(xp.mean(draws * pulls, axis=0)) / area
            # Where the model does not fit, the pull is larger than by chance everywhere.
            scores = np.abs(force[bright]) / np.sqrt(precision[bright])
            wrong = max(float(np.median(scores)) / NORMAL_MEDIAN, 1.0) if scores.size else 1.0
            yield Discs(
                radius, force / precision, wrong**2 / precision, np.clip(response, 0.0, 1.0)
            )

    def _transformed(self, kernel: np.ndarray, like: Array) -> Array:
        """Return the transform of a disc, which is real, for a disc is symmetric."""
        there = backend.from_numpy(kernel, like)
        return backend.namespace(like).real(backend.fft_module(like).rfftn(there, axes=self._axes))

    def _near(self, x: Array) -> np.ndarray:
        flat = backend.namespace(x).reshape(x, (-1,))
        found = backend.to_numpy(self._smooth.forward(flat)).astype(float)
        return np.asarray(found.reshape(self.shape))

    def _covering(self, parts: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        """Sum what discs at all places (S, *shape) bring to the pixels that they cover."""

        def summed(x: Array) -> Array:
            fft = backend.fft_module(x)
            spectrum = fft.rfftn(x, axes=self._axes) * self._transformed(kernel, x)
            found: Array = fft.irfftn(spectrum, s=self.shape, axes=self._axes)
            return found

        return backend.done_there(summed, parts, self._parts[0])


def disc(shape: tuple[int, ...], radius: float) -> tuple[np.ndarray, float]:
    """Return a disc around pixel 0, ones and zeros, and how many pixels it has.

    Examples
    --------
    >>> disc((16, 16), 1.0)[1], disc((16, 16), 1.5)[1]
    (5.0, 9.0)
    """
    squares = [(np.fft.fftfreq(side) * side) ** 2 for side in shape]
    distance = np.sum(np.meshgrid(*squares, indexing="ij"), axis=0)
    inside = np.where(distance <= radius**2, 1.0, 0.0)
    return inside, float(inside.sum())
