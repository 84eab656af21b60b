"""Operators beside, below and independent of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators.adapters import as_operator
from cofem.operators.algebra.nodes import inherit
from cofem.operators.base import LinearOperator


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
    >>> from cofem.operators import Identity
    >>> stack([Identity(2), np.array([[1.0, 1.0]])]).forward(np.array([3.0, 4.0]))
    array([3., 4., 7.])
    """
    parts = _parts(operators, "stack")
    return parts[0] if len(parts) == 1 else Stack(parts)


def hstack(operators: Sequence[Any]) -> LinearOperator:
    """Put operators with the same N side by side: each has unknowns of its own.

    Parameters
    ----------
    operators : sequence of operators, or of what :func:`as_operator` accepts
        Shapes (N, D_1), (N, D_2), …

    Returns
    -------
    LinearOperator of shape (N, D_1 + D_2 + …)

    Examples
    --------
    A signal that is spikes plus a few cosines:

    >>> import numpy as np
    >>> from cofem.operators import DCT, Identity
    >>> phi = hstack([Identity(4), DCT(4)])
    >>> phi.forward(np.array([0.0, 0.0, 5.0, 0.0, 2.0, 0.0, 0.0, 0.0]))
    array([1., 1., 6., 1.])
    """
    parts = _parts(operators, "hstack")
    heights = sorted({op.shape[0] for op in parts})
    if len(heights) != 1:
        raise ValueError(
            f"operators must have the same number of rows N to stand side by side, got {heights}"
        )
    return parts[0] if len(parts) == 1 else Stack([op.H for op in parts]).H


def block_diagonal(operators: Sequence[Any]) -> LinearOperator:
    """Combine independent operators: each has its own unknowns and its own data.

    Parameters
    ----------
    operators : sequence of operators, or of what :func:`as_operator` accepts
        Shapes (N_1, D_1), (N_2, D_2), …

    Returns
    -------
    LinearOperator of shape (N_1 + N_2 + …, D_1 + D_2 + …)

    Examples
    --------
    >>> import numpy as np
    >>> block_diagonal([np.array([[1.0, 1.0]]), np.array([[2.0]])]).to_dense()
    array([[1., 1., 0.],
           [0., 0., 2.]])
    """
    parts = _parts(operators, "block_diagonal")
    return parts[0] if len(parts) == 1 else BlockDiagonal(parts)


def _parts(operators: Sequence[Any], call: str) -> list[LinearOperator]:
    parts = [as_operator(op, name=f"operators[{i}]") for i, op in enumerate(operators)]
    if not parts:
        raise ValueError(f"operators is empty: {call} needs at least one")
    return parts


@final
class Stack(LinearOperator):
    """Operators with the same D, their outputs one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
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
        _inherit_norms(self, operators)

    def _forward(self, x: Array) -> Array:
        return _joined([op._forward(x) for op in self.operators], x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        total: Any = None
        for op, piece in _pieces(self.operators, y, 0):
            part = op._adjoint(piece)
            total = part if total is None else total + part
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
        total: Any = None
        for op, piece in _pieces(self.operators, weights, 0):
            part = op._weighted_column_norms_squared(piece)
            total = part if total is None else total + part
        return total

    def _row_norms_squared(self, like: Array) -> Array:
        return _norms([op._row_norms_squared(like) for op in self.operators], like)


@final
class BlockDiagonal(LinearOperator):
    """Operators along the diagonal, zero elsewhere; see :func:`block_diagonal`.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
    >>> BlockDiagonal([Identity(1), 2 * Identity(2)]).forward(np.array([3.0, 4.0, 5.0]))
    array([ 3.,  8., 10.])
    """

    def __init__(self, operators: Sequence[LinearOperator]) -> None:
        self.operators = tuple(operators)
        self.shape = (
            sum(op.shape[0] for op in operators), sum(op.shape[1] for op in operators)
        )  # fmt: skip
        _inherit_norms(self, operators)
        self.one_per_column = all(op.one_per_column for op in operators)

    def _forward(self, x: Array) -> Array:
        outputs = [op._forward(piece) for op, piece in _pieces(self.operators, x, 1)]
        return _joined(outputs, x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        outputs = [op._adjoint(piece) for op, piece in _pieces(self.operators, y, 0)]
        return _joined(outputs, y, self.is_complex)

    def _gram(self, x: Array) -> Array:
        outputs = [op._gram(piece) for op, piece in _pieces(self.operators, x, 1)]
        return _joined(outputs, x, self.is_complex)

    def _column_norms_squared(self, like: Array) -> Array:
        return _norms([op.column_norms_squared(like) for op in self.operators], like)

    def _row_norms_squared(self, like: Array) -> Array:
        return _norms([op._row_norms_squared(like) for op in self.operators], like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        parts = [
            op._weighted_column_norms_squared(piece)
            for op, piece in _pieces(self.operators, weights, 0)
        ]
        return _norms(parts, weights)


def _pieces(
    operators: Sequence[LinearOperator], x: Array, side: int
) -> Iterator[tuple[LinearOperator, Array]]:
    """Yield every operator with its part of x, whose last axis runs over their side 0 or 1."""
    start = 0
    for op in operators:
        stop = start + op.shape[side]
        yield op, x[..., start:stop]
        start = stop


def _joined(outputs: list[Array], x: Array, is_complex: bool) -> Array:
    """Concatenate along the last axis; real parts become complex where the whole is."""
    xp = backend.namespace(x)
    if is_complex:
        dtype = backend.complex_dtype(x.dtype, xp)
        outputs = [xp.astype(out, dtype, copy=False) for out in outputs]
    return xp.concat(outputs, axis=-1)


def _norms(parts: list[Array], like: Array) -> Array:
    """Concatenate norms in the precision of ``like``."""
    xp = backend.namespace(like)
    dtype = backend.real_dtype(like.dtype, xp)
    return xp.concat([xp.astype(part, dtype, copy=False) for part in parts], axis=0)


def _inherit_norms(node: LinearOperator, parts: Sequence[LinearOperator]) -> None:
    """Derive what a node is, and which of its norms are exact, from its parts."""
    inherit(node, *parts)
    node.exact_column_norms = all(op.exact_column_norms for op in parts)
    node.exact_row_norms = all(op.exact_row_norms for op in parts)
    node.exact_weighted_norms = all(op.exact_weighted_norms for op in parts)
    node.one_per_row = all(op.one_per_row for op in parts)
