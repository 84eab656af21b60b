"""The active set of the sequential method: the coordinates with a finite prior precision."""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array


class ActiveSet:
    """Which coordinates are active, in the order in which Σ holds them, and their α.

    Parameters
    ----------
    n_unknowns : int
        D.
    like : array
        With the library and device of the arrays that ``take`` and ``put`` get.

    Examples
    --------
    >>> active = ActiveSet(5, np.empty(0))
    >>> active.set(3, 1.5)
    >>> active.set(1, 2.5)
    >>> active.put(np.array([10.0, 20.0]))
    array([ 0., 20.,  0., 10.,  0.])
    >>> active.remove(3)
    >>> active.members.tolist(), active.take(np.arange(5.0))
    ([1], array([1.]))
    >>> active.alpha_of(1), active.alpha_of(0)
    (2.5, inf)
    """

    def __init__(self, n_unknowns: int, like: Array) -> None:
        self._like = like
        self._members: list[int] = []
        self._alpha: list[float] = []
        # The slot of every coordinate; the number of coordinates if it has none.
        self.slots = np.full(n_unknowns, n_unknowns, dtype=np.int64)
        self._moved: tuple[Array, Array] | None = None
        self._free: Array | None = None

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> np.ndarray:
        """The active coordinates, (d,)."""
        return np.array(self._members, dtype=np.int64)

    @property
    def free(self) -> Array:
        """A mask of the coordinates that are not active, (D,)."""
        if self._free is None:
            self._free = backend.from_numpy(self.slots == self.slots.size, self._like)
        return self._free

    def holds(self, i: int) -> bool:
        """Whether coordinate i is active."""
        return bool(self.slots[i] < self.slots.size)

    def alpha_of(self, i: int) -> float:
        """Return α_i, infinite if i is not active."""
        return self._alpha[self.slots[i]] if self.holds(i) else math.inf

    def alphas(self) -> Array:
        """Return α of the active coordinates, (d,)."""
        return backend.from_numpy(np.array(self._alpha), self._like)

    def set(self, i: int, alpha: float) -> None:
        """Set α_i; a coordinate that was not active gets the next slot."""
        if self.holds(i):
            self._alpha[self.slots[i]] = alpha
            return
        self.slots[i] = len(self._members)
        self._members.append(i)
        self._alpha.append(alpha)
        self._moved = self._free = None

    def remove(self, i: int) -> None:
        """Take coordinate i out; the one in the last slot takes its slot."""
        slot, last, alpha = self.slots[i], self._members.pop(), self._alpha.pop()
        if last != i:
            self._members[slot], self._alpha[slot] = last, alpha
            self.slots[last] = slot
        self.slots[i] = self.slots.size
        self._moved = self._free = None

    def take(self, x: Array, axis: int = -1) -> Array:
        """Return the entries of the active coordinates: (…, D) to (…, d)."""
        return backend.namespace(x).take(x, self._indices()[0], axis=axis)

    def put(self, x: Array) -> Array:
        """Return zeros with x at the active coordinates: (…, d) to (…, D)."""
        xp = backend.namespace(x)
        if backend.is_numpy(x):
            out = np.zeros((*x.shape[:-1], self.slots.size), x.dtype)
            out[..., backend.to_numpy(self._indices()[0])] = x
            return out
        # The array API standard has no scatter, so every entry is taken from a padded copy, whose
        # entry d is zero.
        padded = xp.concat([x, xp.zeros_like(x[..., :1])], axis=-1)
        return xp.take(padded, self._indices()[1], axis=-1)

    def _indices(self) -> tuple[Array, Array]:
        if self._moved is None:
            fetch = np.minimum(self.slots, len(self._members))
            self._moved = (
                backend.from_numpy(self.members, self._like),
                backend.from_numpy(fetch, self._like),
            )
        return self._moved
