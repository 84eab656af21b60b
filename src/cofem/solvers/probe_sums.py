"""What is kept of a block of probes, on one process or on several."""

from __future__ import annotations

from dataclasses import dataclass

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
    whole : int
        If it is known that a block of so many probes is all there will be: their number.
    """

    def __init__(self, modulus_one: bool, whole: int = 0) -> None:
        self._modulus_one, self._whole = modulus_one, whole
        self._sums: list[Array] = []
        self._finished: tuple[Array, Array] | None = None

    def add(self, p: Array, x: Array, scaling: Array) -> None:
        """Add probes p (K, D) with their solutions x: the estimates Re(p̄∘x)∘scaling."""
        if self._modulus_one and backend.is_numpy(x):
            sums = kernels.probe_sums(p * scaling, np.ascontiguousarray(x))
            self.add_sums([total.astype(scaling.dtype, copy=False) for total in sums])
        elif self._modulus_one and p.shape[0] == self._whole:
            self._finished = backend.probe_sums(p, x, scaling, finished=True)
        elif self._modulus_one:
            self.add_sums([*backend.probe_sums(p, x, scaling)])
        else:
            self.add_sums(_weighted(p, x, scaling))

    def add_sums(self, new: list[Array]) -> None:
        """Add what was summed elsewhere: of the estimates, and of their squares."""
        self._sums = [a + b for a, b in zip(self._sums, new, strict=True)] if self._sums else new

    def share(self, group: Group, beside: Array | None) -> Array | None:
        """Add up over the processes, and with the same call the solutions ``beside``."""
        if group.size == 1:
            return beside
        xp = backend.namespace(self._sums[0])
        rows = xp.stack(self._sums)
        if beside is None:
            total = group.sum(rows)
        else:
            dtype = beside.dtype if backend.is_complex(beside) else rows.dtype
            total = group.sum(xp.concat([xp.astype(rows, dtype), xp.astype(beside, dtype)]))
        n = len(self._sums)
        self._sums = [backend.real(total[i, :]) for i in range(n)]
        return None if beside is None else total[n:, :]

    def finish(self, n_probes: int) -> tuple[Array, Array]:
        """Return the estimate (D,) and the sample variance of one probe's."""
        if self._finished is not None:
            return self._finished
        if self._modulus_one:
            total, squares = self._sums
            if not backend.is_numpy(total):
                return backend.sample_variance(total, squares, n_probes)
            kernels.sample_variance(total, squares, n_probes)  # the sums are ours to change
            return total, squares
        xp = backend.namespace(self._sums[0])
        total, squares, weight, cross, fourth = self._sums
        # A law with zeros may miss a coordinate; its estimate is then zero, not NaN.
        weight = xp.where(weight > 0, weight, xp.ones_like(weight))
        diagonal = total / weight
        # A ratio's error is that of p̄∘x − diagonal∘|p|², over the mean |p|².
        departure = squares - 2 * diagonal * cross + diagonal**2 * fourth
        spread = xp.clip(departure * n_probes / weight**2, min=0.0)
        return diagonal, spread * (n_probes / max(n_probes - 1, 1))


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
