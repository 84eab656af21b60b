"""When systems stop: the rules of conjugate gradients, once, for every kind of array.

NumPy, the array API and CUDA differ in how they take steps, and in nothing else: a
:class:`~cofem.solvers.steps.protocol.Steps` owns the arrays, the controller says when a
system has reached its goal, when its residual is recomputed, whether it goes on from
there, and how it has ended.

What is handed to :meth:`Steps.do` queues work and reads no number, so that a GPU can
record it once as a graph and repeat it with a single launch. The rest waits for answers.
"""

from __future__ import annotations

import numpy as np

from cofem.solvers.steps.protocol import Array, Steps
from cofem.solvers.verdicts import CGResult, Coefficients, Status, relative

# The recursion's residual drifts away from the true one by rounding. If a bound on the drift
# exceeds this share of the tolerance, the true residual is computed. Below it the product would be
# wasted.
DRIFT = 0.1
# A restart from the true residual must at least halve its norm (a quarter of its square). If it
# does not, only rounding is left, and the system counts as stagnating.
STAGNATION = 0.25
# If the tolerance is below this many roundings and all residuals are recomputed, the recursion goes
# on to 0.8 of the tolerance (0.64 of its square). One or two more steps cost less than the restart
# that the rounding of the last steps would otherwise cause.
FINE_ROUNDINGS = 100
FINE_AIM = 0.64


