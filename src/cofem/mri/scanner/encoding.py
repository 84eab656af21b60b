"""What the scanner does to an image: coils, Fourier transform, samples.

The models work on real images: I = L of them where the contrasts are real, I = 2L where
they are complex, all real parts first. Images are rows (S, I, P). Frequencies stand in FFT
order here, whatever the caller uses. Where M images of a contrast lie over each other, each seen
through its own set of sensitivities, they are M · L images, the first set's first.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.scanner.mirror import mirrored, varying_axes


class Encoding(ABC):
    """Φ of all contrasts: k-space = mask ∘ FFT (sensitivities ∘ image).

    The noise has E|ε|² = σ², so real and imaginary part have σ²/2 each and the precision
    of real images has the data term (2/σ²) Re(ΦᴴΦ), of stacked ones its real form.

    Attributes
    ----------
    shape : tuple of int
        The image axes.
    n_parts : int
        Images of a contrast: 1 for real ones, 2 for complex ones, times the sets.
    samples : array (L,)
        Measured numbers (complex) of every contrast, coils counted.
    kind : tuple
        Products of one kind differ only by what :meth:`moving` returns.
    """

    kind: tuple[Any, ...] = ()
    shape: tuple[int, ...]
    n_parts: int
    samples: np.ndarray

    @abstractmethod
    def adjoint(self, kspace: Array) -> Array:
        """Φᴴ y as real images (I, P), for k-space in the shape of the data."""

    @abstractmethod
    def gram(self, x: Array, factor: Array) -> Array:
        """Return factor ∘ ΦᴴΦ x, (S, I, P); ``factor`` is (I, 1), equal for both parts."""

    @abstractmethod
    def draw(self, random: Random, number: int, factor: Array) -> Array:
        """Draw from N(0, factor ∘ ΦᴴΦ), (number, I, P)."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return the diagonal of ΦᴴΦ, (I, P) or (I, 1)."""

    def turned(self, turn: Array) -> Encoding:
        """Return the encoding of images that were divided by ``turn``, (L, P)."""
        raise TypeError("real images have no phase")

    def moving(self, like: Array) -> tuple[Array, ...]:
        """Return the arrays that products need, in the precision of ``like``."""
        return ()

    def moved(self, moving: tuple[Array, ...]) -> Encoding:
        """Return the encoding with others of those arrays."""
        return self

    @abstractmethod
    def assembled(self, x: np.ndarray) -> np.ndarray:
        """Return real images (…, I, P) as contrasts (…, L, P)."""

    def by_image(self, of_contrasts: Array) -> Array:
        """Repeat what every contrast has, (L,), for its parts: (I,)."""
        return backend.namespace(of_contrasts).concat([of_contrasts] * self.n_parts)

    def by_contrast(self, of_images: Array) -> Array:
        """Sum over the parts: (I,) to (L,)."""
        xp = backend.namespace(of_images)
        return xp.sum(xp.reshape(of_images, (self.n_parts, -1)), axis=0)


@final
class RealEncoding(Encoding):
    """One coil and real images: one pair of real transforms a product.

    A real image has a conjugate symmetric transform, so a sample at k is one at −k too.
    ΦᴴΦ is the circulant with the spectrum (mask(k) + mask(−k))/2.
    """

    n_parts = 1

    def __init__(self, mask: Array) -> None:
        xp = backend.namespace(mask)
        self.shape = tuple(mask.shape[1:])
        self._copies: dict[Any, Array] = {}  # of the weights, in other precisions
        self._axes = tuple(range(-len(self.shape), 0))
        self._cut = varying_axes(mask)
        both, last = (mask + mirrored(mask, self._axes)) / 2, self._cut[-1]
        half = [slice(None)] * both.ndim
        half[last] = slice(0, self.shape[last] // 2 + 1)
        self._weights = both[tuple(half)]
        self.kind = ("real", tuple(mask.shape), self._cut)
        self.samples = backend.to_numpy(xp.sum(mask, axis=self._axes))
        self._mean = xp.mean(mask, axis=self._axes)

    def adjoint(self, kspace: Array) -> Array:
        """Φᴴ y, (I, P)."""
        xp = backend.namespace(kspace)
        fft = backend.fft_module(kspace)
        image = fft.ifftn(kspace, axes=self._axes, norm="ortho")
        return xp.reshape(xp.real(image), (image.shape[0], -1))

    def gram(self, x: Array, factor: Array) -> Array:
        """Return factor ∘ ΦᴴΦ x."""
        return self._filter(x, self._spectrum(factor))

    def draw(self, random: Random, number: int, factor: Array) -> Array:
        """Draw from N(0, factor ∘ ΦᴴΦ)."""
        n_contrasts = self._weights.shape[0]
        white = random.normal((number, n_contrasts, math.prod(self.shape)), factor)
        return self._filter(white, self._spectrum(factor) ** 0.5)

    def diagonal(self) -> Array:
        """Return the diagonal of ΦᴴΦ."""
        return self._mean[:, None]

    def assembled(self, x: np.ndarray) -> np.ndarray:
        """Return the contrasts."""
        return x

    def moving(self, like: Array) -> tuple[Array, ...]:
        """Return the weights of the samples."""
        return (self._weights_like(like),)

    def moved(self, moving: tuple[Array, ...]) -> RealEncoding:
        """Return the encoding of other samples."""
        found = copy.copy(self)
        found._weights, found._copies = moving[0], {}
        return found

    def _filter(self, x: Array, spectrum: Array) -> Array:
        xp, fft = backend.namespace(x), backend.fft_module(x)
        image = xp.reshape(x, (*x.shape[:-1], *self.shape))
        transform = fft.rfftn(image, axes=self._cut)
        transform *= spectrum
        sides = tuple(self.shape[axis] for axis in self._cut)
        out = fft.irfftn(transform, s=sides, axes=self._cut)
        return xp.reshape(out, x.shape)

    def _spectrum(self, factor: Array) -> Array:
        xp = backend.namespace(factor)
        return self._weights_like(factor) * xp.reshape(factor, (-1, *[1] * len(self.shape)))

    def _weights_like(self, like: Array) -> Array:
        xp = backend.namespace(like)
        if like.dtype not in self._copies:
            self._copies[like.dtype] = xp.astype(self._weights, like.dtype, copy=False)
        return self._copies[like.dtype]


def complex_copy(maps: Array, like: Array, copies: dict[Any, Array]) -> Array:
    """Return maps as complex numbers in the precision of ``like``; ``copies`` keeps them."""
    xp = backend.namespace(maps)
    dtype = backend.complex_dtype(like.dtype, xp)
    if dtype not in copies:
        copies[dtype] = xp.astype(maps, dtype, copy=False)
    return copies[dtype]
