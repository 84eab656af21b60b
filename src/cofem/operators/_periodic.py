"""Sums of shifted copies along one axis of a periodic image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array


def along(axis: int, part: slice) -> tuple[object, ...]:
    """Return the index that takes ``part`` of a negative ``axis``.

    Examples
    --------
    >>> along(-2, slice(0, 3))
    (Ellipsis, slice(0, 3, None), slice(None, None, None))
    """
    return (..., part, *[slice(None)] * (-axis - 1))


def wrap(x: Array, before: int, after: int, axis: int) -> Array:
    """Continue ``x`` periodically by ``before`` and ``after`` samples along ``axis``.

    Examples
    --------
    >>> wrap(np.array([1, 2, 3]), 1, 2, -1)
    array([3, 1, 2, 3, 1, 2])
    """
    xp = backend.namespace(x)
    n = x.shape[axis]
    if before <= n and after <= n:
        parts = [x]
        if before:
            parts.insert(0, x[along(axis, slice(n - before, n))])
        if after:
            parts.append(x[along(axis, slice(0, after))])
        return xp.concat(parts, axis=axis) if len(parts) > 1 else x
    index = backend.from_numpy(np.arange(-before, n + after) % n, x)
    return xp.take(x, index, axis=axis)


def shifted_sum(
    x: Array, weights: Sequence[float], offsets: Sequence[int], axis: int, step: int = 1
) -> Array:
    """Return Σ_l weights[l] x[step·i + offsets[l]] with periodic x, along a negative ``axis``.

    Takes slices of one periodic copy, so that no shifted copy is made.

    Examples
    --------
    >>> shifted_sum(np.array([1.0, 2.0, 4.0]), [1.0, -1.0], [0, -1], -1)
    array([-3.,  1.,  2.])
    """
    n = x.shape[axis]
    before, after = max(0, -min(offsets)), max(0, max(offsets))
    wrapped = wrap(x, before, after, axis)
    total: Any = None
    for weight, offset in zip(weights, offsets, strict=True):
        start = before + offset
        term = float(weight) * wrapped[along(axis, slice(start, start + n, step))]
        if total is None:
            total = term
        else:
            total += term  # our own array: in place where the library can
    return total
