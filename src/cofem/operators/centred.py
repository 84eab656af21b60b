"""An operator from which a constant in the data has been projected out.

A constant with a flat prior is projected out of Φ and y. To leave white noise with as many data as
there still are, N − 1, the rows are not projected but rotated: a reflection (Householder) turns
the direction u of the constant into the first axis, and that row is dropped. So the number of rows
is the number of data that are left, and no other code has to know about the constant.
"""

from __future__ import annotations

import math
from typing import final

from cofem import backend
from cofem.backend import Array, Cache, Constant
from cofem.operators.base import LinearOperator
from cofem.operators.dense import Dense
from cofem.operators.norms import estimate_column_norms_squared

# A stored matrix is written out centred up to this many numbers (1 GiB in float64): this leaves no
# rounding errors of the columns' means, and fast paths for matrices still apply.
WRITTEN_OUT = 1 << 27
# A column, or y, that is this many roundings of its entries or less, once centred, was constant.
ROUNDINGS = 10.0
# Subtracting the constant's part from ΦᴴΦ loses digits if that part is this many times the rest.
CANCELS = 10.0


@final
class Centred(LinearOperator):
    """Φ with a constant in the data projected out: N − 1 rows with the Gram matrix ΦᴴPΦ.

    P = I − uuᵀ, where u is the direction of the constant, (1, …, 1)/√N by default.

    Parameters
    ----------
    op : LinearOperator (N, D)
        N ≥ 2.
    direction : array (N,), optional
        u up to its length: the square roots of the row weights. Positive.

    Examples
    --------
    >>> import numpy as np
    >>> phi = Centred(Dense(np.array([[5.0, 1.0], [6.0, 1.0], [7.0, 1.0]])))
    >>> phi.shape
    (2, 2)
    >>> phi.gram(np.array([1.0, 1.0])).round(12) + 0.0
    array([2., 0.])
    """

    def __init__(self, op: LinearOperator, direction: Array | None = None) -> None:
        if op.shape[0] < 2:
            raise ValueError(f"intercept needs at least two data, got phi of shape {op.shape}")
        self.op = op
        self.shape = (op.shape[0] - 1, op.shape[1])
        self.is_complex, self.trusted = op.is_complex, op.trusted
        self.splits_rows = op.splits_rows
        self.exact_column_norms = op.exact_column_norms
        self._direction = None if direction is None else Constant(direction)
        self._units, self._parts = Cache(), Cache()

    def reduce(self, y: Array) -> Array:
        """Return data (…, N) without the constant, (…, N − 1).

        Of data that are constant nothing is left, not even rounding.
        """
        xp, unit = backend.namespace(y), self._unit(y)
        # Done twice: the second time removes what rounding left of a large constant.
        rest = self._reflect(y - unit * _along(y, unit)[..., None])
        size, whole = (xp.max(xp.abs(x), axis=-1, keepdims=True) for x in (rest, y))
        kept = size > ROUNDINGS * float(xp.finfo(rest.dtype).eps) * whole
        return xp.where(kept, rest, xp.zeros_like(rest))

    def column_part(self, like: Array) -> Array:
        """Return Φᴴu, (D,): the share of the constant in every column."""
        return self._parts.get(like, lambda: self.op.adjoint(self._unit(like)))

    def __repr__(self) -> str:
        # Errors name the user's operator and argument, not this class.
        return f"{self.op!r} with intercept=True"

    def _unit(self, like: Array) -> Array:
        """Return u, real."""
        return self._units.get(like, lambda: self._make_unit(like))

    def _make_unit(self, like: Array) -> Array:
        xp, n = backend.namespace(like), self.op.shape[0]
        if self._direction is None:
            return self._constant_norms(1 / math.sqrt(n), n, like)
        direction = self._direction.like(like)
        return direction / xp.sqrt(xp.sum(direction**2))

    def _reflect(self, y: Array) -> Array:
        """Rows (…, N) with u turned into −e₁, and without that first entry."""
        unit = self._unit(y)
        along = (_along(y, unit) + y[..., 0]) / (1 + unit[0])
        return y[..., 1:] - along[..., None] * unit[1:]

    def _forward(self, x: Array) -> Array:
        return self._reflect(self.op._forward(x))

    def _adjoint(self, y: Array) -> Array:
        return self.op._adjoint(unreduced(y, self._unit(y)))

    def _gram(self, x: Array) -> Array:
        if self._cancels(x):
            return self._adjoint(self._forward(x))
        part = self.column_part(x)
        return self.op._gram(x) - _along(x, backend.conj(part))[..., None] * part

    def _cancels(self, like: Array) -> bool:
        def compare() -> bool:
            xp = backend.namespace(like)
            constant = xp.sum(backend.abs_squared(self.column_part(like)))
            return bool(constant > CANCELS * xp.sum(self.column_norms_squared(like)))

        return bool(self._parts.get(like, compare, "cancels"))

    def _column_norms_squared(self, like: Array) -> Array:
        if not self.op.exact_column_norms:
            return estimate_column_norms_squared(self, like)
        # A difference of large numbers if columns have large means: computed in double precision.
        xp = backend.namespace(like)
        wide = xp.empty((0,), dtype=xp.float64, device=backend.device_of(like))
        whole = self.op.column_norms_squared(wide)
        left = whole - backend.abs_squared(self.column_part(wide))
        rounding = 100 * float(xp.finfo(xp.float64).eps) * whole
        return xp.where(left > rounding, left, xp.zeros_like(left))


def centred(op: LinearOperator, direction: Array | None = None) -> tuple[LinearOperator, Centred]:
    """Return the operator to compute with, and the :class:`Centred` that it equals.

    They differ for a stored matrix, which is written out centred.

    Examples
    --------
    >>> import numpy as np
    >>> made, _ = centred(Dense(np.array([[3.0], [5.0]])))
    >>> made.matrix.round(6)
    array([[1.414214]])
    """
    node = Centred(op, direction)
    if not isinstance(op, Dense) or op.shape[0] * op.shape[1] > WRITTEN_OUT:
        return node, node
    xp = backend.namespace(op.matrix)
    columns = node.reduce(xp.matrix_transpose(op.matrix))
    return Dense(xp.matrix_transpose(columns)), node


def unreduced(y: Array, unit: Array) -> Array:
    """Return data (…, N) without the constant along ``unit`` from their N − 1 rotated rows.

    The adjoint of :meth:`Centred.reduce`.
    """
    along = _along(y, unit[1:])[..., None]
    rest = y - along / (1 + unit[0]) * unit[1:]
    return backend.namespace(y).concat([-along, rest], axis=-1)


def _along(x: Array, vector: Array) -> Array:
    """Return Σ_j x_j v_j of every row; one of the two may be complex."""
    xp = backend.namespace(x)
    dtype = xp.result_type(x.dtype, vector.dtype)
    return xp.astype(x, dtype, copy=False) @ xp.astype(vector, dtype, copy=False)
