"""Fixed arrays that follow the caller's to any library, device and precision."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from cofem.backend.arrays import (
    Array,
    complex_dtype,
    device_of,
    from_numpy,
    is_numpy,
    library,
    namespace,
    real_dtype,
)


class Cache:
    """Things made once for every library, device and precision they are asked in.

    Examples
    --------
    >>> import numpy as np
    >>> cache = Cache()
    >>> first = cache.get(np.zeros(2), lambda: object())
    >>> cache.get(np.ones(5), lambda: object()) is first
    True
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}

    def get(self, x: Array, make: Callable[[], Any], *extra: Hashable) -> Any:
        """Return what ``make`` made for arrays like ``x`` (and for the same ``extra``)."""
        precision = real_dtype(x.dtype, namespace(x))
        key = (library(x), str(device_of(x)), str(precision), *extra)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = make()
        return made

    # What is remembered is cheap to make again and need not travel.
    def __reduce__(self) -> tuple[Any, ...]:
        return (Cache, ())


class Constant:
    """A fixed array that follows its argument to any library, device and precision.

    Operators hold their masks, kernels and matrices in one of these. The
    conversions are remembered, since the same few are asked for at every step.
    """

    def __init__(self, value: Array) -> None:
        self.value = value
        self._copies = Cache()

    def like(self, x: Array) -> Array:
        """Return the constant in the library, device and precision of ``x``."""
        return self._copies.get(x, lambda: self._convert(x))

    def _convert(self, x: Array) -> Array:
        value = self.value
        xp = namespace(x)
        if library(value) != library(x):
            if not is_numpy(value):
                raise TypeError(
                    f"an operator that holds a {library(value)} array was applied to a "
                    f"{library(x)} array; convert one of them"
                )
            value = from_numpy(value, x)
        elif device_of(value) != device_of(x):
            raise ValueError(
                f"an operator on device {device_of(value)} was applied to an array on "
                f"{device_of(x)}; move one of them"
            )
        if xp.isdtype(value.dtype, ("bool", "integral")):
            return value
        convert = complex_dtype if xp.isdtype(value.dtype, "complex floating") else real_dtype
        return xp.astype(value, convert(x.dtype, xp), copy=False)
