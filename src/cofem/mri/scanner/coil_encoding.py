"""Φ of several coils, or of one and complex images; and which Φ is the cheapest."""

from __future__ import annotations

import copy
from typing import Any, final

import numpy as np
import scipy.fft

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.scanner.coil_kernels import from_coils, to_coils, weigh
from cofem.mri.scanner.encoding import Encoding, RealEncoding, complex_copy
from cofem.mri.scanner.mirror import varying_axes
from cofem.mri.scanner.sets_encoding import SetsEncoding


def make_encoding(
    mask: Array, sensitivities: Array | None, real: bool, phase: Array | None = None
) -> Encoding:
    """Choose the cheapest encoding.

    Parameters
    ----------
    mask : array (L, *shape) of 0.0 and 1.0
    sensitivities : array (L, C, *shape) or (L, M, C, *shape), optional
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
    if sensitivities.ndim > mask.ndim + 1:
        return SetsEncoding(mask, sensitivities, real)
    return CoilEncoding(mask, sensitivities, real)


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
        if backend.is_numpy(x):
            return self._gram_here(x, backend.to_numpy(factor))
        fft = backend.fft_module(x)
        coils = self._coils_like(x)
        images = self._complex(x)[:, :, None, ...]
        transform = fft.fftn(coils * images, axes=self._cut, norm="ortho")
        transform *= self._spectrum(factor)
        return self._combined(transform, coils, self._cut)

    def _gram_here(self, x: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Do the same on the host, in three passes and the transforms."""
        coils = backend.to_numpy(self._coils_like(x))
        flat = coils.reshape(*coils.shape[:2], -1)
        sides = (x.shape[0], *coils.shape)
        seen = np.empty((x.shape[0], *flat.shape), dtype=coils.dtype)
        to_coils(np.ascontiguousarray(x), flat, seen)
        options: Any = {"axes": self._cut, "norm": "ortho", "overwrite_x": True}
        seen = scipy.fft.fftn(seen.reshape(sides), **options).reshape(seen.shape)
        mask = self._mask_like(x).reshape(len(flat), -1)
        weigh(seen, mask, np.ascontiguousarray(factor[: len(flat), 0]))
        seen = scipy.fft.ifftn(seen.reshape(sides), **options).reshape(seen.shape)
        out = np.empty_like(x, order="C")
        from_coils(seen, flat, out)
        return out

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
        return self._coils_like(like), self._mask_like(like)

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
        return complex_copy(self._coils, like, self._copies)

    def _mask_like(self, like: Array) -> Any:
        key = ("mask", like.dtype)
        if key not in self._copies:
            xp = backend.namespace(like)
            self._copies[key] = xp.astype(self._mask, like.dtype, copy=False)
        return self._copies[key]

    def _spectrum(self, factor: Array) -> Array:
        xp = backend.namespace(factor)
        mask = self._mask_like(factor)
        of_contrasts = factor[: mask.shape[0], :]
        found: Array = mask * xp.reshape(of_contrasts, (-1, 1, *[1] * len(self.shape)))
        return found

    def _combined(self, kspace: Array, coils: Array, axes: tuple[int, ...]) -> Array:
        xp, fft = backend.namespace(kspace), backend.fft_module(kspace)
        images = fft.ifftn(kspace, axes=axes, norm="ortho")
        image = xp.sum(xp.conj(coils) * images, axis=2)
        image = xp.reshape(image, (*image.shape[:2], -1))
        if self.n_parts == 1:
            return xp.real(image)
        return xp.concat([xp.real(image), xp.imag(image)], axis=1)
