"""Sparse Bayesian learning and its rivals; an unknown noise precision is estimated first."""

from __future__ import annotations

from dataclasses import replace

from cofem.learning.certificate import LOWEST_RATIO
from cofem.learning.checkpoint import Checkpoint
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import Outcome
from cofem.learning.moments.registry import covariance_free_esteps, starting_precision
from cofem.learning.moments.spot_check import lowest_at_end
from cofem.learning.prior_choice import with_noise_found
from cofem.learning.starts import noise_units
from cofem.learning.stopping import Verdict
from cofem.model.choosing import careful
from cofem.model.methods import CoFEM
from cofem.model.model import Model
from cofem.rivals.registry import run_method

# The noise is estimated with the default tol and max_iter of ``fit``, whatever the user set.
SEARCH_TOL, SEARCH_ITERATIONS = 1e-4, 100


def sparse_bayes(model: Model, given: bool, settings: Settings) -> Learned:
    """Run sparse Bayesian learning or a rival; estimate the noise first if it is not given."""
    searched, kept = 0, settings.keeper
    if not given and model.sees_nothing:
        model = noise_units(model, False)  # all of y is noise
    elif not given:
        model, searched = _with_estimated_noise(model, settings, kept)
    outcome = run_method(
        model, settings.method, starting_precision(model, settings.method), seed=settings.seed,
        max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback, keeper=kept,
        group=settings.group,
    )  # fmt: skip
    method, other = settings.method, careful(settings.method, model)
    if settings.tol > 0 and other is not method and _misled(model, outcome, settings):
        before = outcome.found.history["products"][-1]
        outcome = run_method(
            model, other, starting_precision(model, method), seed=settings.seed,
            max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback,
            group=settings.group,
        )  # fmt: skip
        searched, method = searched + int(before), other
        what = "more probes" if other.name == CoFEM.name else "exact moments"
        outcome.found.note = f"; with {what}, because columns of phi are coherent"
    history = outcome.found.history
    history["products"] = [p + searched for p in history["products"]]
    return Learned("ard", model, outcome, method=method)


def _misled(model: Model, outcome: Outcome, settings: Settings) -> bool:
    """Whether few probes were misled: columns in use have others like them."""
    found = outcome.found
    if model.sparsifier is not None or found.verdict is Verdict.STOPPED:
        return False
    esteps = covariance_free_esteps(model, CoFEM(), settings.seed, settings.group)
    lowest = 1.0
    for estep, moments, report in zip(esteps, found.moments, outcome.reports, strict=True):
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
