"""The M-step: α from the second moments, through the tie."""

from __future__ import annotations

from collections.abc import Sequence

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Model
from cofem.inference.moments import Moments
from cofem.inference.rectified import rectified_second_moment


def update_precision(model: Model, moments: Sequence[Moments]) -> Array:
    """Return α_j = n_j / Σ E|z_j|² over the tasks and coordinates that share it."""
    total = second_moment(model, moments[0])
    for task_moments in moments[1:]:
        total = total + second_moment(model, task_moments)
    return 1 / model.tie.average(total / len(moments))


def second_moment(model: Model, moments: Moments) -> Array:
    """Return E|z_j|² under the (rectified, if z ≥ 0) posterior."""
    if moments.variance is None:
        raise ValueError("an M-step needs variances")
    if model.nonnegative:
        return rectified_second_moment(moments.mean, moments.variance)
    return backend.abs_squared(moments.mean) + moments.variance
