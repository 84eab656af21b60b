"""What is kept of a block of probes, on one process or on several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.solvers import kernels
from cofem.solvers.verdicts import CGResult, Coefficients


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
