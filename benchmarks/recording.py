"""Record what a fit asks of its operator, and ask it again with nothing around it.

The solver hands blocks of systems to threads, so the replay does too: every block
is the list of products that it made, and the threads take the blocks in order. A
solve ends when its last block does, in the replay as in the fit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from cofem.operators import LinearOperator
from cofem.solvers import cg


@dataclass(frozen=True)
class Call:
    """One call of the operator: its name and the argument's shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def products(self) -> int:
        """Rows multiplied by Φ or Φᴴ, as the history counts them."""
        rows = int(np.prod(self.shape[:-1]))
        return 2 * rows if self.name == "gram" else rows


@dataclass
class Stage:
    """Blocks of calls that ran side by side, or one list of calls that did not."""

    pool: str
    blocks: dict[int, list[Call]] = field(default_factory=dict)

    @property
    def calls(self) -> list[Call]:
        """All calls, block after block."""
        return [call for block in self.blocks.values() for call in block]


class Recorder(LinearOperator):
    """An operator that passes every call on and remembers it."""

    def __init__(self, inner: LinearOperator) -> None:
        self.inner = inner
        self.shape, self.is_complex = inner.shape, inner.is_complex
        self.splits_rows = inner.splits_rows
        self.exact_column_norms = inner.exact_column_norms
        self.stages: list[Stage] = []
        self._lock = threading.Lock()
        self._current = threading.local()
        self._numbers = count(1)
        self._solves = 0

    def forward(self, x: Any) -> Any:
        """Record and apply Φ."""
        return self._passed_on("forward", x)

    def adjoint(self, y: Any) -> Any:
        """Record and apply Φᴴ."""
        return self._passed_on("adjoint", y)

    def gram(self, x: Any) -> Any:
        """Record and apply ΦᴴΦ."""
        return self._passed_on("gram", x)

    _forward = forward
    _adjoint = adjoint

    def _column_norms_squared(self, like: Any) -> Any:
        return self.inner.column_norms_squared(like)

    def _passed_on(self, name: str, x: Any) -> Any:
        call = Call(name, tuple(x.shape), str(x.dtype))
        pool = self._pool_at_work()
        block = getattr(self._current, "block", 0) if pool else 0
        with self._lock:
            if not self.stages or self.stages[-1].pool != pool:
                self.stages.append(Stage(pool))
            self.stages[-1].blocks.setdefault(block, []).append(call)
        return getattr(self.inner, name)(x)

    @contextmanager
    def watching(self) -> Iterator[Recorder]:
        """While this lasts, know which block of systems every product belongs to."""
        recorder, solver, in_threads = self, cg.NumpySteps, cg.in_threads

        class Watched(solver):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, **options: Any) -> None:
                recorder._current.block = next(recorder._numbers)
                super().__init__(*arguments, **options)

        def counted(*arguments: Any) -> Any:
            recorder._solves += 1
            return in_threads(*arguments)

        cg.NumpySteps, cg.in_threads = Watched, counted  # type: ignore[misc]
        try:
            yield self
        finally:
            cg.NumpySteps, cg.in_threads = solver, in_threads  # type: ignore[misc]

    def _pool_at_work(self) -> str:
        """Name the parallel solve that this thread works on; the main thread has none, ''."""
        alone = threading.current_thread() is threading.main_thread()
        return "" if alone else f"solve {self._solves}"

    @property
    def products(self) -> int:
        """Rows multiplied by Φ or Φᴴ so far."""
        return sum(call.products for stage in self.stages for call in stage.calls)


class Replay:
    """The recorded calls on random data, in the same order, batches and threads.

    Parameters
    ----------
    operator : LinearOperator
        The operator itself, not the recorder.
    stages : list of Stage
        What the recorder saw.
    threads : int
        How many threads share the blocks of a parallel stage.
    """

    def __init__(self, operator: LinearOperator, stages: list[Stage], threads: int) -> None:
        self._operator, self._stages, self._threads = operator, stages, threads
        kinds = {(c.shape, c.dtype) for stage in stages for c in stage.calls}
        self._kinds = sorted(kinds)
        self._local = threading.local()
        self._prepare()
        self._pool = ThreadPoolExecutor(threads, initializer=self._prepare)
        together = threading.Barrier(threads)
        list(self._pool.map(lambda _: together.wait(), range(threads)))  # start every thread

    def run(self) -> tuple[float, float]:
        """Return the seconds that it took, and the share in which threads waited for others."""
        began = time.perf_counter()
        busy = available = 0.0
        for stage in self._stages:
            stage_began = time.perf_counter()
            blocks = [stage.blocks[number] for number in sorted(stage.blocks)]
            if stage.pool:
                busy += sum(self._pool.map(self._block, blocks))
            else:
                busy += sum(map(self._block, blocks))
            workers = min(self._threads, len(blocks)) if stage.pool else 1
            available += workers * (time.perf_counter() - stage_began)
        return time.perf_counter() - began, 1 - busy / available

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def _prepare(self) -> None:
        """Make this thread's own arguments beforehand: drawing them is not the floor."""
        random = np.random.default_rng(0)
        self._local.data = {
            kind: random.standard_normal(kind[0]).astype(kind[1]) for kind in self._kinds
        }

    def _block(self, calls: list[Call]) -> float:
        began = time.perf_counter()
        data, operator = self._local.data, self._operator
        for call in calls:
            getattr(operator, call.name)(data[call.shape, call.dtype])
        return time.perf_counter() - began
