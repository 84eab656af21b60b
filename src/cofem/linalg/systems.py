"""The matrix of every linear system we solve, as a product and nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from cofem.backend import Array
from cofem.operators import LinearOperator


@dataclass(frozen=True)
class ShiftedGram:
    """A = scale · ΦᴴΦ + diag(diagonal), Hermitian and positive definite.

    The two parts are kept apart, so that the solver can fuse the diagonal one
    into its own passes over the data and the operator's product stays bare.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> matrix = ShiftedGram(Dense(np.array([[1.0, 2.0]])), scale=2.0, diagonal=np.ones(2))
    >>> matrix.product(np.eye(2))
    array([[3., 4.],
           [4., 9.]])
    """

    operator: LinearOperator
    scale: float
    diagonal: Array

    @property
    def splits_rows(self) -> bool:
        """Whether rows may be handed to several threads at no loss."""
        return self.operator.splits_rows

    def bulk(self, x: Array) -> Array:
        """ΦᴴΦx: the part that ``scale`` multiplies, without the diagonal."""
        return self.operator.gram(x)

    def with_unit_scale(self) -> ShiftedGram:
        """Return A/scale, which leaves one pass over the data less to do."""
        return ShiftedGram(self.operator, 1.0, self.diagonal / self.scale)

    def product(self, x: Array) -> Array:
        """Return A x for every row of x, shape (…, D)."""
        return self.scale * self.bulk(x) + self.diagonal * x
