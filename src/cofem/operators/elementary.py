"""The identity and diagonal matrices."""

from __future__ import annotations

from typing import Any, final

from cofem import backend
from cofem.arguments import count, numbers
from cofem.backend import Array, Constant
from cofem.operators.base import LinearOperator


@final
class Identity(LinearOperator):
    """The identity on vectors of length n.

    Parameters
    ----------
    n : int
        N = D = n.

    Examples
    --------
    >>> import numpy as np
    >>> Identity(3).forward(np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """

    exact_row_norms = True
    exact_weighted_norms = True
    one_per_row = True
    one_per_column = True

    def __init__(self, n: int) -> None:
        n = count(n, "n")
        self.shape = (n, n)

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The identity itself."""
        return self

    # Copies, because the caller may write into the result.
    def _forward(self, x: Array) -> Array:
        return backend.namespace(x).asarray(x, copy=True)

    def _adjoint(self, y: Array) -> Array:
        return self._forward(y)

    def _gram(self, x: Array) -> Array:
        return self._forward(x)

    def _column_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[1], like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self._forward(weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._column_norms_squared(like)


@final
class Diagonal(LinearOperator):
    """Multiplication of every coordinate with its own weight.

    Parameters
    ----------
    weights : array of shape (n,), real or complex
        N = D = n.

    Examples
    --------
    >>> import numpy as np
    >>> Diagonal(np.array([1.0, -2.0])).forward(np.array([3.0, 4.0]))
    array([ 3., -8.])
    """

    exact_row_norms = True
    exact_weighted_norms = True
    one_per_row = True
    one_per_column = True

    def __init__(self, weights: Any) -> None:
        weights = numbers(weights, "weights", 1)
        n = int(weights.shape[0])
        self.shape = (n, n)
        self.is_complex = backend.is_complex(weights)
        self._weights = Constant(weights)

    @property
    def weights(self) -> Array:
        """The diagonal, shape (n,)."""
        return self._weights.value

    def _forward(self, x: Array) -> Array:
        return x * self._weights.like(x)

    def _adjoint(self, y: Array) -> Array:
        return y * backend.conj(self._weights.like(y))

    def _gram(self, x: Array) -> Array:
        return x * backend.abs_squared(self._weights.like(x))

    def _column_norms_squared(self, like: Array) -> Array:
        return backend.abs_squared(self._weights.like(like))

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return weights * backend.abs_squared(self._weights.like(weights))

    def _row_norms_squared(self, like: Array) -> Array:
        return self._column_norms_squared(like)
