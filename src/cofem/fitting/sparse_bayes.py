"""Sparse Bayesian learning and its rivals; an unknown noise precision is estimated first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cofem.learning.certificate import LOWEST_RATIO
from cofem.learning.checkpoint import Checkpoint
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import LoopResult, Outcome, iterate
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.gaussian import Report
from cofem.learning.moments.registry import covariance_free_esteps, starting_precision
from cofem.learning.moments.spot_check import lowest_at_end
from cofem.learning.prior_choice import careful, with_noise_found
from cofem.learning.recording import IterationState
from cofem.learning.sites.ard import Ard
from cofem.learning.starts import noise_units
from cofem.learning.stopping import Verdict
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Model
from cofem.rivals.registry import run_method

# The noise is estimated with the default tol and max_iter of ``fit``, whatever the user set.
SEARCH_TOL, SEARCH_ITERATIONS = 1e-4, 100


def sparse_bayes(model: Model, given: bool, settings: Settings, kept: Checkpoint | None) -> Learned:
    """Run sparse Bayesian learning or a rival; estimate the noise first if it is not given."""
    searched = 0
    if not given and model.sees_nothing:
        model = noise_units(model, False)  # all of y is noise
    elif not given:
        model, searched = _with_estimated_noise(model, settings, kept)
    other = careful(settings.method, model)
    if settings.tol == 0 or other == settings.method or model.sparsifier is not None:
        outcome = _run(model, settings.method, settings, kept)
    else:
        outcome, other = _few_probes_first(model, other, settings, kept)
    history = outcome.found.history
    history["products"] = [p + searched for p in history["products"]]
    return Learned("ard", model, outcome, method=other)


def _run(
    model: Model, method: Method, settings: Settings, kept: Checkpoint | None = None
) -> Outcome:
    return run_method(
        model, method, starting_precision(model, method), seed=settings.seed,
        max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback, keeper=kept,
        group=settings.group,
    )  # fmt: skip


def _few_probes_first(
    model: Model, other: Method, settings: Settings, kept: Checkpoint | None
) -> tuple[Outcome, Method]:
    """Run CoFEM, and then ``other`` where few probes were misled by columns that are alike.

    Where exact moments would be computed instead, CoFEM ends as soon as its systems take more steps
    than there are data: without rounding errors they never would, and exact moments cost less.
    """
    method, exact = settings.method, other.name != CoFEM.name
    data = max(min(family.operator.shape) for family in model.families)

    def dear(state: IterationState) -> bool:
        return exact and state.cg_steps > data

    def watch(state: IterationState) -> bool:
        return bool(settings.callback is not None and settings.callback(state)) or dear(state)

    esteps = covariance_free_esteps(model, CoFEM(), settings.seed, settings.group)
    rule = Ard(model, starting_precision(model, method), settings.tol)
    found = iterate(
        model, esteps, rule, max_iter=settings.max_iter, tol=settings.tol, callback=watch,
        keeper=kept,
    )  # fmt: skip
    hard = found.verdict is Verdict.STOPPED and not settings.stopped
    if not hard:
        reports = [e.report(found.alpha, m) for e, m in zip(esteps, found.moments, strict=True)]
        if settings.stopped or not _misled(esteps, found, reports):
            return Outcome(found, reports), method
    again = _run(model, other, settings)
    history, before = again.found.history, found.history["products"][-1]
    history["products"] = [p + before for p in history["products"]]
    what = "exact moments" if exact else "more probes"
    again.found.note = f"; with {what}, because columns of phi are coherent"
    return again, other


def _misled(
    esteps: Sequence[CovarianceFreeEStep], found: LoopResult, reports: Sequence[Report]
) -> bool:
    lowest = 1.0
    for estep, moments, report in zip(esteps, found.moments, reports, strict=True):
        ratio, products = lowest_at_end(estep, found.alpha, moments.mean, report.variance)
        found.history["products"][-1] += products
        lowest = min(lowest, ratio)
    return lowest < LOWEST_RATIO


def _with_estimated_noise(
    model: Model, settings: Settings, kept: Checkpoint | None
) -> tuple[Model, int]:
    """Return the model with an estimate of its noise, and the number of products spent."""
    if kept is not None and kept.noise_precisions is not None:
        return model.with_noise(kept.noise_precisions), kept.searched
    search = replace(settings, keeper=None, tol=SEARCH_TOL, max_iter=SEARCH_ITERATIONS)
    found, products = with_noise_found(model, search)
    if kept is not None:
        kept.found_noise([t.noise_precision for t in found.tasks], products)
    return found, products
