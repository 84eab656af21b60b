"""The history of a run: one row for every iteration, shown to the callback as it is written.

The loop and the methods with a loop of their own record their iterations here, and ask here
whether an iteration was the last.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.stopping import Verdict
from cofem.solvers import kernels


@dataclass(frozen=True)
class IterationState:
    """What a callback is shown after every E-step; printed, it is one line.

    Examples
    --------
    >>> IterationState(3, 100, 0.012, 18, 940, 0.25, mean=np.zeros(500), precision=np.ones(500))
    IterationState(3 of at most 100, change 0.012, 18 CG steps, 940 products, 0.25 s; 500 unknowns)
    """

    iteration: int
    max_iter: int
    change: float
    cg_steps: int
    products: int
    seconds: float
    mean: Array
    precision: Array

    def __repr__(self) -> str:
        shape = "×".join(str(n) for n in self.mean.shape)  # never the numbers: they may be millions
        return (
            f"IterationState({self.iteration} of at most {self.max_iter}, "
            f"change {self.change:.3g}, {self.cg_steps} CG steps, {self.products} products, "
            f"{self.seconds:.3g} s; {shape} unknowns)"
        )


Callback = Callable[[IterationState], object]


@final
class Listener:
    """The user's callback, which once it has ended the fit ends whatever asks it afterwards.

    Parameters
    ----------
    callback : function

    Examples
    --------
    >>> answers = [False, True, False]
    >>> listener = Listener(lambda state: answers.pop(0))
    >>> [listener(None) for _ in range(4)], listener.stopped, answers
    ([False, True, True, True], True, [False])
    """

    def __init__(self, callback: Callback) -> None:
        self._callback, self.stopped = callback, False

    def __call__(self, state: Any) -> bool:
        """Return whether the fit is to end; the callback is not asked twice about that."""
        self.stopped = self.stopped or _is_true(self._callback(state))
        return self.stopped


def _is_true(answer: object) -> bool:
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def empty_history() -> dict[str, list[float]]:
    """Return a history with its columns and no rows."""
    names = ("iteration", "change", "log_evidence", "cg_steps", "products", "seconds")
    return {name: [] for name in names}


# Of every array ‖μ_new − μ_old‖² and ‖μ_new‖².
Moving = list[tuple[float, float] | backend.Later]


@final
class Recorder:
    """Writes the history of a run, and says when the run is over.

    Parameters
    ----------
    max_iter, tol, callback
        As for :func:`cofem.fit`.
    by_task : function
        Turns the means that :meth:`add` takes into one array (D,) for every task, for the
        callback; by default they are that already.

    Examples
    --------
    >>> recorder = Recorder(max_iter=5, tol=0.1)
    >>> recorder.add([np.array([1.0])], np.ones(1), products=2)
    >>> print(recorder.verdict(recorder.mean_settled, Verdict.MEAN_NOT_SETTLED))
    None
    >>> recorder.add([np.array([1.01])], np.ones(1), products=4)
    >>> recorder.verdict(recorder.mean_settled, Verdict.MEAN_NOT_SETTLED).name
    'MEAN_SETTLED'
    >>> recorder.history["products"]
    [2, 4]
    """

    def __init__(
        self,
        max_iter: int,
        tol: float,
        callback: Callback | None = None,
        by_task: Callable[[Sequence[Array]], Sequence[Array]] = list,
    ) -> None:
        self.max_iter, self.tol, self._callback, self._by_task = max_iter, tol, callback, by_task
        self._began = time.perf_counter()
        self.previous: list[Array] | None = None
        self._stopped = False
        self.change = math.inf
        self.history = empty_history()

    @property
    def iteration(self) -> int:
        """The number of iterations in the history."""
        return len(self.history["iteration"])

    def resume(self, history: dict[str, list[float]]) -> None:
        """Go on with the history of an interrupted run."""
        self.history = history
        self._began -= history["seconds"][-1]

    def moving(self, means: Sequence[Array]) -> Moving | None:
        """Return how far means are from the last ones, on its way to the host."""
        return None if self.previous is None else _moving(means, self.previous)

    def add(
        self,
        means: Sequence[Array],
        alpha: Array,
        *,
        products: int,
        cg_steps: int = 0,
        log_evidence: float = math.nan,
        moving: Moving | None = None,
    ) -> None:
        """Write a row, and show the iteration to the callback.

        Parameters
        ----------
        means : list of arrays
            All means at ``alpha``; ``change`` is how far they are from ``previous``.
        alpha : array
            The precisions, for the callback.
        products : int
            Rows multiplied by Φ or Φᴴ since the beginning.
        cg_steps : int
            Steps of conjugate gradients in this iteration.
        log_evidence : float
        moving : optional
            What :meth:`moving` returned before, so that other work could follow it.
        """
        moving = self.moving(means) if moving is None else moving
        if moving is not None:
            self.change = _relative(moving)
        self.previous = list(means)
        row: dict[str, Any] = {
            "iteration": self.iteration + 1,
            "change": self.change,
            "cg_steps": cg_steps,
            "products": products,
            "seconds": time.perf_counter() - self._began,
        }
        for name, value in {**row, "log_evidence": log_evidence}.items():
            self.history[name].append(value)
        if self._callback is not None:
            mean = _in_shape_of_z(self._by_task(means))
            state = IterationState(max_iter=self.max_iter, mean=mean, precision=alpha, **row)
            self._stopped = _is_true(self._callback(state))

    @property
    def mean_settled(self) -> Verdict | None:
        """The verdict of methods that stop by the relative change of the whole mean."""
        settled = self.iteration > 1 and self.change <= self.tol
        return Verdict.MEAN_SETTLED if settled else None

    def verdict(self, own: Verdict | None, unfinished: Verdict) -> Verdict | None:
        """Return how the run ends with this iteration; None if it goes on.

        Parameters
        ----------
        own : Verdict or None
            What the method's own rule says. With ``tol=0`` no rule ends a run.
        unfinished : Verdict
            The verdict if this was the last of ``max_iter`` iterations.
        """
        if own is not None and self.tol > 0:
            return own
        if self._stopped:
            return Verdict.STOPPED
        if self.iteration < self.max_iter:
            return None
        return Verdict.AS_ASKED if self.tol == 0 else unfinished

    @property
    def facts(self) -> dict[str, float]:
        """The numbers that a verdict's sentence may contain."""
        return {"tol": self.tol, "max_iter": self.max_iter, "change": self.change}


