"""The vector work of one CG step, in as few passes over memory as possible.

Besides the operator's product a step needs inner products and updates of three
arrays. The search direction is kept divided by the size of its residual,
P̃ = P ρ₀/ρ, so that its update is a plain "a x plus y" as well. For NumPy arrays the
rest is three compiled loops, each one pass, in place and without Python's lock, so
that threads do not wait for each other: measured against the same updates by NumPy
or BLAS calls on tiles they take a third of the time (``docs/speed.md``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.linalg.compiled import compiled

# Sums may be reordered, which vectorises them; NaN and Inf keep their meaning.
_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}


@compiled(**_OPTIONS)
def _dot(a: Any, b: Any) -> float:
    """Re(ā b) in double precision: single numbers are multiplied outside their range."""
    return np.float64(a.real) * np.float64(b.real) + np.float64(a.imag) * np.float64(b.imag)


@compiled(**_OPTIONS)
def weighted_norm_squared(r: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ_j weight_j |r_j|² of every row."""
    out = np.zeros(r.shape[0])
    for q in range(r.shape[0]):
        total = 0.0
        for j in range(r.shape[1]):
            total += _dot(r[q, j], r[q, j]) * weight[j]
        out[q] = total
    return out


@compiled(**_OPTIONS)
def begin(
    rhs: np.ndarray, factor: float, inverse: np.ndarray, r: np.ndarray, p: np.ndarray
) -> np.ndarray:
    """Write R = factor·RHS and P = M⁻¹R, in their own precision; return rᴴM⁻¹r of every row."""
    out = np.zeros(r.shape[0])
    for q in range(r.shape[0]):
        total = 0.0
        for j in range(r.shape[1]):
            r[q, j] = rhs[q, j] * factor
            p[q, j] = r[q, j] * inverse[j]
            total += _dot(r[q, j], r[q, j]) * inverse[j]
        out[q] = total
    return out


@compiled(**_OPTIONS)
def curvature(p: np.ndarray, g: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """G += diagonal∘P in place; return Re⟨p, g⟩ of every row."""
    out = np.zeros(p.shape[0])
    for q in range(p.shape[0]):
        total = 0.0
        for j in range(p.shape[1]):
            value = g[q, j] + diagonal[j] * p[q, j]
            g[q, j] = value
            total += _dot(p[q, j], value)
        out[q] = total
    return out


@compiled(**_OPTIONS)
def descend(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    g: np.ndarray,
    step: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:
    """X += step P, R −= step G in place; return rᴴM⁻¹r of every row."""
    out = np.zeros(p.shape[0])
    for q in range(p.shape[0]):
        total = 0.0
        length = inverse.dtype.type(step[q])  # a double here would make all of it double
        for j in range(p.shape[1]):
            x[q, j] += length * p[q, j]
            value = r[q, j] - length * g[q, j]
            r[q, j] = value
            total += _dot(value, value) * inverse[j]
        out[q] = total
    return out


@compiled(**_OPTIONS)
def turn(p: np.ndarray, r: np.ndarray, factor: np.ndarray, inverse: np.ndarray) -> None:
    """P += factor M⁻¹R in place."""
    for q in range(p.shape[0]):
        multiple = inverse.dtype.type(factor[q])
        for j in range(p.shape[1]):
            p[q, j] += multiple * (inverse[j] * r[q, j])


@compiled(**_OPTIONS)
def advance(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    g: np.ndarray,
    diagonal: np.ndarray,
    inverse: np.ndarray,
    unit: np.ndarray,
    rho: np.ndarray,
    largest: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one CG step in place; ρ and the largest inverse step length follow it.

    One call, so that Python's lock is taken once a step. Rows without positive
    curvature, NaN included, have failed and stay as they are, and so do rows that are
    solved, which only the joint rule keeps.

    Returns
    -------
    failed, length, ratio : array (Q,)
        Which rows have failed, and the two coefficients of the textbook's CG.
    """
    curved = curvature(p, g, diagonal)
    n_rows = len(curved)
    step, length, ratio = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    failed = np.zeros(n_rows, dtype=np.bool_)
    for q in range(n_rows):
        if curved[q] > 0 and rho[q] > 0:
            step[q] = unit[q] / curved[q]
            length[q] = step[q] * (unit[q] / rho[q])  # γ for P itself
            largest[q] = max(largest[q], 1 / length[q])
        else:
            failed[q] = rho[q] != 0
    rho_new = descend(x, r, p, g, step, inverse)
    factor = np.zeros(n_rows)
    for q in range(n_rows):
        if step[q] > 0:
            ratio[q] = rho_new[q] / rho[q]
            if rho_new[q] > 0:
                factor[q] = unit[q] / rho_new[q]
            rho[q] = rho_new[q]
    turn(p, r, factor, inverse)
    return failed, length, ratio


@compiled(**_OPTIONS)
def probe_sums(
    p: np.ndarray, x: np.ndarray, scaling: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_q Re(p̄_q∘x_q)∘scaling and the sum of its squares, each (D,), in one pass."""
    n = p.shape[1]
    total, squares = np.zeros(n), np.zeros(n)
    for first in range(0, n, 2048):  # a tile's sums stay in the cache
        last = min(first + 2048, n)
        for q in range(p.shape[0]):
            for j in range(first, last):
                one = _dot(p[q, j], x[q, j]) * scaling[j]
                total[j] += one
                squares[j] += one * one
    return total, squares


@compiled(**_OPTIONS)
def field_sums(alpha: np.ndarray, theta: np.ndarray, c: float) -> tuple[float, float]:
    """Σ h and Σ h(1 − h) of h = α/(α + cθ), in one pass."""
    total = slope = 0.0
    for j in range(alpha.shape[0]):
        h = alpha[j] / (alpha[j] + c * theta[j])
        total += h
        slope += h * (1 - h)
    return total, slope


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
