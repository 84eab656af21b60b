"""Operators of lineax, recognised by their methods."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import accepted, asked, by_parts, dtype_is_complex
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


def is_lineax(x: object) -> bool:
    """Whether ``x`` has what lineax's operators have.

    Examples
    --------
    >>> is_lineax(np.eye(2))
    False
    """
    wanted = ("mv", "transpose", "in_structure", "out_structure")
    return not isinstance(x, type) and all(callable(getattr(x, name, None)) for name in wanted)


@final
class LineaxOperator(LinearOperator):
    """A lineax operator between two arrays, applied to JAX or NumPy arrays.

    Arrays of several axes are flattened in C order. The operator computes in its own
    precision: JAX makes it single unless it is told otherwise before the operator is made
    (``jax.config.update("jax_enable_x64", True)``).

    Parameters
    ----------
    op : object with mv, transpose, in_structure and out_structure
    name : str
        What the errors call it.

    Examples
    --------
    >>> class Doubling:  # what a lineax operator can do
    ...     def mv(self, x): return 2 * x
    ...     def transpose(self): return self
    ...     def in_structure(self): return np.empty(3)
    ...     def out_structure(self): return np.empty(3)
    >>> LineaxOperator(Doubling()).forward(np.ones(3))
    array([2., 2., 2.])
    """

    trusted = False
    splits_rows = False  # user code may not be thread-safe

    def __init__(self, op: Any, *, name: str = "phi") -> None:
        self.op, self.name = op, name
        self._transpose = op.transpose()
        self._into, self._out = (
            _single_array(structure, name) for structure in (op.in_structure(), op.out_structure())
        )
        self.shape = (math.prod(self._out.shape), math.prod(self._into.shape))
        self.is_complex = dtype_is_complex(self._out.dtype) or dtype_is_complex(self._into.dtype)
        self.single_precision = np.dtype(self._into.dtype).itemsize <= (8 if self.is_complex else 4)
        self.exact_column_norms = norms_are_exact(self.shape)

    def _forward(self, x: Array) -> Array:
        return by_parts(lambda part: self._rows(part, ahead=True), x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        return by_parts(lambda part: self._rows(part, ahead=False), y, self.is_complex)

    def _rows(self, x: Array, ahead: bool) -> Array:
        if backend.library(x) not in ("numpy", "jax", "jaxlib"):
            raise TypeError(
                f"{self.name} is a lineax operator, which works on JAX and NumPy arrays; got an "
                f"array of {backend.library(x)}"
            )
        xp = backend.namespace(x)
        rows = xp.reshape(x, (-1, x.shape[-1]))
        products = [self._product(rows[i, :], ahead) for i in range(rows.shape[0])]
        length = self.shape[0] if ahead else self.shape[1]
        if not products:
            return xp.zeros((*x.shape[:-1], length), dtype=x.dtype)
        return xp.reshape(xp.stack(products, axis=0), (*x.shape[:-1], length))

    def _product(self, row: Array, ahead: bool) -> Array:
        xp, structure = backend.namespace(row), self._into if ahead else self._out
        given = xp.reshape(xp.astype(row, structure.dtype, copy=False), structure.shape)
        # The adjoint is the conjugate of the transpose.
        product, given = (self.op.mv, given) if ahead else (self._transpose.mv, backend.conj(given))
        out = asked(product, given, name=self.name)
        if backend.is_numpy(row):
            out = np.asarray(out)
        out = xp.reshape(out, (-1,)) if ahead else backend.conj(xp.reshape(out, (-1,)))
        length = self.shape[0] if ahead else self.shape[1]
        call = f"{self.name}: {'mv' if ahead else 'transpose().mv'}"
        return accepted(out, row, length, call, self.is_complex)

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)


def _single_array(structure: Any, name: str) -> Any:
    if hasattr(structure, "shape") and hasattr(structure, "dtype"):
        return structure
    raise ValueError(
        f"{name} is a lineax operator between trees ({type(structure).__name__}); expected one "
        "that maps one array to one array"
    )
