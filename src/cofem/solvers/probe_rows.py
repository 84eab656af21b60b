"""Probes as right-hand sides, and what is kept of their solutions.

Probes are random signs times a vector. In the solver's threads they need not be stored all at once
and in double precision, and only two sums of their solutions are needed. So they are made, and
their solutions added up, block by block and in the precision of the block: they stay in the cache,
and no thread waits while another one makes all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.solvers import kernels
from cofem.solvers.verdicts import CGResult, Coefficients


class GivenRows:
    """An array of right-hand sides, and one of solutions.

    As :class:`ProbeRows`: threads call the methods, never two of them with the same rows at a time.
    """

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


class ProbeSums:
    """Sums over probes: memory is O(D) however many there are.

    Parameters
    ----------
    modulus_one : bool
        Whether every entry of a probe has modulus one, so that three of the sums are
        known beforehand.
    """

    def __init__(self, modulus_one: bool) -> None:
        self._modulus_one = modulus_one
        self._sums: list[Any] = []

    def add(self, p: Any, x: Any, scaling: Any) -> None:
        """Add probes p (K, D) with their solutions x: the estimates Re(p̄∘x)∘scaling."""
        make = probe_sums if self._modulus_one else _weighted
        self.add_sums([*make(p, x, scaling)])

    def add_sums(self, new: list[Any]) -> None:
        """Add what was summed elsewhere: of the estimates, and of their squares."""
        self._sums = [a + b for a, b in zip(self._sums, new, strict=True)] if self._sums else new

    def share(self, group: Group, beside: Array | None, like: Array) -> Array | None:
        """Add up over the processes, and with the same call the solutions ``beside``.

        In the precision of ``like``, because sending the numbers is what takes time.
        """
        if group.size == 1:
            return beside
        xp = backend.namespace(self._sums[0])
        rows = xp.astype(xp.stack(self._sums), like.dtype)
        if beside is None:
            total = group.sum(rows)
        else:
            dtype = beside.dtype if backend.is_complex(beside) else rows.dtype
            total = group.sum(xp.concat([xp.astype(rows, dtype), xp.astype(beside, dtype)]))
        n = len(self._sums)
        self._sums = [backend.real(total[i, :]) for i in range(n)]
        return None if beside is None else total[n:, :]

    def finish(self, n_probes: int, like: Array) -> tuple[Array, Array]:
        """Return the estimate (D,) and the sample variance of one probe's, in like's precision."""
        if self._modulus_one:
            compute = backend.in_one_launch(sample_variance, self._sums[0])
            mean, spread = compute(*self._sums, n=n_probes, dtype=like.dtype)
            return mean, spread
        xp = backend.namespace(self._sums[0])
        total, squares, weight, cross, fourth = self._sums
        # A law with zeros may miss a coordinate; its estimate is then zero, not NaN.
        weight = xp.where(weight > 0, weight, xp.ones_like(weight))
        diagonal = total / weight
        # A ratio's error is that of p̄∘x − diagonal∘|p|², over the mean |p|².
        departure = squares - 2 * diagonal * cross + diagonal**2 * fourth
        spread = xp.clip(departure * n_probes / weight**2, min=0.0)
        return diagonal, spread * (n_probes / max(n_probes - 1, 1))


def probe_sums(p: Any, x: Any, scaling: Any) -> tuple[Array, Array]:
    """Return Σ e and Σ e² over the rows of e = Re(p̄∘x)∘scaling.

    Examples
    --------
    >>> p, x = np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([[3.0, -2.0], [5.0, 4.0]])
    >>> probe_sums(p, x, np.ones(2))
    (array([8., 6.]), array([34., 20.]))
    """
    if backend.is_numpy(x):
        total, squares = kernels.probe_sums(p * scaling, np.ascontiguousarray(x))
        return total, squares
    if backend.has_engine(x):
        from cofem.solvers.steps.cuda import sums

        return sums.probe_sums(p, x, scaling)
    xp = backend.namespace(x)
    one = backend.real(backend.conj(p) * x) * scaling
    return xp.sum(one, axis=0), xp.sum(one * one, axis=0)


def sample_variance(total: Array, squares: Array, *, n: int, dtype: Any) -> tuple[Array, Array]:
    """Return the mean and the sample variance from n numbers' sum and sum of squares.

    Examples
    --------
    >>> sample_variance(np.array([8.0]), np.array([34.0]), n=2, dtype=np.float64)
    (array([4.]), array([2.]))
    """
    xp = backend.namespace(total)
    mean = total / n
    spread = xp.clip(squares / n - mean * mean, min=0.0)  # which rounding could make negative
    spread = spread * (n / max(n - 1, 1))
    return xp.astype(mean, dtype, copy=False), xp.astype(spread, dtype, copy=False)


def _weighted(p: Array, x: Array, scaling: Array) -> list[Array]:
    """Sum what is kept of probes whose entries differ in modulus."""
    xp = backend.namespace(x)
    one, size = backend.real(backend.conj(p) * x) * scaling, backend.abs_squared(p)
    return [xp.sum(term, axis=0) for term in (one, one * one, size, one * size, size * size)]


@dataclass(frozen=True)
class Solved:
    """How the systems of one block went, without their solutions.

    The first systems may be extra ones, which are told apart from the probes'.
    """

    coefficients: list[Coefficients]
    steps: np.ndarray
    status: np.ndarray
    rows: int
    extra_steps: np.ndarray
    extra_status: np.ndarray

    @classmethod
    def of(cls, found: CGResult, n_extra: int) -> Solved:
        """Keep what is small of a result."""
        return cls(
            found.coefficients[n_extra:],
            found.steps[n_extra:],
            found.status[n_extra:],
            found.rows,
            found.steps[:n_extra],
            found.status[:n_extra],
        )
