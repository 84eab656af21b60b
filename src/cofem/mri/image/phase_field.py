"""The phase of complex images as an unknown smooth field, solved for together with them.

Images are exp(iφ)(u + iw), with w small where φ is right. Turning by a further δ moves
u + iw to u + i(w + uδ), to first order: a Gaussian δ joins the Gaussian images in one
linear system and is found with them, neither after nor before. δ is a sum of cosines, and
the prior of their coefficients falls with the frequency; how large it is in all is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array

MOST_COSINES = 24  # along an axis: waves down to a twelfth of the picture
# The prior variance of a cosine that has f waves across: (1 + (f/BEND)²)^-STEEPNESS. Two
# derivatives of the field are then finite.
BEND, STEEPNESS = 2.0, 3.0
FIRST_SIZE, NO_SIZE = 0.2, 1e-6  # radians


class Cosines:
    """The long waves of a picture: products of orthonormal cosines, one for each axis.

    Parameters
    ----------
    shape : tuple of int
    centered : bool
        The middle of the picture is at index 0, and its seam in the middle.
    most : int
        The most cosines along an axis; at most a quarter of its side.

    Examples
    --------
    >>> waves = Cosines((8, 8), centered=False)
    >>> waves.count
    4
    >>> c = np.arange(4.0)[None]
    >>> bool(np.allclose(waves.adjoint(waves.forward(c)), c))
    True
    """

    def __init__(
        self, shape: tuple[int, ...], centered: bool, most: int = MOST_COSINES
    ) -> None:
        self.shape = tuple(shape)
        self._numbers = tuple(max(1, min(most, side // 4)) for side in shape)
        self.count = math.prod(self._numbers)
        self._axes = [
            _cosines(side, number, centered)
            for side, number in zip(shape, self._numbers, strict=True)
        ]
        self._copies: dict[Any, list[Array]] = {}
        waves = np.meshgrid(*[np.arange(n) / 2 for n in self._numbers], indexing="ij")
        squares = np.sum(np.stack(waves) ** 2, axis=0).ravel()
        falling = (1 + squares / BEND**2) ** -STEEPNESS
        self.variances = falling * (math.prod(shape) / falling.sum())
        """Prior variances of the coefficients that make a field of mean square one."""

    def forward(self, c: Array) -> Array:
        """Add up cosines: (…, count) to (…, P)."""
        return self._applied(c, self._numbers, transposed=False)

    def adjoint(self, x: Array) -> Array:
        """(…, P) to (…, count)."""
        return self._applied(x, self.shape, transposed=True)

    def _applied(self, x: Array, sides: tuple[int, ...], transposed: bool) -> Array:
        xp = backend.namespace(x)
        out = xp.reshape(x, (-1, *sides))
        for axis, cosines in enumerate(self._matrices(x)):
            matrix = cosines if transposed else xp.matrix_transpose(cosines)
            along = xp.moveaxis(out, axis + 1, -1)
            out = xp.moveaxis(xp.matmul(along, matrix), -1, axis + 1)
        return xp.reshape(out, (*x.shape[:-1], -1))

    def _matrices(self, like: Array) -> list[Array]:
        """Return the cosines of every axis where ``like`` is, copied there once."""
        xp = backend.namespace(like)
        where = (xp, like.dtype, str(backend.device_of(like)))
        if where not in self._copies:
            self._copies[where] = [
                xp.astype(backend.from_numpy(cosines, like), like.dtype) for cosines in self._axes
            ]
        return self._copies[where]


def _cosines(side: int, number: int, centered: bool) -> np.ndarray:
    """Return the long waves of the orthonormal cosine transform, (side, number)."""
    where, wave = np.arange(side)[:, None] + 0.5, np.arange(number)[None, :]
    waves = np.cos(np.pi * where * wave / side) * math.sqrt(2 / side)
    waves[:, 0] = math.sqrt(1 / side)
    return np.fft.ifftshift(waves, axes=0) if centered else waves


@dataclass(frozen=True)
class PhaseBlock:
    """What δ adds to images, linear in coefficients (S, L·count) of unit prior variance.

    Attributes
    ----------
    waves : Cosines
    sizes : array (L, count)
        Prior standard deviations of the coefficients of the cosines, in radians.
    magnitude : array (L, P)
        u.
    pull : array (1, L·count)
        What the prior of the whole field exerts at δ = 0, for it is not zero itself.
    """

    waves: Cosines
    sizes: Array
    magnitude: Array
    pull: Array

    @property
    def count(self) -> int:
        """The number of coefficients."""
        return int(self.sizes.shape[0] * self.sizes.shape[1])

    def angle(self, c: Array) -> Array:
        """δ: (S, L·count) to (S, L, P)."""
        xp = backend.namespace(c)
        return self.waves.forward(xp.reshape(c, (c.shape[0], *self.sizes.shape)) * self.sizes)

    def added(self, c: Array) -> Array:
        """Return what δ adds to the imaginary parts, (S, L, P)."""
        return self.magnitude * self.angle(c)

    def adjoint(self, imaginary: Array) -> Array:
        """(S, L, P) to (S, L·count)."""
        xp = backend.namespace(imaginary)
        found = self.waves.adjoint(self.magnitude * imaginary) * self.sizes
        return xp.reshape(found, (imaginary.shape[0], -1))

    def diagonal(self, data: Array) -> Array:
        """Return about the diagonal of the precision of c; ``data`` (L, P or 1): of the images'."""
        xp = backend.namespace(data)
        mean = xp.mean(data * self.magnitude**2, axis=1)
        return 1 + xp.reshape(mean[:, None] * self.sizes**2, (-1,))


