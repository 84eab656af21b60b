"""The data and their noise, as the user gives them.

What is probably a mistake is refused with a message that says how to correct it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from cofem import backend
from cofem.backend import Array
from cofem.operators import Dense, LinearOperator, Sparse

# The share of the range of exponents that stays free, for sums over many entries and for noise far
# below the signal: a factor of 10^20 in double precision.
ROOM = 1 / 15


@dataclass(frozen=True)
class Noise:
    """What is known about the noise of one task: row i has the precision β w_i.

    Attributes
    ----------
    precision : float
        β, NaN if it is to be learned.
    weights : ndarray (N,) or None
        w; None: all one.
    """

    precision: float
    weights: np.ndarray | None = None


def noise_from(
    noise_precision: Any, noise_std: Any, weights: Any, sizes: Sequence[int], joint: bool
) -> list[Noise]:
    """Check the user's arguments about the noise; return the noise of every task.

    Parameters
    ----------
    noise_precision, noise_std, weights
        As for :func:`cofem.fit`.
    sizes : sequence of int
        N of every task.
    joint : bool
        Whether there is an axis of tasks.
    """
    name, given = "noise_precision", noise_precision
    if noise_std is not None:
        if noise_precision is not None:
            raise ValueError("noise_std and noise_precision say the same thing: give one of them")
        name, given = "noise_std", noise_std
    shared: list[np.ndarray | None] = [None] * len(sizes)
    if weights is not None:
        shared = [*_rows("weights", weights, sizes, joint)]
    if given is None:
        return [Noise(math.nan, w) for w in shared]
    values = _positive(name, given)
    if noise_std is not None:
        with np.errstate(over="ignore", under="ignore"):
            values = values**-2.0
        if not np.all(np.isfinite(values)) or not np.all(values > 0):
            raise ValueError(f"noise_std: 1/noise_std² over- or underflows, got {given!r}")
    if values.ndim == 0 or values.shape == (len(sizes),):
        each = np.broadcast_to(values, (len(sizes),))
        return [Noise(float(b), w) for b, w in zip(each, shared, strict=True)]
    _refuse_other_shapes(name, values, sizes, joint)
    if weights is not None:
        raise ValueError(f"weights and a {name} for every row say the same thing: give one of them")
    known = _rows(name, values, sizes, joint)
    return [Noise(float(np.mean(w)), w / np.mean(w)) for w in known]


def _refuse_other_shapes(name: str, values: np.ndarray, sizes: Sequence[int], joint: bool) -> None:
    if joint:
        fits = values.ndim == 2
        expected = f"one number, one per task ({len(sizes)}), or one for every row of every task"
    else:
        fits = values.shape == (sizes[0],)
        expected = f"one number or one for every row ({sizes[0]})"
    if not fits:
        raise ValueError(f"{name} must be {expected}, got shape {values.shape}")


def _rows(name: str, given: Any, sizes: Sequence[int], joint: bool) -> list[np.ndarray]:
    """Return (N,) for every task: the same for all, or (L, N)."""
    values = _positive(name, given)
    shapes = {(n,) for n in sizes}
    if values.ndim == 1 and shapes == {values.shape}:
        return [values] * len(sizes)
    of_tasks = joint and values.ndim == 2 and values.shape[0] == len(sizes)
    if of_tasks and shapes == {values.shape[1:]}:
        return [values[i] for i in range(len(sizes))]
    counts = ", ".join(str(n) for n in sorted(set(sizes)))
    shape = f"({counts},)" + (f" or ({len(sizes)}, {counts})" if joint else "")
    raise ValueError(f"{name} must have shape {shape}, got {values.shape}")


def _positive(name: str, value: Any) -> np.ndarray:
    if backend.is_array(value):
        value = backend.to_numpy(value)
    try:
        values = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if values.dtype.kind not in "iuf":  # strings of digits and True are mistakes too
        raise TypeError(f"{name} must be a number, got {value!r}")
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)) or not np.all(values > 0):
        zero = "; leave rows of weight zero out" if name == "weights" else ""
        raise ValueError(f"{name} must be positive and finite, got {value!r}{zero}")
    return values


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
