"""The posterior of z ≥ 0 at known precisions: a normal distribution cut off at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cofem.backend import Array
from cofem.learning.evidence import log_evidence
from cofem.learning.learned import Learned
from cofem.learning.loop import Outcome, iterate
from cofem.learning.moments.gaussian import EStep
from cofem.learning.sites.half_normal import SCALES, WEIGHTS, HalfNormal
from cofem.learning.sites.in_task_order import marginals_of, sites_of
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The most iterations of expectation propagation; 10 to 30 are usual.
MOST = 100


def cut_posterior(model: Model, esteps: Sequence[EStep], alpha: Array) -> Learned:
    """Return the posterior of half-normal z with precisions ``alpha``.

    ``gaussian_mean`` and ``gaussian_variance`` are those without z ≥ 0, which the paper's filtered
    mode starts from. Sites, marginals and log evidence are those with it.
    """
    plain = [estep.moments(alpha, None, 1, False) for estep in esteps]
    reports = [e.report(alpha, m) for e, m in zip(esteps, plain, strict=True)]
    rule = HalfNormal(model, alpha)
    spent = sum(m.products for m in plain)
    # With tol = 0 the rule would not be asked whether it is at its end.
    found = iterate(model, esteps, rule, max_iter=MOST, tol=1.0, spent=spent)
    if found.verdict is not Verdict.GIVEN:
        found.troubles.append(found.message)
    own = [e.report(a, m) for e, a, m in zip(esteps, rule.precisions, found.moments, strict=True)]
    found.history["products"][-1] += sum(r.products for r in own)
    evidence = log_evidence(rule, found.moments, sum(r.log_evidence for r in own))
    # All of it stands in the first report: reports are summed.
    told = [
        replace(r, log_evidence=0.0 if i else evidence, log_evidence_error=o.log_evidence_error)
        for i, (r, o) in enumerate(zip(reports, own, strict=True))
    ]
    found.means, found.moments = model.in_task_order([m.mean for m in plain]), plain
    found.alpha = alpha
    sites, marginals = sites_of(model, rule), marginals_of(model, rule, SCALES, WEIGHTS)
    return Learned("ard", model, Outcome(found, told), sites, marginals)
