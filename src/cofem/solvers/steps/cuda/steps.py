"""CG steps on a batch of systems that stays on its device.

On CUDA whatever is done more than once with the same arrays is captured as a graph and
replayed. Every piece of work ends with a look: which rows still run is written to the
host's memory, where it can be read after a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cofem.backend import MaskedTransform
from cofem.backend._torch.graphs import Graphs
from cofem.solvers.steps.cuda import residuals
from cofem.solvers.steps.cuda.fused import FusedPasses, Product
from cofem.solvers.steps.cuda.state import State
from cofem.solvers.verdicts import Coefficients

# Arrays above this many bytes are not kept between solves, and their steps last so long
# that launching them one by one costs nothing.
KEEP_BELOW = 1 << 30
# From so many numbers on a step takes longer than a look.
LARGE_BATCH = 1 << 21
# So many numbers are worked on between looks, in at most so many steps.
NUMBERS_BETWEEN_LOOKS = 1 << 24
STEPS_BETWEEN_LOOKS = 3
# Numbers that a system has in the controller's report.
REPORTED = 6
make_passes: Callable[[Product], Any] = FusedPasses


class CudaSteps:
    """The arrays of a batch, and steps on them, see :class:`~cofem.solvers.steps.protocol.Steps`.

    Parameters
    ----------
    product, rhs, keep_coefficients
        As for :func:`~cofem.solvers.steps.cuda.pool.steps_for`.
    """

    xp = torch
    knows_rounding = False

    def __init__(self, product: Product, rhs: Any, keep_coefficients: int) -> None:
        self.key: tuple[Any, ...] = ()  # under which it waits for the next batch
        self.count, n = rhs.shape
        self.keep, self._kind = keep_coefficients, rhs.dtype
        is_complex = rhs.is_complex()
        paired = not is_complex and isinstance(product, MaskedTransform) and product.pairs_real_rows
        lanes = 2 if is_complex or paired else 1
        self.passes = make_passes(product)
        dtype = rhs.real.dtype if is_complex else rhs.dtype
        rows = -(-self.count // 2) if paired else self.count
        self.state = State(rows, n, lanes, paired, self.passes.slots(n), dtype, rhs.device)
        if self.keep:
            shape = (self.keep, rows * lanes)
            self.state.lengths = torch.zeros(shape, dtype=torch.float64, device=rhs.device)
            self.state.ratios = torch.zeros_like(self.state.lengths)
        self.active = self.state  # the rows that are worked on
        self.eps = float(torch.finfo(dtype).eps)
        # x, r, p, systems and solutions, two spectra and the FFT's own work space
        self.bytes = 8 * self.state.x.numel() * self.state.x.element_size()
        self._on_cuda = rhs.device.type == "cuda"
        self.graphed = (
            self._on_cuda and self.bytes <= KEEP_BELOW and self.passes.can_be_captured(rhs)
        )
        self._graphs = Graphs(self.graphed)
        # A graph reads and writes fixed addresses: right-hand sides, and starts or solutions.
        self._fixed = [torch.empty_like(rhs) for _ in range(2)] if self.graphed else []
        self._rhs: Any = None
        self._start: Any = None
        self._joint = False
        self._tolerances: tuple[bytes, bytes] | None = None
        self._flags = torch.zeros(rows, dtype=torch.int32, device=rhs.device)
        self._answer = torch.zeros(rows, dtype=torch.int32, pin_memory=self._on_cuda)
        report = (REPORTED, rows, lanes)
        self._report = torch.zeros(report, dtype=torch.float64, pin_memory=self._on_cuda)
        self._done = torch.cuda.Event() if self._on_cuda else None
        self._stream: Any = None
        self.expected = self.rows = 0

    @property
    def scalars(self) -> State:
        """All systems' scalars, in the systems' own order."""
        return self.state

    def do(self, name: Any, work: Callable[..., None], *arguments: Any, products: int = 0) -> None:
        """Do it, from the second time on as a graph.

        The check of the residuals is an exception where the product is a function of the user's:
        the operator may have changed since its graphs were recorded, and only a product that is
        computed anew shows it.
        """
        started = 0 if self._start is None else int(self._start.shape[0])
        if name[0] == "begin" and started:
            products = 1
        self.rows += products * self.active.rows * (2 if self.state.paired else 1)
        if self.passes.is_foreign and (self._joint or name[0] == "verify"):
            work(*arguments)
        else:
            self._graphs.do((*name, started, self.active.rows), work, *arguments)

    # -- a batch of systems ----------------------------------------------------------------

    def load(
        self, product: Product, rhs: Any, start: Any, inverse: Any, diagonal: Any, joint: bool
    ) -> None:
        """Take new systems of the same shape, with one launch; ``joint``: none leaves alone."""
        s = self.state
        self.passes.load(product)
        self.active, s.order, self.rows = s, list(range(s.rows)), 0
        if self._on_cuda:  # asked once: it costs the host as much as a step
            self._stream = torch.cuda.current_stream(s.device)
        given, places = [inverse, diagonal], [s.inverse, s.diagonal]
        if self.graphed:
            first = 0 if start is None else start.shape[0]
            given += [_as_real(x) for x in ([rhs, start] if first else [rhs])]
            rhs, start = self._fixed[0], self._fixed[1][:first] if first else None
            places += [_as_real(x) for x in ([rhs, start] if first else [rhs])]
        torch._foreach_copy_(places, given)
        self._rhs, self._start, self._joint = rhs, start, joint

    def set_tolerances(self, rtol: np.ndarray, balance: np.ndarray) -> None:
        """Take squared tolerances (Q,), if they are not the last ones."""
        if self._tolerances != (rtol.tobytes(), balance.tobytes()):
            self.state.set(rtol=self._to_slots(rtol), balance=self._to_slots(balance))
            self._tolerances = (rtol.tobytes(), balance.tobytes())

    def _to_slots(self, values: np.ndarray) -> Any:
        return self.state.per_slot(torch.as_tensor(values).to(self.state.device))

    def forget_systems(self) -> None:
        """Let go of the caller's arrays."""
        self._rhs = self._start = None
        self.passes.forget()

    def begin(self) -> Any:
        """Put systems into their rows, X = 0; return rᴴM⁻¹r."""
        return residuals.begin(self.state, self.passes, self._rhs)

    def start(self) -> None:
        """Move X to its start; R −= A X."""
        residuals.start(self.state, self.passes, self._start)

    def recompute(self, of: Any) -> None:
        """R = B − A X of every system; its next direction begins anew."""
        residuals.recompute(self.state, self.passes, self._rhs)

    # -- steps and looks -------------------------------------------------------------------

    @property
    def looks_are_cheap(self) -> bool:
        """Whether a step takes longer than a look."""
        return not self._on_cuda or self.state.x.numel() >= LARGE_BATCH

    @property
    def lowers_at_looks(self) -> bool:
        """Only in small batches: it is a pass over X.

        Not where coefficients are kept: a system that rests must not go on among them.
        """
        return not self.keep and not self.looks_are_cheap

    @property
    def steps_between_looks(self) -> int:
        """How many steps to queue before the next look: the longer they take, the fewer."""
        if not self._on_cuda:
            return 1
        most = NUMBERS_BETWEEN_LOOKS // self.active.x.numel()
        return int(min(STEPS_BETWEEN_LOOKS, max(1, most)))

    def step(self, record: bool) -> None:
        """One step of the rows that are worked on."""
        self.passes.step(self.active, record)

    def mark(self) -> None:
        """Queue which rows run."""
        self.passes.mark_running(self.active, self._flags)
        self._answer.copy_(self._flags, non_blocking=True)

    def look(self) -> bool:
        """Wait for the answer; work on the rows that run alone if they are few enough."""
        self._wait()
        running = np.asarray(self._answer.numpy()[: self.active.rows] != 0)
        if self.looks_are_cheap and running.any():
            self._set_aside(running)
        return bool(running.any())

    def _wait(self) -> None:
        if self._done is not None:
            self._done.record(self._stream)
            self._done.synchronize()

    def _set_aside(self, running: np.ndarray) -> None:
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

    # -- what the rules ask ----------------------------------------------------------------

    def sizes(self) -> Any:
        """rᴴM⁻¹r of every system."""
        return self.state.residuals()

    def joint_size(self, of: Any) -> Any:
        """Σ ‖r‖² over those systems, in their own units."""
        return residuals.joint_size(self.state, self.passes, of)

    def pull(self, of: Any) -> Any:
        """Σ |diagonal x|²/M of every system."""
        s = self.state
        return residuals.norms(s, self.passes, s.x, s.diagonal * s.inverse * s.diagonal)

    def rounding(self, of: Any) -> Any:
        """Not estimated here: all residuals are recomputed."""
        return torch.full_like(self.state.rho, torch.inf)

    # -- the end ---------------------------------------------------------------------------

    def report(self, *scalars: Any) -> None:
        """Queue their copy into the host's memory."""
        stacked = torch.stack([v.to(torch.float64) for v in scalars])
        self._report.copy_(stacked, non_blocking=True)

    def reported(self) -> np.ndarray:
        """Wait for it: one entry for each system."""
        self._wait()
        found = np.array(self.state.per_system(self._report, self.count).numpy())
        if self.passes.is_foreign and np.any(found[0] > found[1]):
            self._graphs.forget()  # the operator may have changed
        return found

    def coefficients(self) -> list[Coefficients]:
        """Step lengths and ratios of each system's steps so far."""
        s = self.state
        taken = int(s.taken) + 1
        if taken:  # the last ratio is written down by the step after it
            s.ratios[taken - 1] = (s.residuals() / s.rho).reshape(-1)
        stacked = torch.stack([s.lengths[:taken], s.ratios[:taken]])
        shaped = stacked.reshape(2, taken, s.rows, s.lanes)
        lengths, ratios = s.per_system(shaped, self.count).cpu().numpy()
        steps = s.per_system(s.steps, self.count).cpu().numpy()
        return [(lengths[:n, q].tolist(), ratios[:n, q].tolist()) for q, n in enumerate(steps)]

    def solution(self) -> Any:
        """Return X (Q, D), a new array."""
        self.restore()
        if self.graphed:
            self._graphs.do(("solution",), self._write, self._fixed[1])
            return self._fixed[1].clone()
        out = torch.empty((self.count, self.state.n), dtype=self._kind, device=self.state.device)
        self._write(out)
        return out

    def _write(self, out: Any) -> None:
        self.state.get(self.state.x, self.state.scale, out)


def _as_real(x: Any) -> Any:
    return torch.view_as_real(x) if x.is_complex() else x
