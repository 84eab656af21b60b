"""The Gram matrix of the active columns, and the checks that all bounds share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.operators import LinearOperator, as_operator

# Rows of length D that are multiplied at a time: 32 MiB in float64.
BLOCK = 1 << 22


def support_indices(support: Any, n_columns: int) -> np.ndarray:
    """Return the active coordinates as sorted indices, from a boolean mask or from indices.

    Examples
    --------
    >>> support_indices([False, True, True], 3), support_indices([2, 0], 3)
    (array([1, 2]), array([0, 2]))
    """
    if backend.is_array(support):
        support = backend.to_numpy(support)
    given = np.asarray(support)
    if given.size == 0:
        raise ValueError("support is empty: the bounds are about active coordinates")
    if given.dtype == np.bool_:
        if given.shape != (n_columns,):
            raise ValueError(
                f"support is a mask of shape {given.shape}; expected ({n_columns},), "
                "one entry for each column of phi"
            )
        indices = np.flatnonzero(given)
    else:
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(
                "support must be a boolean mask or a list of column indices, got "
                f"{given.dtype} of shape {given.shape}"
            )
        if given.min() < 0 or given.max() >= n_columns:
            raise ValueError(
                f"support has indices from {given.min()} to {given.max()}; "
                f"phi has columns 0 to {n_columns - 1}"
            )
        indices = np.unique(given)
        if indices.size != given.size:
            raise ValueError("support names a column twice")
    if indices.size == 0:
        raise ValueError("support is empty: no entry of the mask is True")
    return indices


def active_gram(phi: Any, support: Any) -> tuple[LinearOperator, np.ndarray, np.ndarray]:
    """Return Φ as an operator, the active indices S, and ΦᴴΦ restricted to them, (d, d).

    It takes one product with ΦᴴΦ for each active column, and memory for d² numbers.

    Examples
    --------
    >>> active_gram(np.array([[3.0, 0.0, 1.0], [4.0, 2.0, 0.0]]), [0, 1])[2]
    array([[25.,  8.],
           [ 8.,  4.]])
    """
    if backend.is_array(phi):
        phi = backend.to_numpy(phi)
    op = as_operator(phi)
    indices = support_indices(support, op.shape[1])
    kind = np.complex128 if op.is_complex else np.float64
    gram = np.empty((indices.size, indices.size), dtype=kind)
    height = max(1, BLOCK // op.shape[1])
    for first in range(0, indices.size, height):
        chosen = indices[first : first + height]
        rows = np.zeros((chosen.size, op.shape[1]), dtype=kind)
        rows[np.arange(chosen.size), chosen] = 1.0
        gram[first : first + height] = backend.to_numpy(op.gram(rows))[:, indices]
    # Row i is ΦᴴΦ applied to the unit vector e_i: a column of the Hermitian matrix.
    return op, indices, 0.5 * (gram.T + gram.conj())


def positive(name: str, value: Any) -> float:
    """Return a positive finite number; an error names the argument.

    Examples
    --------
    >>> positive("noise_precision", 0)
    Traceback (most recent call last):
    ValueError: noise_precision must be positive and finite, got 0
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return number


def isometry_constant(delta: Any) -> float:
    """Return δ of the restricted isometry property, which must lie in [0, 1).

    Examples
    --------
    >>> isometry_constant(0.2)
    0.2
    """
    try:
        number = float(delta)
    except (TypeError, ValueError):
        raise TypeError(f"delta must be a number, got {delta!r}") from None
    if not 0 <= number < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
    return number
