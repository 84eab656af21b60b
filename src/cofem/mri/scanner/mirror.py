"""The symmetries of k-space: its point reflection, and axes on which a mask is constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, SameArray


def mirrored(x: SameArray, axes: tuple[int, ...]) -> SameArray:
    """Return x(−k) for x(k) in FFT order.

    Examples
    --------
    >>> mirrored(np.array([0, 1, 2, 3]), (-1,))
    array([0, 3, 2, 1])
    """
    xp: Any = backend.namespace(x)
    for axis in axes:
        x = xp.roll(xp.flip(x, axis=axis), 1, axis=axis)
    return x


def varying_axes(mask: Array) -> tuple[int, ...]:
    """Return the axes (from the end) that ΦᴴΦ has to transform.

    Along an axis on which the mask (L, *shape) does not change, the transform of ΦᴴΦ and its
    inverse meet: lines need a transform along one axis alone.

    Examples
    --------
    >>> varying_axes(np.array([[[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]]))
    (-1,)
    """
    sampled = backend.to_numpy(mask)
    axes = range(1 - sampled.ndim, 0)
    found = tuple(a for a in axes if np.any(sampled != np.roll(sampled, 1, a)))
    return found or (-1,)
