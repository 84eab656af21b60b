"""What the scanner does to an image: coils, Fourier transform, samples.

The models work on real images: I = L of them where the contrasts are real, I = 2L where
they are complex, all real parts first. Images are rows (S, I, P). Frequencies stand in FFT
order here, whatever the caller uses.
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
        1 for real contrasts, 2 for complex ones.
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


def make_encoding(
    mask: Array, sensitivities: Array | None, real: bool, phase: Array | None = None
) -> Encoding:
    """Choose the cheapest encoding.

    Parameters
    ----------
    mask : array (L, *shape) of 0.0 and 1.0
    sensitivities : array (L, C, *shape), optional
    real : bool
    phase : array (L, *shape), optional
        Numbers of modulus one; complex images are what is left without this phase.
    """
    if sensitivities is None:
        if real:
            return RealEncoding(mask)
        sensitivities = mask[:, None, ...] * 0 + 1 if phase is None else phase[:, None, ...]
    elif phase is not None:
        sensitivities = sensitivities * phase[:, None, ...]
    return CoilEncoding(mask, sensitivities, real)


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


@final
class CoilEncoding(Encoding):
    """Several coils, each seeing the image through its complex sensitivity."""

    def __init__(self, mask: Array, sensitivities: Array, real: bool) -> None:
        xp = backend.namespace(mask)
        self.shape, self.n_parts = tuple(mask.shape[1:]), 1 if real else 2
        self._axes = tuple(range(-len(self.shape), 0))
        self._cut = varying_axes(mask)
        self._mask, self._coils = mask[:, None, ...], sensitivities
        self.kind = ("coils", tuple(sensitivities.shape), self.n_parts, self._cut)
        self._copies: dict[Any, Array] = {}  # of the coils, in other precisions
        n_coils = sensitivities.shape[1]
        self.samples = backend.to_numpy(xp.sum(mask, axis=self._axes)) * n_coils
        power = xp.sum(backend.abs_squared(sensitivities), axis=1)
        seen = xp.reshape(power, (power.shape[0], -1))
        mean = xp.mean(mask, axis=self._axes)
        self._diagonal = xp.concat([seen * mean[:, None]] * self.n_parts)

    def adjoint(self, kspace: Array) -> Array:
        """Φᴴ y, (I, P)."""
        if kspace.ndim == 1 + len(self.shape):  # one coil that is not spoken of
            kspace = kspace[:, None, ...]
        return self._combined(kspace[None, ...], self._coils, self._axes)[0, ...]

    def gram(self, x: Array, factor: Array) -> Array:
        """Return factor ∘ ΦᴴΦ x."""
        fft = backend.fft_module(x)
        coils = self._coils_like(x)
        images = self._complex(x)[:, :, None, ...]
        transform = fft.fftn(coils * images, axes=self._cut, norm="ortho")
        transform *= self._spectrum(factor)
        return self._combined(transform, coils, self._cut)

    def draw(self, random: Random, number: int, factor: Array) -> Array:
        """Draw from N(0, factor ∘ ΦᴴΦ)."""
        xp = backend.namespace(factor)
        like = xp.astype(factor, backend.complex_dtype(factor.dtype, xp))
        noise = random.normal((number, *self._coils.shape), like)
        # Each part of the circular Φᴴn has half its covariance.
        noise *= self._spectrum(2 * factor) ** 0.5
        return self._combined(noise, self._coils_like(factor), self._cut)

    def diagonal(self) -> Array:
        """Return the diagonal of ΦᴴΦ."""
        return self._diagonal

    def turned(self, turn: Array) -> CoilEncoding:
        """Return the encoding of images that were divided by ``turn``, (L, P)."""
        xp = backend.namespace(turn)
        coils = self._coils * xp.reshape(turn, (turn.shape[0], 1, *self.shape))
        return self._with_coils(coils)

    def moving(self, like: Array) -> tuple[Array, ...]:
        """Return coils and mask."""
        mask = backend.namespace(like).astype(self._mask, like.dtype, copy=False)
        return self._coils_like(like), mask

    def moved(self, moving: tuple[Array, ...]) -> CoilEncoding:
        """Return the encoding of other coils and samples."""
        found = self._with_coils(moving[0])
        found._mask = moving[1]
        return found

    def _with_coils(self, coils: Array) -> CoilEncoding:
        """Return it with other coils of the same modulus, whose sums stay."""
        found = copy.copy(self)
        found._coils, found._copies = coils, {}
        return found

    def assembled(self, x: np.ndarray) -> np.ndarray:
        """Return the contrasts."""
        if self.n_parts == 1:
            return x
        half = x.shape[-2] // 2
        return np.asarray(x[..., :half, :] + 1j * x[..., half:, :])

    def _complex(self, x: Array) -> Array:
        xp = backend.namespace(x)
        n_contrasts = self._coils.shape[0]
        image = x
        if self.n_parts == 2:
            image = x[:, :n_contrasts, :] + 1j * x[:, n_contrasts:, :]
        return xp.reshape(image, (x.shape[0], n_contrasts, *self.shape))

    def _coils_like(self, like: Array) -> Array:
        coils = self._coils
        xp = backend.namespace(coils)
        dtype = backend.complex_dtype(like.dtype, xp)
        if dtype not in self._copies:
            self._copies[dtype] = xp.astype(coils, dtype, copy=False)
        return self._copies[dtype]

    def _spectrum(self, factor: Array) -> Array:
        xp = backend.namespace(factor)
        mask = xp.astype(self._mask, factor.dtype, copy=False)
        of_contrasts = factor[: mask.shape[0], :]
        return mask * xp.reshape(of_contrasts, (-1, 1, *[1] * len(self.shape)))

    def _combined(self, kspace: Array, coils: Array, axes: tuple[int, ...]) -> Array:
        xp, fft = backend.namespace(kspace), backend.fft_module(kspace)
        images = fft.ifftn(kspace, axes=axes, norm="ortho")
        image = xp.sum(xp.conj(coils) * images, axis=2)
        image = xp.reshape(image, (*image.shape[:2], -1))
        if self.n_parts == 1:
            return xp.real(image)
        return xp.concat([xp.real(image), xp.imag(image)], axis=1)
