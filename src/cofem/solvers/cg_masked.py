"""CG on all rows together in any array library; finished systems are masked.

Nothing is read back from the device but, every few steps, whether all systems
are done: on a GPU each look waits for everything that was queued before it.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.cg_device import fused_product, solve_on_device
from cofem.solvers.cg_result import CGResult, Coefficients, Status, relative
from cofem.solvers.kernels import ArrayKernels
from cofem.solvers.systems import Matrix


def solve_masked(
    matrix: Matrix,
    rhs: Array,
    inverse: Array,
    start: Array | None,
    rtol: np.ndarray,
    balance: np.ndarray,
    max_steps: int,
    joint: bool,
    keep_coefficients: bool,
) -> CGResult:
    """Solve A x_q = b_q for every row (see :func:`cofem.solvers.solve`)."""
    # The joint rule is a few more operations a step: nothing only where steps are graphs.
    if backend.has_engine(rhs) and (not joint or fused_product(matrix, rhs)):
        return solve_on_device(
            matrix, rhs, inverse, start, rtol, balance, max_steps, keep_coefficients, joint
        )
    solver = _MaskedSolver(
        matrix, rhs, inverse, _whole(start, rhs), rtol, balance, joint, keep_coefficients
    )
    solver.run(max_steps)
    return solver.result()


def _whole(start: Array | None, rhs: Array) -> Array | None:
    """Return a start for every system; those that have none, or a zero rhs, start at zero."""
    if start is None:
        return None
    xp = backend.namespace(rhs)
    missing = rhs.shape[0] - start.shape[0]
    if missing:
        start = xp.concat([start, xp.zeros_like(rhs[:missing, :])])
    return xp.where(xp.any(rhs != 0, axis=1)[:, None], start, xp.zeros_like(start))


class _MaskedSolver:
    """The state of CG on all systems; arrays are replaced, never changed in place."""

    def __init__(
        self,
        matrix: Matrix,
        rhs: Array,
        inverse: Array,
        start: Array | None,
        rtol: np.ndarray,
        balance: np.ndarray,
        joint: bool,
        keep_coefficients: bool,
    ) -> None:
        self.xp = xp = backend.namespace(rhs)
        self.kernels = ArrayKernels(xp)
        self.matrix, self.rhs, self.inverse = matrix, rhs, inverse
        self.balance, self.joint, self.keep = balance, joint, keep_coefficients
        self.weight = xp.ones_like(inverse) if joint else inverse
        self.scale = self._size(rhs)
        goal = backend.from_numpy(np.asarray(rtol**2), rhs)
        self.goal = xp.astype(goal, self.scale.dtype) * self.scale
        self.x = xp.zeros_like(rhs) if start is None else start
        self.r = rhs if start is None else rhs - matrix.product(self.x)
        self.multiplied = 0 if start is None else rhs.shape[0]
        self.verified = start is None  # whether r is the true residual of x
        self.lengths: list[Array] = []
        self.ratios: list[Array] = []
        self.steps = xp.zeros_like(self.scale)
        device = backend.device_of(rhs)
        self.not_positive = xp.zeros(self.scale.shape, dtype=xp.bool, device=device)
        self.taken = 0
        self.best = np.full(rhs.shape[0], np.inf)
        self.stuck = np.zeros(rhs.shape[0], dtype=bool)
        # Steps before the first restart: one Lanczos process.
        self.run_once: Array | None = None

    def run(self, max_steps: int) -> None:
        """Take steps, and again from the true residual, until every system is done."""
        look_every = backend.steps_between_looks(self.rhs)
        while True:
            self.p = self.inverse * self.r  # times unit/ρ from here on, see the kernels
            self.rho = self.unit = self.kernels.weighted_norm_squared(self.r, self.inverse)
            self.size = self._size(self.r)
            self.done = (self.size <= self.goal) | self.not_positive
            while self.taken < max_steps:
                if self.taken % look_every == 0 and bool(self.xp.all(self.done)):
                    break
                self._advance()
            if self.joint or self.verified or not self._restarted(max_steps):
                break

    def _advance(self) -> None:
        xp, kernels, unit = self.xp, self.kernels, self.unit
        g, curvature = kernels.curvature(self.p, self.matrix.bulk(self.p), self.matrix.diagonal)
        self.multiplied += self.rhs.shape[0]
        solved = self.rho == 0  # no direction is left, though under the joint rule not done
        self.not_positive = self.not_positive | (~self.done & ~solved & ~(curvature > 0))
        done = self.done | self.not_positive
        idle = done | solved
        one = xp.ones_like(self.rho)
        step = xp.where(idle, 0 * one, unit / xp.where(idle, one, curvature))
        self.x, self.r, rho = kernels.descend(self.x, self.r, self.p, g, step, self.inverse)
        safe = xp.where(idle | ~(rho > 0), one, rho)
        self.p = kernels.turn(
            self.p, self.r, xp.where(idle, 0 * one, unit / safe), self.inverse
        )
        self.steps = self.steps + xp.astype(~done, self.steps.dtype)
        if self.keep:
            safe_old = xp.where(idle, one, self.rho)
            self.lengths.append(step * unit / safe_old)
            self.ratios.append(xp.where(idle, 0 * one, rho / safe_old))
        self.rho = xp.where(done, self.rho, rho)
        self.taken += 1
        self.size = self._size(self.r) if self.joint else self.rho
        self.done = done | (self.size <= self.goal)
        self.verified = False

    def _restarted(self, max_steps: int) -> bool:
        """Recompute the residual, from which the recursion's may have parted.

        Returns whether a system is above its goal and can still improve.
        """
        self._tighten()
        self.r = self.rhs - self.matrix.product(self.x)
        self.multiplied += self.rhs.shape[0]
        self.verified = True
        self.size = self._size(self.r)
        true = backend.to_numpy(self.size).astype(np.float64)
        short = true > backend.to_numpy(self.goal)
        self.stuck = short & (true > 0.25 * self.best)
        self.best = np.minimum(self.best, true)
        if self.run_once is None:
            self.run_once = self.steps
        return self.taken < max_steps and bool(np.any(short & ~self.stuck))

    def _tighten(self) -> None:
        """Lower the goal of systems that must also balance the diagonal's part of A x."""
        if not np.any(self.balance > 0):
            return
        xp = self.xp
        pull = xp.astype(backend.from_numpy(self.balance**2, self.rhs), self.goal.dtype)
        pull = pull * self.kernels.weighted_norm_squared(
            self.x * self.matrix.diagonal, self.inverse
        )
        self.goal = xp.where(pull > 0, xp.minimum(self.goal, pull), self.goal)

    def result(self) -> CGResult:
        """Return the solutions and how every system ended."""
        status = np.full(self.rhs.shape[0], Status.MAX_STEPS, dtype=np.int64)
        status[backend.to_numpy(self.size <= self.goal)] = Status.CONVERGED
        status[self.stuck & (status != Status.CONVERGED)] = Status.STAGNATED
        status[backend.to_numpy(self.not_positive)] = Status.NOT_POSITIVE
        count = backend.to_numpy(self.steps).astype(np.int64)
        first = self.steps if self.run_once is None else self.run_once
        kept = backend.to_numpy(first).astype(np.int64)
        return CGResult(
            x=self.x,
            steps=count,
            residual=relative(
                backend.to_numpy(self.size).astype(np.float64),
                backend.to_numpy(self.scale).astype(np.float64),
            ),
            status=status,
            rows=self.multiplied,
            coefficients=_by_system(self.lengths, self.ratios, kept) if self.keep else [],
        )

    def _size(self, r: Array) -> Array:
        """Return the squared norm that the stopping rule compares, for every row."""
        squared = self.kernels.weighted_norm_squared(r, self.weight)
        return self.xp.ones_like(squared) * self.xp.sum(squared) if self.joint else squared


def _by_system(
    lengths: list[Array], ratios: list[Array], count: np.ndarray
) -> list[Coefficients]:
    """Turn lists over steps into one pair of lists for each system: its first steps."""
    if not lengths:
        return [([], []) for _ in count]
    a = np.stack([backend.to_numpy(v) for v in lengths])
    b = np.stack([backend.to_numpy(v) for v in ratios])
    return [(a[:n, q].tolist(), b[:n, q].tolist()) for q, n in enumerate(count)]
