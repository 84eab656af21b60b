"""A model, a method and a prior in; the posterior's parts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cofem.learning import dense
from cofem.learning.certificate import Certificate
from cofem.learning.ends.best_end import best_fit, best_of, reported
from cofem.learning.ends.held_shares import HeldShares
from cofem.learning.ends.uncertified import not_certified, with_pruned_noise
from cofem.learning.learned import Learned, Settings
from cofem.learning.moments.gaussian import EStep
from cofem.learning.moments.registry import make_esteps
from cofem.learning.starts import End, EStepMaker, learn_mixture, noise_units, with_own_noise
from cofem.learning.stopping import Verdict
from cofem.learning.supports.fit import reason_to_sample, sampled
from cofem.model.choosing import can_sample
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Model, Tie

PRIORS = ("auto", "mixture", "ard")


def learn(model: Model, prior: str, given: bool, settings: Settings) -> Learned:
    """Fit the learned prior, and sparse Bayesian learning where its end is not certified.

    Parameters
    ----------
    model : Model
        Its noise precisions count if ``given``.
    prior : {"auto", "mixture"}
    given : bool
    settings : Settings
    """

    def make(m: Model) -> Sequence[EStep]:
        return make_esteps(m, settings.method, settings.seed, settings.group)

    ends = _ends(model, make, given, settings)
    spent = max(int(end.found.history["products"][-1]) for end in ends)
    believed = [e for e in ends if e.certificate is Certificate.GIVEN or settings.tol == 0]
    if settings.stopped:
        last = best_of(believed or ends, make, bool(believed), spent)
        last.outcome.found.verdict = Verdict.STOPPED
        return last
    even, best = _dense(model, ends, make, given, settings, spent), None
    if even is not None and believed:
        spent = int(even.outcome.found.history["products"][-1])
        best = best_of(believed, make, True, spent, HeldShares(model, make, given, settings))
        chosen = dense.unless_sparse(even, best, True)
        if chosen is not best:
            return chosen
    may_sample = settings.may_sample and can_sample(model)
    why = reason_to_sample(model, ends, bool(believed)) if may_sample else ""
    by_chains = sampled(model, ends, given, settings, why) if why else None
    if by_chains is not None:
        return by_chains
    if believed:
        return best or best_of(believed, make, True, spent)
    return not_certified(model, ends, even, prior, make, given, settings, spent)


def _dense(
    model: Model, ends: list[End], make: EStepMaker, given: bool, settings: Settings, spent: int
) -> Learned | None:
    """Return the fit in which no coordinate is zero, where no sparse one explains y well."""
    if ends[0].explains() or not dense.may_be_dense(model, ends, settings):
        return None
    end, evidence = dense.dense_end(model, make, given, settings, spent)
    fit = reported(end, make, True)
    fit.outcome.reports[0] = replace(fit.outcome.reports[0], **evidence)
    return fit


def _ends(model: Model, make: EStepMaker, given: bool, settings: Settings) -> list[End]:
    """Return the ends of all starts; of joint tasks, each with noise of its own."""
    ends = learn_mixture(
        noise_units(model, given), make, given=given, max_iter=settings.max_iter,
        tol=settings.tol, callback=settings.callback, keeper=settings.keeper,
    )  # fmt: skip
    if len(model.tasks) == 1 or given or settings.stopped:
        return ends
    spent = int(ends[-1].found.history["products"][-1])
    certified = any(end.certificate is Certificate.GIVEN for end in ends)
    if settings.tol > 0 and not certified:
        # Tasks whose noise differs by much have no noise precision in common: the fit explains the
        # noise of some of them by coefficients. So each begins with one of its own.
        ends = learn_mixture(
            noise_units(model, given, each=True), make, given=given, max_iter=settings.max_iter,
            tol=settings.tol, callback=settings.callback, spent=spent,
        )  # fmt: skip
        spent = int(ends[-1].found.history["products"][-1])
    return [
        with_own_noise(
            end, make, max_iter=settings.max_iter, tol=settings.tol,
            callback=settings.callback, spent=spent,
        )
        for end in ends
    ]  # fmt: skip


def with_noise_found(model: Model, settings: Settings) -> tuple[Model, int]:
    """Return the model with the noise precision that the learned prior finds, and the products.

    Used for models and methods that the learned prior cannot fit itself: a coupling is left out,
    and CoFEM replaces a method that cannot work under sites.
    """
    method = settings.method if settings.method.takes_sites else CoFEM()
    plain = replace(model, tie=Tie(model.tie.labels))

    def make(m: Model) -> Sequence[EStep]:
        return make_esteps(m, method, settings.seed, settings.group)

    ends = _ends(plain, make, False, settings)
    spent = max(int(end.found.history["products"][-1]) for end in ends)
    believed = [e for e in ends if e.certificate is Certificate.GIVEN]
    if len(believed) > 1:
        fits = [reported(e, make, True) for e in believed]
        spent += sum(int(f.outcome.found.history["products"][-1]) for f in fits)
        best = best_fit(believed, fits, False)
        return model.with_noise([t.noise_precision for t in best.model.tasks]), spent
    credible = believed or [e for e in ends if e.credible_noise]
    if credible:
        return model.with_noise(credible[0].rule.noise_precisions), spent
    return with_pruned_noise(model, make, settings, spent)


def choose_prior(prior: object, method: Method, model: Model) -> str:
    """Return "mixture", "ard", or "auto" for the first with the second behind it.

    Refuses what does not go together.
    """
    if prior not in PRIORS:
        names = ", ".join(repr(n) for n in PRIORS)
        raise ValueError(f"prior must be one of {names}, got {prior!r}")
    conflict = _conflict(method, model)
    if conflict and prior == "mixture":
        raise ValueError(f'prior="mixture" does not go with {conflict}; use prior="ard"')
    return "ard" if conflict else str(prior)


def _conflict(method: Method, model: Model) -> str:
    """Name what the learned prior is not made for."""
    if not method.takes_sites:
        paper = method.name == CoFEM.name
        return "the paper's setting of CoFEM" if paper else f'method "{method.name}"'
    if method.initial_precision is not None:
        return "initial_precision"
    if model.sparsifier is not None:
        return "a sparsifier"
    return "a coupling" if model.tie.coupling is not None else ""