class PhaseField:
    """What is known of the phases of L contrasts, beyond the phase they started with.

    Parameters
    ----------
    waves : Cosines
    smooth : boolean array (L,)
        Which contrasts have such a phase; that of the others stays as it is.
    like : array
        Library, device and real dtype.
    """

    def __init__(self, waves: Cosines, smooth: np.ndarray, like: Array) -> None:
        xp = backend.namespace(like)
        self._waves = waves
        self._shape = xp.astype(backend.from_numpy(waves.variances**0.5, like), like.dtype)
        ones = xp.ones_like(like[:1, :1]) * xp.ones_like(self._shape)[None, :]
        self._coefficients = xp.concat([0 * ones] * len(smooth))
        sizes = np.where(smooth, FIRST_SIZE, NO_SIZE)[:, None]
        self._size = xp.astype(backend.from_numpy(sizes, like), like.dtype)
        self._chosen = backend.from_numpy(smooth[:, None], like)

    def block(self, parts: Array) -> PhaseBlock:
        """Return δ as an unknown behind stacked complex images (2L, P)."""
        xp = backend.namespace(parts)
        sizes = self._size * self._shape[None, :]
        pull = xp.reshape(-self._coefficients / sizes, (1, -1))
        return PhaseBlock(self._waves, sizes, parts[: parts.shape[0] // 2, :], pull)

    def moved(self, block: PhaseBlock, c: Array) -> Array:
        """Take the mean of c and draws of it, (1 + S, L·count); return exp(iδ), (L, P).

        How large the field is is learned by EM, for every contrast.
        """
        xp = backend.namespace(c)
        own = xp.reshape(c, (c.shape[0], *block.sizes.shape))
        self._coefficients = self._coefficients + own[0, ...] * block.sizes
        second = (self._coefficients / block.sizes) ** 2 + xp.mean(own[1:, ...] ** 2, axis=0)
        learned = self._size * xp.mean(second, axis=1)[:, None] ** 0.5
        self._size = xp.where(self._chosen, learned, self._size)
        return xp.exp(1j * xp.astype(block.angle(c[:1, :])[0, ...], xp.float64))
