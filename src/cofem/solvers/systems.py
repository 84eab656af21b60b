"""The matrices of all linear systems that are solved, and diagonal preconditioners of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, SameArray
from cofem.operators import LinearOperator

PRECONDITIONERS = ("jacobi", "identity", "none")


@dataclass(frozen=True, eq=False)
class Bulk:
    """The part of a matrix that is multiplied as it is, by operators that stay the same.

    Attributes
    ----------
    owners : tuple
        The operators: with the same ones it is the same product, but for its inputs.
    inputs : tuple of arrays
        Arrays that differ from solve to solve.
    apply : function
        (rows, *inputs) → the product for every row.
    kind : tuple, optional
        For a product that depends on nothing but this and its inputs: it is then the same one as
        every product of that kind, whoever the owners are.
    """

    owners: tuple[object, ...]
    inputs: tuple[Array, ...]
    apply: Callable[..., Any]
    kind: tuple[Any, ...] = ()


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
    diagonal: Any  # an array

    @property
    def splits_rows(self) -> bool:
        """Whether rows may be handed to several threads at no loss."""
        return self.operator.splits_rows

    def bulk(self, x: SameArray) -> SameArray:
        """ΦᴴΦx: the part that ``scale`` multiplies, without the diagonal."""
        return self.operator.gram(x)

    def bulk_parts(self) -> Bulk:
        """Return what :meth:`bulk` is made of."""
        return Bulk((self.operator,), (), self.operator.gram)

    def with_unit_scale(self) -> ShiftedGram:
        """Return A/scale, which leaves one pass over the data less to do."""
        return ShiftedGram(self.operator, 1.0, self.diagonal / self.scale)

    def in_single_precision(self) -> ShiftedGram:
        """Return the same matrix for NumPy rows of single precision."""
        return ShiftedGram(self.operator, self.scale, self.diagonal.astype(np.float32))

    def product(self, x: Array) -> Any:
        """Return A x for every row of x, shape (…, D)."""
        return self.scale * self.bulk(x) + self.diagonal * x


@dataclass(frozen=True)
class SparsifiedGram:
    """Q = scale · ΦᴴΦ + Rᴴ diag(weights) R; without an operator only its second part.

    The same face as :class:`ShiftedGram`, with nothing on the diagonal apart.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import FiniteDifference, Identity
    >>> R = FiniteDifference((3,), axis=0)
    >>> SparsifiedGram(Identity(3), 1.0, R, np.ones(3)).product(np.eye(3))
    array([[ 3., -1., -1.],
           [-1.,  3., -1.],
           [-1., -1.,  3.]])
    """

    operator: LinearOperator | None
    scale: float
    sparsifier: LinearOperator
    weights: Any  # an array

    @property
    def splits_rows(self) -> bool:
        """Whether rows may be handed to several threads at no loss."""
        parts = (self.sparsifier, self.operator)
        return all(part.splits_rows for part in parts if part is not None)

    @cached_property
    def diagonal(self) -> Any:
        """Zeros: all of Q is in its bulk."""
        xp = backend.namespace(self.weights)
        device = backend.device_of(self.weights)
        return xp.zeros(self.sparsifier.shape[1], dtype=self.weights.dtype, device=device)

    def bulk(self, x: SameArray) -> SameArray:
        """Qx / scale."""
        found: SameArray = self._multiplied(x, self.weights / self.scale)
        return found

    def bulk_parts(self) -> Bulk:
        """Return what :meth:`bulk` is made of."""
        owners = (self.operator, self.sparsifier)
        return Bulk(owners, (self.weights / self.scale,), self._multiplied)

    def _multiplied(self, x: Any, weights: Any) -> Any:
        prior = self.sparsifier.adjoint(weights * self.sparsifier.forward(x))
        return prior if self.operator is None else self.operator.gram(x) + prior

    def with_unit_scale(self) -> SparsifiedGram:
        """Return Q/scale."""
        return SparsifiedGram(self.operator, 1.0, self.sparsifier, self.weights / self.scale)

    def in_single_precision(self) -> SparsifiedGram:
        """Return the same matrix for NumPy rows of single precision."""
        weights = self.weights.astype(np.float32)
        return SparsifiedGram(self.operator, self.scale, self.sparsifier, weights)

    def product(self, x: Array) -> Any:
        """Return Q x for every row of x, shape (…, D)."""
        return self.scale * self.bulk(x)


Matrix = ShiftedGram | SparsifiedGram


def posterior_precision(
    operator: LinearOperator,
    noise_precision: float,
    alpha: Array,
    sparsifier: LinearOperator | None = None,
) -> Matrix:
    """Return βΦᴴΦ + Rᴴ diag(α) R, with R = I where no sparsifier is given."""
    if sparsifier is None:
        return ShiftedGram(operator, noise_precision, alpha)
    return SparsifiedGram(operator, noise_precision, sparsifier, alpha)


def preconditioner_diagonal(choice: Any, operator: LinearOperator, like: Array) -> Array | None:
    """Return θ of M = diag(βθ + α), shape (D,), or None for no preconditioner.

    Parameters
    ----------
    choice : {"jacobi", "identity", "none"} or array of shape (D,)
        ``"jacobi"``: θ_j = ‖φ_j‖², so that M is the diagonal of the matrix.
        ``"identity"``: θ = 1, the paper's choice. ``"none"``: plain CG.
        An array: any positive θ.
    operator : LinearOperator
        Φ, shape (N, D).
    like : array
        Library, device and precision of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> preconditioner_diagonal("jacobi", Dense(np.array([[3.0, 1.0], [4.0, 0.0]])), np.zeros(2))
    array([25.,  1.])
    """
    xp = backend.namespace(like)
    dtype = backend.real_dtype(like.dtype, xp)
    if isinstance(choice, str):
        if choice == "none":
            return None
        if choice == "identity":
            return xp.ones(operator.shape[1], dtype=dtype, device=backend.device_of(like))
        if choice == "jacobi":
            return operator.column_norms_squared(like)
        raise ValueError(
            f"preconditioner must be one of {', '.join(map(repr, PRECONDITIONERS))} or an array, "
            f"got {choice!r}"
        )
    try:
        theta = choice if backend.is_array(choice) else np.asarray(choice, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"preconditioner must be a name or a vector, got {choice!r}") from None
    if tuple(theta.shape) != (operator.shape[1],):
        raise ValueError(
            f"preconditioner must have shape ({operator.shape[1]},), got {tuple(theta.shape)}"
        )
    if backend.is_numpy(theta):
        theta = backend.from_numpy(theta, like)
    theta = xp.astype(theta, dtype)
    if not bool(xp.all(xp.isfinite(theta))) or not bool(xp.all(theta > 0)):
        raise ValueError("preconditioner must be positive and finite in every entry")
    return theta
