"""What is done where no end of the learned prior is certified.

The iterations go on with small steps from the one nearest to rest. If that is not certified
either, the fits are compared by how well what they name explains the data
(:mod:`cofem.learning.ends.named`): the end of the learned prior, the dense end, and sparse Bayesian
learning at the noise precision found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofem.learning import dense
from cofem.learning.certificate import Certificate
from cofem.learning.ends.best_end import FALSE_ALARM, best_of
from cofem.learning.ends.named import evidence_of_ard
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import run_em
from cofem.learning.moments.registry import make_esteps, starting_precision
from cofem.learning.sites.propagation import LATE
from cofem.learning.starts import End, EStepMaker, calmed, noise_units, pruned_noise
from cofem.learning.stopping import Verdict
from cofem.model.choosing import careful
from cofem.model.model import Model

# The end of the learned prior must be ahead of "ard" by so much. If the model of "ard" were the
# true one, it would be ahead by g with a probability of at most e^-g (Markov's inequality).
NAMED_AHEAD = -math.log(FALSE_ALARM)


def not_certified(
    model: Model, ends: list[End], even: Learned | None, prior: str, make: EStepMaker,
    given: bool, settings: Settings, spent: int,
) -> Learned:  # fmt: skip
    """Return what explains the data best: the learned prior, the dense end or "ard".

    First the iterations go on with small steps, and may still end at rest.
    """
    # With fewer iterations it is not known whether the usual steps come to rest.
    goes_on = settings.tol > 0 and settings.max_iter >= LATE
    if goes_on:
        calm = calmed(
            ends, make, max_iter=settings.max_iter, tol=settings.tol, callback=settings.callback,
            spent=spent,
        )  # fmt: skip
        spent = int(calm.found.history["products"][-1])
        if calm.certificate is Certificate.GIVEN:
            return best_of([calm], make, True, spent)
        ends = [*(end for end in ends if end.rule is not calm.rule), calm]
    best = best_of(ends, make, False, spent)
    if settings.stopped:  # nothing else begins
        best.outcome.found.verdict = Verdict.STOPPED
        return best
    sparse = best
    if even is not None and not _may_have_more(ends, even):
        sparse = dense.unless_sparse(even, best, False)
    if prior == "mixture":
        why = _trusted(ends).certificate.value
        sparse.outcome.found.troubles.append(
            f'the learned prior cannot be trusted here: {why}; use prior="ard"'
        )
        return sparse
    spent = int(best.outcome.found.history["products"][-1])
    ard = _instead(model, _trusted(ends), given, make, settings, spent)
    esteps = make_esteps(ard.model, ard.method or settings.method, settings.seed, settings.group)
    value, products = evidence_of_ard(ard.outcome, ard.model, esteps)
    ard.outcome.found.history["products"][-1] += products
    ahead = sparse.outcome.reports[0].log_evidence - value
    if sparse is best:
        if not (goes_on and ahead > NAMED_AHEAD):
            return ard
        found = best.outcome.found
        found.verdict, found.troubles = Verdict.BETTER_NAMED, []
        found.facts["ahead"] = ahead
    elif not ahead > -dense.margin(model):
        return ard
    sparse.outcome.found.history["products"][-1] = ard.outcome.found.history["products"][-1]
    return sparse


def _may_have_more(ends: Sequence[End], even: Learned) -> bool:
    """Whether an end of the learned prior may have more evidence than the dense one.

    What it names has less evidence than all sets together, and few data are explained as well by
    sets that are about as good. The formula counts them, if it can be believed.
    """
    most = max(float(end.found.facts["formula"]) for end in ends)
    return most > even.outcome.reports[0].log_evidence + dense.margin(even.model)


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


def with_pruned_noise(
    model: Model, make: EStepMaker, settings: Settings, spent: int
) -> tuple[Model, int]:
    """Return the model with the noise precision that pruning finds, and the products."""
    at_unit = noise_units(model, False)
    alpha = starting_precision(model, settings.method)
    ratio, products = pruned_noise(at_unit, make, alpha, settings.tol, settings.callback)
    found = [t.noise_precision * ratio for t in at_unit.tasks]
    return model.with_noise(found), spent + products
