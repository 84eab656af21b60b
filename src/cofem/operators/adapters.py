"""From what users have to operators: matrices, functions, SciPy's and PyLops' operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import scipy.sparse

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import accepted, by_parts, dtype_is_complex, pair
from cofem.operators.base import LinearOperator
from cofem.operators.dense import Dense
from cofem.operators.matvec import Matvec
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact
from cofem.operators.sparse import Sparse

ACCEPTED = (
    "a 2-D array or tensor, a SciPy sparse array, a SciPy or PyLops LinearOperator "
    "(shape, matvec, rmatvec), or one of cofem.operators"
)


def as_operator(phi: Any, name: str = "phi") -> LinearOperator:
    """Return ``phi`` as an operator.

    Parameters
    ----------
    phi : array (N, D), SciPy sparse array, SciPy or PyLops LinearOperator, or operator
        Nested lists and other array-likes count as NumPy arrays.
    name : str
        What the errors call it.

    Returns
    -------
    LinearOperator of shape (N, D)

    Examples
    --------
    >>> as_operator([[1, 2, 3], [4, 5, 6]])
    Dense(shape=(2, 3))
    """
    if isinstance(phi, LinearOperator):
        return phi
    if scipy.sparse.issparse(phi):
        return Sparse(phi, name=name)
    if backend.is_array(phi):
        if "sparse" in str(getattr(phi, "layout", "")):
            raise TypeError(
                f"{name} is a sparse torch tensor; pass a SciPy sparse array or {name}.to_dense()"
            )
        if getattr(phi, "requires_grad", False):
            phi = phi.detach()  # a posterior is no part of a graph
        return Dense(phi, name=name)
    if all(hasattr(phi, attribute) for attribute in ("shape", "matvec", "rmatvec")):
        try:
            return Matvec(phi, name=name)
        except ValueError as error:  # of the user's own products, which know no name
            if str(error).startswith(name):
                raise
            raise ValueError(f"{name}: {error}") from error
    if isinstance(phi, (list, tuple)) or hasattr(phi, "__array__"):
        try:
            table = np.asarray(phi)
        except ValueError:
            raise ValueError(f"{name} is not a rectangular table of numbers") from None
        return Dense(table, name=name)
    hint = ""
    if isinstance(phi, type):
        hint = f" itself rather than an instance, {phi.__name__}(…)"
    elif callable(phi):
        hint = "; two functions make an operator: from_functions(forward, adjoint, shape, dtype)"
    raise TypeError(f"{name} must be {ACCEPTED}; got {_kind(phi)}{hint}")


def _kind(x: Any) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__


def from_functions(
    forward: Callable[[Array], Array],
    adjoint: Callable[[Array], Array],
    shape: tuple[int, int],
    dtype: Any,
    batched: bool = True,
) -> LinearOperator:
    """Make an operator of two functions.

    They must not change what they are given. What they return is checked for shape,
    NaN and Inf at every call; :func:`check_adjoint` tests that they belong together.

    Parameters
    ----------
    forward, adjoint : callable
        (…, D) to (…, N) and back.
    shape : (int, int)
        (N, D).
    dtype : dtype
        Complex if real input gives complex output.
    batched : bool
        False if the functions take one vector at a time: (D,) to (N,).

    Returns
    -------
    LinearOperator of shape (N, D)

    Examples
    --------
    >>> phi = from_functions(lambda z: 2 * z, lambda y: 2 * y, shape=(3, 3), dtype=float)
    >>> phi.gram(np.array([1.0, 2.0, 3.0]))
    array([ 4.,  8., 12.])
    """
    for argument, function in (("forward", forward), ("adjoint", adjoint)):
        if not callable(function):
            raise TypeError(f"{argument} must be a function, got {type(function).__name__}")
    return Functions(forward, adjoint, pair(shape, "shape"), dtype_is_complex(dtype), batched)


def _source(function: Any) -> str:
    """Return " (the function my_product)" where a function has a name."""
    name = getattr(function, "__name__", "<lambda>")
    return "" if name == "<lambda>" else f" (the function {name})"


@final
class Functions(LinearOperator):
    """An operator made of user functions; see :func:`from_functions`.

    Examples
    --------
    >>> Functions(lambda z: 2 * z, lambda y: 2 * y, (3, 3), is_complex=False, batched=True)
    Functions(shape=(3, 3))
    """

    trusted = False
    splits_rows = False  # other people's code need not be safe in threads

    def __init__(
        self,
        forward: Callable[[Array], Array],
        adjoint: Callable[[Array], Array],
        shape: tuple[int, int],
        is_complex: bool,
        batched: bool,
    ) -> None:
        self.shape = shape
        self.is_complex = is_complex
        self.batched = bool(batched)
        self.exact_column_norms = norms_are_exact(shape)
        self._user_forward, self._user_adjoint = forward, adjoint

    def _forward(self, x: Array) -> Array:
        return by_parts(lambda part: self._call(part, "forward"), x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        return by_parts(lambda part: self._call(part, "adjoint"), y, self.is_complex)

    def _call(self, x: Array, call: str) -> Array:
        ahead = call == "forward"
        function = self._user_forward if ahead else self._user_adjoint
        source = _source(function)
        length = self.shape[0] if ahead else self.shape[1]
        if self.batched or x.ndim == 1:
            return accepted(function(x), x, length, call, self.is_complex, source)
        xp = backend.namespace(x)
        rows = xp.reshape(x, (-1, x.shape[-1]))
        outputs = [
            accepted(function(rows[i, :]), rows[i, :], length, call, self.is_complex, source)
            for i in range(rows.shape[0])
        ]
        if not outputs:
            return xp.zeros((*x.shape[:-1], length), dtype=x.dtype, device=backend.device_of(x))
        return xp.reshape(xp.stack(outputs, axis=0), (*x.shape[:-1], length))

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)
