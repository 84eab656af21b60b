"""What may stand beside an operator in an expression."""

from __future__ import annotations

import numbers
from typing import Any

import scipy.sparse

from cofem import backend
from cofem.backend import Array
from cofem.operators.adapters import as_operator, multiplies_vectors
from cofem.operators.base import LinearOperator


def is_scalar(x: object) -> bool:
    """Whether ``x`` is one number: Python's, NumPy's or a 0-D array.

    Examples
    --------
    >>> is_scalar(2), is_scalar("2")
    (True, False)
    """
    if isinstance(x, numbers.Number):
        return True
    return backend.is_array(x) and bool(x.ndim == 0)  # type: ignore[attr-defined]


def python_number(x: Any) -> float | complex:
    """Return a scalar as Python's float or complex, whose precision an array ignores.

    Examples
    --------
    >>> import numpy as np
    >>> python_number(np.float32(0.5)), python_number(2j)
    (0.5, 2j)
    """
    is_complex = backend.is_complex(x) if backend.is_array(x) else not isinstance(x, numbers.Real)
    return complex(x) if is_complex else float(x)


def operator_or_none(x: Any, arrays: bool = False) -> LinearOperator | None:
    """Return an operator of any library as one of ours; None for what is none.

    Parameters
    ----------
    x : object
    arrays : bool
        Whether a 2-D array counts as an operator too. It does in a sum; a product with
        an array is an array.

    Examples
    --------
    >>> operator_or_none(scipy.sparse.eye_array(2)), operator_or_none("a")
    (Sparse(shape=(2, 2)), None)
    """
    if isinstance(x, LinearOperator):
        return x
    if backend.is_array(x):
        return as_operator(x, "the matrix") if arrays and x.ndim == 2 else None
    if scipy.sparse.issparse(x) or multiplies_vectors(x):
        return as_operator(x, "the operator")
    return None


def apply_to_columns(op: LinearOperator, x: Array) -> Array:
    """Return ``op @ x`` as for matrices: (D,) to (N,), and (…, D, K) to (…, N, K).

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> apply_to_columns(Dense(np.array([[1.0, 2.0]])), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1., 2.]])
    """
    if x.ndim == 0:
        raise ValueError("op @ x takes a vector or a matrix; a number scales: 2 * op")
    if x.ndim == 1:
        return op.forward(x)
    if x.shape[-2] != op.shape[1]:
        rows = x.shape[-1] == op.shape[1]
        raise ValueError(
            f"op @ x: x has shape {tuple(x.shape)} and the operator {op.shape}; @ takes columns, "
            f"(D, K) with D = {op.shape[1]}" + ("; for rows use op.forward(x)" if rows else "")
        )
    xp = backend.namespace(x)
    return xp.matrix_transpose(op.forward(xp.matrix_transpose(x)))
