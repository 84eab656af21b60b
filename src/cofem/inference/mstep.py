"""The M-step: α from the second moments, through the tie."""

from __future__ import annotations

from collections.abc import Sequence

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Model
from cofem.inference.moments import Moments
from cofem.inference.rectified import rectified_second_moment

# How far apart the precisions of the rows of R may lie.
SPAN = 1e10


def update_precision(model: Model, moments: Sequence[Moments]) -> Array:
    """Return α_j = n_j / Σ E|(Rx)_j|² over the tasks and coordinates that share it.

    n_j counts directions: one a coordinate and task, or what R leaves of them.
    """
    xp = backend.namespace(moments[0].mean)
    total: Array = 0.0
    count: Array = 0.0
    for family in moments:
        total = total + xp.sum(second_moment(model, family), axis=0)
        tasks = family.mean.shape[0]
        count = count + (tasks if family.count is None else tasks * family.count)
    if all(m.count is None for m in moments):
        alpha = 1 / model.tie.average(total / count)
    else:
        alpha = model.tie.average(count) / model.tie.average(total)
    if model.sparsifier is None:
        return alpha
    # Rows of an overcomplete R, counted as directions, drive some α up without end.
    return xp.minimum(alpha, SPAN * xp.min(alpha))


def second_moment(model: Model, moments: Moments) -> Array:
    """Return E|(Rx)_j|², (L, M), under the (rectified, if z ≥ 0) posterior."""
    if moments.variance is None:
        raise ValueError("an M-step needs variances")
    if model.nonnegative:
        xp = backend.namespace(moments.mean)
        variance = xp.broadcast_to(moments.variance, moments.sparse_mean.shape)
        return rectified_second_moment(moments.sparse_mean, variance)
    return backend.abs_squared(moments.sparse_mean) + moments.variance
