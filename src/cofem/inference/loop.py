"""The one EM loop, for every E-step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.convergence import Drift, moved
from cofem.inference.model import Model
from cofem.inference.moments import EStep, Report
from cofem.inference.mstep import update_precision


@dataclass(frozen=True)
class IterationState:
    """What a callback is shown after every E-step."""

    iteration: int
    max_iter: int
    change: float
    cg_steps: int
    products: int
    seconds: float
    mean: Array
    precision: Array


Callback = Callable[[IterationState], object]


def empty_history() -> dict[str, list[float]]:
    """Return a history with its columns and no rows."""
    names = ("iteration", "change", "log_evidence", "cg_steps", "products", "seconds")
    return {name: [] for name in names}


@dataclass
class LoopResult:
    """Where the iterations stopped: the means belong to ``alpha``, one per task."""

    alpha: Array
    means: list[Array]
    converged: bool
    message: str
    history: dict[str, list[float]] = field(default_factory=empty_history)
    troubles: list[str] = field(default_factory=list)
    stopped: bool = False


@dataclass(frozen=True)
class LoopState:
    """Everything that the next iteration needs: what a checkpoint holds.

    ``alpha`` is the M-step's after ``iteration``; ``means`` are one array per family, and
    behind them those that :class:`~cofem.inference.convergence.Drift` keeps.
    """

    iteration: int
    alpha: Array
    means: list[Array]
    products: int
    history: dict[str, list[float]]


class Keeper(Protocol):
    """Where a loop's state is kept, and found again."""

    def resume(self) -> LoopState | None:
        """Return the state to go on from, if there is one."""
        ...

    def keep(self, state: LoopState) -> None:
        """Take the state after an M-step."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What any method gives back: where it stopped, and one report per family of tasks."""

    found: LoopResult
    reports: list[Report]


def run_em(
    model: Model,
    esteps: Sequence[EStep],
    alpha: Array,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Outcome:
    """Alternate E- and M-steps until the mean settles or ``max_iter`` E-steps are done.

    No M-step follows the last E-step, so mean and variance belong to the α that
    is returned. ``esteps`` has one E-step for every family of tasks.
    """
    began = time.perf_counter()
    history = empty_history()
    previous: list[Array] | None = None
    drift = Drift(tol)
    products = done = 0
    state = keeper.resume() if keeper is not None else None
    if state is not None and state.iteration < max_iter:
        done, alpha, previous = state.iteration, state.alpha, state.means[: len(esteps)]
        drift = Drift(tol, state.means[len(esteps) :])
        products, history = state.products, state.history
        began -= history["seconds"][-1]
    for count in range(done + 1, max_iter + 1):
        moments = [
            estep.moments(
                alpha, None if previous is None else previous[i], count, last=count == max_iter
            )
            for i, estep in enumerate(esteps)
        ]
        means = [m.mean for m in moments]
        change = math.inf if previous is None else relative_change(means, previous)
        in_order = model.in_task_order(means)
        products += sum(m.products for m in moments)
        shown = IterationState(
            iteration=count,
            max_iter=max_iter,
            change=change,
            cg_steps=max(m.cg_steps for m in moments),
            products=products,
            seconds=time.perf_counter() - began,
            mean=in_order[0] if len(in_order) == 1 else backend.namespace(alpha).stack(in_order),
            precision=alpha,
        )
        record(history, shown, sum(m.log_evidence for m in moments))
        answer = callback(shown) if callback is not None else None
        stop = isinstance(answer, (bool, np.bool_)) and bool(answer)
        settled = count > 1 and tol > 0 and change <= tol
        # Without random probes the change itself goes to zero, and that is waited for.
        random = shown.cg_steps > 0
        trembling = random and drift.settled(means, count) and not settled
        if settled or trembling or stop or count == max_iter:
            break
        previous = means
        alpha = update_precision(model, moments)
        if keeper is not None:
            kept = [*previous, *drift.kept]
            keeper.keep(LoopState(count, alpha, kept, products, history))
    message = verdict(settled, stop, tol, max_iter, change, trembling)
    troubles = [
        f"linear systems were not solved to the tolerance ({m.trouble})"
        for m in moments
        if m.trouble
    ]
    converged = settled or trembling
    found = LoopResult(alpha, in_order, converged, message, history, troubles, stop)
    reports = [e.report(alpha, m) for e, m in zip(esteps, moments, strict=True)]
    return Outcome(found, reports)


def relative_change(new: Sequence[Array], old: Sequence[Array]) -> float:
    """‖μ_new − μ_old‖ / ‖μ_new‖ over all tasks; 0/0 counts as no change."""
    distance, size = moved(new, old)
    if distance == 0.0:
        return 0.0
    return math.sqrt(distance / size) if size > 0 else math.inf


def record(history: dict[str, list[float]], state: IterationState, log_evidence: float) -> None:
    """Add a row to the history."""
    history["iteration"].append(state.iteration)
    history["change"].append(state.change)
    history["log_evidence"].append(log_evidence)
    history["cg_steps"].append(state.cg_steps)
    history["products"].append(state.products)
    history["seconds"].append(state.seconds)


def verdict(
    settled: bool,
    stopped: bool,
    tol: float,
    max_iter: int,
    change: float,
    trembling: bool = False,
) -> str:
    """Say in words how the iterations ended."""
    if settled:
        return f"the mean changes by less than tol={tol:g} per iteration"
    if trembling:
        return (
            f"the mean drifts by less than tol={tol:g} per iteration; that it still changes by "
            f"{change:.2g} is the noise of the random probes (a larger n_probes lowers it)"
        )
    if stopped:
        return "stopped by the callback"
    if tol == 0:
        return f"ran the {max_iter} iterations asked for (tol=0)"
    return (
        f"the mean still changes by {change:.2g} per iteration after max_iter={max_iter} "
        f"(tol={tol:g}): raise max_iter, or accept it with a larger tol"
    )
