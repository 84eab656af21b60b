"""Whether columns are so coherent that few, shrunk probes are misled."""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.cavities import LOOKED_AT
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.solvers.mean_field import field_factor


def lowest_at_end(
    estep: CovarianceFreeEStep, alpha: Array, mean: Array, variance: Array
) -> tuple[float, int]:
    """Return how far the mean field is above the exact cavities of the largest coefficients.

    See :func:`~cofem.learning.moments.cavities.lowest_ratio`; also the products that took.

    Parameters
    ----------
    mean, variance : arrays (L, D) and (D,)
        Of the posterior at ``alpha``.
    """
    family = estep.family
    theta = family.operator.column_norms_squared(alpha)
    xp = backend.namespace(alpha)
    c = field_factor(alpha, theta, family.noise_precision, xp.sum(alpha * variance))
    power = backend.to_numpy(xp.sum(backend.abs_squared(mean), axis=0) * theta)
    largest = np.sort(np.argsort(-power)[:LOOKED_AT])
    return estep.spot_check(alpha, c * theta, largest)
