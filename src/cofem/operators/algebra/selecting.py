"""Some rows or some columns of an operator."""

from __future__ import annotations

import operator
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import count
from cofem.backend import Array
from cofem.operators._selection import Selection
from cofem.operators.base import LinearOperator


def selected(op: LinearOperator, key: Any) -> LinearOperator:
    """Return ``op[rows]``, ``op[rows, :]`` or ``op[rows, columns]`` as an operator.

    Examples
    --------
    >>> from cofem.operators import Identity
    >>> selected(Identity(4), (slice(1, 3), [0, 1])).to_dense()
    array([[0., 1.],
           [0., 0.]])
    """
    pieces = key if isinstance(key, tuple) else (key,)
    if len(pieces) > 2:
        raise IndexError(f"an operator has two axes, got {len(pieces)} indices")
    rows, columns = (*pieces, slice(None))[:2]
    if not _is_everything(rows):
        op = op._select_rows(_indices(rows, op.shape[0], "rows"))
    if not _is_everything(columns):
        op = op._select_columns(_indices(columns, op.shape[1], "columns"))
    return op


def _is_everything(piece: Any) -> bool:
    return isinstance(piece, slice) and piece == slice(None)


def _indices(piece: Any, n: int, name: str) -> np.ndarray:
    if isinstance(piece, slice):
        piece = np.arange(n)[piece]
    try:
        operator.index(piece)
    except TypeError:
        pass
    else:
        # An operator with one row is no vector, and a loop over rows would cost N products.
        raise TypeError(f"{name}: one number selects a vector, which is no operator; use [{piece}]")
    if piece is None or piece is Ellipsis:
        raise TypeError(f"{name} must be a slice, integers or a boolean mask, got {piece!r}")
    found = Selection(piece, (n,), name).index
    assert found is not None
    return found


@final
class Restriction(LinearOperator):
    """Some entries of a vector: ``forward(x) = x[..., rows]``.

    ``op[rows]`` is the same as ``Restriction(N, rows) @ op``, computed faster where the operator
    allows it.

    Parameters
    ----------
    n : int
        Length of the vector; D = n.
    rows : integer array (N,), boolean mask (n,), or slice
        Which entries, in this order. An entry listed twice was measured twice.

    Examples
    --------
    >>> sampling = Restriction(4, [3, 0])
    >>> sampling.forward(np.array([1.0, 2.0, 3.0, 4.0]))
    array([4., 1.])
    >>> sampling.adjoint(np.array([5.0, 6.0]))
    array([6., 0., 0., 5.])
    """

    exact_row_norms = True
    exact_weighted_norms = True
    one_per_row = True

    def __init__(self, n: int, rows: Any) -> None:
        self._chosen = Selection(_indices(rows, count(n, "n"), "rows"), (n,), "rows")
        self.shape = (self._chosen.size, self._chosen.n)
        self.one_per_column = not self._chosen.repeats

    @property
    def rows(self) -> np.ndarray:
        """The chosen entries, shape (N,)."""
        assert self._chosen.index is not None
        return self._chosen.index

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The adjoint, which puts entries back and fills with zeros."""
        return Extension(self)

    def _forward(self, x: Array) -> Array:
        return self._chosen.take(x)

    def _adjoint(self, y: Array) -> Array:
        return self._chosen.put(y)

    def _gram(self, x: Array) -> Array:
        return x * self._chosen.counts(x)

    def _column_norms_squared(self, like: Array) -> Array:
        return self._chosen.counts(like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self._chosen.put(weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        return Restriction(self.shape[1], self.rows[index])


@final
class Extension(LinearOperator):
    """The adjoint of :class:`Restriction`: entries put in their places, zero elsewhere.

    Examples
    --------
    >>> Restriction(3, [2]).H.forward(np.array([7.0]))
    array([0., 0., 7.])
    """

    exact_row_norms = True
    exact_weighted_norms = True
    one_per_column = True

    def __init__(self, restriction: Restriction) -> None:
        self.restriction = restriction
        self.shape = (restriction.shape[1], restriction.shape[0])
        self.one_per_row = restriction.one_per_column

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The restriction itself."""
        return self.restriction

    def _forward(self, x: Array) -> Array:
        return self.restriction._adjoint(x)

    def _adjoint(self, y: Array) -> Array:
        return self.restriction._forward(y)

    def _column_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[1], like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self.restriction._forward(weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return backend.namespace(like).asarray(self.restriction._column_norms_squared(like))
