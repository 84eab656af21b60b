"""Checks of single arguments: a number, a flag, an array of numbers, a shape.

An error names the argument, what came, and what was expected.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array


def all_finite(x: Array) -> bool:
    """Whether ``x`` holds neither NaN nor Inf.

    A finite sum proves it in one pass; only if the sum is not finite, every entry is checked.

    Examples
    --------
    >>> all_finite(np.array([1.0, np.nan]))
    False
    """
    xp = backend.namespace(x)
    with np.errstate(all="ignore"):
        total = xp.sum(x)
    return bool(xp.isfinite(total)) or bool(xp.all(xp.isfinite(x)))


def numbers(x: Any, name: str, ndim: int) -> Array:
    """Return ``x`` as floating-point numbers, or refuse it naming ``name``.

    Integers and booleans become float64. Refused: another number of axes, an empty
    array, object or string dtypes, masked arrays, NaN and Inf.

    Examples
    --------
    >>> numbers(np.array([1, 2]), "kernel", 1)
    array([1., 2.])
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill its gaps and pass a plain array")
    if not backend.is_array(x):
        raise TypeError(f"{name} must be a {ndim}-D array of numbers, got {type(x).__name__}")
    if isinstance(x, np.ndarray):
        x = np.asarray(x)  # np.matrix would always keep two axes
    if x.ndim != ndim:
        raise ValueError(f"{name} must be {ndim}-D, got an array of shape {tuple(x.shape)}")
    if 0 in x.shape:
        raise ValueError(f"{name} is empty: its shape is {tuple(x.shape)}")
    checked = floating(x, name)
    if not all_finite(checked):
        raise ValueError(f"{name} contains NaN or Inf")
    return checked


def floating(x: Array, name: str) -> Array:
    """Return ``x`` in one of the four dtypes we compute in, or refuse its dtype."""
    xp = backend.namespace(x)
    if x.dtype in (xp.float32, xp.float64, xp.complex64, xp.complex128):
        return x
    # NumPy's object and string dtypes are unknown to the standard's isdtype.
    if backend.is_numpy(x) and x.dtype.kind not in "biufc":
        raise TypeError(f"{name} must hold numbers, got dtype {x.dtype}")
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.astype(x, xp.complex128)
    return xp.astype(x, xp.float64)


def host_vector(x: Any, name: str) -> np.ndarray:
    """Return a short vector of numbers (a kernel, weights) as a NumPy array."""
    if not backend.is_array(x):
        x = np.asarray(x)
    return backend.to_numpy(numbers(x, name, 1))


def count(n: Any, name: str) -> int:
    """Return ``n`` as a positive int, or refuse it naming ``name``."""
    try:
        value = operator.index(n)
    except TypeError:
        raise TypeError(f"{name} must be a positive integer, got {n!r}") from None
    if value < 1 or isinstance(n, bool):
        raise ValueError(f"{name} must be a positive integer, got {n!r}")
    return value


def image_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of an image as a tuple; one integer means one axis.

    Examples
    --------
    >>> image_shape(8), image_shape([4, 6])
    ((8,), (4, 6))
    """
    sides = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not sides:
        raise ValueError("shape must have at least one side")
    return tuple(count(side, "shape") for side in sides)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number as an int; an error names the argument.

    Examples
    --------
    >>> whole_number("max_iter", 5, least=1)
    5
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return number


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuse what is not a finite number above ``low`` and at most ``high``."""
    number = float(value) if isinstance(value, Real) else math.nan
    if not (low < number <= high and math.isfinite(number)):
        raise ValueError(
            f"{name} must be a number above {low:g} and at most {high:g}, got {value!r}"
        )


def positive_or_none(name: str, value: Any) -> None:
    """Refuse what is neither None nor a positive, finite number."""
    if value is not None:
        between(name, value, 0.0, float("inf"))


def zero_or_positive(name: str, value: Any) -> None:
    """Refuse what is not a finite number that is zero or positive."""
    if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise ValueError(f"{name} must be zero or positive, got {value!r}")


def flag(name: str, value: Any) -> bool:
    """Check an option that must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def tolerance(value: Any) -> float:
    """Check ``tol``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"tol must be a number, got {value!r}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"tol must be zero or positive, got {value}")
    return float(value)
