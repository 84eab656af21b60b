"""Φ of images that lie over each other, each seen through its own set of sensitivities."""

from __future__ import annotations

import copy
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.scanner.encoding import Encoding, complex_copy
from cofem.mri.scanner.mirror import varying_axes


@final
class SetsEncoding(Encoding):
    """k-space = mask ∘ FFT (Σ_m sensitivities_m ∘ image_m): "soft" SENSE (Uecker et al. 2014).

    The images of a contrast are unknowns beside each other, the first set's first: they share the
    samples, and the prior's edges as contrasts do.
    """

    def __init__(self, mask: Array, sensitivities: Array, real: bool) -> None:
        xp = backend.namespace(mask)
        self.shape = tuple(mask.shape[1:])
        self._axes = tuple(range(-len(self.shape), 0))
        self._cut = varying_axes(mask)
        self._mask = mask[:, None, ...]
        self._coils = xp.moveaxis(sensitivities, 1, 0)  # (M, L, C, *shape)
        self._copies: dict[Any, Array] = {}  # of the coils, in other precisions
        self._real, self.n_parts = real, (1 if real else 2) * self._coils.shape[0]
        self.kind = ("sets", tuple(self._coils.shape), self.n_parts, self._cut)
        n_coils = self._coils.shape[2]
        self.samples = backend.to_numpy(xp.sum(mask, axis=self._axes)) * n_coils
        power = xp.sum(backend.abs_squared(self._coils), axis=2)
        seen = xp.reshape(power, (*power.shape[:2], -1)) * xp.mean(mask, axis=self._axes)[:, None]
        seen = xp.reshape(seen, (-1, seen.shape[-1]))
        self._diagonal = xp.concat([seen] * (1 if real else 2))

    def adjoint(self, kspace: Array) -> Array:
        """Φᴴ y, (I, P)."""
        return self._combined(kspace[None, ...], self._coils, self._axes)[0, ...]

    def gram(self, x: Array, factor: Array) -> Array:
        """Return factor ∘ ΦᴴΦ x."""
        fft = backend.fft_module(x)
        coils, images = self._coils_like(x), self._complex(x)
        seen = coils[0, ...] * images[:, 0, :, None, ...]
        for index in range(1, coils.shape[0]):
            seen = seen + coils[index, ...] * images[:, index, :, None, ...]
        transform = fft.fftn(seen, axes=self._cut, norm="ortho")
        transform *= self._spectrum(factor)
        return self._combined(transform, coils, self._cut)

    def draw(self, random: Random, number: int, factor: Array) -> Array:
        """Draw from N(0, factor ∘ ΦᴴΦ)."""
        xp = backend.namespace(factor)
        like = xp.astype(factor, backend.complex_dtype(factor.dtype, xp))
        noise = random.normal((number, *self._coils.shape[1:]), like)
        # Each part of the circular Φᴴn has half its covariance.
        noise *= self._spectrum(2 * factor) ** 0.5
        return self._combined(noise, self._coils_like(factor), self._cut)

    def diagonal(self) -> Array:
        """Return the diagonal of ΦᴴΦ."""
        return self._diagonal

    def moving(self, like: Array) -> tuple[Array, ...]:
        """Return coils and mask."""
        xp = backend.namespace(like)
        return self._coils_like(like), xp.astype(self._mask, like.dtype, copy=False)

    def moved(self, moving: tuple[Array, ...]) -> SetsEncoding:
        """Return the encoding of other coils and samples."""
        found = copy.copy(self)
        found._coils, found._mask, found._copies = moving[0], moving[1], {}
        return found

    def assembled(self, x: np.ndarray) -> np.ndarray:
        """Return the contrasts, of several sets one set after the other."""
        if self._real:
            return x
        half = x.shape[-2] // 2
        return np.asarray(x[..., :half, :] + 1j * x[..., half:, :])

    def _complex(self, x: Array) -> Array:
        xp = backend.namespace(x)
        image = x
        if not self._real:
            half = x.shape[1] // 2
            image = x[:, :half, :] + 1j * x[:, half:, :]
        return xp.reshape(image, (x.shape[0], *self._coils.shape[:2], *self.shape))

    def _coils_like(self, like: Array) -> Array:
        return complex_copy(self._coils, like, self._copies)

    def _spectrum(self, factor: Array) -> Array:
        xp = backend.namespace(factor)
        mask = xp.astype(self._mask, factor.dtype, copy=False)
        of_contrasts = factor[: mask.shape[0], :]
        return mask * xp.reshape(of_contrasts, (-1, 1, *[1] * len(self.shape)))

    def _combined(self, kspace: Array, coils: Array, axes: tuple[int, ...]) -> Array:
        xp, fft = backend.namespace(kspace), backend.fft_module(kspace)
        images = fft.ifftn(kspace, axes=axes, norm="ortho")
        sets = [
            xp.sum(xp.conj(coils[index, ...]) * images, axis=2) for index in range(coils.shape[0])
        ]
        image = xp.concat(sets, axis=1)
        image = xp.reshape(image, (*image.shape[:2], -1))
        if self._real:
            return xp.real(image)
        return xp.concat([xp.real(image), xp.imag(image)], axis=1)
