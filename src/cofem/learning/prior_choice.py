"""A model, a method and a prior in; the posterior's parts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cofem.learning import dense
from cofem.learning.certificate import Certificate
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import Outcome, run_em
from cofem.learning.moments.gaussian import EStep
from cofem.learning.moments.registry import make_esteps, starting_precision
from cofem.learning.sites.averages import averaged, worth_averaging
from cofem.learning.sites.findings import log_evidence, marginals_of, sites_of
from cofem.learning.sites.marginals import Marginals
from cofem.learning.starts import (
    HELD,
    End,
    EStepMaker,
    learn_mixture,
    noise_units,
    pruned_noise,
    with_own_noise,
)
from cofem.learning.stopping import Verdict
from cofem.learning.supports.fit import reason_to_sample, sampled
from cofem.model.choosing import choose_method
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Model, Tie

PRIORS = ("auto", "mixture", "ard")
# Log evidences are known to one or two (``docs/notes/prior.md``). By so much a crowded end has to
# be better than one that is not.
CROWDED_HANDICAP = 2.0
# And by so much one of the starts that hold the noise. If the model of another end were the true
# one, an end would have evidence larger by g with a probability of at most e^-g (Markov's
# inequality: the ratio of the two densities of y has mean one). FALSE_ALARM bounds it for all of
# these starts together.
FALSE_ALARM = 0.01
HELD_HANDICAP = math.log(len(HELD) / FALSE_ALARM)
# Options of CoFEM for coherent columns.
COHERENT: dict[str, Any] = {"n_probes": 16, "probe_rtol": 1e-3, "shrinkage": False}


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
        so_far = _best_of(believed or ends, make, True, spent)
        so_far.outcome.found.verdict = Verdict.STOPPED
        return so_far
    even, best = _dense(model, ends, make, given, settings, spent), None
    if even is not None and believed:
        spent = int(even.outcome.found.history["products"][-1])
        best = _best_of(believed, make, True, spent)
        chosen = dense.unless_sparse(even, best, True)
        if chosen is not best:
            return chosen
    why = reason_to_sample(model, ends, bool(believed)) if settings.may_sample else ""
    by_chains = sampled(model, ends, given, settings, why) if why else None
    if by_chains is not None:
        return by_chains
    if believed:
        return best or _best_of(believed, make, True, spent)
    if prior == "mixture" or even is not None:
        best = _best_of(ends, make, False, spent)
        chosen = best if even is None else dense.unless_sparse(even, best, False)
        if prior == "mixture":
            return chosen
        even = None if chosen is best else chosen
    credible = [e for e in ends if e.credible_noise]
    ard = _instead(model, (credible or ends)[0], given, make, settings, spent)
    # The evidence of an end that is not certified may be too small. So "ard" is asked too.
    return ard if even is None else dense.unless_ard(even, ard)


def _dense(
    model: Model, ends: list[End], make: EStepMaker, given: bool, settings: Settings, spent: int
) -> Learned | None:
    """Return the fit in which no coordinate is zero, where that is worth a look."""
    if not dense.may_be_dense(model, ends, settings):
        return None
    end, evidence = dense.dense_end(model, make, given, settings, spent)
    fit = _reported(end, make, True)
    fit.outcome.reports[0] = replace(fit.outcome.reports[0], **evidence)
    return fit


def _best_of(ends: Sequence[End], make: EStepMaker, believed: bool, spent: int) -> Learned:
    """Report the ends, and return the best; ``spent`` products were made before."""
    fits = [_reported(e, make, believed) for e in ends]
    best = _best(ends, fits, believed)
    extra = sum(f.outcome.found.history["products"][-1] for f in fits if f is not best)
    history = best.outcome.found.history
    history["products"][-1] = max(history["products"][-1], spent) + extra
    return best


def _ends(model: Model, make: EStepMaker, given: bool, settings: Settings) -> list[End]:
    """Return the ends of all starts; of joint tasks, each with noise of its own."""
    ends = learn_mixture(
        noise_units(model, given), make, given=given, max_iter=settings.max_iter,
        tol=settings.tol, callback=settings.callback, keeper=settings.keeper,
    )  # fmt: skip
    if len(model.tasks) == 1 or given or settings.stopped:
        return ends
    spent = int(ends[-1].found.history["products"][-1])
    return [
        with_own_noise(
            end, make, max_iter=settings.max_iter, tol=settings.tol,
            callback=settings.callback, spent=spent,
        )
        for end in ends
    ]  # fmt: skip


def _best(ends: Sequence[End], fits: list[Learned], believed: bool) -> Learned:
    """Return the fit of the largest evidence; some ends have to be better by a handicap.

    If the ends are ``believed``, its marginals are averaged with those of other ends that have
    about as much.
    """

    def score(i: int) -> float:
        value, end = fits[i].outcome.reports[0].log_evidence, ends[i]
        handicap = CROWDED_HANDICAP * end.crowded + HELD_HANDICAP * end.held
        return value - handicap if value == value else -math.inf

    scores = [score(i) for i in range(len(fits))]
    first = max(range(len(fits)), key=scores.__getitem__)
    best, known = fits[first], [f.marginals for f in fits if isinstance(f.marginals, Marginals)]
    told = len(known) == len(fits) and not known[0].nonnegative and scores[first] > -math.inf
    shares = worth_averaging(known, scores) if believed and told else {}
    if len(shares) > 1:
        best.outcome.found.note += f"; averaged over {len(shares)} ends of about equal evidence"
        report = best.outcome.reports[0]  # what y owes to the others is added
        every = report.log_evidence - math.log(shares[first])
        best.outcome.reports[0] = replace(report, log_evidence=every)
        marginals = averaged([known[i] for i in shares], list(shares.values()))
        fits[first] = best = replace(best, marginals=marginals)
    return best


def _reported(end: End, make: EStepMaker, believed: bool) -> Learned:
    """Return the end with one more E-step at the noise precision found, and the report."""
    if end.rule.given:  # also where the iterations ended on the way to it
        for noise in end.rule.noises:
            noise.ratio = 1.0
    model = end.rule.model.with_noise(end.rule.noise_precisions)
    rule = end.rule.at(model)
    esteps = make(model)
    moments = [
        estep.moments(a, old.mean, rule.iteration + 1, False, pull)
        for estep, (a, pull), old in zip(esteps, rule.sites(), end.found.moments, strict=True)
    ]
    rule.see(moments)
    reports = [
        estep.report(a, m) for estep, (a, _), m in zip(esteps, rule.sites(), moments, strict=True)
    ]
    found = end.found
    found.history["products"][-1] += sum(m.products for m in moments)
    found.means, found.moments = model.in_task_order([m.mean for m in moments]), moments
    found.alpha = rule.alpha
    gaussian = sum(r.log_evidence for r in reports)
    evidence = log_evidence(rule, moments, gaussian)
    # All of it stands in the first report: reports are summed.
    reports = [replace(r, log_evidence=evidence if i == 0 else 0.0) for i, r in enumerate(reports)]
    if believed and found.verdict is Verdict.NOT_AT_REST:
        found.verdict = Verdict.CERTIFIED
    if not believed:
        found.troubles.append(
            f'the learned prior cannot be trusted here: {end.certificate.value}; use prior="ard"'
        )
    marginals = marginals_of(model, rule, *rule.prior.components(rule.visible))
    return Learned("mixture", model, Outcome(found, reports), sites_of(model, rule), marginals)


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
        fits = [_reported(e, make, True) for e in believed]
        spent += sum(int(f.outcome.found.history["products"][-1]) for f in fits)
        best = _best(believed, fits, False)
        return model.with_noise([t.noise_precision for t in best.model.tasks]), spent
    credible = believed or [e for e in ends if e.credible_noise]
    if credible:
        return model.with_noise(credible[0].rule.noise_precisions), spent
    return _with_pruned_noise(model, make, settings, spent)


def _with_pruned_noise(
    model: Model, make: EStepMaker, settings: Settings, spent: int
) -> tuple[Model, int]:
    at_unit = noise_units(model, False)
    alpha = starting_precision(model, settings.method)
    ratio, products = pruned_noise(at_unit, make, alpha, settings.tol, settings.callback)
    found = [t.noise_precision * ratio for t in at_unit.tasks]
    return model.with_noise(found), spent + products


def _instead(
    model: Model, end: End, given: bool, make: EStepMaker, settings: Settings,
    spent: int,
) -> Learned:  # fmt: skip
    """Return sparse Bayesian learning at the noise precision given or found."""
    if not given:
        if end.credible_noise:
            model = model.with_noise(end.rule.noise_precisions)
        else:
            model, spent = _with_pruned_noise(model, make, settings, spent)
    method = careful(settings.method, model)
    esteps = make_esteps(model, method, settings.seed, settings.group)
    outcome = run_em(
        model, esteps, starting_precision(model, method),
        max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback,
    )  # fmt: skip
    found = outcome.found
    found.history["products"] = [p + spent for p in found.history["products"]]
    why = end.certificate.value
    found.note = f'; prior "ard", because the learned prior was not certified: {why}'
    return Learned("ard", model, outcome, method=method)


def careful(method: Method, model: Model) -> Method:
    """Return what takes CoFEM's place where columns are coherent; other methods are exact.

    If expectation propagation fails on the columns, one number for all cavities is wrong for them,
    and a few probes do not find out which of several similar columns are non-zero. Exact moments
    do, and where "auto" would choose them they also cost less. Elsewhere 16 probes, solved to 1e-3
    and without shrinkage, give the answers of exact EM (``docs/notes/probes.md``). Options that the
    user has changed are not replaced.
    """
    own, usual = vars(method), vars(CoFEM())
    same = method.name == CoFEM.name and all(
        isinstance(own[name], type(value)) and own[name] == value for name, value in usual.items()
    )
    if not same:
        return method
    chosen = choose_method("auto", model)
    return CoFEM(**COHERENT) if chosen.name == CoFEM.name else chosen


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
