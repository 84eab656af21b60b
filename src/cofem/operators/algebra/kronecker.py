"""One operator along every axis of an array."""

from __future__ import annotations

from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators.adapters import as_operator
from cofem.operators.algebra.nodes import inherit
from cofem.operators.base import LinearOperator


def kronecker(*operators: Any) -> LinearOperator:
    """Return A ⊗ B ⊗ …: A along the first axis of an array, B along the second.

    The array is flattened in C order, so that for two of them
    ``kronecker(a, b).forward(x.ravel())`` is ``(A @ x @ B.T).ravel()``; no product of
    the matrices is formed.

    Parameters
    ----------
    *operators : operators, or what :func:`as_operator` accepts
        Shapes (N_1, D_1), (N_2, D_2), …

    Returns
    -------
    LinearOperator of shape (N_1 N_2 …, D_1 D_2 …)

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([[1.0, 2.0]]), np.array([[1.0], [3.0]])
    >>> kronecker(a, b).to_dense()
    array([[1., 2.],
           [3., 6.]])
    """
    parts = [as_operator(op, name=f"operators[{i}]") for i, op in enumerate(operators)]
    if not parts:
        raise ValueError("kronecker needs at least one operator")
    product = parts[0]
    for part in parts[1:]:
        product = Kronecker(product, part)
    return product


@final
class Kronecker(LinearOperator):
    """The Kronecker product of two operators; see :func:`kronecker`.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
    >>> Kronecker(Identity(2), Identity(3)).shape
    (6, 6)
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        self.left, self.right = left, right
        self.shape = (left.shape[0] * right.shape[0], left.shape[1] * right.shape[1])
        inherit(self, left, right)
        self.exact_column_norms = left.exact_column_norms and right.exact_column_norms
        self.exact_row_norms = left.exact_row_norms and right.exact_row_norms
        self.one_per_row = left.one_per_row and right.one_per_row
        self.one_per_column = left.one_per_column and right.one_per_column

    def _forward(self, x: Array) -> Array:
        return self._along_both(x, "_forward", 1, 0)

    def _adjoint(self, y: Array) -> Array:
        return self._along_both(y, "_adjoint", 0, 1)

    def _gram(self, x: Array) -> Array:
        return self._along_both(x, "_gram", 1, 1)

    def _along_both(self, x: Array, call: str, side: int, other: int) -> Array:
        xp = backend.namespace(x)
        table = xp.reshape(x, (*x.shape[:-1], self.left.shape[side], self.right.shape[side]))
        table = getattr(self.right, call)(table)
        # The left factor works on rows too, so the columns of the table are its rows.
        table = getattr(self.left, call)(xp.matrix_transpose(table))
        return xp.reshape(xp.matrix_transpose(table), (*x.shape[:-1], self.shape[other]))

    def _column_norms_squared(self, like: Array) -> Array:
        left, right = (op.column_norms_squared(like) for op in (self.left, self.right))
        return _outer(left, right)

    def _row_norms_squared(self, like: Array) -> Array:
        return _outer(self.left._row_norms_squared(like), self.right._row_norms_squared(like))


def _outer(left: Array, right: Array) -> Array:
    xp = backend.namespace(left)
    return xp.reshape(left[:, None] * right[None, :], (-1,))