class Controller:
    """Solves the systems that ``steps`` hold, all of them, each to its own tolerance.

    Parameters
    ----------
    steps : Steps
        The systems, ready to begin.
    rtol, balance : ndarray (Q,)
        See :func:`cofem.solvers.solve`.
    joint : bool
        The paper's rule: systems stop together.
    keep_coefficients : bool
        Return the CG coefficients of each system's first run of steps; after a restart it
        would be another Lanczos process.
    max_steps : int
        The most steps of a system.
    """

    def __init__(
        self,
        steps: Steps,
        rtol: np.ndarray,
        balance: np.ndarray,
        *,
        joint: bool,
        keep_coefficients: bool,
        max_steps: int,
    ) -> None:
        self._steps, self._joint, self._max_steps = steps, joint, max_steps
        self._keep = keep_coefficients
        self._balanced = bool(np.any(balance > 0)) and not joint
        self._lowers_at_looks = self._balanced and steps.lowers_at_looks
        steps.set_tolerances(rtol**2, balance**2)

    def run(self) -> CGResult:
        """Take steps until every system has its verdict."""
        steps, joint, most = self._steps, self._joint, self._max_steps
        steps.do(("begin", joint, self._lowers_at_looks, most), self._begin)
        coefficients: list[Coefficients] = []
        left, first = most, True
        while True:
            taken = self._run_to_goals(left, first)
            if first and self._keep:
                coefficients = steps.coefficients()
            first = False
            if taken < left and self._must_go_on():
                left -= taken  # go on from the present state: nothing was recomputed
                continue
            steps.restore()
            steps.do(("verify", joint, most), self._verify, products=0 if joint else 1)
            true, target, size, taken_by, failed, stuck = steps.reported()
            again = (true > target) & (failed == 0) & (stuck == 0) & (taken_by < most)
            if joint or not np.any(again):
                break
            left = most - int(taken_by[again].max())
        steps.expected = int(taken_by.max())
        return CGResult(
            x=steps.solution(),
            steps=taken_by.astype(np.int64),
            residual=relative(true, size),
            status=_status(true <= target, stuck != 0, failed != 0),
            rows=steps.rows,
            coefficients=coefficients,
        )

    def _run_to_goals(self, most: int, first: bool) -> int:
        """Take at most so many steps, until no system runs; return how many were queued.

        Where a look costs as much as a step, the first look comes after as many steps as the
        last batch needed.
        """
        steps, taken = self._steps, 0
        expected = steps.expected if first else 0
        record = first and self._keep
        while taken < most:
            if steps.looks_are_cheap and not steps.look():
                break
            number = min(steps.steps_between_looks, most - taken)
            name = ("steps", number, record, self._lowers_at_looks, self._joint, self._max_steps)
            steps.do(name, self._advance, number, record, products=number)
            taken += number
            if not steps.looks_are_cheap and taken + number >= expected and not steps.look():
                break
        return taken

    def _must_go_on(self) -> bool:
        """Whether systems at their goals do not balance, if that was not checked at each look."""
        if not self._balanced or self._lowers_at_looks:
            return False
        self._steps.restore()
        self._steps.do(("lower", self._max_steps), self._lower_and_mark)
        return self._steps.look()

    # -- work that is queued: nothing here reads a number ------------------------------------

    def _begin(self) -> None:
        steps, s = self._steps, self._steps.scalars
        own = steps.begin()
        size = steps.joint_size(own >= 0) if self._joint else own
        # A right-hand side of zeros is solved by zero: a neighbour's rounding must not move it.
        s.set(
            zero=own == 0, size=size, target=s.rtol * size, true=0 * s.rtol, steps=0 * s.rtol,
            bad=own < 0, stuck=own < 0, best=0 * s.rtol + np.inf,
        )  # fmt: skip
        self._aim()
        steps.start()
        self._rest()
        if self._joint:
            self._stop_together()
        if self._lowers_at_looks:  # a start may be within the tolerance and out of balance
            self._lower()
        steps.mark()

    def _advance(self, number: int, record: bool) -> None:
        for _ in range(number):
            self._steps.step(record)
            if self._joint:
                self._stop_together()
        if self._lowers_at_looks:
            self._lower()
        self._steps.mark()

    def _aim(self) -> None:
        """Set the goals of the recursion's residuals."""
        s, xp = self._steps.scalars, self._steps.xp
        if self._joint:  # no system stops before the others
            s.set(goal=0 * s.target)
        elif self._steps.knows_rounding:
            s.set(goal=s.target)
        else:
            fine = s.rtol < (FINE_ROUNDINGS * self._steps.eps) ** 2
            s.set(goal=xp.where(fine, FINE_AIM * s.target, s.target))

    def _rest(self) -> None:
        """Let a system run unless it is zero, stagnates or has used its steps up."""
        s = self._steps.scalars
        s.set(done=s.zero | s.stuck | (s.steps >= self._max_steps))

    def _lower(self) -> None:
        """Lower the target of systems that must also balance the diagonal's part of A x."""
        steps, s, xp = self._steps, self._steps.scalars, self._steps.xp
        there = steps.sizes() <= s.target
        pull = steps.pull(there)
        if pull is None:
            return
        limit = s.balance * pull
        s.set(target=xp.where(there & (limit > 0) & (limit < s.target), limit, s.target))
        self._aim()
        self._rest()

    def _lower_and_mark(self) -> None:
        self._lower()
        self._steps.mark()

    def _stop_together(self) -> None:
        """Stop the systems for which the residuals of all that run are small enough together."""
        s, xp = self._steps.scalars, self._steps.xp
        running = s.running()
        total = self._steps.joint_size(running)
        # Systems that have stopped keep their last residual.
        follows = running | (s.zero & xp.any(running))
        s.set(true=xp.where(follows, total, s.true))
        s.set(done=~running | (total <= s.target))

    def _verify(self) -> None:
        """Compare true residuals with the targets, and prepare to go on from them."""
        steps, s, xp = self._steps, self._steps.scalars, self._steps.xp
        if not self._joint:  # the paper's rule takes the recursion's as they are
            there = steps.sizes() <= s.goal
            steps.recompute(self._doubtful(there) if steps.knows_rounding else there)
            true = steps.sizes()
            true = xp.where(s.zero, xp.zeros_like(true), true)
            short = (true > s.target) & ~s.failed()
            # Systems that ran out of steps are not stuck.
            stuck = s.stuck | (short & there & (true > STAGNATION * s.best))
            s.set(true=true, stuck=stuck, best=xp.minimum(s.best, true))
            self._rest()
        steps.report(s.true, s.target, s.size, s.steps, s.bad, s.stuck)
        steps.mark()

    def _doubtful(self, there: Array) -> Array:
        """Which systems need their true residual.

        Those that seem to be done although rounding may be larger than their tolerance, and those
        that were interrupted because others had used their steps up.
        """
        s, xp = self._steps.scalars, self._steps.xp
        parted = self._steps.rounding(there) > DRIFT * xp.sqrt(s.goal)
        cut_short = ~there & s.running() & (s.steps < self._max_steps)
        return (there & parted) | cut_short


def _status(reached: np.ndarray, stuck: np.ndarray, failed: np.ndarray) -> np.ndarray:
    status = np.full(len(reached), Status.MAX_STEPS, dtype=np.int64)
    status[stuck] = Status.STAGNATED
    status[reached] = Status.CONVERGED
    status[failed] = Status.NOT_POSITIVE
    return status
