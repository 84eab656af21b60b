"""The adjoint, the conjugate, products, sums and multiples of operators."""

from __future__ import annotations

import cmath
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators.algebra.terms import python_number
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


@final
class Adjoint(LinearOperator):
    """The conjugate transpose of an operator, as an operator of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> Dense(np.array([[1.0, 2.0]])).H.forward(np.array([3.0]))
    array([3., 6.])
    """

    def __init__(self, op: LinearOperator) -> None:
        self.op = op
        self.shape = (op.shape[1], op.shape[0])
        inherit(self, op)
        self.exact_column_norms = op.exact_row_norms or norms_are_exact(self.shape)
        self.exact_row_norms = op.exact_column_norms
        self.one_per_row, self.one_per_column = op.one_per_column, op.one_per_row

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The operator itself."""
        return self.op

    def conj(self) -> LinearOperator:
        """Return the transpose of the operator."""
        return self.op.conj().H

    def _forward(self, x: Array) -> Array:
        return self.op._adjoint(x)

    def _adjoint(self, y: Array) -> Array:
        return self.op._forward(y)

    def _column_norms_squared(self, like: Array) -> Array:
        if self.op.exact_row_norms:
            return self.op._row_norms_squared(like)
        return estimate_column_norms_squared(self, like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self.op._column_norms_squared(like)


@final
class Conjugate(LinearOperator):
    """The operator whose matrix has the conjugate entries; its adjoint is the transpose.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> Dense(np.array([[1.0 + 1j, 2.0]])).conj().forward(np.array([1.0, 1.0]))
    array([3.-1.j])
    """

    def __init__(self, op: LinearOperator) -> None:
        self.op = op
        self.shape = op.shape
        inherit(self, op)
        _same_moduli(self, op)

    def conj(self) -> LinearOperator:
        """Return the operator itself."""
        return self.op

    def _forward(self, x: Array) -> Array:
        return backend.conj(self.op._forward(backend.conj(x)))

    def _adjoint(self, y: Array) -> Array:
        return backend.conj(self.op._adjoint(backend.conj(y)))

    def _gram(self, x: Array) -> Array:
        return backend.conj(self.op._gram(backend.conj(x)))

    def _column_norms_squared(self, like: Array) -> Array:
        return self.op._column_norms_squared(like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self.op._row_norms_squared(like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self.op._weighted_column_norms_squared(weights)


@final
class Product(LinearOperator):
    """First ``right``, then ``left``.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Diagonal, Identity
    >>> (Diagonal(np.array([1.0, 2.0])) @ Identity(2)).forward(np.array([3.0, 4.0]))
    array([3., 8.])
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        if left.shape[1] != right.shape[0]:
            raise ValueError(
                f"a @ b: the shapes {left.shape} and {right.shape} do not fit, "
                f"{left.shape[1]} is not {right.shape[0]}"
            )
        if left.field != "complex" and right.is_complex:
            raise ValueError(
                "a @ b: a is linear over the reals only (PyLops: clinear=False) and b gives it "
                "complex numbers; combine them before they are made one of cofem's operators"
            )
        self.left, self.right = left, right
        self.shape = (left.shape[0], right.shape[1])
        inherit(self, left, right)
        # Where no entry of the product is a sum of two, the squares multiply like the
        # entries do: Σ_i w_i |(LR)_ij|² = Σ_k (Σ_i w_i |L_ik|²) |R_kj|².
        self._squares_multiply = left.one_per_row or right.one_per_column
        by_squares = self._squares_multiply and right.exact_weighted_norms
        self.exact_weighted_norms = by_squares and left.exact_weighted_norms
        self.exact_column_norms = norms_are_exact(self.shape) or (
            by_squares and left.exact_column_norms
        )
        self.one_per_row = left.one_per_row and right.one_per_row
        self.one_per_column = left.one_per_column and right.one_per_column

    def _forward(self, x: Array) -> Array:
        return self.left._forward(self.right._forward(x))

    def _adjoint(self, y: Array) -> Array:
        return self.right._adjoint(self.left._adjoint(y))

    def _gram(self, x: Array) -> Array:
        # The left factor's own Gram may cost less than both of its products.
        return self.right._adjoint(self.left._gram(self.right._forward(x)))

    def _column_norms_squared(self, like: Array) -> Array:
        if self._squares_multiply and self.right.exact_weighted_norms:
            return self.right._weighted_column_norms_squared(self.left.column_norms_squared(like))
        return estimate_column_norms_squared(self, like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        if self.exact_weighted_norms:
            inner = self.left._weighted_column_norms_squared(weights)
            return self.right._weighted_column_norms_squared(inner)
        return super()._weighted_column_norms_squared(weights)


@final
class Sum(LinearOperator):
    """The sum of two operators of one shape.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
    >>> (Identity(2) + Identity(2)).forward(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        if left.shape != right.shape:
            raise ValueError(f"a + b: the shapes {left.shape} and {right.shape} differ")
        self.left, self.right = left, right
        self.shape = left.shape
        inherit(self, left, right)
        self.exact_column_norms = norms_are_exact(self.shape)

    def _forward(self, x: Array) -> Array:
        return self.left._forward(x) + self.right._forward(x)

    def _adjoint(self, y: Array) -> Array:
        return self.left._adjoint(y) + self.right._adjoint(y)

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)


@final
class Scaled(LinearOperator):
    """An operator times a number.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
    >>> (2 * Identity(2)).forward(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    def __init__(self, factor: Any, op: LinearOperator) -> None:
        self.factor = python_number(factor)
        if not cmath.isfinite(self.factor):
            raise ValueError(f"the factor of an operator must be finite, got {factor!r}")
        self.op = op
        self.shape = op.shape
        inherit(self, op)
        self.is_complex = op.is_complex or isinstance(self.factor, complex)
        _same_moduli(self, op)

    def _forward(self, x: Array) -> Array:
        return self.factor * self.op._forward(x)

    def _adjoint(self, y: Array) -> Array:
        return self.factor.conjugate() * self.op._adjoint(y)

    def _gram(self, x: Array) -> Array:
        return self._square * self.op._gram(x)

    def _column_norms_squared(self, like: Array) -> Array:
        return self._square * self.op._column_norms_squared(like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._square * self.op._row_norms_squared(like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self._square * self.op._weighted_column_norms_squared(weights)

    @property
    def _square(self) -> float:
        return abs(self.factor) ** 2


def inherit(node: LinearOperator, *parts: LinearOperator) -> None:
    """Derive what a node is from what its parts are."""
    node.is_complex = any(part.is_complex for part in parts)
    node.trusted = all(part.trusted for part in parts)
    node.splits_rows = all(part.splits_rows for part in parts)
    node.single_precision = any(part.single_precision for part in parts)
    fields = {part.field for part in parts}
    node.field = next(field for field in ("undecided", "real", "complex") if field in fields)


def _same_moduli(node: LinearOperator, op: LinearOperator) -> None:
    """Let a node know about its entries what is known about those of ``op``."""
    node.exact_column_norms = op.exact_column_norms
    node.exact_row_norms = op.exact_row_norms
    node.exact_weighted_norms = op.exact_weighted_norms
    node.one_per_row, node.one_per_column = op.one_per_row, op.one_per_column
