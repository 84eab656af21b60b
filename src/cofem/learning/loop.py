"""The one loop, for every E-step and every site rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from cofem.backend import Array
from cofem.learning.convergence import ConvergenceWarning, DivergenceWarning
from cofem.learning.moments.gaussian import EStep, Moments, MomentStep, Report
from cofem.learning.recording import Callback, Recorder, empty_history
from cofem.learning.sites.ard import Ard
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

SitesT = TypeVar("SitesT")
SitesT_co = TypeVar("SitesT_co", covariant=True)


@dataclass
class LoopResult:
    """The state at the end of the iterations: the means, one per task, belong to ``alpha``."""

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
        """Whether the verdict is a good one and all linear systems were solved."""
        return self.verdict.converged and not self.troubles

    @property
    def message(self) -> str:
        """What happened, for the user."""
        sentence = self.verdict.value.format(**self.facts)
        return (self.troubles[0] if self.troubles else sentence) + self.note

    @property
    def warning(self) -> type[ConvergenceWarning] | None:
        """The warning that the user gets without asking; None if there is no need of one."""
        if self.verdict is Verdict.DIVERGED:
            return DivergenceWarning
        asked = self.verdict in (Verdict.STOPPED, Verdict.AS_ASKED)
        fine = not self.troubles and (self.converged or asked)
        return None if fine else ConvergenceWarning


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
    """Stores the state of a loop, so that the loop can be resumed."""

    def resume(self) -> LoopState | None:
        """Return the stored state; None if there is none."""
        ...

    def keep(self, state: LoopState) -> None:
        """Store the state after an M-step."""
        ...


class SiteRule(Protocol[SitesT_co]):
    """What prior the coordinates have: sites exp(−a u²/2 + b u), and how they are learned."""

    needs_variances: bool
    """Whether the last iteration, which no other follows, needs variances too."""

    products: int
    """Products with Φ that the rule itself makes in an iteration."""

    @property
    def alpha(self) -> Array:
        """The prior precisions that the user sees as ``precision``."""
        ...

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return where the E-steps start, given the last means; None: nowhere in particular.

        These are the last means, unless the rule changes the unknowns between two iterations.
        """
        ...

    def sites(self) -> Sequence[tuple[SitesT_co, Array | None]]:
        """Return a and b of every family, at the noise precision of its E-step."""
        ...

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the moments under the present sites; return a verdict if they are the last."""
        ...

    def advance(self) -> None:
        """Compute the next sites, and the next noise precision if it is learned."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return the numbers that the sentences of verdicts contain."""
        ...

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A site rule of which checkpoints can be made; the others have no use for them."""

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        ...

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`state` returned."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of any method: the end of its iterations, and one report per family of tasks."""

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
    model: Model | None,
    esteps: Sequence[MomentStep[SitesT]],
    rule: SiteRule[SitesT],
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
    spent: int = 0,
) -> LoopResult:
    """Alternate moments and sites until the rule is satisfied or ``max_iter`` E-steps are done.

    The sites do not change after the last E-step, so mean and variance belong to the sites that the
    rule holds at the end. ``esteps`` has one E-step for every family of tasks; ``spent`` is the
    number of products made before. A ``keeper`` needs a rule that is :class:`Resumable`. ``model``
    says which task each row of a mean belongs to; None: every E-step has a task of its own.
    """
    in_task_order = list if model is None else model.in_task_order
    products, previous, sparse = spent, None, None
    recorder = Recorder(max_iter, tol, callback, in_task_order)
    kept = rule if isinstance(rule, Resumable) else None
    if keeper is not None and kept is None:
        raise TypeError(f"{type(rule).__name__} has no state that a checkpoint could hold")
    state = keeper.resume() if keeper is not None else None
    if kept is not None and state is not None and state.iteration < max_iter:
        previous, products = state.means, state.products
        recorder.resume(state.history)
        kept.restore(state.rule)
        sparse = [_image(model, mean) for mean in previous]
    while True:
        count = recorder.iteration + 1
        last = count == max_iter and not rule.needs_variances
        recorder.previous = previous = rule.starts(previous)
        starts: Sequence[Array | None] = previous or [None] * len(esteps)
        sites = rule.sites()
        moments = [
            estep.moments(a, start, count, last, pull)
            for estep, (a, pull), start in zip(esteps, sites, starts, strict=True)
        ]
        # Under sites with a pull it is not the evidence of any prior, but a part of one.
        pulled = any(pull is not None for _, pull in sites)
        means, cg_steps = [m.mean for m in moments], max(m.cg_steps for m in moments)
        products += sum(m.products for m in moments) + rule.products
        alpha, moving = rule.alpha, recorder.moving(means)
        own = rule.absorb(moments, sparse, random=cg_steps > 0)
        recorder.add(
            means, alpha, products=products, cg_steps=cg_steps, moving=moving,
            log_evidence=math.nan if pulled else sum(m.log_evidence for m in moments),
        )  # fmt: skip
        verdict = recorder.verdict(own, rule.unfinished)
        if verdict is not None:
            break
        previous, sparse = means, [m.sparse_mean for m in moments]
        rule.advance()
        if keeper is not None and kept is not None:
            keeper.keep(LoopState(count, kept.state(), previous, products, recorder.history))
    troubles = [
        f"linear systems were not solved to the tolerance ({m.trouble})"
        for m in moments
        if m.trouble
    ]
    facts = {"max_iter": max_iter, **rule.facts()}
    in_order = list(in_task_order(means))
    return LoopResult(rule.alpha, in_order, verdict, facts, recorder.history, troubles, moments)


def _image(model: Model | None, mean: Array) -> Array:
    return mean if model is None or model.sparsifier is None else model.sparsifier.forward(mean)
