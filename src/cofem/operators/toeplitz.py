"""Matrices that are constant along their diagonals, or across them."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import scipy.fft

from cofem import backend
from cofem.arguments import host_vector
from cofem.backend import Array, Cache, Constant
from cofem.operators.base import LinearOperator


@final
class Toeplitz(LinearOperator):
    """A matrix with constant diagonals: ``Φ_ij = column[i−j]``, or ``row[j−i]`` above them.

    A product costs two FFTs of at least N + D − 1 samples; no matrix is stored.

    Parameters
    ----------
    column : array of shape (N,), real or complex
        The first column.
    row : array of shape (D,), optional
        The first row; its first entry must be that of the column. By default the
        conjugate of the column, as in ``scipy.linalg.toeplitz``.

    Examples
    --------
    >>> Toeplitz([1.0, 2.0], [1.0, 5.0, 6.0]).to_dense().round(6)
    array([[1., 5., 6.],
           [2., 1., 5.]])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, column: Any, row: Any = None) -> None:
        self.column = host_vector(column, "column")
        self.row = np.conj(self.column) if row is None else host_vector(row, "row")
        if row is not None and self.row[0] != self.column[0]:
            raise ValueError(
                f"row and column share their first entry, got {self.row[0]} and {self.column[0]}"
            )
        self.shape = (self.column.size, self.row.size)
        self.is_complex = np.iscomplexobj(self.column) or np.iscomplexobj(self.row)
        self._spectra = Cache()

    def _forward(self, x: Array) -> Array:
        return self._filter(x, self.shape[0], conjugate=False)

    def _adjoint(self, y: Array) -> Array:
        return self._filter(y, self.shape[1], conjugate=True)

    def _filter(self, x: Array, length: int, conjugate: bool) -> Array:
        """Multiply with a circulant matrix whose upper left corner is Φ, or Φᴴ."""
        xp, fft, n = backend.namespace(x), backend.fft_module(x), self._padded
        is_complex = self.is_complex or backend.is_complex(x)
        spectrum = self._spectra.get(
            x, lambda: self._spectrum(x, is_complex, conjugate), is_complex, conjugate
        )
        if not is_complex:
            return fft.irfft(fft.rfft(x, n=n) * spectrum, n=n)[..., :length]
        x = xp.astype(x, backend.complex_dtype(x.dtype, xp), copy=False)
        return fft.ifft(fft.fft(x, n=n) * spectrum, n=n)[..., :length]

    @property
    def _padded(self) -> int:
        return int(scipy.fft.next_fast_len(sum(self.shape) - 1, real=True))

    def _spectrum(self, x: Array, is_complex: bool, conjugate: bool) -> Array:
        circle = np.zeros(self._padded, np.result_type(self.column, self.row, np.float64))
        circle[: self.column.size] = self.column
        if self.row.size > 1:
            circle[1 - self.row.size :] = self.row[:0:-1]
        spectrum = np.fft.fft(circle) if is_complex else np.fft.rfft(circle)
        return Constant(np.conj(spectrum) if conjugate else spectrum).like(x)

    def _column_norms_squared(self, like: Array) -> Array:
        return backend.from_numpy(_sums(self.column, self.row), like)

    def _row_norms_squared(self, like: Array) -> Array:
        return backend.from_numpy(_sums(self.row, self.column), like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        squares = Toeplitz(backend.abs_squared(self.column), backend.abs_squared(self.row))
        # Rounding in the transforms can make a sum of squares negative.
        return backend.namespace(weights).clip(squares._adjoint(weights), min=0.0)


def _sums(column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return the squared norms of the columns.

    Column j holds n neighbours of (row[D−1], …, row[1], column[0], …, column[n−1]), and
    every column begins one place before the last one.
    """
    diagonals = np.concatenate([row[:0:-1], column])
    squares = backend.abs_squared(diagonals).astype(np.float64)
    return _window_sums(squares, column.size)[::-1].copy()


def _window_sums(x: np.ndarray, length: int) -> np.ndarray:
    """Return the sums over all runs of ``length`` neighbours, without cancellation.

    A run is the end of one block of that length and the beginning of the next. (Differences of one
    running sum would lose small values beside large ones.)
    """
    blocks = np.zeros((-(-x.size // length), length))
    blocks.reshape(-1)[: x.size] = x
    beginning = np.cumsum(blocks, axis=1).reshape(-1)
    end = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1)
    first = np.arange(x.size - length + 1)
    last = first + length - 1
    return np.where(first % length == 0, beginning[last], end[first] + beginning[last])


@final
class Hankel(LinearOperator):
    """A matrix that is constant across its diagonals: ``Φ_ij = h[i+j]``.

    Parameters
    ----------
    column : array of shape (N,), real or complex
        The first column, h[0 … N−1].
    row : array of shape (D,)
        The last row, h[N−1 … N+D−2]; its first entry must be the last of the column.

    Examples
    --------
    >>> Hankel([1.0, 2.0], [2.0, 3.0, 4.0]).to_dense().round(6)
    array([[1., 2., 3.],
           [2., 3., 4.]])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, column: Any, row: Any) -> None:
        self.column, self.row = host_vector(column, "column"), host_vector(row, "row")
        if self.row[0] != self.column[-1]:
            raise ValueError(
                f"row begins with the last entry of column, got {self.row[0]} and {self.column[-1]}"
            )
        h = np.concatenate([self.column, self.row[1:]])
        d = self.row.size
        # Its columns, in reverse order, are those of a Toeplitz matrix.
        self._reversed = Toeplitz(h[d - 1 :], h[:d][::-1])
        self.shape = self._reversed.shape
        self.is_complex = self._reversed.is_complex

    def _forward(self, x: Array) -> Array:
        return self._reversed._forward(_flip(x))

    def _adjoint(self, y: Array) -> Array:
        return _flip(self._reversed._adjoint(y))

    def _column_norms_squared(self, like: Array) -> Array:
        return _flip(self._reversed._column_norms_squared(like))

    def _row_norms_squared(self, like: Array) -> Array:
        return self._reversed._row_norms_squared(like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return _flip(self._reversed._weighted_column_norms_squared(weights))


def _flip(x: Array) -> Array:
    return backend.namespace(x).flip(x, axis=-1)
