"""The phase of complex images as an unknown smooth field, solved for together with them.

Images are exp(iφ)(u + iw), with w small where φ is right. Turning by a further δ moves
u + iw to u + i(w + uδ), to first order: a Gaussian δ joins the Gaussian images in one
linear system and is found with them, neither after nor before. δ is a sum of cosines, and
the prior of their coefficients falls with the frequency; how large it is in all is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Random

MOST_COSINES = 24  # along an axis: waves down to a twelfth of the picture
LEAST_WAVE = 4  # and no more than a quarter of the pixels: waves of eight pixels
# The prior variance of a cosine that has f waves across: (1 + (f/BEND)²)^-STEEPNESS. Two
# derivatives of the field are then finite.
BEND, STEEPNESS = 2.0, 3.0
FIRST_SIZE, NO_SIZE = 0.2, 1e-6  # radians
MIXED_FOR = 4  # iterations for which a mixture serves: any is right, a newer one is faster
MOST_MIXED = 1024  # cosines whose Gram matrix is factored: 24 × 24 of a picture, not a volume's


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

    def __init__(self, shape: tuple[int, ...], centered: bool, most: int = MOST_COSINES) -> None:
        self.shape = tuple(shape)
        self._numbers = tuple(max(1, min(most, side // LEAST_WAVE)) for side in shape)
        self.count = math.prod(self._numbers)
        self.kind = (self.shape, self._numbers, centered)  # these decide the cosines
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

    @property
    def mixable(self) -> bool:
        """Whether :meth:`gram` is small enough to be factored in every iteration."""
        return len(self.shape) == 2 and self.count <= MOST_MIXED

    def gram(self, weights: Array) -> Array:
        """Return Cᵀ diag(weights) C, (…, count, count), for weights (…, P) of pictures.

        Examples
        --------
        >>> waves = Cosines((8, 8), centered=False)
        >>> bool(np.allclose(waves.gram(np.ones(64)), np.eye(4)))
        True
        """
        xp = backend.namespace(weights)
        rows, columns = (
            xp.reshape(c[:, :, None] * c[:, None, :], (c.shape[0], -1))
            for c in self._matrices(weights)
        )
        a, b = self._numbers
        own = xp.reshape(weights, (-1, *self.shape))
        both = xp.reshape(xp.matmul(xp.matmul(rows.T, own), columns), (-1, a, a, b, b))
        both = xp.permute_dims(both, (0, 1, 3, 2, 4))
        return xp.reshape(both, (*weights.shape[:-1], a * b, a * b))

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
    mix : array (L, count, count), optional
        c = mix c′: the unknowns are then c′. The cosines overlap where the object is, and
        what the data know of them is not diagonal; mixed such that the data and the prior
        together know each c′ equally well, a third of the CG steps is left.
    """

    waves: Cosines
    sizes: Array
    magnitude: Array
    pull: Array
    mix: Array | None = None

    @property
    def count(self) -> int:
        """The number of coefficients."""
        return int(self.sizes.shape[0] * self.sizes.shape[1])

    def unmixed(self, c: Array) -> Array:
        """Return coefficients of unit prior variance, (S, L, count)."""
        xp = backend.namespace(c)
        own = xp.reshape(c, (c.shape[0], *self.sizes.shape))
        return own if self.mix is None else _times(own, xp.matrix_transpose(self.mix))

    def mixed(self, own: Array) -> Array:
        """Return the transpose of :meth:`unmixed`: (S, L, count) to (S, L·count)."""
        xp = backend.namespace(own)
        out = own if self.mix is None else _times(own, self.mix)
        return xp.reshape(out, (own.shape[0], -1))

    def prior_force(self, c: Array) -> Array:
        """Return the prior precision of the unknowns times them, (S, L·count)."""
        return c if self.mix is None else self.mixed(self.unmixed(c))

    def pushes(self, random: Random, number: int, like: Array) -> Array:
        """Draw from N(0, prior precision), (number, L·count)."""
        return self.mixed(random.normal((number, *self.sizes.shape), like))

    def angle(self, c: Array) -> Array:
        """δ: (S, L·count) to (S, L, P)."""
        return self.waves.forward(self.unmixed(c) * self.sizes)

    def added(self, own: Array) -> Array:
        """Return what unmixed coefficients add to the imaginary parts, (S, L, P)."""
        return self.magnitude * self.waves.forward(own * self.sizes)

    def adjoint(self, imaginary: Array) -> Array:
        """Return the transpose of :meth:`added`: (S, L, P) to (S, L, count)."""
        return self.waves.adjoint(self.magnitude * imaginary) * self.sizes

    def diagonal(self, data: Array) -> Array:
        """Return about the diagonal of the precision of c; ``data`` (L, P or 1): of the images'."""
        xp = backend.namespace(data)
        if self.mix is not None:
            return xp.ones_like(xp.reshape(self.sizes, (-1,)))
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
        self._mix: Array | None = None
        self._blocks = 0

    def block(self, parts: Array, known: Array | None = None) -> PhaseBlock:
        """Return δ as an unknown behind stacked complex images (2L, P).

        ``known`` (L,) is about what precision the data give a pixel of a smooth image; with it
        the unknowns are mixed (where there are not too many of them).
        """
        sizes = self._size * self._shape[None, :]
        magnitude = parts[: parts.shape[0] // 2, :]
        plain = PhaseBlock(self._waves, sizes, magnitude, 0 * sizes)
        if known is not None and self._waves.mixable:
            if self._blocks % MIXED_FOR == 0:
                self._mix = _mixture(plain, known)
            plain = replace(plain, mix=self._mix)
            self._blocks += 1
        return replace(plain, pull=plain.mixed(-(self._coefficients / sizes)[None, ...]))

    def moved(self, block: PhaseBlock, c: Array) -> Array:
        """Take the mean of c and draws of it, (1 + S, L·count); return exp(iδ), (L, P).

        How large the field is is learned by EM, for every contrast.
        """
        xp = backend.namespace(c)
        own = block.unmixed(c)
        self._coefficients = self._coefficients + own[0, ...] * block.sizes
        second = (self._coefficients / block.sizes) ** 2 + xp.mean(own[1:, ...] ** 2, axis=0)
        learned = self._size * xp.mean(second, axis=1)[:, None] ** 0.5
        self._size = xp.where(self._chosen, learned, self._size)
        return xp.exp(1j * xp.astype(block.angle(c[:1, :])[0, ...], xp.float64))


def _mixture(block: PhaseBlock, known: Array) -> Array:
    """Return L⁻ᵀ of every contrast, L Lᵀ = I + S Cᵀ diag(known · u²) C S."""
    xp = backend.namespace(block.sizes)
    sizes, u, precision = (xp.astype(x, xp.float64) for x in (block.sizes, block.magnitude, known))
    gram = block.waves.gram(precision[:, None] * u**2)
    eye = xp.eye(sizes.shape[1], dtype=xp.float64, device=backend.device_of(sizes))
    known_all = eye + sizes[:, :, None] * gram * sizes[:, None, :]
    found = [backend.inverse_cholesky(known_all[i, ...]).T for i in range(sizes.shape[0])]
    return xp.astype(xp.stack(found), block.sizes.dtype)


def _times(rows: Array, matrices: Array) -> Array:
    """Multiply (S, L, n) from the right by a matrix (L, n, n) for every contrast."""
    xp = backend.namespace(rows)
    return xp.moveaxis(xp.matmul(xp.moveaxis(rows, 0, 1), matrices), 0, 1)
