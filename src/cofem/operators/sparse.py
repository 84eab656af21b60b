"""A matrix with few entries."""

from __future__ import annotations

import warnings
from typing import Any, final

import array_api_compat
import numpy as np
import scipy.sparse

from cofem import backend
from cofem.arguments import all_finite, floating
from cofem.backend import Array, Cache
from cofem.operators.base import LinearOperator


@final
class Sparse(LinearOperator):
    """A SciPy sparse array, applied to NumPy arrays or torch tensors.

    It is kept in CSR together with its conjugate transpose, so that both products
    run along stored rows.

    Parameters
    ----------
    matrix : SciPy sparse array or matrix of shape (N, D), any format
    name : str
        What the errors call it.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> phi = Sparse(scipy.sparse.coo_array(([2.0, 3.0], ([0, 1], [2, 0])), shape=(2, 3)))
    >>> phi.forward(np.array([1.0, 1.0, 1.0]))
    array([2., 3.])
    >>> phi.column_norms_squared()
    array([9., 0., 4.])
    """

    # SciPy reads the matrix once for all rows of a batch.
    splits_rows = False
    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, matrix: Any, *, name: str = "phi") -> None:
        if not scipy.sparse.issparse(matrix):
            raise TypeError(f"{name} must be a SciPy sparse array, got {type(matrix).__name__}")
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be 2-D, got an array of shape {matrix.shape}")
        if 0 in matrix.shape:
            raise ValueError(f"{name} is empty: its shape is {matrix.shape}")
        if matrix.dtype.kind not in "biufc":
            raise TypeError(f"{name} must hold numbers, got dtype {matrix.dtype}")
        csr = scipy.sparse.csr_array(matrix, copy=True)
        csr.data = floating(csr.data, name)
        csr.sum_duplicates()
        if not all_finite(csr.data):
            raise ValueError(f"{name} contains NaN or Inf")
        self.shape = (int(csr.shape[0]), int(csr.shape[1]))
        self.is_complex = bool(np.iscomplexobj(csr.data))
        self._csr = csr
        self._conjugate_transpose = csr.conj().T.tocsr()
        self._copies = Cache()

    @property
    def matrix(self) -> scipy.sparse.csr_array:
        """The matrix in CSR, shape (N, D)."""
        return self._csr

    def _forward(self, x: Array) -> Array:
        return self._apply(x, "forward")

    def _adjoint(self, y: Array) -> Array:
        return self._apply(y, "adjoint")

    def _gram(self, x: Array) -> Array:
        # Columns all the way: saves a transposition each way.
        return self._apply(x, "forward", "adjoint")

    def _apply(self, x: Array, *calls: str) -> Array:
        if not (backend.is_numpy(x) or array_api_compat.is_torch_array(x)):
            raise TypeError(
                "a SciPy sparse phi works on NumPy arrays and torch tensors, got an array of "
                f"{backend.library(x)}; pass a dense phi instead"
            )
        xp = backend.namespace(x)
        rows = xp.reshape(x, (-1, x.shape[-1]))
        n_rows = rows.shape[0]
        # A complex copy of a real matrix would be made at every product.
        split = backend.is_complex(x) and not self.is_complex
        if split:
            rows = xp.concat([xp.real(rows), xp.imag(rows)], axis=0)
        elif self.is_complex:
            rows = xp.astype(rows, backend.complex_dtype(x.dtype, xp), copy=False)
        columns = rows.T
        for call in calls:
            columns = self._matrix_like(x, call) @ columns
        out: Any = columns.T
        if split:
            out = out[:n_rows, :] + 1j * out[n_rows:, :]
        out = np.ascontiguousarray(out) if backend.is_numpy(out) else out.contiguous()
        return xp.reshape(out, (*x.shape[:-1], out.shape[-1]))

    def _matrix_like(self, x: Array, call: str) -> Any:
        return self._copies.get(x, lambda: self._convert(x, call), call)

    def _convert(self, x: Array, call: str) -> Any:
        csr = self._csr if call == "forward" else self._conjugate_transpose
        xp = backend.namespace(x)
        convert = backend.complex_dtype if self.is_complex else backend.real_dtype
        dtype = convert(x.dtype, xp)
        if backend.is_numpy(x):
            return csr.astype(dtype, copy=False)
        import torch

        with warnings.catch_warnings():
            # torch says once that its CSR support is in beta.
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(
                torch.from_numpy(csr.indptr.astype(np.int64)),
                torch.from_numpy(csr.indices.astype(np.int64)),
                torch.from_numpy(csr.data.copy()),
                size=csr.shape,
                dtype=dtype,
                device=x.device,
                check_invariants=False,
            )

    def _column_norms_squared(self, like: Array) -> Array:
        return _squares_by_row(self._conjugate_transpose, like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        squares = self._csr.copy()
        squares.data = backend.abs_squared(squares.data).astype(np.float64)
        found = np.asarray(backend.to_numpy(weights) @ squares)
        return backend.from_numpy(found, weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return _squares_by_row(self._csr, like)

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        return Sparse(self._csr[index])

    def _select_columns(self, index: np.ndarray) -> LinearOperator:
        return Sparse(self._csr[:, index])


def _squares_by_row(csr: scipy.sparse.csr_array, like: Array) -> Array:
    squares = backend.abs_squared(csr.data).astype(np.float64)
    row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    return backend.from_numpy(np.bincount(row, weights=squares, minlength=csr.shape[0]), like)
