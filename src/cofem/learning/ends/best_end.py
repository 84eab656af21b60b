"""The answer of several ends: the best of them, or an average of those of about equal evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cofem.learning.certificate import Certificate
from cofem.learning.ends.held_shares import HeldShares
from cofem.learning.ends.named import evidence_of_end
from cofem.learning.learned import Learned
from cofem.learning.loop import Outcome
from cofem.learning.sites.averages import LEAST_SHARE, averaged, worth_averaging
from cofem.learning.sites.findings import log_evidence, marginals_of, sites_of
from cofem.learning.sites.marginals import Marginals
from cofem.learning.starts import HELD, End, EStepMaker
from cofem.learning.stopping import Verdict

# By so much more evidence an end must have whose noise was held at first. If the model of another
# end were the true one, an end would have evidence larger by g with a probability of at most e^-g
# (Markov's inequality: the ratio of the two densities of y has mean one). FALSE_ALARM bounds it
# for all of these starts together.
FALSE_ALARM = 0.01
HELD_HANDICAP = math.log(len(HELD) / FALSE_ALARM)
FULL = (
    "z needs about as many coefficients as the data can tell apart, so neither these nor their "
    "intervals can be trusted: measure more, or find a basis in which z is sparser"
)


def best_of(
    ends: Sequence[End], make: EStepMaker, believed: bool, spent: int,
    held: HeldShares | None = None,
) -> Learned:  # fmt: skip
    """Report the ends, and return the best, or an average of them.

    Parameters
    ----------
    ends : sequence of End
    make : function
        Model → E-steps.
    believed : bool
        Whether the ends are; otherwise they are not averaged.
    spent : int
        The products that were made before.
    held : HeldShares
        Makes ends at other shares of non-zeros. Those of about equal evidence are averaged too.
    """
    before = [int(e.found.history["products"][-1]) for e in ends]
    fits = [reported(e, make, believed) for e in ends]
    if held is not None:
        more = list(_around(ends, fits, make, held))
        spent += sum(products for products, _ in more)
        pairs = [pair for _, pair in more if pair is not None]
        ends, fits = [*ends, *(e for e, _ in pairs)], [*fits, *(f for _, f in pairs)]
        before += [products for products, pair in more if pair is not None]
    best = best_fit(ends, fits, believed) if len(fits) > 1 else fits[0]
    after = [int(f.outcome.found.history["products"][-1]) for f in fits]
    best.outcome.found.history["products"][-1] = spent + sum(after) - sum(before)
    rests = believed and best.outcome.found.verdict.converged  # not ended early, as tol=0 asks
    if rests and all(end.full for end in ends if not end.share):
        best.outcome.found.troubles.append(FULL)
    return best


def _around(
    ends: Sequence[End], fits: Sequence[Learned], make: EStepMaker, held: HeldShares
) -> Iterator[tuple[int, tuple[End, Learned] | None]]:
    """Give ends at other shares, as long as they have enough evidence; first their products."""
    scores = [_score(*pair) for pair in zip(ends, fits, strict=True)]
    top = max(scores)
    for shares in held.around(ends[scores.index(top)]):
        for share in shares:
            end, products = held.end(share)
            if end is None or end.certificate is not Certificate.GIVEN:
                yield products, None
                break
            fit = reported(end, make, True)
            yield products, (end, fit)
            top = max(top, _score(end, fit))
            if not _score(end, fit) > top + math.log(LEAST_SHARE):
                break
        if held.stopped:
            break


def _score(end: End, fit: Learned) -> float:
    """Return the log evidence less the handicap."""
    value = fit.outcome.reports[0].log_evidence
    return value - HELD_HANDICAP * end.held if value == value else -math.inf


def best_fit(ends: Sequence[End], fits: list[Learned], believed: bool) -> Learned:
    """Return the fit of the largest evidence; an end with held noise needs more of it.

    If the ends are ``believed``, its marginals are averaged with those of other ends that have
    about as much.
    """
    scores = [_score(*pair) for pair in zip(ends, fits, strict=True)]
    first = max(range(len(fits)), key=scores.__getitem__)
    best, known = fits[first], [f.marginals for f in fits if isinstance(f.marginals, Marginals)]
    told = len(known) == len(fits) and not known[0].nonnegative and scores[first] > -math.inf
    own = [end.share > 0 for end in ends]
    shares = worth_averaging(known, scores, own) if believed and told else {}
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
    evidence = log_evidence(rule, moments, sum(r.log_evidence for r in reports))
    if not believed:  # the formula holds at a certified end only
        found.facts["formula"] = evidence
        evidence, products = evidence_of_end(rule, esteps)
        found.history["products"][-1] += products
    # All of it stands in the first report: reports are summed.
    reports = [replace(r, log_evidence=evidence if i == 0 else 0.0) for i, r in enumerate(reports)]
    if believed and found.verdict is Verdict.NOT_AT_REST:
        found.verdict = Verdict.CERTIFIED
    marginals = marginals_of(model, rule, *rule.prior.components(rule.visible))
    return Learned("mixture", model, Outcome(found, reports), sites_of(model, rule), marginals)
