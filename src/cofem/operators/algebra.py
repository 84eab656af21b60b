"""Operators made of operators: one named node for each way to combine them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators.adapters import as_operator
from cofem.operators.base import LinearOperator
from cofem.operators.elementary import Diagonal, Identity
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


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


def stack(operators: Sequence[Any]) -> LinearOperator:
    """Stack operators with the same D vertically: their outputs are concatenated.

    Parameters
    ----------
    operators : sequence of operators, or of what :func:`as_operator` accepts
        Shapes (N_1, D), (N_2, D), …

    Returns
    -------
    LinearOperator of shape (N_1 + N_2 + …, D)

    Examples
    --------
    >>> import numpy as np
    >>> stack([Identity(2), np.array([[1.0, 1.0]])]).forward(np.array([3.0, 4.0]))
    array([3., 4., 7.])
    """
    parts = [as_operator(op, name=f"operators[{i}]") for i, op in enumerate(operators)]
    if not parts:
        raise ValueError("operators is empty: stack needs at least one")
    return parts[0] if len(parts) == 1 else Stack(parts)


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
        _inherit(self, op)
        self.exact_column_norms = op.exact_row_norms or norms_are_exact(self.shape)
        self.exact_row_norms = op.exact_column_norms

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The operator itself."""
        return self.op

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
class Product(LinearOperator):
    """First ``right``, then ``left``.

    Examples
    --------
    >>> import numpy as np
    >>> (Diagonal(np.array([1.0, 2.0])) @ Identity(2)).forward(np.array([3.0, 4.0]))
    array([3., 8.])
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        if left.shape[1] != right.shape[0]:
            raise ValueError(
                f"a @ b: the shapes {left.shape} and {right.shape} do not fit, "
                f"{left.shape[1]} is not {right.shape[0]}"
            )
        self.left, self.right = left, right
        self.shape = (left.shape[0], right.shape[1])
        _inherit(self, left, right)
        self.exact_column_norms = norms_are_exact(self.shape) or (
            isinstance(right, (Diagonal, Identity)) and left.exact_column_norms
        )

    def _forward(self, x: Array) -> Array:
        return self.left._forward(self.right._forward(x))

    def _adjoint(self, y: Array) -> Array:
        return self.right._adjoint(self.left._adjoint(y))

    def _gram(self, x: Array) -> Array:
        # The left factor's own Gram may cost less than both of its products.
        return self.right._adjoint(self.left._gram(self.right._forward(x)))

    def _column_norms_squared(self, like: Array) -> Array:
        if isinstance(self.right, (Diagonal, Identity)):
            return self.left.column_norms_squared(like) * self.right.column_norms_squared(like)
        return estimate_column_norms_squared(self, like)


@final
class Sum(LinearOperator):
    """The sum of two operators of one shape.

    Examples
    --------
    >>> import numpy as np
    >>> (Identity(2) + Identity(2)).forward(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        if left.shape != right.shape:
            raise ValueError(f"a + b: the shapes {left.shape} and {right.shape} differ")
        self.left, self.right = left, right
        self.shape = left.shape
        _inherit(self, left, right)
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
    >>> (2 * Identity(2)).forward(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    def __init__(self, factor: Any, op: LinearOperator) -> None:
        # A Python number leaves the precision of the array alone; a NumPy scalar does not.
        value = complex(factor)
        if not (math.isfinite(value.real) and math.isfinite(value.imag)):
            raise ValueError(f"the factor of an operator must be finite, got {factor!r}")
        is_complex = (
            backend.is_complex(factor)
            if backend.is_array(factor)
            else not isinstance(factor, numbers.Real)
        )
        self.factor: float | complex = value if is_complex else value.real
        self.op = op
        self.shape = op.shape
        _inherit(self, op)
        self.is_complex = op.is_complex or is_complex
        self.exact_column_norms = op.exact_column_norms
        self.exact_row_norms = op.exact_row_norms

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


@final
class Stack(LinearOperator):
    """Operators with the same D, their outputs one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> Stack([Identity(2), 2 * Identity(2)]).forward(np.array([3.0, 4.0]))
    array([3., 4., 6., 8.])
    """

    def __init__(self, operators: Sequence[LinearOperator]) -> None:
        widths = sorted({op.shape[1] for op in operators})
        if len(widths) != 1:
            raise ValueError(
                f"operators must have the same number of columns D to be stacked, got {widths}"
            )
        self.operators = tuple(operators)
        self.shape = (sum(op.shape[0] for op in operators), widths[0])
        _inherit(self, *operators)
        self.exact_column_norms = all(op.exact_column_norms for op in operators)
        self.exact_row_norms = all(op.exact_row_norms for op in operators)

    def _forward(self, x: Array) -> Array:
        xp = backend.namespace(x)
        outputs = [op._forward(x) for op in self.operators]
        if self.is_complex:
            dtype = backend.complex_dtype(x.dtype, xp)
            outputs = [xp.astype(out, dtype, copy=False) for out in outputs]
        return xp.concat(outputs, axis=-1)

    def _adjoint(self, y: Array) -> Array:
        start, total = 0, None
        for op in self.operators:
            stop = start + op.shape[0]
            part = op._adjoint(y[..., start:stop])
            total = part if total is None else total + part
            start = stop
        return total

    def _gram(self, x: Array) -> Array:
        total = self.operators[0]._gram(x)
        for op in self.operators[1:]:
            total = total + op._gram(x)
        return total

    def _column_norms_squared(self, like: Array) -> Array:
        total = self.operators[0].column_norms_squared(like)
        for op in self.operators[1:]:
            total = total + op.column_norms_squared(like)
        return total

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        start, total = 0, None
        for op in self.operators:
            stop = start + op.shape[0]
            part = op._weighted_column_norms_squared(weights[start:stop])
            total = part if total is None else total + part
            start = stop
        return total

    def _row_norms_squared(self, like: Array) -> Array:
        xp = backend.namespace(like)
        dtype = backend.real_dtype(like.dtype, xp)
        parts = [xp.astype(op._row_norms_squared(like), dtype) for op in self.operators]
        return xp.concat(parts, axis=0)


def _inherit(node: LinearOperator, *parts: LinearOperator) -> None:
    """Derive what a node is from what its parts are."""
    node.is_complex = any(part.is_complex for part in parts)
    node.trusted = all(part.trusted for part in parts)
    node.splits_rows = all(part.splits_rows for part in parts)
