"""What a rule with matched moments has found: sites, marginals and the log evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.marginals import Marginals
from cofem.learning.sites.matching import MatchedSites
from cofem.model.model import Model


def sites_of(model: Model, rule: MatchedSites) -> list[tuple[Array, Array]]:
    """Return precision and pull of every task."""
    families = {member: i for i, f in enumerate(model.families) for member in f.members}
    precisions = [rule.precisions[families[i]] for i in range(len(model.tasks))]
    return list(zip(precisions, model.in_task_order(rule.pulls), strict=True))


def marginals_of(
    model: Model, rule: MatchedSites, scales: np.ndarray, weights: np.ndarray
) -> Marginals:
    """Return the marginals, where the prior has these components; the first is the spike."""
    assert rule.shares is not None

    def rows(arrays: list[Array]) -> Array:
        placed = model.in_task_order(
            [
                a if a.ndim == 2 else backend.namespace(a).broadcast_to(a, s.value.shape)
                for a, s in zip(arrays, rule.seen, strict=True)
            ]
        )
        return backend.namespace(placed[0]).stack(placed)

    return Marginals(
        value=rows([s.value for s in rule.seen]),
        precision=rows([s.precision for s in rule.seen]),
        unit=rows([s.unit for s in rule.seen]),
        scales=scales,
        weights=weights,
        tie=model.tie,
        nonnegative=model.nonnegative,
        mean=rows(rule.shares.mean),
        variance=rows(rule.shares.variance),
        probability=rows([1 - rule.shares.spike] * len(rule.seen)),
    )


def log_evidence(rule: MatchedSites, moments: Sequence[Moments], gaussian: float) -> float:
    """Return log p(y): the Gaussian one with every site replaced by the prior.

    Parameters
    ----------
    rule : MatchedSites
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
