"""How well the coefficients that a fit names explain the data by themselves.

The log evidence of an end that is not certified is a formula that holds only at a fixed point, and
the one of "ard" is as large as D free precisions can make it. So such fits are compared by what
both have in common, the set S of coefficients that they name: with normal priors on these and zero
everywhere else,

    log p(y | S, α_S) − log C(D, |S|) − PRECISION_COST |S|,

one term of the sum over all sets, each with its prior probability. p(y) itself is larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import Outcome
from cofem.learning.moments.gaussian import EStep
from cofem.learning.sites.matching import squared_lengths
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import LIKELY
from cofem.model.model import Model

# What the variance of a coefficient costs in evidence: the logarithm of how much broader its prior
# (the range of the slabs) is than its posterior.
PRECISION_COST = 2.0
# A coordinate that is not named has so many times the precision that the data give it: it is zero.
OUTSIDE = 1e8
# The learned prior names what is more probably non-zero than not; "ard" what is so many error bars
# away from zero (95 %).
ERROR_BARS = 1.96


def evidence_of_set(
    model: Model, esteps: Sequence[EStep], named: Array, precision: Array
) -> tuple[float, int]:
    """Return the log evidence of a set with its prior probability, and the products that took.

    Parameters
    ----------
    model : Model
        Its noise precisions are those of ``esteps``.
    named : boolean array (M,)
    precision : array (M,)
        The prior precisions of those that are named.
    """
    total, products = 0.0, 0
    for family, estep in zip(model.families, esteps, strict=True):
        xp = backend.namespace(precision)
        seen = family.noise_precision * squared_lengths(family, model, model.like)
        alpha = xp.where(named, precision, OUTSIDE * seen)
        moments = estep.moments(alpha, None, 1, False)
        total += estep.report(alpha, moments).log_evidence
        products += moments.products
    k, d = _sizes(model, backend.to_numpy(named))
    return total - _cost(k, d), products


def _cost(k: float, d: int) -> float:
    """Return what it costs to choose k of d coefficients, and a variance for each."""
    sets = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
    return sets + PRECISION_COST * k


def _sizes(model: Model, named: np.ndarray) -> tuple[int, int]:
    """Return how many coefficients, or groups of them, are named, and how many there are."""
    if model.tie.labels is None:
        return int(np.count_nonzero(named)), named.size
    labels = backend.to_numpy(model.tie.labels)
    return np.unique(labels[named]).size, np.unique(labels).size


def evidence_of_end(rule: Propagation, esteps: Sequence[EStep]) -> tuple[float, int]:
    """Return the log evidence of the set that an end of the learned prior names."""
    assert rule.shares is not None
    xp = backend.namespace(rule.shares.spike)
    each = [
        xp.mean(backend.abs_squared(mean) + variance, axis=0)
        for mean, variance in zip(rule.shares.mean, rule.shares.variance, strict=True)
    ]
    power = xp.mean(xp.stack(each), axis=0)
    least = xp.finfo(power.dtype).tiny
    named = rule.shares.spike < 1 - LIKELY
    return evidence_of_set(rule.model, esteps, named, 1 / xp.clip(power, min=least))


def evidence_of_ard(outcome: Outcome, model: Model, esteps: Sequence[EStep]) -> tuple[float, int]:
    """Return the log evidence of a fit with one precision each, less what its choices cost.

    What it names may not explain y by itself: similar columns share a coefficient, and none of
    them is clearly non-zero. So the evidence of all precisions counts too, with as many choices as
    directions are used, if it is larger.
    """
    xp = backend.namespace(outcome.found.alpha)
    far = [
        xp.any(backend.abs_squared(m.mean) > ERROR_BARS**2 * report.variance, axis=0)
        for m, report in zip(outcome.found.moments, outcome.reports, strict=True)
    ]
    named = xp.any(xp.stack(far), axis=0)
    value, products = evidence_of_set(model, esteps, named, outcome.found.alpha)
    _, d = _sizes(model, backend.to_numpy(named))
    used = sum(m.freedom for m in outcome.found.moments) / len(model.tasks)
    every = sum(report.log_evidence for report in outcome.reports)
    return max(value, every - _cost(min(max(used, 0.0), float(d)), d)), products
