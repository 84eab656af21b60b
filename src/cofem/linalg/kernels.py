"""The vector work of one CG step, in as few passes over memory as possible.

Besides the operator's product a step needs several passes over its arrays. The
search direction is kept divided by the size of its residual, P̃ = P ρ₀/ρ, which
turns the update of X, R and P̃ each into one "a x plus y" and saves a third of
the passes. For NumPy they are done tile by tile and in place: a tile stays in the
cache between the operations on it, and nothing is allocated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import get_blas_funcs

from cofem import backend
from cofem.backend import Array

# 64 kB of doubles: a few arrays' tiles fit a core's cache, and BLAS stays below the
# size at which it would start threads of its own.
TILE = 8192


class NumpyKernels:
    """In-place updates on C-contiguous NumPy arrays of shape (Q, D)."""

    def __init__(self, dtype: Any) -> None:
        self._scratch = np.empty(TILE, dtype=dtype)
        self._add_multiple = get_blas_funcs("axpy", dtype=dtype)

    @staticmethod
    def _tiles(n_columns: int) -> list[slice]:
        return [slice(i, min(i + TILE, n_columns)) for i in range(0, n_columns, TILE)]

    def weighted_norm_squared(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ_j weight_j |r_j|² of every row."""
        out = np.zeros(len(r))
        for row, r_row in enumerate(r):
            for tile in self._tiles(r.shape[1]):
                part = r_row[tile]
                weighted = np.multiply(part, weight[tile], out=self._scratch[: part.size])
                out[row] += np.vdot(part, weighted).real
        return out

    def curvature(self, p: np.ndarray, g: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """G += diagonal∘P in place; return Re⟨p, g⟩ of every row."""
        out = np.zeros(len(p))
        for row, (p_row, g_row) in enumerate(zip(p, g, strict=True)):
            for tile in self._tiles(p.shape[1]):
                p_part, g_part = p_row[tile], g_row[tile]
                g_part += np.multiply(p_part, diagonal[tile], out=self._scratch[: p_part.size])
                out[row] += np.vdot(p_part, g_part).real
        return out

    def descend(
        self,
        x: np.ndarray,
        r: np.ndarray,
        p: np.ndarray,
        g: np.ndarray,
        step: np.ndarray,
        inverse: np.ndarray,
        w: np.ndarray,
    ) -> np.ndarray:
        """X += step P, R −= step G, W ← M⁻¹R in place; return rᴴM⁻¹r of every row."""
        out = np.zeros(len(p))
        add_multiple = self._add_multiple
        for row, length in enumerate(step):
            for tile in self._tiles(p.shape[1]):
                r_part, w_part = r[row, tile], w[row, tile]
                add_multiple(p[row, tile], x[row, tile], a=length)
                add_multiple(g[row, tile], r_part, a=-length)
                np.multiply(r_part, inverse[tile], out=w_part)
                out[row] += np.vdot(r_part, w_part).real
        return out

    def turn(self, p: np.ndarray, w: np.ndarray, factor: np.ndarray) -> None:
        """P += factor W in place."""
        for row, multiple in enumerate(factor):
            for tile in self._tiles(p.shape[1]):
                self._add_multiple(w[row, tile], p[row, tile], a=multiple)


class ArrayKernels:
    """The same updates in the array API standard: new arrays, any library."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def weighted_norm_squared(self, r: Array, weight: Array) -> Array:
        """Σ_j weight_j |r_j|² of every row."""
        return self._xp.sum(weight * backend.abs_squared(r), axis=-1)

    def curvature(self, p: Array, g: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return G + diagonal∘P and its inner product with P."""
        g = g + diagonal * p
        return g, self._xp.sum(backend.real(backend.conj(p) * g), axis=-1)

    def descend(
        self, x: Array, r: Array, p: Array, g: Array, step: Array, inverse: Array
    ) -> tuple[Array, Array, Array]:
        """Return X + step P, R − step G and rᴴM⁻¹r."""
        step = step[:, None]
        x = x + step * p
        r = r - step * g
        return x, r, self.weighted_norm_squared(r, inverse)

    def turn(self, p: Array, r: Array, factor: Array, inverse: Array) -> Array:
        """Return P + factor M⁻¹R."""
        return p + factor[:, None] * (inverse * r)
