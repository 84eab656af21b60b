"""Operators of SciPy and PyLops, and whatever multiplies vectors like them."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import (
    SINGLE,
    accepted,
    asked,
    by_parts,
    dtype_is_complex,
    pair,
    result_dtype,
)
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact

# If the product of an imaginary vector is smaller than this share of the product of the same real
# vector, imaginary parts are ignored; the rest is rounding, also in single precision.
IGNORED = 1e-6


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
    splits_rows = False  # user code may not be thread-safe

    def __init__(self, op: Any, *, name: str = "phi") -> None:
        self.op = op
        self.name = name
        self.shape = pair(op.shape, f"{name}.shape")
        dtype = getattr(op, "dtype", None)
        self.is_complex = dtype is not None and dtype_is_complex(dtype)
        self.single_precision = dtype is not None and _is_single(dtype)
        # An operator with a real dtype is given real and imaginary parts separately.
        if self.is_complex and not getattr(op, "clinear", True):
            self._look_at_imaginary_parts()
        self.exact_column_norms = norms_are_exact(self.shape)

    def _look_at_imaginary_parts(self) -> None:
        """Find out what an operator that is linear only over the real numbers does with them.

        Its dtype may be that of intermediate arrays, so its result for a real vector decides
        whether it is complex.
        """
        x = np.random.default_rng(0).standard_normal(self.shape[1])
        real = np.asarray(asked(self.op.matvec, x, name=self.name))
        self.is_complex = bool(np.iscomplexobj(real))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may warn that it drops them
            imaginary = np.asarray(asked(self.op.matvec, 1j * x, name=self.name))
        ignored = np.linalg.norm(imaginary) <= IGNORED * np.linalg.norm(real)
        self.field = "real" if ignored else "undecided"

    def _forward(self, x: Array) -> Array:
        by_itself = self.is_complex and self.field == "complex"
        return by_parts(lambda part: self._call(part, "matvec"), x, by_itself)

    def _adjoint(self, y: Array) -> Array:
        if self.is_complex and self.field != "complex":
            # Its rmatvec gives Re Φᴴy, and Im Φᴴy = Re Φᴴ(−iy).
            y = backend.to_numpy(y).astype(result_dtype(y, True), copy=False)
            return self._call(y, "rmatvec") + 1j * self._call(-1j * y, "rmatvec")
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
                columns = asked(together, np.ascontiguousarray(rows.T), name=self.name)
                out = self._in_its_field(columns, call)
                out = accepted(out.T, rows, length, f"{self.name}: {call}", self.is_complex)
            else:
                single = getattr(self.op, call)
                out = np.empty((rows.shape[0], length), dtype=result_dtype(x, self.is_complex))
                for i, row in enumerate(rows):
                    product = asked(single, row, name=self.name)
                    given = np.ravel(self._in_its_field(product, call))
                    out[i] = accepted(given, row, length, f"{self.name}: {call}", self.is_complex)
        except NotImplementedError:
            raise TypeError(f"{self.name} does not implement {call}, which is needed") from None
        return np.ascontiguousarray(out).reshape(*x.shape[:-1], length)

    def _in_its_field(self, out: Any, call: str) -> Any:
        """Drop the imaginary part of the adjoint's result where the unknowns are real."""
        return out.real if call == "rmatvec" and self.field != "complex" else out

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)


def _is_single(dtype: Any) -> bool:
    kind = np.dtype(dtype)
    return kind.kind in "fc" and bool(np.finfo(kind).eps > SINGLE)
