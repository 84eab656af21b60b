"""What is done to a batch of systems between its steps.

On CUDA all of it is captured in graphs: nothing here looks at a number.
"""

from __future__ import annotations

from typing import Any

import torch

from cofem.backend._torch.state import State, power_of_two


class Stages:
    """Begin a solve, aim, stop, and recompute residuals.

    Parameters
    ----------
    state : State
    steps : FusedSteps
        Products and norms.
    """

    def __init__(self, state: State, steps: Any) -> None:
        self.state, self.steps = state, steps
        self._ones = torch.ones_like(state.inverse)

    # -- the start -------------------------------------------------------------------------

    def begin(self, rhs: Any, start: Any, joint: bool) -> None:
        """Put systems (Q, D) into their rows, ready for the first step.

        Those without a start (S, D), S ≤ Q, and those without a right-hand side start at
        zero. Rows are scaled by powers of two, so that squares stay in range whatever the units.
        """
        s = self.state
        s.put(s.r, rhs)
        self.steps.norm(s, s.r, s.inverse, s.other_sums)
        norm = s.total(s.other_sums)
        s.zero.copy_(norm == 0)  # solved by zero: a neighbour's rounding must not move it
        s.scale.copy_(power_of_two(norm))
        s.steps.zero_()
        s.bad.zero_()
        s.stuck.zero_()
        s.best.fill_(torch.inf)
        s.taken.fill_(-1)
        self._unscale(s.r)
        s.size.copy_(self._joint_size() if joint else norm / s.scale**2)
        s.target.copy_(s.rtol * s.size)
        self._aim(joint)
        if start is None:
            s.x.zero_()
            self.steps.norm(s, s.r, s.inverse, s.rho_sums)
        else:
            s.x.zero_()
            s.put(s.x, start)
            s.x.masked_fill_(s.zero[:, None, :], 0.0)
            self._unscale(s.x)
            self._subtract_product()
        self._restart()
        if joint:
            self.stop_together()

    def _unscale(self, rows: Any) -> None:
        rows *= (1 / self.state.scale).to(rows.dtype)[:, None, :]

    def _subtract_product(self) -> None:
        """R −= A X. Solutions differ in size more than residuals: each in its own units."""
        s = self.state
        if s.paired:
            self.steps.norm(s, s.x, self._ones, s.other_sums)
            s.sizes.copy_(power_of_two(s.total(s.other_sums)))
        self.steps.subtract_product(s)

    def _restart(self) -> None:
        """Begin a run of steps from the residual as it is."""
        s = self.state
        s.rho.fill_(torch.inf)
        s.p.zero_()
        s.done.copy_(s.zero | s.stuck)

    # -- goals -----------------------------------------------------------------------------

    def _aim(self, joint: bool = False) -> None:
        """Set the recursion's goals, a fifth lower where rounding would lift the true residual.

        Another step costs less than a new start from the true residual.
        """
        s = self.state
        if joint:  # nobody stops alone
            s.goal.zero_()
            return
        fine = s.rtol < (100 * torch.finfo(s.dtype).eps) ** 2
        s.goal.copy_(torch.where(fine, 0.64 * s.target, s.target))

    def lower_targets(self) -> None:
        """Not more than ``balance`` of the diagonal part of A x, measured like a residual."""
        s = self.state
        self.steps.norm(s, s.x, s.diagonal * s.inverse * s.diagonal, s.other_sums)
        limit = s.balance * s.total(s.other_sums)
        asked = s.rtol * s.size
        s.target.copy_(torch.where(limit > 0, torch.minimum(asked, limit), asked))
        self._aim()
        s.done.copy_(s.zero | s.stuck)

    def stop_together(self) -> None:
        """Stop the systems for which the residuals of all that run are small enough together."""
        s = self.state
        runs = (s.done == 0) & (s.bad == 0)
        total = self._joint_size(runs)
        # What has stopped keeps the residual that it stopped with.
        s.true.copy_(torch.where(runs | (s.zero & runs.any()), total, s.true))
        s.done.copy_((s.done != 0) | (runs & (total <= s.target)))

    def _joint_size(self, of: Any = None) -> Any:
        """‖R‖² over all systems, or those ``of`` which it is true, for every lane the same."""
        s = self.state
        self.steps.norm(s, s.r, self._ones, s.other_sums)
        sizes = s.total(s.other_sums) * s.scale**2  # in their own units
        if of is not None:
            sizes = torch.where(of, sizes, 0.0)
        if s.lanes == 2 and not s.paired:
            sizes = sizes[:, :1]  # both lanes hold the sum of a complex row
        return sizes.sum().expand(s.rows, s.lanes)

    # -- verdicts --------------------------------------------------------------------------

    def verify(self, rhs: Any) -> Any:
        """Recompute the residuals, prepare to go on from them, and return the report."""
        s = self.state
        s.put(s.r, rhs)
        self._unscale(s.r)
        self._subtract_product()
        s.true.copy_(torch.where(s.zero, 0.0, s.total(s.rho_sums)))
        short = (s.true > s.target) & (s.bad == 0)
        s.stuck.copy_(s.stuck | (short & (s.true > 0.25 * s.best)))
        s.best.copy_(torch.minimum(s.best, s.true))
        self._restart()
        return self.report()

    def report(self) -> Any:
        """Residuals, targets, sizes, steps and flags as they stand: (6, rows, lanes)."""
        s = self.state
        numbers = (s.true, s.target, s.size, s.steps, s.bad, s.stuck)
        return torch.stack([v.to(torch.float64) for v in numbers])
