"""CG on a batch of systems that stays on its device.

The engine owns the arrays and takes steps; when to stop is its caller's business. On
CUDA whatever is done more than once with the same arrays is captured as a graph and
replayed. Every piece of work ends with a look: which rows still run is written to the
host's memory, where it can be read after a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cofem.backend._torch.fused import FusedSteps
from cofem.backend._torch.graphs import Graphs
from cofem.backend._torch.stages import Stages
from cofem.backend._torch.state import State, Verdict
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
        self.keep, self._kind = keep_coefficients, rhs.dtype
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
        self.stages = Stages(self.state, self.steps)
        self.active = self.state  # the rows that are worked on
        # x, r, p, systems and solutions, two spectra and the FFT's own work space
        self.bytes = 8 * self.state.x.numel() * self.state.x.element_size()
        self._on_cuda = rhs.device.type == "cuda"
        self.graphed = self._on_cuda and self.steps.graphs and self.bytes <= KEEP_BELOW
        self._graphs = Graphs(self.graphed)
        # A graph reads and writes fixed addresses: right-hand sides, and starts or solutions.
        self._fixed = [torch.empty_like(rhs) for _ in range(2)] if self.graphed else []
        self._rhs = self._start = None
        self._tolerances: tuple[bytes, bytes] | None = None
        self._balanced = self._joint = False
        self._flags = torch.zeros(rows, dtype=torch.int32, device=rhs.device)
        self._answer = torch.zeros(rows, dtype=torch.int32, pin_memory=self._on_cuda)
        report = (6, rows, lanes)
        self._report = torch.zeros(report, dtype=torch.float64, pin_memory=self._on_cuda)
        self._done = torch.cuda.Event() if self._on_cuda else None
        self._stream: Any = None
        self.expected = 0  # steps that the last batch took

    def load_product(self, product: Product) -> None:
        """Take another product of the same kind and shape."""
        self.steps.load(product)

    def forget_systems(self) -> None:
        """Let go of the caller's arrays."""
        self._rhs = self._start = None

    # -- a batch of systems ----------------------------------------------------------------

    def load(
        self, rhs: Any, start: Any, inverse: Any, diagonal: Any, rtol: np.ndarray,
        balance: np.ndarray, joint: bool = False,
    ) -> None:  # fmt: skip
        """Take new systems, ready for the first step; ``joint``: they stop together."""
        s = self.state
        self.active, s.order = s, list(range(s.rows))
        if self._on_cuda:  # asked once: it costs the host as much as a step
            self._stream = torch.cuda.current_stream(s.device)
        self._balanced, self._joint = bool(np.any(balance > 0)) and not joint, joint
        if self._tolerances != (rtol.tobytes(), balance.tobytes()):
            s.rtol.copy_(self._to_slots(rtol**2))
            s.balance.copy_(self._to_slots(balance**2))
            self._tolerances = (rtol.tobytes(), balance.tobytes())
        self._take(rhs, start, inverse, diagonal)
        started = 0 if start is None else int(start.shape[0])
        self._graphs.do(("begin", started, joint), self._begin)

    def _take(self, rhs: Any, start: Any, inverse: Any, diagonal: Any) -> None:
        """Bring everything to its address, with one launch."""
        given = [inverse, diagonal]
        places = [self.state.inverse, self.state.diagonal]
        if self.graphed:
            first = 0 if start is None else start.shape[0]
            given += [_as_real(x) for x in ([rhs, start] if first else [rhs])]
            rhs, start = self._fixed[0], self._fixed[1][:first] if first else None
            places += [_as_real(x) for x in ([rhs, start] if first else [rhs])]
        torch._foreach_copy_(places, given)
        self._rhs, self._start = rhs, start

    def _begin(self) -> None:
        self.stages.begin(self._rhs, self._start, self._joint)
        self._look()

    def _to_slots(self, values: np.ndarray) -> Any:
        """Send one number for each system to the device: (rows, lanes)."""
        return self.state.per_slot(torch.as_tensor(values).to(self.state.device))

    def solution(self) -> Any:
        """Return the systems' solutions (Q, D), a new array."""
        self.restore()
        if self.graphed:
            self._graphs.do(("solution",), self._write, self._fixed[1])
            return self._fixed[1].clone()
        out = torch.empty((self.count, self.state.n), dtype=self._kind, device=self.state.device)
        self._write(out)
        return out

    def _write(self, out: Any) -> None:
        self.state.get(self.state.x, self.state.scale, out)

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
        """Queue steps, and after them a look."""
        name = ("steps", self.active.rows, number, self._balanced, self._joint)
        self._graphs.do(name, self._take_steps, number)

    def _take_steps(self, number: int) -> None:
        for _ in range(number):
            self.steps.step(self.active, bool(self.keep))
            if self._joint:
                self.stages.stop_together()
        # Not where coefficients are kept: a system that rests must not go on among them.
        self._look(lower=self._balanced and not self.keep and not self.looks_are_cheap)

    def _look(self, lower: bool = False) -> None:
        if lower:
            self.stages.lower_targets()
        self.steps.mark_running(self.active, self._flags)
        self._answer.copy_(self._flags, non_blocking=True)

    def running_rows(self) -> np.ndarray:
        """Wait for the look that was queued last: which of the rows worked on still run."""
        self._wait()
        return np.asarray(self._answer.numpy()[: self.active.rows] != 0)

    def running(self) -> bool:
        """Wait for the look that was queued last: whether any system still runs."""
        return bool(self.running_rows().any())

    def _wait(self) -> None:
        if self._done is not None:
            self._done.record(self._stream)
            self._done.synchronize()

    def shrink(self, running: np.ndarray) -> None:
        """Work on the rows that still run alone, if they are few enough."""
        s = self.state
        rows = 1 << max(int(running.sum()) - 1, 0).bit_length()  # few sizes, few plans
        if 2 * rows > self.active.rows or self.keep or self._joint:
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
        self._graphs.do(("balance",), self._look, True)
        return self.running()

    def verify(self) -> Verdict:
        """Say where all systems stand, and prepare to go on.

        Residuals are recomputed, but for systems that stop together: theirs are the
        recursion's.
        """
        self.restore()
        self._graphs.do(("verify", self._joint), self._verify)
        self._wait()
        true, goal, size, steps, bad, stuck = (
            self.state.per_system(self._report, self.count).numpy().copy()
        )
        return Verdict(true, goal, size, steps, bad != 0, stuck != 0)

    def _verify(self) -> None:
        report = self.stages.report() if self._joint else self.stages.verify(self._rhs)
        self._report.copy_(report, non_blocking=True)
        self._look()

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


def _as_real(x: Any) -> Any:
    return torch.view_as_real(x) if x.is_complex() else x
