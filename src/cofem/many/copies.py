"""Φ side by side: the operator of many problems that share it."""

from __future__ import annotations

from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator


@final
class Copies(LinearOperator):
    """Φ on every one of P parts of a vector: (…, P·D) to (…, P·N).

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> Copies(Dense(np.array([[1.0, 2.0]])), 2).to_dense()
    array([[1., 2., 0., 0.],
           [0., 0., 1., 2.]])
    """

    def __init__(self, inner: LinearOperator, number: int) -> None:
        self._inner, self._number = inner, number
        self.shape = (number * inner.shape[0], number * inner.shape[1])
        self.is_complex, self.field = inner.is_complex, inner.field
        self.exact_column_norms = inner.exact_column_norms

    def _forward(self, x: Array) -> Array:
        return self._parted(self._inner.forward, x)

    def _adjoint(self, y: Array) -> Array:
        return self._parted(self._inner.adjoint, y)

    def _gram(self, x: Array) -> Array:
        return self._parted(self._inner.gram, x)

    def _parted(self, product: Any, x: Array) -> Array:
        xp, front = backend.namespace(x), tuple(x.shape[:-1])
        parts = product(xp.reshape(x, (*front, self._number, x.shape[-1] // self._number)))
        return xp.reshape(parts, (*front, -1))

    def _column_norms_squared(self, like: Array) -> Array:
        xp = backend.namespace(like)
        return xp.tile(self._inner.column_norms_squared(like), (self._number,))
