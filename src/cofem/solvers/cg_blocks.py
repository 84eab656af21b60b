"""CG on one block of NumPy rows, in place; finished systems leave the block."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.solvers import kernels
from cofem.solvers.allocation import staggered
from cofem.solvers.cg_result import CGResult, Coefficients, Status, relative
from cofem.solvers.systems import Matrix


class BlockSolver:
    """The state of CG on a block of systems (see :func:`cofem.solvers.solve`).

    Solves A x = factor · rhs for A of unit scale, in the precision ``dtype``.
    """

    def __init__(
        self,
        matrix: Matrix,
        rhs: np.ndarray,
        inverse: np.ndarray,
        *,
        factor: float,
        start: np.ndarray | None,
        rtol: np.ndarray,
        balance: np.ndarray,
        joint: bool,
        keep_coefficients: bool,
        dtype: np.dtype[Any],
    ) -> None:
        n_rows = rhs.shape[0]
        self.matrix, self.rhs, self.factor, self.inverse = matrix, rhs, factor, inverse
        self.joint, self.keep = joint, keep_coefficients
        # The whole block's results; a row is filled in when its system leaves.
        self.solution, self.r, self.p = staggered(3, rhs.shape, dtype)
        self.solution.fill(0)
        self.steps = np.zeros(n_rows, dtype=np.int64)
        self.status = np.full(n_rows, Status.MAX_STEPS, dtype=np.int64)
        self.residual = np.zeros(n_rows)
        self.coefficients: list[Coefficients] = [([], []) for _ in range(n_rows)]
        self.rows_multiplied = self.step = 0
        # What belongs to the systems that still run, whose rows are ``active``.
        self.active = np.arange(n_rows)
        self.x = self.solution
        self.rho = kernels.begin(rhs, factor, inverse, self.r, self.p)
        self.scale = self._size(self.r) if joint else self.rho.copy()
        self.goal = rtol**2 * self.scale
        self.balance = balance
        self.largest = np.zeros(n_rows)  # estimate of ‖M⁻¹A‖ from the step lengths
        self.best_true = np.full(n_rows, np.inf)
        if start is not None:
            self._start_from(start)
        self.unit = self.rho.copy()  # P is kept as a multiple of itself, see the kernels

    def _start_from(self, start: np.ndarray) -> None:
        """Begin the first systems elsewhere than at zero, which needs no product."""
        # A right-hand side of zeros is solved by zero, not by falling towards it for ever.
        wanted = [q for q in range(len(start)) if self.rho[q] > 0 and np.any(start[q])]
        if not wanted:
            return
        for q in wanted:
            self.x[q] = start[q]
        # Most often the first rows, all of them: then nothing is copied.
        first = wanted == list(range(len(wanted)))
        where = slice(0, len(wanted)) if first else wanted
        x, r, p = self.x[where], self.r[where], self.p[where]
        self.rows_multiplied += len(wanted)
        self.rho[where] = kernels.begin_at(
            x, r, p, self.matrix.bulk(x), self.matrix.diagonal, self.inverse
        )
        if not first:
            self.r[where], self.p[where] = r, p

    def run(self, max_steps: int) -> CGResult:
        """Take steps until every system is done."""
        for self.step in range(max_steps + 1):
            self._retire_finished()
            if self.step == max_steps or not len(self.active):
                break
            self._advance()
        self._keep_only(np.zeros(len(self.active), dtype=bool))
        return CGResult(
            x=self.solution,
            steps=self.steps,
            residual=relative(self.residual, self.scale),
            status=self.status,
            rows=self.rows_multiplied,
            coefficients=self.coefficients if self.keep else [],
        )

    # -- one step --------------------------------------------------------------

    def _advance(self) -> None:
        g = self.matrix.bulk(self.p)
        self.rows_multiplied += len(self.active)
        if not (g.flags.c_contiguous and g.flags.writeable) or np.may_share_memory(g, self.p):
            g = np.array(g, order="C")  # it is about to be changed in place
        failed, length, ratio = kernels.advance(
            self.x, self.r, self.p, g, self.matrix.diagonal, self.inverse, self.unit, self.rho,
            self.largest,
        )  # fmt: skip
        if self.keep:
            for row, best, a, b in zip(self.active, self.best_true, length, ratio, strict=True):
                if np.isinf(best):  # after a restart it is another process
                    self.coefficients[row][0].append(float(a))
                    self.coefficients[row][1].append(float(b))
        if failed.any():
            self.status[self.active[failed]] = Status.NOT_POSITIVE
            self._keep_only(~failed)

    # -- who is done -----------------------------------------------------------

    def _retire_finished(self) -> None:
        size = self._size(self.r) if self.joint else self.rho
        finished = size <= self.goal
        if not finished.any():
            return
        if not self.joint:
            self._tighten(np.flatnonzero(finished))
            finished = size <= self.goal
            finished &= ~self._restarted(np.flatnonzero(finished))
        done = self.active[finished]
        self.status[done[self.status[done] == Status.MAX_STEPS]] = Status.CONVERGED
        self._keep_only(~finished)

    def _tighten(self, candidates: np.ndarray) -> None:
        """Lower the goal of systems that must also balance the diagonal's part of A x."""
        where = candidates[self.balance[candidates] > 0]
        if len(where):
            pull = self._squared(self.x[where] * self.matrix.diagonal)
            self.goal[where] = np.minimum(self.goal[where], self.balance[where] ** 2 * pull)

    def _restarted(self, candidates: np.ndarray) -> np.ndarray:
        """Recompute the true residual where rounding may have hidden it.

        Systems whose true residual is above the goal go on from there; those
        that cannot improve any more are marked as stagnated.
        """
        restarted = np.zeros(len(self.active), dtype=bool)
        doubtful = candidates[self._may_have_drifted(candidates)]
        if not len(doubtful):
            return restarted
        rows = self.active[doubtful]
        true = self.factor * self.rhs[rows] - self._product(self.x[doubtful])
        size = self._squared(true)
        short = size > self.goal[doubtful]
        stuck = short & (size > 0.25 * self.best_true[doubtful])
        self.best_true[doubtful] = np.minimum(self.best_true[doubtful], size)
        self.status[rows[stuck]] = Status.STAGNATED
        self.rho[doubtful] = size  # what a system that leaves is said to have reached
        again = short & ~stuck
        where = doubtful[again]
        self.r[where] = true[again]
        self.p[where] = true[again] * self.inverse
        self.unit[where] = size[again]
        restarted[where] = True
        return restarted

    def _may_have_drifted(self, where: np.ndarray) -> np.ndarray:
        """Whether rounding may have parted the recursive residual from the true one.

        Each step rounds A p, an error of about eps ‖A‖ ‖x‖ (Greenbaum 1997); in
        the norms used here ‖M⁻¹A‖ is seen in the step lengths. Where the sum is
        far below the tolerance, another product would only confirm it.
        """
        eps = np.finfo(self.inverse.dtype).eps
        x = self.x if len(where) == len(self.x) else self.x[where]  # most often all: no copy
        solution = kernels.weighted_norm_squared(x, 1 / self.inverse)
        drift = eps * (self.step + 1) * self.largest[where] * np.sqrt(solution)
        return np.asarray(drift > 0.1 * np.sqrt(self.goal[where]))

    def _keep_only(self, going_on: np.ndarray) -> None:
        """Write down how the systems that leave have ended, and close the gaps."""
        if going_on.all():
            return
        leaving = ~going_on
        rows = self.active[leaving]
        self.steps[rows] = self.step
        self.residual[rows] = (self._size(self.r) if self.joint else self.rho)[leaving]
        if self.x is not self.solution:
            self.solution[rows] = self.x[leaving]
        for name in ("active", "rho", "unit", "goal", "balance", "largest", "best_true",
                     "x", "r", "p"):  # fmt: skip
            setattr(self, name, getattr(self, name)[going_on])

    # -- norms and products ----------------------------------------------------

    def _product(self, x: np.ndarray) -> np.ndarray:
        self.rows_multiplied += len(x)
        return np.asarray(self.matrix.product(x))

    def _squared(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(kernels.weighted_norm_squared(r, self.inverse))

    def _size(self, r: np.ndarray) -> np.ndarray:
        """Return the squared norm that the stopping rule compares, for every row."""
        if not self.joint:
            return self._squared(r)
        total = kernels.weighted_norm_squared(r, np.ones_like(self.inverse)).sum()
        return np.full(len(r), total)
