"""Calls of user code: what it is given, and how its results are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend
from cofem.arguments import all_finite, count, floating
from cofem.backend import Array

# A type whose rounding is larger than this is of single precision (1.2e-7; double: 2.2e-16).
SINGLE = 1e-10


def asked(function: Callable[..., Any], *arguments: Any, name: str) -> Any:
    """Call a user's function; a ValueError from inside it gets the argument's name."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def by_parts(product: Callable[[Array], Array], x: Array, is_complex: bool) -> Array:
    """Give a real operator the real and imaginary parts in turn.

    Code for real operators often drops imaginary parts or refuses them. By linearity it never has
    to see them.
    """
    if not backend.is_complex(x) or is_complex:
        return product(x)
    xp = backend.namespace(x)
    real, imaginary = xp.real(x), xp.imag(x)
    if backend.is_numpy(x):
        real, imaginary = np.ascontiguousarray(real), np.ascontiguousarray(imaginary)
    return product(real) + 1j * product(imaginary)


def accepted(
    out: Any, x: Array, length: int, call: str, is_complex: bool, source: str = ""
) -> Array:
    """Return the result of user code in the precision of ``x``, or refuse it.

    ``source`` names the function and is appended to an error about shapes.
    """
    if not backend.is_array(out):
        raise ValueError(f"{call} returned {type(out).__name__}, expected an array")
    if backend.library(out) != backend.library(x):
        raise ValueError(
            f"{call} returned an array of {backend.library(out)}, expected {backend.library(x)}"
        )
    expected = (*x.shape[:-1], length)
    if tuple(out.shape) != expected:
        raise ValueError(
            f"{call} returned shape {tuple(out.shape)}, expected {expected} for an array of shape "
            f"{tuple(x.shape)}{source}"
        )
    out = floating(out, f"what {call} returned")
    if backend.is_complex(out) and not is_complex:
        raise ValueError(
            f"{call} returned complex numbers for real ones, but the operator's dtype is real; "
            "declare it complex"
        )
    # A look at the numbers would end a recording; the solver names NaN by itself.
    if not backend.is_recording(out) and not all_finite(out):
        raise ValueError(f"{call} returned NaN or Inf")
    xp = backend.namespace(out)
    # The result must not share memory with the input: the caller may write into it.
    shares = np.may_share_memory(out, x) if backend.is_numpy(out) else out is x
    return xp.astype(out, result_dtype(x, is_complex), copy=bool(shares))


def result_dtype(x: Array, is_complex: bool) -> Any:
    xp = backend.namespace(x)
    if is_complex or backend.is_complex(x):
        return backend.complex_dtype(x.dtype, xp)
    return backend.real_dtype(x.dtype, xp)


def pair(shape: Any, name: str) -> tuple[int, int]:
    try:
        n, d = shape
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be (N, D), got {shape!r}") from None
    return count(n, name), count(d, name)


def dtype_is_complex(dtype: Any) -> bool:
    # np.dtype understands Python's types and NumPy's names; other dtypes are known by their text.
    try:
        kind = np.dtype(dtype).kind
    except TypeError:
        text = str(dtype)
        if not any(word in text for word in ("complex", "float", "int")):
            raise TypeError(f"dtype must be a numeric dtype, got {dtype!r}") from None
        return "complex" in text
    if kind not in "biufc":
        raise TypeError(f"dtype must be numeric, got {dtype!r}")
    return bool(kind == "c")
