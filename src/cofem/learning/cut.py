"""The posterior of z ≥ 0 at precisions that are known: a normal distribution cut off at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cofem.learning.learned import Learned
from cofem.learning.loop import Outcome, iterate
from cofem.learning.moments.gaussian import EStep
from cofem.learning.sites.findings import log_evidence, marginals_of, sites_of
from cofem.learning.sites.half_normal import SCALES, WEIGHTS, HalfNormal
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The most iterations of expectation propagation; 10 to 30 are usual.
MOST = 100


def cut_at_zero(model: Model, esteps: Sequence[EStep], outcome: Outcome) -> Learned:
    """Return the posterior of half-normal z with the precisions at which ``outcome`` ended.

    ``gaussian_mean`` and ``gaussian_variance`` stay those without z ≥ 0, which the paper's filtered
    mode starts from. Sites, marginals and log evidence are those with it.
    """
    found, rule = outcome.found, HalfNormal(model, outcome.found.alpha)
    # With tol = 0 the rule would not be asked whether it is at its end.
    end = iterate(model, esteps, rule, max_iter=MOST, tol=1.0)
    if end.verdict is not Verdict.GIVEN:
        found.troubles.append(end.message)
    own = [e.report(a, m) for e, a, m in zip(esteps, rule.precisions, end.moments, strict=True)]
    found.history["products"][-1] += end.history["products"][-1] + sum(r.products for r in own)
    evidence = log_evidence(rule, end.moments, sum(r.log_evidence for r in own))
    # All of it stands in the first report: reports are summed.
    told = [
        replace(r, log_evidence=0.0 if i else evidence, log_evidence_error=o.log_evidence_error)
        for i, (r, o) in enumerate(zip(outcome.reports, own, strict=True))
    ]
    sites, marginals = sites_of(model, rule), marginals_of(model, rule, SCALES, WEIGHTS)
    return Learned("ard", model, Outcome(found, told), sites, marginals)
