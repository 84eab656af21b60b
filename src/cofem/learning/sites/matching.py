"""Sites and cavities of one family of tasks, as arrays."""

from __future__ import annotations

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.shares import Seen
from cofem.model.model import Family, Model

# The smallest and the largest precision of a site, relative to that of its cavity.
WEAKEST, STRONGEST = 1e-3, 1e8
# The smallest precision of a cavity, relative to the precision that the column alone would give. It
# prevents a division by zero.
UNSEEN = 1e-10


def site_weight(seen: Seen, variance: Array, ratio: float) -> Array:
    """Return the site's precision over the cavity's, 1/(c Var) − 1, of the mean over the tasks."""
    xp = backend.namespace(variance)
    share = ratio * seen.precision * xp.mean(variance, axis=0)
    # The variance of a coordinate that is certainly zero may underflow to zero.
    return 1 / xp.clip(share, min=1 / (1 + STRONGEST)) - 1


def matching_sites(seen: Seen, mean: Array, variance: Array, ratio: float) -> tuple[Array, Array]:
    """Return the sites under which the coordinates have the mixture's moments."""
    xp = backend.namespace(mean)
    weight = xp.clip(site_weight(seen, variance, ratio), min=WEAKEST, max=STRONGEST)
    # mean (c + a) − v c
    pull = seen.precision * ((mean - seen.value) + mean * weight)
    return seen.precision * weight, pull


def typical_precision(seen: Seen) -> float:
    """Return the mean of c/θ, over the noise precision; a column of zeros hardly counts."""
    xp = backend.namespace(seen.precision)
    return float(xp.mean(seen.precision / seen.unit))


def squared_lengths(family: Family, model: Model, like: Array) -> Array:
    """Return θ: squared columns, or one number for all rows of R."""
    xp = backend.namespace(like)
    norms = family.operator.column_norms_squared(like)
    if model.sparsifier is not None:
        return xp.ones(
            (model.n_precisions,), dtype=norms.dtype, device=backend.device_of(norms)
        ) * xp.mean(norms)
    largest = xp.max(norms)
    # A column of zeros has no unit: it takes that of the longest.
    return xp.where(norms > 0, norms, xp.where(largest > 0, largest, xp.ones_like(largest)))
