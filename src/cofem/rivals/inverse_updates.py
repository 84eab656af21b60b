"""Small Hermitian matrices in a larger buffer, changed in place as coordinates come and go."""

from __future__ import annotations

import array_api_extra as xpx
import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.compiled import compiled


def write_border(matrix: Array, slot: int, column: Array, corner: float) -> Array:
    """Write a column, its conjugate as the row, and a real number where they meet.

    Parameters
    ----------
    matrix : array (M, M)
        Changed in place where its library allows that.
    slot : int
        Which column and row.
    column : array (n,), n ≤ M
        Their first n entries.
    corner : float
        The entry on the diagonal.

    Examples
    --------
    >>> write_border(np.zeros((2, 2)), 1, np.array([5.0]), 7.0)
    array([[0., 5.],
           [5., 7.]])
    """
    n = column.shape[0]
    matrix = xpx.at(matrix)[:n, slot].set(column)
    matrix = xpx.at(matrix)[slot, :n].set(backend.conj(column))
    grown: Array = xpx.at(matrix)[slot, slot].set(corner)
    return grown


def add_rank_one(matrix: Array, x: Array, factor: float) -> Array:
    """Add factor·xxᴴ to the leading block of the matrix, in place where that is possible.

    Examples
    --------
    >>> add_rank_one(np.zeros((2, 2)), np.array([3.0]), 2.0)
    array([[18.,  0.],
           [ 0.,  0.]])
    """
    if backend.is_numpy(matrix):
        _add(matrix, np.ascontiguousarray(x), factor)
        return matrix
    d = x.shape[0]
    added: Array = xpx.at(matrix)[:d, :d].add(factor * x[:, None] * backend.conj(x)[None, :])
    return added


@compiled
def _add(matrix: np.ndarray, x: np.ndarray, factor: float) -> None:
    """One pass over the matrix, without a temporary of its size."""
    for i in range(x.size):
        scaled = factor * x[i]
        for j in range(x.size):
            matrix[i, j] += scaled * np.conj(x[j])
