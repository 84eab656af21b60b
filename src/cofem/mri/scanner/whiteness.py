"""Whether what a fit leaves of the data is white, as noise is, from the middle of k-space outwards.

Learning by evidence takes what is barely above the noise for noise, all of it at once: then the
data's power that is left is more than the noise in the middle of k-space, where such things have
theirs, though not in all of k-space together, most of which shows noise alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.scanner.encoding import Encoding

BANDS = (0.12, 0.2, 0.3, 0.45, 0.65, 0.9)  # distances from the centre; 1: the end of an axis
FEWEST = 20  # samples of a band that is looked at
ERRORS = 2.0  # standard errors by which a band must have more than the noise
DRAWS = 8  # of noise, which say what it leaves in a band
STREAM = 3  # of random numbers, beside those of image/model.py


class Whiteness:
    """The power of Φᴴ(y − Φx) in rings of k-space, beside that of Φᴴε.

    Parameters
    ----------
    encoding : Encoding
    like : array
        Library, device and precision.
    seed : int
    """

    def __init__(self, encoding: Encoding, like: Array, seed: int) -> None:
        xp, shape = backend.namespace(like), encoding.shape
        self._parts, self._shape = encoding.n_parts, shape
        sides = [2 * np.fft.fftfreq(n) for n in shape[:-1]] + [2 * np.fft.rfftfreq(shape[-1])]
        squares = np.meshgrid(*[x**2 for x in sides], indexing="ij")
        rings = np.digitize(np.sqrt(sum(squares)), BANDS)
        self._rings = [backend.from_numpy(rings == i, like) for i in range(len(BANDS) + 1)]
        number = encoding.n_parts * len(encoding.samples)
        ones = xp.ones((number, 1), dtype=like.dtype, device=backend.device_of(like))
        self._noise = encoding.draw(Random(seed, STREAM), DRAWS, ones)

    @cached_property
    def _expected(self) -> tuple[Array, Array]:
        """What noise of precision one leaves, and how many numbers that is worth, (L, rings)."""
        xp = backend.namespace(self._noise)
        power, fourth = (self._by_ring(self._spectra(self._noise) ** p) for p in (1, 2))
        # Of exponential numbers E|ε|⁴ = 2 (E|ε|²)²: so many equal ones have these sums. The parts
        # of an image may show the same samples.
        number = 2 * power**2 / xp.where(fourth > 0, fourth, xp.ones_like(fourth))
        number = number / (DRAWS * self._parts)
        return power / DRAWS, number

    def excess(self, left: Array, draws: Array, noise_std: Array) -> Array:
        """Return how much more power than the noise's a ring of each contrast has, at most, (L,).

        Parameters
        ----------
        left : array (1, I, P)
            Φᴴ(y − Φμ).
        draws : array (S, I, P)
            ΦᴴΦ of draws of x − μ: with what they add the mean over noise is exact, wherever the
            model is.
        noise_std : array (L,)

        Returns
        -------
        array
            One where no ring has more than the noise, by two standard errors.
        """
        xp = backend.namespace(left)
        expected, number = self._expected
        power = self._by_ring(self._spectra(left))
        if draws.shape[0]:
            power = power + self._by_ring(self._spectra(draws)) / draws.shape[0]
        expected = expected * noise_std[:, None] ** 2 / 2
        many = (number >= FEWEST) & (expected > 0)
        ratio = power / xp.where(many, expected, xp.ones_like(expected))
        errors = ERRORS * (1 + 1 / DRAWS) ** 0.5  # what is expected is an average of draws
        ratio = ratio - errors / xp.where(many, number, xp.ones_like(number)) ** 0.5
        return xp.max(xp.where(many, ratio, 0 * ratio), axis=1)

    def _spectra(self, x: Array) -> Array:
        xp, axes = backend.namespace(x), tuple(range(-len(self._shape), 0))
        image = xp.reshape(xp.astype(x, self._noise.dtype), (*x.shape[:-1], *self._shape))
        power: Array = backend.abs_squared(backend.fft_module(x).rfftn(image, axes=axes))
        return power

    def _by_ring(self, power: Array) -> Array:
        """Sum over draws, parts, and the frequencies of a ring: (S, I, …) to (L, rings)."""
        xp = backend.namespace(power)
        number = power.shape[1] // self._parts
        power = xp.sum(xp.reshape(power, (-1, number, *power.shape[2:])), axis=0)
        axes = tuple(range(1, power.ndim))
        return xp.stack([xp.sum(power * ring, axis=axes) for ring in self._rings], axis=1)