def _in_shape_of_z(rows: Sequence[Array]) -> Array:
    """Return one array (D,) per task as (D,), or (L, D) for several tasks."""
    return rows[0] if len(rows) == 1 else backend.namespace(rows[0]).stack(list(rows))


def relative_change(new: Sequence[Array], old: Sequence[Array]) -> float:
    """‖μ_new − μ_old‖ / ‖μ_new‖ over all tasks; 0/0 counts as no change.

    Examples
    --------
    >>> import numpy as np
    >>> relative_change([np.array([3.0, 4.0])], [np.array([3.0, 4.5])])
    0.1
    """
    return _relative(_moving(new, old))


def moved(new: Sequence[Array], old: Sequence[Array]) -> tuple[float, float]:
    """Return ‖μ_new − μ_old‖² and ‖μ_new‖² over all tasks."""
    return _added(_moving(new, old))


def _relative(moving: Moving) -> float:
    distance, size = _added(moving)
    if distance == 0.0:
        return 0.0
    return math.sqrt(distance / size) if size > 0 else math.inf


def _added(moving: Moving) -> tuple[float, float]:
    pairs = [x if isinstance(x, tuple) else tuple(map(float, x.numpy())) for x in moving]
    distance, size = (sum(parts) for parts in zip(*pairs, strict=True))
    return distance, size


def _moving(new: Sequence[Array], old: Sequence[Array]) -> Moving:
    """Return both sums of every array, on their way to the host."""
    found: Moving = []
    for a, b in zip(new, old, strict=True):
        if backend.is_numpy(a):
            found.append(kernels.moved(a.ravel(), backend.to_numpy(b).ravel()))
            continue
        xp = backend.namespace(a)
        sums = [xp.sum(backend.abs_squared(a - b)), xp.sum(backend.abs_squared(a))]
        found.append(backend.Later(xp.stack(sums)))
    return found
