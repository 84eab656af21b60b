"""The vector work of one CG step, in as few passes over memory as possible.

Besides the operator's product a step needs about a dozen passes over its
arrays. For NumPy they are done tile by tile and in place: a tile stays in the
cache between the operations on it, and nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array

# 64 kB of doubles: four arrays' tiles fit a core's cache, and NumPy's dot stays
# below the size at which its BLAS would start threads of its own.
TILE = 8192

_Tile = tuple[slice, slice]


class NumpyKernels:
    """In-place updates on NumPy arrays of shape (Q, D)."""

    def __init__(self, dtype: Any) -> None:
        self._scratch = np.empty(TILE, dtype=dtype)

    def _tiles(self, rows: int, columns: int) -> Iterator[_Tile]:
        if columns <= TILE:
            step = max(1, TILE // columns)
            for start in range(0, rows, step):
                yield slice(start, min(start + step, rows)), slice(0, columns)
        else:
            for row in range(rows):
                for start in range(0, columns, TILE):
                    yield slice(row, row + 1), slice(start, min(start + TILE, columns))

    def _buffer(self, like: np.ndarray) -> np.ndarray:
        return self._scratch[: like.size].reshape(like.shape)

    def weighted_norm_squared(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ_j weight_j |r_j|² of every row."""
        out = np.zeros(r.shape[0], dtype=np.float64)
        for rows, columns in self._tiles(*r.shape):
            tile = r[rows, columns]
            w = np.multiply(tile, weight[columns], out=self._buffer(tile))
            out[rows] += np.vecdot(tile, w).real
        return out

    def curvature(
        self, p: np.ndarray, g: np.ndarray, scale: float, diagonal: np.ndarray
    ) -> np.ndarray:
        """G ← scale·G + diagonal∘P in place; return Re⟨p, g⟩ of every row."""
        out = np.zeros(p.shape[0], dtype=np.float64)
        for rows, columns in self._tiles(*p.shape):
            pt, gt = p[rows, columns], g[rows, columns]
            w = np.multiply(pt, diagonal[columns], out=self._buffer(pt))
            gt *= scale
            gt += w
            out[rows] += np.vecdot(pt, gt).real
        return out

    def descend(
        self, x: np.ndarray, r: np.ndarray, p: np.ndarray, g: np.ndarray,
        step: np.ndarray, inverse: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """X += step P, R −= step G in place; return rᴴM⁻¹r of every row."""
        out = np.zeros(p.shape[0], dtype=np.float64)
        for rows, columns in self._tiles(*p.shape):
            pt, rt, length = p[rows, columns], r[rows, columns], step[rows, None]
            w = self._buffer(pt)
            np.multiply(pt, length, out=w)
            x[rows, columns] += w
            np.multiply(g[rows, columns], length, out=w)
            rt -= w
            np.multiply(rt, inverse[columns], out=w)
            out[rows] += np.vecdot(rt, w).real
        return out

    def turn(
        self, p: np.ndarray, r: np.ndarray, ratio: np.ndarray, inverse: np.ndarray
    ) -> np.ndarray:
        """P ← M⁻¹R + ratio·P in place."""
        for rows, columns in self._tiles(*p.shape):
            pt = p[rows, columns]
            pt *= ratio[rows, None]
            w = np.multiply(r[rows, columns], inverse[columns], out=self._buffer(pt))
            pt += w
        return p


class ArrayKernels:
    """The same updates in the array API standard: new arrays, any library."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def _dot(self, a: Array, b: Array) -> Array:
        return self._xp.sum(backend.real(backend.conj(a) * b), axis=-1)

    def weighted_norm_squared(self, r: Array, weight: Array) -> Array:
        """Σ_j weight_j |r_j|² of every row."""
        return self._xp.sum(weight * backend.abs_squared(r), axis=-1)

    def curvature(self, p: Array, g: Array, scale: float, diagonal: Array) -> tuple[Array, Array]:
        """Return scale·G + diagonal∘P and its inner product with P."""
        g = scale * g + diagonal * p
        return g, self._dot(p, g)

    def descend(
        self, x: Array, r: Array, p: Array, g: Array, step: Array, inverse: Array
    ) -> tuple[Array, Array, Array]:
        """Return X + step P, R − step G and rᴴM⁻¹r."""
        step = step[:, None]
        x = x + step * p
        r = r - step * g
        return x, r, self.weighted_norm_squared(r, inverse)

    def turn(self, p: Array, r: Array, ratio: Array, inverse: Array) -> Array:
        """Return M⁻¹R + ratio·P."""
        return inverse * r + ratio[:, None] * p
