"""Which samples of a transform were measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Cache, Constant


class Selection:
    """Some entries of a vector of length n, in order; repeats count as often as they occur.

    Parameters
    ----------
    chosen : boolean mask (n,) or of ``shape``, integer indices (M,), or None for all
        NumPy's or any other library's.
    shape : tuple of int
        The array that is selected from, flattened in C order.
    name : str
        The argument's name, for messages.

    Examples
    --------
    >>> some = Selection(np.array([2, 0]), (3,), "rows")
    >>> some.take(np.array([1.0, 2.0, 3.0])), some.put(np.array([5.0, 6.0]))
    (array([3., 1.]), array([6., 0., 5.]))
    """

    def __init__(self, chosen: Any, shape: tuple[int, ...], name: str) -> None:
        self.n = math.prod(shape)
        self.index = None if chosen is None else _indices(chosen, shape, name)
        self.size = self.n if self.index is None else int(self.index.size)
        self.repeats = self.index is not None and bool(np.bincount(self.index).max() > 1)
        self._constant = None if self.index is None else Constant(self.index)
        self._cache = Cache()

    def take(self, x: Array) -> Array:
        """Return the chosen entries: (…, n) to (…, M)."""
        if self._constant is None:
            return x
        return backend.namespace(x).take(x, self._constant.like(x), axis=-1)

    def put(self, y: Array) -> Array:
        """Return the adjoint of :meth:`take`: (…, M) to (…, n), zero elsewhere."""
        index = self.index
        if index is None:
            return y
        if backend.is_numpy(y):
            out = np.zeros((*y.shape[:-1], self.n), y.dtype)
            if self.repeats:
                np.add.at(out, (..., index), y)  # type: ignore[arg-type]
            else:
                out[..., index] = y
            return out
        return self._gather(y, index)

    def counts(self, x: Array) -> Array:
        """Return how often each entry was chosen, (n,), in the precision of ``x``."""
        return self._cache.get(x, lambda: self._make_counts(x), "counts")

    def numpy_counts(self) -> np.ndarray:
        """Return how often each entry was chosen, (n,), float64 on the host."""
        if self.index is None:
            return np.ones(self.n)
        return np.bincount(self.index, minlength=self.n).astype(np.float64)

    def _make_counts(self, x: Array) -> Array:
        xp = backend.namespace(x)
        moved = backend.from_numpy(self.numpy_counts(), x)
        return xp.astype(moved, backend.real_dtype(x.dtype, xp))

    def _gather(self, y: Array, index: np.ndarray) -> Array:
        # The array API standard has no scatter. So every entry takes its value from a padded copy,
        # whose entry M is zero; entries that were chosen twice take their second value in a second
        # pass, and so on.
        xp = backend.namespace(y)
        padded = xp.concat([y, xp.zeros_like(y[..., :1])], axis=-1)
        layers = self._cache.get(y, lambda: backend.places_of(index, self.n, y), "inverse")
        out = xp.take(padded, layers[0], axis=-1)
        for layer in layers[1:]:
            out = out + xp.take(padded, layer, axis=-1)
        return out


def _indices(chosen: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    n = math.prod(shape)
    array = backend.to_numpy(chosen) if backend.is_array(chosen) else np.asarray(chosen)
    if array.size == 0:
        raise ValueError(f"{name} selects nothing")
    if array.dtype == bool:
        if array.shape not in (shape, (n,)):
            raise ValueError(f"{name}: a boolean mask must have shape {shape}, got {array.shape}")
        array = np.flatnonzero(array)
    elif array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers or a boolean mask, got dtype {array.dtype}")
    elif array.ndim != 1:
        raise ValueError(f"{name}: integer indices must be 1-D, got shape {array.shape}")
    if array.size == 0:  # a mask that is False everywhere
        raise ValueError(f"{name} selects nothing")
    if array.min() < -n or array.max() >= n:
        raise ValueError(
            f"{name} must lie between 0 and {n - 1}, got {array.min()} to {array.max()}"
        )
    return (array.astype(np.int64) % n).astype(np.int64, copy=False)
