"""Operators of SciPy and PyLops, and whatever multiplies vectors like them."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import accepted, by_parts, dtype_is_complex, pair, result_dtype
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


@final
class Matvec(LinearOperator):
    """A SciPy or PyLops LinearOperator, or anything with shape, matvec and rmatvec.

    Parameters
    ----------
    op : object
        ``matmat`` and ``rmatmat`` are used for batches where they exist.
    name : str
        What the errors call it.

    Examples
    --------
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> Matvec(aslinearoperator(np.array([[1.0, 2.0]]))).forward(np.array([3.0, 4.0]))
    array([11.])
    """

    trusted = False
    splits_rows = False  # other people's code need not be safe in threads

    def __init__(self, op: Any, *, name: str = "phi") -> None:
        self.op = op
        self.name = name
        self.shape = pair(op.shape, f"{name}.shape")
        dtype = getattr(op, "dtype", None)
        self.is_complex = dtype is not None and dtype_is_complex(dtype)
        self.exact_column_norms = norms_are_exact(self.shape)

    def _forward(self, x: Array) -> Array:
        return by_parts(lambda part: self._call(part, "matvec"), x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        return by_parts(lambda part: self._call(part, "rmatvec"), y, self.is_complex)

    def _call(self, x: Array, call: str) -> Array:
        if not backend.is_numpy(x):
            raise TypeError(
                f"{self.name} is a {type(self.op).__name__}, which works on NumPy arrays; "
                f"got an array of {backend.library(x)} (wrap it with "
                "cofem.operators.from_functions to use another library)"
            )
        length = self.shape[0] if call == "matvec" else self.shape[1]
        rows = x.reshape(-1, x.shape[-1])
        together = getattr(self.op, call.replace("vec", "mat"), None)
        try:
            if callable(together) and x.ndim > 1 and rows.shape[0]:
                out = together(np.ascontiguousarray(rows.T))
                out = accepted(out.T, rows, length, f"{self.name}: {call}", self.is_complex)
            else:
                single = getattr(self.op, call)
                out = np.empty((rows.shape[0], length), dtype=result_dtype(x, self.is_complex))
                for i, row in enumerate(rows):
                    out[i] = accepted(
                        np.ravel(single(row)), row, length, f"{self.name}: {call}", self.is_complex
                    )
        except NotImplementedError:
            raise TypeError(f"{self.name} does not implement {call}, which is needed") from None
        return np.ascontiguousarray(out).reshape(*x.shape[:-1], length)

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)
