"""What a site rule has found, in the order of the tasks."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.marginals import Marginals
from cofem.learning.sites.shares import Seen, Shares
from cofem.model.model import Model


class EndOfRule(Protocol):
    """A rule that has seen every coordinate under its last sites."""

    precisions: list[Array]
    pulls: list[Array]
    seen: list[Seen]
    shares: Shares | None


def sites_of(model: Model, rule: EndOfRule) -> list[tuple[Array, Array]]:
    """Return precision and pull of every task."""
    families = {member: i for i, f in enumerate(model.families) for member in f.members}
    precisions = [rule.precisions[families[i]] for i in range(len(model.tasks))]
    return list(zip(precisions, model.in_task_order(rule.pulls), strict=True))


def marginals_of(
    model: Model, rule: EndOfRule, scales: np.ndarray, weights: np.ndarray
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
