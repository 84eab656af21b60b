"""CG on a batch of systems that stays on its device.

The engine owns the arrays and takes steps; when to stop is its caller's business. On
CUDA whatever is done more than once with the same arrays is captured as a graph and
replayed, and the question whether all systems are done travels beside the work: the
device is never kept waiting for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cofem.backend._torch.fused import FusedSteps
from cofem.backend._torch.state import State, Verdict, power_of_two
from cofem.backend.products import MaskedTransform

Product = MaskedTransform | Callable[[Any], Any]

# Arrays above this many bytes are not kept between solves, and their steps last so long
# that launching them one by one costs nothing.
KEEP_BELOW = 1 << 30
make_steps: Callable[[Product], Any] = FusedSteps


class Engine:
    """The arrays of a batch, and steps on them.

    Parameters
    ----------
    product, rhs, keep_coefficients
        As for :func:`~cofem.backend._torch.pool.engine_for`.
    """

    def __init__(self, product: Product, rhs: Any, keep_coefficients: int) -> None:
        self.key: tuple[Any, ...] = ()  # under which it waits for the next batch
        self.count, n = rhs.shape
        self.keep = keep_coefficients
        is_complex = rhs.is_complex()
        paired = (
            not is_complex and isinstance(product, MaskedTransform) and product.pairs_real_rows
        )
        lanes = 2 if is_complex or paired else 1
        self.steps = make_steps(product)
        dtype = rhs.real.dtype if is_complex else rhs.dtype
        rows = -(-self.count // 2) if paired else self.count
        self.state = State(rows, n, lanes, paired, self.steps.slots(n), dtype, rhs.device)
        if self.keep:
            shape = (self.keep, rows * lanes)
            self.state.lengths = torch.zeros(shape, dtype=torch.float64, device=rhs.device)
            self.state.ratios = torch.zeros_like(self.state.lengths)
        self.active = self.state  # the rows that are worked on
        # x, r, p, the right-hand sides, two spectra and the FFT's own work space
        self.bytes = 7 * self.state.x.numel() * self.state.x.element_size()
        self._on_cuda = rhs.device.type == "cuda"
        self.graphed = self._on_cuda and self.steps.graphs and self.bytes <= KEEP_BELOW
        self._rows = torch.empty_like(self.state.x) if self.graphed else None
        self._graphs: dict[Any, Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.graphed else None
        self._tolerances: tuple[bytes, bytes] | None = None
        self._rhs: Any = None
        self._count = torch.zeros(1, dtype=torch.int32, device=rhs.device)
        self._answer = torch.zeros(1, dtype=torch.int32, pin_memory=self._on_cuda)
        report = (6, rows, lanes)
        self._report = torch.zeros(report, dtype=torch.float64, pin_memory=self._on_cuda)
        self._asked = torch.cuda.Event() if self._on_cuda else None
        self._stream: Any = None
        self.expected = 0  # steps that the last batch took

    def load_product(self, product: Product) -> None:
        """Take another product of the same kind and shape."""
        self.steps.load(product)

    def forget_systems(self) -> None:
        """Let go of the caller's arrays."""
        self._rhs = None

    # -- a batch of systems ----------------------------------------------------------------

    def load(
        self, rhs: Any, start: Any, inverse: Any, diagonal: Any, rtol: np.ndarray,
        balance: np.ndarray,
    ) -> None:  # fmt: skip
        """Take new systems, ready for the first step.

        Rows are scaled by powers of two, so that squares stay in range whatever the units.
        """
        s = self.state
        self.active, s.order = s, list(range(s.rows))
        self._rhs = rhs
        if self._on_cuda:  # asked once: it costs the host as much as a step
            self._stream = torch.cuda.current_stream(s.device)
        self._balanced = bool(np.any(balance > 0))
        if self._tolerances != (rtol.tobytes(), balance.tobytes()):
            s.rtol.copy_(self._to_slots(rtol**2))
            s.balance.copy_(self._to_slots(balance**2))
            self._tolerances = (rtol.tobytes(), balance.tobytes())
        s.inverse.copy_(inverse)
        s.diagonal.copy_(diagonal)
        s.put(s.r, rhs)
        if start is not None:
            s.put(s.x, start)
        self._often(("begin", start is not None, self._balanced), self._begin, start is not None)

    def _begin(self, started: bool) -> None:
        s = self.state
        self.steps.norm(s, s.r, s.inverse, s.other_sums)
        norm = s.total(s.other_sums)
        s.zero.copy_(norm == 0)  # solved by zero: a neighbour's rounding must not move it
        s.scale.copy_(power_of_two(norm))
        s.size.copy_(norm / s.scale**2)
        s.target.copy_(s.rtol * s.size)
        self._aim()
        s.steps.zero_()
        s.bad.zero_()
        s.stuck.zero_()
        s.best.fill_(torch.inf)
        s.taken.fill_(-1)
        self._unscale(s.r)
        if self._rows is not None:
            self._rows.copy_(s.r)
        if started:
            self._unscale(s.x)
            self._subtract_product()
        else:
            s.x.zero_()
            self.steps.norm(s, s.r, s.inverse, s.rho_sums)
        self._restart()

    def _subtract_product(self) -> None:
        """R −= A X. Solutions differ in size more than residuals: each in its own units."""
        s = self.state
        if s.paired:
            self.steps.norm(s, s.x, torch.ones_like(s.inverse), s.other_sums)
            s.sizes.copy_(power_of_two(s.total(s.other_sums)))
        self.steps.subtract_product(s)

    def _restart(self) -> None:
        """Begin a run of steps from the residual as it is."""
        s = self.state
        s.rho.fill_(torch.inf)
        s.p.zero_()
        s.done.copy_(s.zero | s.stuck)

    def _unscale(self, rows: Any) -> None:
        rows *= (1 / self.state.scale).to(rows.dtype)[:, None, :]

    def solution(self) -> Any:
        """Return the systems' solutions (Q, D), a new array."""
        self.restore()
        return self.state.get(self.state.x, self.count, self.state.scale)

    # -- steps -----------------------------------------------------------------------------

    @property
    def looks_are_cheap(self) -> bool:
        """Whether a step takes longer than a look: on two million numbers it does."""
        return not self._on_cuda or self.state.x.numel() >= 1 << 21

    @property
    def steps_between_looks(self) -> int:
        """How many steps to queue before the next look: the longer they take, the fewer."""
        if not self._on_cuda:
            return 1
        return int(min(3, max(1, (1 << 24) // self.active.x.numel())))

    def advance(self, number: int) -> None:
        """Queue steps, and after them, for small batches, a look."""
        name = ("steps", self.active.rows, number, self._balanced)
        self._often(name, self._take_steps, number)
        if self._asked is not None:
            self._asked.record(self._stream)

    def _take_steps(self, number: int) -> None:
        for _ in range(number):
            self.steps.step(self.active, bool(self.keep))
        if not self.looks_are_cheap:
            # Not where coefficients are kept: a system that rests must not go on among them.
            self._look(lower=self._balanced and not self.keep)

    def _look(self, lower: bool) -> None:
        s = self.state
        if lower:
            self._lower_targets()
            s.done.copy_(s.zero | s.stuck)
        self.steps.count_running(s, self._count)
        self._answer.copy_(self._count, non_blocking=True)

    def running(self) -> bool:
        """Wait for the look that was queued last: whether any system still runs."""
        if self._asked is not None:
            self._asked.synchronize()
        return int(self._answer) != 0

    def running_rows(self) -> np.ndarray:
        """Which of the rows that are worked on still run; waits for the device."""
        return np.asarray(self.active.running().any(dim=-1).cpu().numpy())

    def shrink(self, running: np.ndarray) -> None:
        """Work on the rows that still run alone, if they are few enough."""
        s = self.state
        rows = 1 << max(int(running.sum()) - 1, 0).bit_length()  # few sizes, few plans
        if 2 * rows > self.active.rows or self.keep:
            return
        behind = [j for j in range(rows, self.active.rows) if running[j]]
        free = [i for i in range(rows) if not running[i]]
        for i, j in zip(free, behind, strict=False):
            s.swap_rows(i, j)
        self.active = s.head(rows)

    def restore(self) -> None:
        """Work on all rows again, in their own order."""
        s = self.state
        self.active = s
        for i in range(s.rows):
            while s.order[i] != i:
                s.swap_rows(i, s.order[i])

    # -- verdicts --------------------------------------------------------------------------

    def has_to_go_on(self) -> bool:
        """Whether, when all seem done, systems that must balance turn out to be short.

        Small batches have been asked that with every look.
        """
        if not self._balanced or not (self.looks_are_cheap or self.keep):
            return False
        self.restore()
        self._look(lower=True)
        if self._asked is not None:
            self._asked.record(self._stream)
        return self.running()

    def _lower_targets(self) -> None:
        """Not more than ``balance`` of the diagonal part of A x, measured like a residual."""
        s = self.state
        self.steps.norm(s, s.x, s.diagonal * s.inverse * s.diagonal, s.other_sums)
        limit = s.balance * s.total(s.other_sums)
        asked = s.rtol * s.size
        s.target.copy_(torch.where(limit > 0, torch.minimum(asked, limit), asked))
        self._aim()

    def _aim(self) -> None:
        """Set the recursion's goals, a fifth lower where rounding would lift the true residual.

        Another step costs less than a new start from the true residual.
        """
        s = self.state
        fine = s.rtol < (100 * torch.finfo(s.dtype).eps) ** 2
        s.goal.copy_(torch.where(fine, 0.64 * s.target, s.target))

    def verify(self) -> Verdict:
        """Recompute the residuals, say where all systems stand, and prepare to go on."""
        self.restore()
        if self._rows is None:
            self.state.put(self.state.r, self._rhs)
            self._unscale(self.state.r)
        self._often(("verify",), self._verify)
        if self._asked is not None:
            self._asked.record(self._stream)
            self._asked.synchronize()
        true, goal, size, steps, bad, stuck = (
            self.state.per_system(self._report, self.count).numpy().copy()
        )
        return Verdict(true, goal, size, steps, bad != 0, stuck != 0)

    def _verify(self) -> None:
        s = self.state
        if self._rows is not None:
            s.r.copy_(self._rows)
        self._subtract_product()
        s.true.copy_(torch.where(s.zero, 0.0, s.total(s.rho_sums)))
        short = (s.true > s.target) & (s.bad == 0)
        s.stuck.copy_(s.stuck | (short & (s.true > 0.25 * s.best)))
        s.best.copy_(torch.minimum(s.best, s.true))
        self._restart()
        numbers = (s.true, s.target, s.size, s.steps, s.bad, s.stuck)
        report = torch.stack([v.to(torch.float64) for v in numbers])
        self._report.copy_(report, non_blocking=True)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step lengths and ratios, (steps taken, Q) each, and each system's steps (Q,)."""
        s = self.state
        taken = int(s.taken) + 1
        if taken:  # the last ratio is written down by the step after it
            s.ratios[taken - 1] = (s.total(s.rho_sums) / s.rho).reshape(-1)
        stacked = torch.stack([s.lengths[:taken], s.ratios[:taken]])
        shaped = stacked.reshape(2, taken, s.rows, s.lanes)
        both = s.per_system(shaped, self.count).cpu().numpy()
        steps = s.per_system(s.steps, self.count).cpu().numpy()
        return both[0], both[1], steps

    def _to_slots(self, values: np.ndarray) -> Any:
        """Send one number for each system to the device: (rows, lanes)."""
        return self.state.per_slot(torch.as_tensor(values).to(self.state.device))

    # -- graphs ----------------------------------------------------------------------------

    def _often(self, name: Any, work: Callable[..., None], *arguments: Any) -> None:
        """Do it; from the second time on as a graph.

        The first time compiles the kernels and lets the FFT library plan, which a
        capture could not.
        """
        if not self.graphed:
            work(*arguments)
            return
        if name not in self._graphs:
            self._graphs[name] = None
            work(*arguments)
            return
        if self._graphs[name] is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                work(*arguments)
            self._graphs[name] = graph
        self._graphs[name].replay()
