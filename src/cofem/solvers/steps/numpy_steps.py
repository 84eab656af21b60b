"""CG steps on NumPy rows, in place; systems that are done leave the block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cofem.solvers import kernels
from cofem.solvers.systems import Matrix
from cofem.solvers.verdicts import Coefficients

# The largest threshold of glibc's rule on 64-bit machines is 32 MiB.
LARGEST = (32 << 20) - (1 << 16)
# Bytes between arrays that are read together, a few lines of the cache.
APART = 320


class HostScalars:
    """Scalars as arrays that are replaced, not changed."""

    rtol: Any
    balance: Any
    size: Any
    target: Any
    goal: Any
    true: Any
    best: Any
    steps: Any
    done: Any
    bad: Any
    zero: Any
    stuck: Any

    def set(self, **values: Any) -> None:
        """Replace them."""
        self.__dict__.update(values)

    def running(self) -> Any:
        """Which systems neither rest nor have failed."""
        return ~(self.done | self.bad)

    def failed(self) -> Any:
        """Where the matrix was not positive."""
        return self.bad


class NumpySteps:
    """A block of systems A x = factor · rhs, for A of unit scale, in the precision ``dtype``.

    Parameters
    ----------
    matrix : ShiftedGram or SparsifiedGram
    rhs : array (Q, D)
    inverse : array (D,)
        The diagonal of M⁻¹.
    factor : float
    start : array (S, D), S ≤ Q, or None
    dtype : dtype
    """

    xp = np
    knows_rounding = looks_are_cheap = lowers_at_looks = True
    steps_between_looks = 1

    def __init__(
        self,
        matrix: Matrix,
        rhs: np.ndarray,
        inverse: np.ndarray,
        *,
        factor: float,
        start: np.ndarray | None,
        dtype: np.dtype[Any],
    ) -> None:
        n_rows = rhs.shape[0]
        self._matrix, self._rhs, self._inverse = matrix, rhs, inverse
        self._factor, self._start = factor, start
        self.eps = float(np.finfo(inverse.dtype).eps)
        self.scalars = HostScalars()
        self.expected = self.rows = 0
        # The whole block's results; a row is filled in when its system leaves.
        self._solution, self.r, self.p = staggered(3, rhs.shape, dtype)
        self._solution.fill(0)
        self.x = self._solution
        self.active = np.arange(n_rows)  # the systems that x, r and p belong to
        self.rho = np.zeros(n_rows)
        self.unit = np.zeros(n_rows)  # P is stored with a factor, see the kernels
        self.largest = np.zeros(n_rows)  # estimate of ‖M⁻¹A‖ from the step lengths
        self._coefficients: list[Coefficients] = [([], []) for _ in range(n_rows)]
        self._report: np.ndarray = np.zeros((0, n_rows))

    def do(self, name: Any, work: Callable[..., None], *arguments: Any, products: int = 0) -> None:
        """Do it; products are counted where they are made."""
        work(*arguments)

    def set_tolerances(self, rtol: np.ndarray, balance: np.ndarray) -> None:
        """Take squared tolerances."""
        self.scalars.set(rtol=rtol, balance=balance)
        self._balanced = balance > 0

    # -- the start ---------------------------------------------------------------------------

    def begin(self) -> np.ndarray:
        """R = factor · rhs, X = 0; return rᴴM⁻¹r."""
        self.rho = kernels.begin(self._rhs, self._factor, self._inverse, self.r, self.p)
        self.unit = self.rho.copy()
        return self.rho.copy()

    def start(self) -> None:
        """Begin the first systems elsewhere than at zero."""
        start = self._start
        if start is None:
            return
        wanted = [q for q in range(len(start)) if self.rho[q] > 0 and np.any(start[q])]
        if not wanted:
            return
        for q in wanted:
            self.x[q] = start[q]
        # Most often the first rows, all of them: then nothing is copied.
        first = wanted == list(range(len(wanted)))
        where = slice(0, len(wanted)) if first else wanted
        x, r, p = self.x[where], self.r[where], self.p[where]
        self.rows += len(wanted)
        self.rho[where] = kernels.begin_at(
            x, r, p, self._matrix.bulk(x), self._matrix.diagonal, self._inverse
        )
        self.unit[where] = self.rho[where]
        if not first:
            self.r[where], self.p[where] = r, p

    # -- one step ----------------------------------------------------------------------------

    def step(self, record: bool) -> None:
        """One step of the systems that are still here."""
        g = self._matrix.bulk(self.p)
        self.rows += len(self.active)
        if not (g.flags.c_contiguous and g.flags.writeable) or np.may_share_memory(g, self.p):
            g = np.array(g, order="C")  # it is about to be changed in place
        s = self.scalars
        lengths, ratios = kernels.advance(
            self.x, self.r, self.p, g, self._matrix.diagonal, self._inverse, self.active,
            self.unit, self.rho, self.largest, s.steps, s.bad,
        )  # fmt: skip
        if record:
            for system, length, ratio in zip(self.active, lengths, ratios, strict=True):
                if not s.bad[system]:
                    self._coefficients[system][0].append(float(length))
                    self._coefficients[system][1].append(float(ratio))

    def mark(self) -> None:
        """Nothing is queued."""

    def look(self) -> bool:
        """Let the systems leave that are done; return whether any is left."""
        s = self.scalars
        leaving = ((self.rho <= s.goal) | s.done | s.bad)[self.active]
        if leaving.any():
            self._keep_only(~leaving)
        return len(self.active) > 0

    def _keep_only(self, going_on: np.ndarray) -> None:
        """Write the solutions of the systems down that leave, and close the gaps."""
        if self.x is not self._solution:
            self._solution[self.active[~going_on]] = self.x[~going_on]
        for name in ("active", "x", "r", "p"):
            setattr(self, name, getattr(self, name)[going_on])

    def restore(self) -> None:
        """Write all solutions down."""
        if self.x is not self._solution:
            self._solution[self.active] = self.x

    # -- what the rules ask ------------------------------------------------------------------

    def sizes(self) -> np.ndarray:
        """Return rᴴM⁻¹r of every system."""
        return self.rho

    def joint_size(self, of: np.ndarray) -> np.ndarray:
        """Return Σ ‖r‖² over those systems, all of which are here."""
        squares = kernels.weighted_norm_squared(self.r, np.ones_like(self._inverse))
        return np.full(len(of), squares[of[self.active]].sum())

    def pull(self, of: np.ndarray) -> np.ndarray | None:
        """Return Σ |diagonal x|²/M of those systems that are here and must balance."""
        wanted = (of & self._balanced)[self.active]
        if not wanted.any():
            return None
        out = np.zeros(len(of))
        pulled = self.x[wanted] * self._matrix.diagonal
        out[self.active[wanted]] = kernels.weighted_norm_squared(pulled, self._inverse)
        return out

    def rounding(self, of: np.ndarray) -> np.ndarray:
        """Bound how far rounding has moved the recursion's residual away from the true one.

        Each step rounds A p, an error of about eps ‖A‖ ‖x‖ (Greenbaum 1997); in the norms
        used here ‖M⁻¹A‖ is seen in the step lengths.
        """
        out = np.zeros(len(of))
        if not of.any():
            return out
        x = self._solution if of.all() else self._solution[of]  # most often all: no copy
        solution = kernels.weighted_norm_squared(x, 1 / self._inverse)
        steps, largest = self.scalars.steps[of], self.largest[of]
        out[of] = self.eps * (steps + 1) * largest * np.sqrt(solution)
        return out

    def recompute(self, of: np.ndarray) -> None:
        """Begin anew from the true residuals of those systems, and of no others."""
        self.active = np.flatnonzero(of)
        self.x = self._solution[self.active]
        if not len(self.active):
            return
        self.rows += len(self.active)
        product = np.asarray(self._matrix.product(self.x))
        self.r = self._factor * self._rhs[self.active] - product
        self.rho[self.active] = kernels.weighted_norm_squared(self.r, self._inverse)
        self.unit[self.active] = self.rho[self.active]
        self.p = self.r * self._inverse

    # -- the end -----------------------------------------------------------------------------

    def report(self, *scalars: np.ndarray) -> None:
        """Stack them."""
        self._report = np.stack(scalars).astype(np.float64)

    def reported(self) -> np.ndarray:
        """Return them."""
        return self._report

    def coefficients(self) -> list[Coefficients]:
        """Return what was recorded."""
        return self._coefficients

    def solution(self) -> np.ndarray:
        """Return X (Q, D)."""
        self.restore()
        return self._solution


@cache
def keep_freed_memory() -> None:
    """Have arrays of a few megabytes come from memory that is already there.

    glibc returns freed memory to the system from some size on, and the next array pays a
    page fault for every four kilobytes: at D = 2^17 a tenth of a fit. How much it keeps it
    learns: up to twice the largest block that was ever mapped and freed (mallopt(3),
    M_MMAP_THRESHOLD). So we map and free one, once; nothing is written to it. Where malloc
    follows another rule nothing happens.
    """
    np.empty(LARGEST, np.uint8)


def staggered(count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[np.ndarray]:
    """Return arrays, not initialised, that lie at different places of a memory page.

    Large arrays all begin at the same place, and if D is a power of two the same entry of
    each competes for the same lines of the cache: a pass over five of them is a quarter
    slower than over arrays that are shifted against each other.

    Examples
    --------
    >>> first, second = staggered(2, (4, 1024), np.dtype(np.float32))
    >>> (second.ctypes.data - first.ctypes.data) % 4096
    320
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(count * (size + APART), np.uint8)
    return [memory[i * (size + APART) :][:size].view(dtype).reshape(shape) for i in range(count)]
