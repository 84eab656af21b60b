"""Inverses of small matrices, one at every pixel, and factors of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.compiled import REORDERED, compiled

TOGETHER = 64  # pixels whose matrices are inverted side by side: 12 × 12 of them stay in cache


def inverse_factor(covariance: Array, added: Array) -> Array:
    """Return F with F Fᵀ = S⁻¹ at every pixel, S = covariance (P, n, n) + diag(added (P, n)).

    Cholesky column by column, of all pixels at once. A library's own looks whether it
    succeeded, for which a GPU has to wait; here rounding cannot take away what was added.
    """
    xp = backend.namespace(covariance)
    n = covariance.shape[1]
    rest, least = xp.moveaxis(covariance, 0, 2) + 0, added.T + 0  # pixels along memory
    columns, pivots = [], []
    for b in range(n):
        pivot = xp.sqrt(xp.maximum(rest[0, 0, :] + least[b, :], least[b, :]))
        below = rest[1:, 0, :] / pivot[None, :]
        rest = rest[1:, 1:, :] - below[:, None, :] * below[None, :, :]
        columns.append(below)
        pivots.append(pivot)
    nothing = 0 * least
    rows: list[Array] = []  # of the inverse
    for a in range(n):
        own = xp.concat([nothing[:a, :], 1 / pivots[a][None, :], nothing[a + 1 :, :]])
        if rows:
            left = xp.stack([columns[k][a - k - 1, :] for k in range(a)])
            own = own - xp.sum(left[:, None, :] * xp.stack(rows), axis=0) / pivots[a][None, :]
        rows.append(own)
    return xp.moveaxis(xp.stack(rows, axis=1), 2, 0) + 0


@compiled(**REORDERED)
def invert(packed: Any, added: Any, weight: Any, tensor: Any, factor: Any) -> None:
    """Cholesky S = C Cᵀ of every pixel's matrix, then F = C⁻ᵀ and T = F Fᵀ.

    TOGETHER pixels at a time, their numbers side by side, so that every inner loop runs along
    memory: a matrix of 12 × 12 is too small for that by itself.
    """
    n = added.shape[1]
    shape = (n, n, TOGETHER)
    c, inverse = np.zeros(shape, packed.dtype), np.zeros(shape, packed.dtype)
    value = np.zeros(TOGETHER, packed.dtype)
    for first in range(0, packed.shape[1], TOGETHER):
        m = min(TOGETHER, packed.shape[1] - first)
        k = 0
        for b in range(n):
            for a in range(b, n):
                row, place = packed[k, first : first + m], c[a, b]
                for j in range(m):
                    place[j] = weight * row[j]
                k += 1
        for b in range(n):
            for k in range(b):
                for a in range(b, n):
                    for j in range(m):
                        c[a, b, j] -= c[a, k, j] * c[b, k, j]
            for j in range(m):
                # rounding must not take away what the floor has added
                least = added[first + j, b]
                c[b, b, j] = np.sqrt(max(c[b, b, j] + least, least))
                inverse[b, b, j] = 1 / c[b, b, j]
            for a in range(b + 1, n):
                for j in range(m):
                    c[a, b, j] *= inverse[b, b, j]
        for b in range(n):
            for a in range(b + 1, n):
                value[:m] = 0
                for k in range(b, a):
                    for j in range(m):
                        value[j] += c[a, k, j] * inverse[k, b, j]
                for j in range(m):
                    inverse[a, b, j] = -value[j] * inverse[a, a, j]
        for a in range(n):
            for b in range(a, n):
                value[:m] = 0
                for k in range(b, n):
                    for j in range(m):
                        value[j] += inverse[k, a, j] * inverse[k, b, j]
                for j in range(m):
                    tensor[first + j, a, b] = tensor[first + j, b, a] = value[j]
                    factor[first + j, a, b] = inverse[b, a, j]
                    factor[first + j, b, a] = inverse[a, a, j] if a == b else 0.0
