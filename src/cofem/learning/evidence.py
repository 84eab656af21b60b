"""The log evidence under the learned prior, as expectation propagation has it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofem import backend
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.half_normal import HalfNormal
from cofem.learning.sites.propagation import Propagation


def log_evidence(
    rule: Propagation | HalfNormal, moments: Sequence[Moments], gaussian: float
) -> float:
    """Return log p(y): the Gaussian one with every site replaced by the prior.

    Parameters
    ----------
    rule : Propagation or HalfNormal
        At the noise precision of its model.
    moments : sequence of Moments
        Under its sites.
    gaussian : float
        log p(y) with normal priors of the sites' precisions and means zero.
    """
    assert rule.shares is not None
    half = 1.0 if backend.is_complex(rule.pulls[0]) else 0.5
    constant = math.log(math.pi / half)
    total = gaussian + rule.shares.log_evidence
    for seen, m, a, b in zip(rule.seen, moments, rule.precisions, rule.pulls, strict=True):
        xp = backend.namespace(a)
        tasks, c, v = m.sparse_mean.shape[0], seen.precision, seen.value
        power = backend.abs_squared
        # exp(−a u²/2 + b u) in place of a normal prior at zero,
        prior = tasks * (constant - xp.log(a))
        pulled = 2 * xp.sum(backend.real(backend.conj(b) * m.sparse_mean), axis=0)
        # and each site, together with its cavity, replaced by the prior.
        met = tasks * xp.log(c / (a + c)) + xp.sum(
            power(c * v + b) / (a + c) - c * power(v), axis=0
        )
        alone = tasks * (xp.log(c) - constant) - xp.sum(c * power(v), axis=0)
        terms = half * (prior + pulled - met + alone)
        total += float(xp.sum(xp.astype(terms, xp.float64)))
    return float(total)
