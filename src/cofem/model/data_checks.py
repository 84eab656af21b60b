"""Data and matrices that are probably a mistake: refused with a message that says how to fix it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from cofem import backend
from cofem.backend import Array
from cofem.operators import Dense, LinearOperator, Sparse

# The share of the range of exponents that stays free, for sums over many entries and for noise far
# below the signal: a factor of 10^20 in double precision.
ROOM = 1 / 15


def array_or_list(y: Any) -> Any:
    """Return y as an array or a list; tables of other libraries become NumPy's arrays."""
    if y is None or isinstance(y, (str, bytes, dict, set, frozenset)) or callable(y):
        raise TypeError(f"y must be an array of numbers, got {type(y).__name__}")
    if isinstance(y, Iterator):  # NumPy would make an array of one object
        raise TypeError(f"y must be an array of numbers, got a {type(y).__name__}; pass list(y)")
    if isinstance(y, (list, tuple)) or (backend.is_array(y) and not isinstance(y, np.matrix)):
        return y
    if scipy.sparse.issparse(y):
        raise TypeError("y is a SciPy sparse array; pass y.toarray()")
    return np.asarray(y)  # pandas, np.matrix, range


def refuse_columns(shape: tuple[int, int], op: LinearOperator) -> None:
    """Refuse data that hold one task in every column instead of in every row."""
    n_rows = op.shape[0]
    if shape[1] == n_rows or shape[0] != n_rows:
        return
    if shape[1] == 1:
        raise ValueError(f"y is a column of shape {shape}; pass y[:, 0] (or its first entries)")
    if op.shape[1] == 1:
        raise ValueError(f"phi is one column and y has shape {shape}: were they swapped?")
    raise ValueError(
        f"y has shape {shape} and phi has {n_rows} rows: joint tasks are rows, so pass y.T (or a "
        f"list of {shape[1]} vectors)"
    )


def refuse_unsquarable(y: Array, name: str) -> None:
    """Refuse data whose squares, or the inverses of their squares, would over- or underflow."""
    xp = backend.namespace(y)
    largest = float(xp.max(xp.abs(y)))
    most = float(xp.finfo(y.dtype).max)
    room = most**ROOM
    low, high = math.sqrt(room / most), math.sqrt(most / y.shape[0] / room)
    if largest != 0.0 and not low < largest < high:
        raise ValueError(
            f"{name} is {'large' if largest > 1 else 'small'}, {largest:.2g}, beyond what can be "
            f"squared in {y.dtype}; change its units"
        )


def refuse_unsquarable_columns(op: Dense | Sparse, like: Array, name: str) -> None:
    """Refuse a matrix if the squared norms of its columns overflow, or all underflow to zero."""
    xp = backend.namespace(like)
    with np.errstate(over="ignore", under="ignore"):
        largest = float(xp.max(op.column_norms_squared(like)))  # needed later, and kept
    entries: Any = op.matrix.data if isinstance(op, Sparse) else op.matrix
    vanished = largest == 0.0 and bool(backend.namespace(entries).any(entries != 0))
    if not math.isfinite(largest) or vanished:
        raise ValueError(
            f"{name}: the squares of its columns are too {'small' if vanished else 'large'} for "
            f"{like.dtype}; change its units"
        )
