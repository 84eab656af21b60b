"""The point reflection of k-space."""

from __future__ import annotations

from typing import Any

from cofem import backend
from cofem.backend import SameArray


def mirrored(x: SameArray, axes: tuple[int, ...]) -> SameArray:
    """Return x(−k) for x(k) in FFT order.

    Examples
    --------
    >>> import numpy as np
    >>> mirrored(np.array([0, 1, 2, 3]), (-1,))
    array([0, 3, 2, 1])
    """
    xp: Any = backend.namespace(x)
    for axis in axes:
        x = xp.roll(xp.flip(x, axis=axis), 1, axis=axis)
    return x
