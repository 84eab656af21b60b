"""A matrix that is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

from cofem import backend
from cofem.arguments import numbers
from cofem.backend import Array, Cache, Constant
from cofem.operators._matmul import times
from cofem.operators.base import LinearOperator

if TYPE_CHECKING:
    import numpy as np

# The D × D Gram matrix is kept up to this D: 512 MiB in float64.
GRAM_UP_TO = 8192
# Entries that are squared at a time: 32 MiB in float64, so that no second matrix is made.
SQUARED_AT_ONCE = 1 << 22


@final
class Dense(LinearOperator):
    """A matrix of any array library.

    ``gram`` multiplies with ΦᴴΦ, made at its first call, where that is the smaller
    matrix (D ≤ N, and D ≤ 8192 to bound the memory), and with Φ and Φᴴ otherwise.

    Parameters
    ----------
    matrix : array of shape (N, D)
        Integers are converted to float64. It is not copied.
    name : str
        What the errors call it.

    Examples
    --------
    >>> import numpy as np
    >>> phi = Dense(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]))
    >>> phi.forward(np.array([1.0, 1.0, 1.0]))
    array([3., 2.])
    >>> phi.adjoint(np.array([1.0, 0.0]))
    array([1., 2., 0.])
    """

    splits_rows = False
    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, matrix: Any, *, name: str = "phi") -> None:
        matrix = numbers(matrix, name, 2)
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.is_complex = backend.is_complex(matrix)
        self._matrix = Constant(matrix)
        self._grams = Cache()

    @property
    def matrix(self) -> Array:
        """The matrix, shape (N, D)."""
        return self._matrix.value

    def to_dense(self, like: Array | None = None) -> Array:
        """Return the matrix itself, in the library and precision of ``like``."""
        return self.matrix if like is None else self._matrix.like(like)

    def _forward(self, x: Array) -> Array:
        matrix = self._matrix.like(x)
        return times(x, backend.namespace(x).matrix_transpose(matrix))

    def _adjoint(self, y: Array) -> Array:
        # yΦ* is computed as (y*Φ)*: conjugating the rows is cheaper than conjugating the matrix.
        matrix = self._matrix.like(y)
        if not self.is_complex:
            return times(y, matrix)
        return backend.conj(times(backend.conj(y), matrix))

    def _gram(self, x: Array) -> Array:
        n, d = self.shape
        if d > min(n, GRAM_UP_TO):
            return self._adjoint(self._forward(x))
        return times(x, self._grams.get(x, lambda: self._make_gram(x)))

    def _make_gram(self, x: Array) -> Array:
        """Return (ΦᴴΦ)ᵀ, which multiplies rows from the right."""
        matrix = self._matrix.like(x)
        return backend.namespace(x).matrix_transpose(matrix) @ backend.conj(matrix)

    def _column_norms_squared(self, like: Array) -> Array:
        xp = backend.namespace(like)
        total: Any = sum(
            xp.sum(backend.abs_squared(rows), axis=0) for _, rows in self._row_blocks(like)
        )
        return total

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        total: Any = sum(
            weights[start : start + rows.shape[0]] @ backend.abs_squared(rows)
            for start, rows in self._row_blocks(weights)
        )
        return total

    def _row_norms_squared(self, like: Array) -> Array:
        xp = backend.namespace(like)
        blocks = self._row_blocks(like)
        return xp.concat([xp.sum(backend.abs_squared(rows), axis=1) for _, rows in blocks])

    def _row_blocks(self, like: Array) -> Iterator[tuple[int, Array]]:
        """Yield the number of the first row and the rows, a few at a time."""
        matrix = self._matrix.like(like)
        step = max(1, SQUARED_AT_ONCE // self.shape[1])
        for start in range(0, self.shape[0], step):
            yield start, matrix[start : min(start + step, self.shape[0]), :]

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        return Dense(self._taken(index, 0))

    def _select_columns(self, index: np.ndarray) -> LinearOperator:
        return Dense(self._taken(index, 1))

    def _taken(self, index: np.ndarray, axis: int) -> Array:
        where = backend.from_numpy(index, self.matrix)
        return backend.namespace(self.matrix).take(self.matrix, where, axis=axis)
