"""The one loop, for every E-step and every site rule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.convergence import moved
from cofem.learning.moments.gaussian import EStep, Moments, Report
from cofem.learning.sites.ard import Ard
from cofem.learning.stopping import Verdict
from cofem.model.model import Model


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


def empty_history() -> dict[str, list[float]]:
    """Return a history with its columns and no rows."""
    names = ("iteration", "change", "log_evidence", "cg_steps", "products", "seconds")
    return {name: [] for name in names}


@dataclass
class LoopResult:
    """Where the iterations stopped: the means belong to ``alpha``, one per task."""

    alpha: Array
    means: list[Array]
    verdict: Verdict
    facts: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=empty_history)
    troubles: list[str] = field(default_factory=list)
    moments: Sequence[Moments] = ()
    note: str = ""

    @property
    def converged(self) -> bool:
        """Whether it ended as it should, and all systems were solved."""
        return self.verdict.converged and not self.troubles

    @property
    def message(self) -> str:
        """What happened, for the user."""
        sentence = self.verdict.value.format(**self.facts)
        return (self.troubles[0] if self.troubles else sentence) + self.note

    @property
    def worth_a_warning(self) -> bool:
        """Whether the user has to be told without asking."""
        asked = (Verdict.STOPPED, Verdict.AS_ASKED)
        return bool(self.troubles) or (not self.converged and self.verdict not in asked)


@dataclass(frozen=True)
class LoopState:
    """Everything that the next iteration needs: what a checkpoint holds.

    ``rule`` is the site rule's after ``iteration``; ``means`` are one array per family.
    """

    iteration: int
    rule: dict[str, np.ndarray]
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


class SiteRule(Protocol):
    """What prior the coordinates have: sites exp(−a u²/2 + b u), and how they are learned."""

    needs_variances: bool
    """Whether the last iteration, which no other follows, needs variances too."""

    products: int
    """Products with Φ that the rule itself makes in an iteration."""

    @property
    def alpha(self) -> Array:
        """The precisions that the user is shown."""
        ...

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return a and b of every family, at the noise precision of its E-step."""
        ...

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the moments under the present sites; return a verdict if they are the last."""
        ...

    def advance(self) -> None:
        """Move the sites on, and the noise."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        ...

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        ...

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on from there."""
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
    """Run sparse Bayesian learning at the model's noise precision, and report."""
    rule = Ard(model, alpha, tol)
    found = iterate(
        model, esteps, rule, max_iter=max_iter, tol=tol, callback=callback, keeper=keeper
    )
    reports = [e.report(found.alpha, m) for e, m in zip(esteps, found.moments, strict=True)]
    return Outcome(found, reports)


def iterate(
    model: Model,
    esteps: Sequence[EStep],
    rule: SiteRule,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
    spent: int = 0,
) -> LoopResult:
    """Alternate moments and sites until the rule is satisfied or ``max_iter`` E-steps are done.

    The sites do not move after the last E-step, so mean and variance belong to those that the
    rule holds in the end. ``esteps`` has one E-step for every family of tasks; ``spent`` are
    products to count from.
    """
    began, products, done = time.perf_counter(), spent, 0
    history, previous, sparse = empty_history(), None, None
    state = keeper.resume() if keeper is not None else None
    if state is not None and state.iteration < max_iter:
        done, previous = state.iteration, state.means
        rule.restore(state.rule)
        sparse = [_image(model, mean) for mean in previous]
        products, history = state.products, state.history
        began -= history["seconds"][-1]
    verdict = None
    for count in range(done + 1, max_iter + 1):
        last = count == max_iter and not rule.needs_variances
        starts = previous or [None] * len(esteps)
        moments = [
            estep.moments(a, start, count, last, pull)
            for estep, (a, pull), start in zip(esteps, rule.sites(), starts, strict=True)
        ]
        means = [m.mean for m in moments]
        change = math.inf if previous is None else relative_change(means, previous)
        products += sum(m.products for m in moments) + rule.products
        shown = IterationState(
            iteration=count,
            max_iter=max_iter,
            change=change,
            cg_steps=max(m.cg_steps for m in moments),
            products=products,
            seconds=time.perf_counter() - began,
            mean=_shown(model, means),
            precision=rule.alpha,
        )
        record(history, shown, sum(m.log_evidence for m in moments))
        answer = callback(shown) if callback is not None else None
        verdict = rule.absorb(moments, sparse, random=shown.cg_steps > 0)
        if tol == 0:
            verdict = None
        if verdict is None and isinstance(answer, (bool, np.bool_)) and answer:
            verdict = Verdict.STOPPED
        if verdict is not None or count == max_iter:
            break
        previous, sparse = means, [m.sparse_mean for m in moments]
        rule.advance()
        if keeper is not None:
            keeper.keep(LoopState(count, rule.state(), previous, products, history))
    if verdict is None:
        verdict = Verdict.AS_ASKED if tol == 0 else rule.unfinished
    troubles = [
        f"linear systems were not solved to the tolerance ({m.trouble})"
        for m in moments
        if m.trouble
    ]
    facts = {"max_iter": max_iter, **rule.facts()}
    in_order = model.in_task_order(means)
    return LoopResult(rule.alpha, in_order, verdict, facts, history, troubles, moments)


def _shown(model: Model, means: Sequence[Array]) -> Array:
    """Return the means in the shape of z."""
    rows = model.in_task_order(means)
    return rows[0] if len(rows) == 1 else backend.namespace(rows[0]).stack(rows)


def _image(model: Model, mean: Array) -> Array:
    return mean if model.sparsifier is None else model.sparsifier.forward(mean)


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
