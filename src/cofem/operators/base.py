"""What every operator can do.

An operator maps rows: ``forward`` takes (…, D) to (…, N). Concrete operators
are final; they implement ``_forward`` and ``_adjoint`` (and ``_gram`` where it
is cheaper than both in turn) on arrays that are already checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cofem import backend
from cofem.arguments import floating
from cofem.backend import Array, SameArray

if TYPE_CHECKING:
    import scipy.sparse.linalg


class LinearOperator(ABC):
    """A linear map from C^D to C^N, or R^D to R^N, applied to rows of a batch.

    Attributes
    ----------
    shape : (int, int)
        (N, D): the number of measurements and of unknowns.
    is_complex : bool
        Whether real input gives complex output.
    trusted : bool
        Whether ``adjoint`` is known to match ``forward``. Operators made of user
        functions are not trusted: ``fit`` runs a dot test on them.
    field : {"complex", "real", "undecided"}
        Over which numbers it is linear. "real": it ignores imaginary parts of the
        unknowns (PyLops' real FFTs), so they are real. "undecided": it does something
        else with them (PyLops' ``Conj``), and ``fit`` wants to be told ``real=True``.
    single_precision : bool
        Whether it computes in single precision whatever it is given.
    splits_rows : bool
        Whether a batch costs the same row by row as at once (transforms), so
        that the solver may hand rows to several threads. False for dense
        matrices, where one matrix product over the whole batch is faster.
    exact_column_norms : bool
        Whether :meth:`column_norms_squared` is exact rather than estimated.
    exact_row_norms : bool
        Whether the squared norms of the rows, which are the columns of the adjoint,
        have a formula too (``_row_norms_squared``).
    exact_weighted_norms : bool
        Whether :meth:`weighted_column_norms_squared` is exact rather than estimated.
    one_per_row, one_per_column : bool
        Whether every row (column) is known to hold at most one entry: diagonal
        matrices and selections. Products with these keep exact norms.

    Notes
    -----
    **Rows or columns?** The methods take rows: a batch is (…, D). The sign ``@`` means
    what it means for matrices, so that ``op @ x`` is ``op.to_dense() @ x``: columns,
    (D, K) to (N, K), and ``y @ op`` takes (K, N) to (K, D) without conjugation.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Convolution, Identity
    >>> phi = 2 * Identity(3) @ Convolution([1.0, 1.0], n=3)
    >>> phi.shape, phi.is_complex, phi.trusted
    ((3, 3), False, True)
    >>> phi.to_dense().round(6)
    array([[2., 0., 0.],
           [2., 2., 0.],
           [0., 2., 2.]])
    >>> phi @ np.eye(3)[:, :1]  # a matrix of one column
    array([[2.],
           [2.],
           [0.]])
    >>> phi[1:].shape, (phi / 2).T.to_dense()[0].round(6)
    ((2, 3), array([1., 1., 0.]))
    """

    shape: tuple[int, int]
    is_complex: bool = False
    trusted: bool = True
    field: Literal["complex", "real", "undecided"] = "complex"
    single_precision: bool = False
    splits_rows: bool = True
    exact_column_norms: bool = True
    exact_row_norms: bool = False
    exact_weighted_norms: bool = False
    one_per_row: bool = False
    one_per_column: bool = False

    # NumPy arrays and scalars on the left of an operator leave the product to the operator.
    __array_ufunc__ = None
    # Without this, __getitem__ would make a loop over an operator look possible.
    __iter__ = None

    # -- the public products ---------------------------------------------------

    def forward(self, x: SameArray) -> SameArray:
        """Apply the operator: (…, D) to (…, N)."""
        return self._forward(self._checked(x, self.shape[1], "forward"))

    def adjoint(self, y: SameArray) -> SameArray:
        """Apply the conjugate transpose: (…, N) to (…, D)."""
        return self._adjoint(self._checked(y, self.shape[0], "adjoint"))

    def gram(self, x: SameArray) -> SameArray:
        """Apply ΦᴴΦ: (…, D) to (…, D)."""
        return self._gram(self._checked(x, self.shape[1], "gram"))

    def column_norms_squared(self, like: Array | None = None) -> Array:
        """Return ‖φ_j‖² for every column, shape (D,), real.

        The result has the library, device and precision of ``like`` (NumPy,
        float64 by default). Where :attr:`exact_column_norms` is False it is an estimate
        from 64 random probes, the same at every call: its relative standard deviation is
        at most 18 % a column (12.5 % for complex operators).
        """
        like = np.empty(0) if like is None else like
        xp = backend.namespace(like)
        # Cached: several callers need the norms, and for some operators they cost 64 products.
        made = self.__dict__.setdefault("_norms_made", backend.Cache())
        norms = made.get(like, lambda: self._column_norms_squared(like))
        # A copy, because the caller may write into it.
        return xp.astype(norms, backend.real_dtype(like.dtype, xp), copy=True)

    def weighted_column_norms_squared(self, weights: Array) -> Array:
        """Return Σ_i w_i |Φ_ij|² for every column, shape (D,): the diagonal of Φᴴ diag(w) Φ.

        ``weights`` (N,) are positive. Exact where the operator knows its entries;
        otherwise estimated from a few products, good enough for a preconditioner.
        """
        return self._weighted_column_norms_squared(weights)

    # -- what a concrete operator provides -------------------------------------

    @abstractmethod
    def _forward(self, x: Array) -> Any: ...

    @abstractmethod
    def _adjoint(self, y: Array) -> Any: ...

    def _gram(self, x: Array) -> Any:
        return self._adjoint(self._forward(x))

    @abstractmethod
    def _column_norms_squared(self, like: Array) -> Array: ...

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        from cofem.operators.norms import estimate_weighted_norms

        return estimate_weighted_norms(self, weights)

    def _row_norms_squared(self, like: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} has no formula for its row norms")

    @staticmethod
    def _constant_norms(value: float, n: int, like: Array) -> Array:
        xp = backend.namespace(like)
        dtype = backend.real_dtype(like.dtype, xp)
        return xp.full((n,), value, dtype=dtype, device=backend.device_of(like))

    # -- algebra ---------------------------------------------------------------

    @property
    def H(self) -> LinearOperator:  # noqa: N802
        """The adjoint as an operator."""
        from cofem.operators.algebra import Adjoint

        return Adjoint(self)

    @property
    def T(self) -> LinearOperator:  # noqa: N802
        """The transpose as an operator, without conjugation; real operators: the adjoint."""
        return self.conj().H

    def conj(self) -> LinearOperator:
        """Return the operator with conjugate entries; a real operator is returned itself."""
        from cofem.operators.algebra import Conjugate

        return Conjugate(self) if self.is_complex else self

    def __matmul__(self, other: Any) -> Any:
        from cofem.operators.algebra import Product, apply_to_columns, operator_or_none

        if backend.is_array(other):
            return apply_to_columns(self, other)
        right = operator_or_none(other)
        return NotImplemented if right is None else Product(self, right)

    def __rmatmul__(self, other: Any) -> Any:
        from cofem.operators.algebra import Product, operator_or_none

        if backend.is_array(other):
            return self.T.forward(other)  # rows already
        left = operator_or_none(other)
        return NotImplemented if left is None else Product(left, self)

    def __add__(self, other: Any) -> Any:
        from cofem.operators.algebra import Sum, operator_or_none

        right = operator_or_none(other, arrays=True)
        return NotImplemented if right is None else Sum(self, right)

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, int) and other == 0:  # where sum() begins
            return self
        return self + other

    def __sub__(self, other: Any) -> Any:
        from cofem.operators.algebra import operator_or_none

        right = operator_or_none(other, arrays=True)
        return NotImplemented if right is None else self + (-right)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, factor: Any) -> Any:
        from cofem.operators.algebra import Scaled, is_scalar

        return Scaled(factor, self) if is_scalar(factor) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        from cofem.operators.algebra import Scaled, is_scalar, python_number

        if not is_scalar(divisor):
            return NotImplemented
        if divisor == 0:
            raise ZeroDivisionError("an operator was divided by zero")
        return Scaled(1 / python_number(divisor), self)

    def __neg__(self) -> LinearOperator:
        from cofem.operators.algebra import Scaled

        return Scaled(-1, self)

    def __getitem__(self, key: Any) -> LinearOperator:
        from cofem.operators.algebra import selected

        return selected(self, key)

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        from cofem.operators.algebra import Product, Restriction

        return Product(Restriction(self.shape[0], index), self)

    def _select_columns(self, index: np.ndarray) -> LinearOperator:
        from cofem.operators.algebra import Product, Restriction

        return Product(self, Restriction(self.shape[1], index).H)

    # -- views -----------------------------------------------------------------

    def to_dense(self, like: Array | None = None) -> Array:
        """Return the matrix, shape (N, D), by applying the operator to unit vectors.

        The result has the library, device and precision of ``like`` (NumPy, float64 by
        default). It costs min(N, D) products.
        """
        like = np.empty(0) if like is None else like
        xp = backend.namespace(like)
        n, d = self.shape
        dtype = backend.real_dtype(like.dtype, xp)
        eye = xp.eye(min(n, d), dtype=dtype, device=backend.device_of(like))
        if n < d:
            return backend.conj(self.adjoint(eye))
        return xp.matrix_transpose(self.forward(eye))

    def to_scipy(self) -> scipy.sparse.linalg.LinearOperator:
        """Return a ``scipy.sparse.linalg.LinearOperator`` that acts on NumPy columns."""
        from cofem.operators.exports import to_scipy

        return to_scipy(self)

    def to_pylops(self) -> Any:
        """Return a ``pylops.LinearOperator`` that acts on NumPy columns."""
        from cofem.operators.exports import to_pylops

        return to_pylops(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    # -- the door --------------------------------------------------------------

    def _checked(self, x: Array, length: int, call: str) -> Any:
        if not backend.is_array(x):
            raise TypeError(f"{type(self).__name__}.{call} takes an array, got {type(x).__name__}")
        if x.ndim == 0 or x.shape[-1] != length:
            raise ValueError(
                f"{type(self).__name__}.{call}: the last axis must have length {length}, "
                f"got an array of shape {tuple(x.shape)}"
            )
        return floating(x, f"the argument of {type(self).__name__}.{call}")
