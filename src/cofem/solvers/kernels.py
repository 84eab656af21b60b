"""The vector work of one CG step, in as few passes over memory as possible.

Besides the operator's product a step needs inner products and updates of three
arrays. The search direction is kept divided by the size of its residual,
P̃ = P ρ₀/ρ, so that its update is a plain "a x plus y" as well. For NumPy arrays the
rest is three compiled loops, each one pass, in place and without Python's lock, so
that threads do not wait for each other: measured against the same updates by NumPy
or BLAS calls on tiles they take a third of the time (``docs/notes/speed.md``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.solvers.compiled import REORDERED, compiled

# Loops over tiles work on slices. With an index that does not start at zero the compiler cannot
# exclude negative values, and does not vectorise the loop.
TILE = 2048


@compiled(**REORDERED)
def _dot(a: Any, b: Any) -> float:
    """Re(ā b) in double precision: single numbers are multiplied outside their range."""
    return np.float64(a.real) * np.float64(b.real) + np.float64(a.imag) * np.float64(b.imag)


@compiled(**REORDERED)
def weighted_norm_squared(r: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ_j weight_j |r_j|² of every row."""
    out = np.zeros(r.shape[0])
    for q in range(r.shape[0]):
        total = 0.0
        for j in range(r.shape[1]):
            total += _dot(r[q, j], r[q, j]) * weight[j]
        out[q] = total
    return out


@compiled(**REORDERED)
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


@compiled(**REORDERED)
def begin_at(
    x: np.ndarray, r: np.ndarray, p: np.ndarray, g: np.ndarray, diagonal: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """R −= G + diagonal∘X and P = M⁻¹R in place; return rᴴM⁻¹r of every row."""
    out = np.zeros(r.shape[0])
    for q in range(r.shape[0]):
        total = 0.0
        for j in range(r.shape[1]):
            value = r[q, j] - (g[q, j] + diagonal[j] * x[q, j])
            r[q, j] = value
            p[q, j] = value * inverse[j]
            total += _dot(value, value) * inverse[j]
        out[q] = total
    return out


@compiled(**REORDERED)
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


@compiled(**REORDERED)
def descend(r: np.ndarray, g: np.ndarray, step: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """R −= step G in place; return rᴴM⁻¹r of every row."""
    out = np.zeros(r.shape[0])
    for q in range(r.shape[0]):
        total = 0.0
        length = inverse.dtype.type(step[q])  # a double here would make all of it double
        for j in range(r.shape[1]):
            value = r[q, j] - length * g[q, j]
            r[q, j] = value
            total += _dot(value, value) * inverse[j]
        out[q] = total
    return out


@compiled(**REORDERED)
def turn(
    x: np.ndarray,
    p: np.ndarray,
    r: np.ndarray,
    step: np.ndarray,
    factor: np.ndarray,
    inverse: np.ndarray,
) -> None:
    """X += step P, and then P += factor M⁻¹R, in place."""
    for q in range(p.shape[0]):
        length, multiple = inverse.dtype.type(step[q]), inverse.dtype.type(factor[q])
        for j in range(p.shape[1]):
            direction = p[q, j]
            x[q, j] += length * direction
            p[q, j] = direction + multiple * (inverse[j] * r[q, j])


@compiled(**REORDERED)
def advance(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    g: np.ndarray,
    diagonal: np.ndarray,
    inverse: np.ndarray,
    systems: np.ndarray,
    unit: np.ndarray,
    rho: np.ndarray,
    largest: np.ndarray,
    steps: np.ndarray,
    bad: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one CG step in place; ρ, the largest inverse step length and the count follow it.

    One call, so that Python's lock is taken once a step. Rows belong to ``systems``, and
    scalars are theirs. Rows without positive curvature, NaN included, have failed and stay
    as they are, and so do rows that are solved, which only the joint rule keeps.

    Returns
    -------
    length, ratio : array (rows,)
        The two coefficients of the textbook's CG.
    """
    curved = curvature(p, g, diagonal)
    n_rows = len(curved)
    step, length, ratio = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    for q in range(n_rows):
        k = systems[q]
        if curved[q] > 0 and rho[k] > 0:
            step[q] = unit[k] / curved[q]
            length[q] = step[q] * (unit[k] / rho[k])  # γ for P itself
            largest[k] = max(largest[k], 1 / length[q])
            steps[k] += 1
        elif rho[k] != 0:
            bad[k] = True
    rho_new = descend(r, g, step, inverse)
    factor = np.zeros(n_rows)
    for q in range(n_rows):
        k = systems[q]
        if step[q] > 0:
            ratio[q] = rho_new[q] / rho[k]
            if rho_new[q] > 0:
                factor[q] = unit[k] / rho_new[q]
            rho[k] = rho_new[q]
    turn(x, p, r, step, factor, inverse)
    return length, ratio


@compiled(**REORDERED)
def signed(bits: np.ndarray, scaling: np.ndarray, out: np.ndarray) -> None:
    """Write ±scaling, plus where a bit is set."""
    for q in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            out[q, j] = scaling[j] if bits[q, j] else -scaling[j]


@compiled(**REORDERED)
def probe_sums(rhs: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_q Re(b̄_q∘x_q) and the sum of its squares, each (D,), in one pass."""
    n = rhs.shape[1]
    total, squares = np.zeros(n), np.zeros(n)
    for first in range(0, n, TILE):  # a tile's sums stay in the cache
        tile = slice(first, min(first + TILE, n))
        sums, sums_of_squares = total[tile], squares[tile]
        for q in range(rhs.shape[0]):
            b, solution = rhs[q, tile], x[q, tile]
            for j in range(len(b)):
                one = _dot(b[j], solution[j])
                sums[j] += one
                sums_of_squares[j] += one * one
    return total, squares


@compiled
def moving(
    new: np.ndarray,
    old: np.ndarray,
    precision: np.ndarray,
    limit: float,
    clear: float,
    faint: float,
) -> int:
    """Return how many entries of (L, D) rows moved by more than √(limit / precision).

    Those that are not above √(clear / precision): by more than √(faint · limit / precision).
    """
    count = 0
    for row in range(new.shape[0]):
        for j in range(new.shape[1]):
            value = np.float64(new[row, j])
            step = value - old[row, j]
            move = step * step * precision[j]
            if move > limit and (move > faint * limit or value * value * precision[j] > clear):
                count += 1
    return count


@compiled(**REORDERED)
def moved(new: np.ndarray, old: np.ndarray) -> tuple[float, float]:
    """Return ‖new − old‖² and ‖new‖² of two vectors."""
    distance = size = 0.0
    for j in range(len(new)):
        step = new[j] - old[j]
        distance += _dot(step, step)
        size += _dot(new[j], new[j])
    return distance, size


@compiled
def divergence(new: np.ndarray, old: np.ndarray) -> float:
    """Return ½ Σ (r − 1 − log r), r = old/new."""
    total = 0.0
    for j in range(len(new)):
        if new[j] > 0:
            shrinks = np.float64(old[j]) / np.float64(new[j]) - 1
            total += shrinks - np.log1p(shrinks)
    return total / 2
