"""The M-step: α from the second moments, through the tie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.rectified import rectified_second_moment
from cofem.model.model import Model

# How far apart the precisions of the rows of R may lie.
SPAN = 1e10


def update_precision(model: Model, moments: Sequence[Moments]) -> Array:
    """Return α_j = n_j / Σ E|(Rx)_j|² over the tasks and coordinates that share it.

    n_j counts directions: one a coordinate and task, or what R leaves of them.
    """
    xp = backend.namespace(moments[0].mean)
    total = reduce(add, [_over_tasks(second_moment(model, m)) for m in moments])
    sizes = [m.mean.shape[0] for m in moments]
    if all(m.count is None for m in moments):
        alpha = sum(sizes) / model.tie.average(total)
    else:
        pairs = zip(sizes, moments, strict=True)
        count: Any = reduce(add, [n if m.count is None else n * m.count for n, m in pairs])
        alpha = model.tie.average(count) / model.tie.average(total)
    if model.sparsifier is None:
        return alpha
    # If R has more rows than columns, some α would otherwise grow without limit.
    return xp.minimum(alpha, SPAN * xp.min(alpha))


def _over_tasks(moment: Array) -> Array:
    """Return the sum over the rows; of a single one without another array."""
    return moment[0, :] if moment.shape[0] == 1 else backend.namespace(moment).sum(moment, axis=0)


def second_moment(model: Model, moments: Moments) -> Array:
    """Return E|(Rx)_j|², (L, M), under the (rectified, if z ≥ 0) posterior."""
    if moments.variance is None:
        raise ValueError("an M-step needs variances")
    if model.nonnegative:
        xp = backend.namespace(moments.mean)
        variance = xp.broadcast_to(moments.variance, moments.sparse_mean.shape)
        return rectified_second_moment(moments.sparse_mean, variance)
    return backend.abs_squared(moments.sparse_mean) + moments.variance
