"""CG on one block of NumPy rows, in place; finished systems leave the block."""

from __future__ import annotations

import numpy as np

from cofem.linalg import kernels
from cofem.linalg.cg_result import CGResult, Coefficients, Status, relative
from cofem.linalg.systems import Matrix


class BlockSolver:
    """The state of CG on a block of systems (see :func:`cofem.linalg.solve`)."""

    def __init__(
        self,
        matrix: Matrix,
        rhs: np.ndarray,
        inverse: np.ndarray,
        *,
        start: np.ndarray | None,
        rtol: np.ndarray,
        balance: np.ndarray,
        joint: bool,
        keep_coefficients: bool,
    ) -> None:
        n_rows = rhs.shape[0]
        self.matrix, self.rhs, self.inverse = matrix, rhs, inverse
        self.joint, self.keep, self.rtol = joint, keep_coefficients, rtol
        # The whole block's results; rows are filled in as they finish.
        self.steps = np.zeros(n_rows, dtype=np.int64)
        self.status = np.full(n_rows, Status.MAX_STEPS, dtype=np.int64)
        self.residual = np.zeros(n_rows)
        self.coefficients: list[Coefficients] = [([], []) for _ in range(n_rows)]
        self.rows_multiplied = 0
        self.scale = self._size(rhs)
        self.goal = rtol**2 * self.scale
        self.balance = balance
        self.largest = np.zeros(n_rows)  # estimate of ‖M⁻¹A‖ from the step lengths
        self.best_true = np.full(n_rows, np.inf)
        # The systems that still run: their rows, and their own arrays.
        self.active = np.arange(n_rows)
        self.solution = np.zeros_like(rhs)
        if start is not None and len(start):
            # A right-hand side of zeros is solved by zero, not by falling towards it for ever.
            wanted = np.flatnonzero(self.scale[: len(start)] > 0)
            self.solution[wanted] = start[wanted]
        self.x = self.solution
        self.r = rhs.copy()
        started = np.any(self.x, axis=1)  # a start at zero needs no product
        if np.any(started):
            self.r[started] -= self._product(self.x[started])
        self.p = self.r * inverse  # the direction P times unit/ρ, see the kernels
        self.rho = self._squared(self.r)
        self.unit = self.rho.copy()

    def run(self, max_steps: int) -> CGResult:
        """Take steps until every system is done."""
        for step in range(max_steps + 1):
            self._retire_finished()
            if step == max_steps or not len(self.active):
                break
            self._advance()
        if len(self.active):
            self.solution[self.active] = self.x
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
        curvature, rho = kernels.advance(
            self.x, self.r, self.p, g, self.matrix.diagonal, self.inverse, self.unit, self.rho
        )
        # False for NaN too. A solved system, which the joint rule keeps, has no direction.
        positive = (curvature > 0) | (self.rho == 0)
        if not np.all(positive):
            self.status[self.active[~positive]] = Status.NOT_POSITIVE
            self._keep_only(positive)
            curvature, rho = curvature[positive], rho[positive]
        if np.all(self.rho > 0):
            # γ of the textbook, for P itself; a product of small numbers could vanish
            length = (self.unit / curvature) * (self.unit / self.rho)
            ratio = rho / self.rho
            self.largest[self.active] = np.maximum(self.largest[self.active], 1 / length)
        else:  # only under the joint rule, which uses neither
            length = ratio = np.zeros_like(rho)
        self.rho = rho
        self.steps[self.active] += 1
        if self.keep:
            for row, a, b in zip(self.active, length, ratio, strict=True):
                if np.isinf(self.best_true[row]):  # after a restart it is another process
                    self.coefficients[row][0].append(float(a))
                    self.coefficients[row][1].append(float(b))

    # -- who is done -----------------------------------------------------------

    def _retire_finished(self) -> None:
        size = self._size(self.r) if self.joint else self.rho
        self.residual[self.active] = size
        finished = size <= self.goal[self.active]
        if not np.any(finished):
            return
        if not self.joint:
            self._tighten(np.flatnonzero(finished))
            finished = size <= self.goal[self.active]
            finished &= ~self._restarted(np.flatnonzero(finished))
        done = self.active[finished]
        self.status[done[self.status[done] == Status.MAX_STEPS]] = Status.CONVERGED
        self._keep_only(~finished)

    def _tighten(self, candidates: np.ndarray) -> None:
        """Lower the goal of systems that must also balance the diagonal's part of A x."""
        where = candidates[self.balance[self.active[candidates]] > 0]
        if not len(where):
            return
        rows = self.active[where]
        pull = self._squared(self.x[where] * self.matrix.diagonal)
        self.goal[rows] = np.minimum(self.goal[rows], self.balance[rows] ** 2 * pull)

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
        true = self.rhs[rows] - self._product(self.x[doubtful])
        size = self._squared(true)
        self.residual[rows] = size
        short = size > self.goal[rows]
        stuck = short & (size > 0.25 * self.best_true[rows])
        self.best_true[rows] = np.minimum(self.best_true[rows], size)
        self.status[rows[stuck]] = Status.STAGNATED
        again = short & ~stuck
        where = doubtful[again]
        self.r[where] = true[again]
        self.p[where] = true[again] * self.inverse
        self.rho[where] = self.unit[where] = size[again]
        restarted[where] = True
        return restarted

    def _may_have_drifted(self, where: np.ndarray) -> np.ndarray:
        """Whether rounding may have parted the recursive residual from the true one.

        Each step rounds A p, an error of about eps ‖A‖ ‖x‖ (Greenbaum 1997); in
        the norms used here ‖M⁻¹A‖ is seen in the step lengths. Where the sum is
        far below the tolerance, another product would only confirm it.
        """
        rows = self.active[where]
        eps = np.finfo(self.inverse.dtype).eps
        solution = kernels.weighted_norm_squared(self.x[where], 1 / self.inverse)
        drift = eps * (self.steps[rows] + 1) * self.largest[rows] * np.sqrt(solution)
        return np.asarray(drift > 0.1 * np.sqrt(self.goal[rows]))

    def _keep_only(self, going_on: np.ndarray) -> None:
        """Write the systems that leave into the solution and close the gaps."""
        if self.x is not self.solution:
            self.solution[self.active[~going_on]] = self.x[~going_on]
        if np.all(going_on):
            return
        self.active = self.active[going_on]
        self.rho, self.unit = self.rho[going_on], self.unit[going_on]
        self.x, self.r, self.p = self.x[going_on], self.r[going_on], self.p[going_on]

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
