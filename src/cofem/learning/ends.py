"""From the ends of the starts to one fit: the best of them, or what takes its place.

Where no end is certified, the iterations go on with small steps from the one nearest to rest. If
that is not certified either, the fits are compared by how well what they name explains the data
(:mod:`cofem.learning.named`): the end of the learned prior, the dense end, and sparse Bayesian
learning at the noise precision found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cofem.learning import dense
from cofem.learning.certificate import Certificate
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import Outcome, run_em
from cofem.learning.moments.registry import make_esteps, starting_precision
from cofem.learning.named import evidence_of_ard, evidence_of_end
from cofem.learning.sites.averages import averaged, worth_averaging
from cofem.learning.sites.findings import log_evidence, marginals_of, sites_of
from cofem.learning.sites.marginals import Marginals
from cofem.learning.starts import HELD, End, EStepMaker, calmed, noise_units, pruned_noise
from cofem.learning.stopping import Verdict
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Model

# Log evidences are known to one or two (``docs/notes/prior.md``). By so much a crowded end has to
# be better than one that is not.
CROWDED_HANDICAP = 2.0
# And by so much one of the starts that hold the noise. If the model of another end were the true
# one, an end would have evidence larger by g with a probability of at most e^-g (Markov's
# inequality: the ratio of the two densities of y has mean one). FALSE_ALARM bounds it for all of
# these starts together.
FALSE_ALARM = 0.01
HELD_HANDICAP = math.log(len(HELD) / FALSE_ALARM)
# And by so much the set that an end names which is not certified, over the one of "ard".
NAMED_AHEAD = -math.log(FALSE_ALARM)
# Options of CoFEM for coherent columns.
COHERENT: dict[str, Any] = {"n_probes": 16, "probe_rtol": 1e-3, "shrinkage": False}


def best_of(ends: Sequence[End], make: EStepMaker, believed: bool, spent: int) -> Learned:
    """Report the ends, and return the best; ``spent`` products were made before."""
    fits = [reported(e, make, believed) for e in ends]
    best = best_end(ends, fits, believed) if len(fits) > 1 else fits[0]
    extra = sum(f.outcome.found.history["products"][-1] for f in fits if f is not best)
    history = best.outcome.found.history
    history["products"][-1] = max(history["products"][-1], spent) + extra
    return best


def best_end(ends: Sequence[End], fits: list[Learned], believed: bool) -> Learned:
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


def reported(end: End, make: EStepMaker, believed: bool) -> Learned:
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
    if believed:
        evidence = log_evidence(rule, moments, sum(r.log_evidence for r in reports))
    else:  # the formula holds at a certified end only
        evidence, products = evidence_of_end(rule, esteps)
        found.history["products"][-1] += products
    # All of it stands in the first report: reports are summed.
    reports = [replace(r, log_evidence=evidence if i == 0 else 0.0) for i, r in enumerate(reports)]
    if believed and found.verdict is Verdict.NOT_AT_REST:
        found.verdict = Verdict.CERTIFIED
    marginals = marginals_of(model, rule, *rule.prior.components(rule.visible))
    return Learned("mixture", model, Outcome(found, reports), sites_of(model, rule), marginals)


def not_certified(
    model: Model, ends: list[End], even: Learned | None, prior: str, make: EStepMaker,
    given: bool, settings: Settings, spent: int,
) -> Learned:  # fmt: skip
    """Return what explains the data best: the learned prior, the dense end or "ard".

    First the iterations go on with small steps, and may still end at rest.
    """
    stopped = any(end.found.verdict is Verdict.STOPPED for end in ends)
    if settings.tol > 0 and not stopped:
        calm = calmed(
            ends, make, max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback,
            spent=spent,
        )  # fmt: skip
        spent = int(calm.found.history["products"][-1])
        if calm.certificate is Certificate.GIVEN:
            return best_of([calm], make, True, spent)
        ends = [*(end for end in ends if end.rule is not calm.rule), calm]
    best = best_of(ends, make, False, spent)
    sparse = best if even is None else dense.unless_sparse(even, best, False)
    if prior == "mixture" or stopped:  # after a stop nothing else begins
        why = _trusted(ends).certificate.value
        sparse.outcome.found.troubles.append(
            f'the learned prior cannot be trusted here: {why}; use prior="ard"'
        )
        return sparse
    spent = int(best.outcome.found.history["products"][-1])
    ard = _instead(model, _trusted(ends), given, make, settings, spent)
    esteps = make_esteps(ard.model, settings.method, settings.seed, settings.group)
    value, products = evidence_of_ard(ard.outcome, ard.model, esteps)
    ard.outcome.found.history["products"][-1] += products
    ahead = sparse.outcome.reports[0].log_evidence - value
    if sparse is best:
        if not ahead > NAMED_AHEAD:
            return ard
        found = best.outcome.found
        found.verdict, found.troubles = Verdict.BETTER_NAMED, []
        found.facts["ahead"] = ahead
    elif not ahead > -dense.margin(model):
        return ard
    sparse.outcome.found.history["products"][-1] = ard.outcome.found.history["products"][-1]
    return sparse


def _trusted(ends: Sequence[End]) -> End:
    """Return the first end whose noise precision can be believed, or the first."""
    return next((end for end in ends if end.credible_noise), ends[0])


def _instead(
    model: Model, end: End, given: bool, make: EStepMaker, settings: Settings,
    spent: int,
) -> Learned:  # fmt: skip
    """Return sparse Bayesian learning at the noise precision given or found."""
    if not given:
        if end.credible_noise:
            model = model.with_noise(end.rule.noise_precisions)
        else:
            model, spent = with_pruned_noise(model, make, settings, spent)
    method = careful(settings.method)
    esteps = make_esteps(model, method, settings.seed, settings.group)
    outcome = run_em(
        model, esteps, starting_precision(model, method),
        max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback,
    )  # fmt: skip
    found = outcome.found
    found.history["products"] = [p + spent for p in found.history["products"]]
    why = end.certificate.value
    found.note = f'; prior "ard", because the learned prior was not certified: {why}'
    return Learned("ard", model, outcome)


def with_pruned_noise(
    model: Model, make: EStepMaker, settings: Settings, spent: int
) -> tuple[Model, int]:
    """Return the model with the noise precision that pruning finds, and the products."""
    at_unit = noise_units(model, False)
    alpha = starting_precision(model, settings.method)
    ratio, products = pruned_noise(at_unit, make, alpha, settings.tol, settings.callback)
    found = [t.noise_precision * ratio for t in at_unit.tasks]
    return model.with_noise(found), spent + products


def careful(method: Method) -> Method:
    """Return CoFEM's options for columns that are coherent; other methods are exact.

    If expectation propagation fails on the columns, one number for all cavities is wrong for them,
    and a few probes do not find out which of several similar columns are non-zero. With 16 probes,
    solved to 1e-3 and without shrinkage, the answers are those of exact EM
    (``docs/notes/probes.md``). Options that the user has changed are not replaced.
    """
    return CoFEM(**COHERENT) if method == CoFEM() else method
