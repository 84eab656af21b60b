"""Operators made of two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import accepted, by_parts, dtype_is_complex, pair
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


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
    >>> import numpy as np
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
    splits_rows = False  # user code may not be thread-safe

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
