"""Right-hand sides that are made where they are used: in the solver's threads.

Probes are random signs times a vector. They need not be stored all at once and in double
precision, and only two sums of their solutions are needed. They are made, and their solutions
added up, block by block and in the precision of the block: so they stay in the cache, and no
thread waits while another one makes all of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cofem import backend
from cofem.solvers import kernels


class RightHandSides(Protocol):
    """The rows b_q of A x_q = b_q, and where their solutions go.

    Threads call both methods, never two of them with the same rows at a time.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def rows(self, which: slice, dtype: np.dtype[Any]) -> np.ndarray:
        """Return these rows; in ``dtype``, if they have to be made."""
        ...

    def take(self, which: slice, rhs: np.ndarray, x: np.ndarray) -> None:
        """Receive the solutions of these rows, beside what :meth:`rows` returned."""
        ...

    def peak(self, which: slice) -> float:
        """Return a bound on the modulus of their entries, nearly reached."""
        ...


class GivenRows:
    """An array of right-hand sides, and one of solutions."""

    def __init__(self, rhs: np.ndarray) -> None:
        self._rhs, self.solution = rhs, np.empty_like(rhs)
        self.shape, self.dtype = rhs.shape, rhs.dtype

    def rows(self, which: slice, dtype: np.dtype[Any]) -> np.ndarray:
        """Return these rows as they are."""
        return self._rhs[which]

    def take(self, which: slice, rhs: np.ndarray, x: np.ndarray) -> None:
        """Write the solutions down."""
        self.solution[which] = x

    def peak(self, which: slice) -> float:
        """Return the largest modulus of a real or imaginary part."""
        rows = self._rhs[which]
        numbers = rows.view(backend.real_dtype(rows.dtype, np))
        return max(float(np.max(numbers)), -float(np.min(numbers)))


class ProbeRows:
    """Probes of modulus one times a scaling, behind a few rows that are given.

    Parameters
    ----------
    probes : array (K, D)
        Complex numbers of modulus one, or for real systems zeros and ones that stand
        for the signs − and +.
    scaling : array (D,)
    given : array (E, D), optional
        Rows that come first; :attr:`solution` has their solutions.
    dtype
        The systems' own, of the rows that are given and of the sums.

    Examples
    --------
    >>> some = ProbeRows(np.array([[1, 0], [1, 1]], np.uint8), np.array([2.0, 3.0]))
    >>> rows = some.rows(slice(0, 2), np.dtype(np.float64))
    >>> rows
    array([[ 2., -3.],
           [ 2.,  3.]])
    >>> some.take(slice(0, 2), rows, rows / 2)
    >>> some.sums()
    [array([4., 9.]), array([ 8. , 40.5])]
    """

    def __init__(
        self, probes: np.ndarray, scaling: np.ndarray, given: np.ndarray | None = None
    ) -> None:
        self._probes, self._scaling = probes, scaling
        n, columns = probes.shape
        self.dtype = np.result_type(probes.dtype, scaling.dtype)
        self._given = np.empty((0, columns), self.dtype) if given is None else given
        self.solution = np.empty_like(self._given)
        self.shape = (len(self._given) + n, columns)
        self._sums: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def rows(self, which: slice, dtype: np.dtype[Any]) -> np.ndarray:
        """Return these rows, made now."""
        given, made = self._parted(which)
        out = np.empty((which.stop - which.start, self.shape[1]), dtype)
        n = given.stop - given.start
        out[:n] = self._given[given]
        if dtype.kind == "c":
            np.multiply(self._probes[made], self._scaling, out=out[n:], casting="same_kind")
        else:
            kernels.signed(self._probes[made], self._scaling, out[n:])
        return out

    def take(self, which: slice, rhs: np.ndarray, x: np.ndarray) -> None:
        """Keep solutions of given rows, and add up the probes' estimates Re(b̄∘x)."""
        given, made = self._parted(which)
        n = given.stop - given.start
        self.solution[given] = x[:n]
        if made.stop > made.start:
            self._sums[made.start] = kernels.probe_sums(rhs[n:], x[n:])

    def peak(self, which: slice) -> float:
        """Return the largest entry of the scaling, or of the rows that are given."""
        given, _ = self._parted(which)
        largest = float(np.max(self._scaling))
        rows = self._given[given]
        return max(largest, float(np.max(np.abs(rows)))) if len(rows) else largest

    def sums(self) -> list[np.ndarray]:
        """Return Σ e and Σ e² over the probes, e = Re(b̄∘x), in the scaling's precision."""
        blocks = [self._sums[first] for first in sorted(self._sums)]
        if not blocks:
            return [np.zeros_like(self._scaling) for _ in range(2)]
        total, squares = blocks[0]
        for more, more_squares in blocks[1:]:
            total += more
            squares += more_squares
        return [a.astype(self._scaling.dtype, copy=False) for a in (total, squares)]

    def _parted(self, which: slice) -> tuple[slice, slice]:
        """Return the rows among them that are given, and the probes."""
        n = len(self._given)
        given = slice(min(which.start, n), min(which.stop, n))
        return given, slice(max(which.start - n, 0), max(which.stop - n, 0))
