"""The passes of shrinkage over NumPy vectors, each one compiled and without temporaries.

In single precision too, every number is computed in double.
"""

from __future__ import annotations

import numpy as np

from cofem.solvers.compiled import REORDERED, compiled


@compiled(**REORDERED)
def departures(
    estimate: np.ndarray,
    spread: np.ndarray,
    n_probes: int,
    alpha: np.ndarray,
    theta: np.ndarray,
    c: float,
) -> tuple[float, float]:
    """Return the sums of the estimates' variances, and of their squared distances to the field."""
    noise = departure = 0.0
    for j in range(alpha.shape[0]):
        h = np.float64(alpha[j]) / (alpha[j] + c * theta[j])
        # From a single probe: the largest that its variance can be.
        noise += np.float64(spread[j]) / n_probes if n_probes > 1 else h * (1 - h)
        departure += (estimate[j] - h) ** 2
    return noise, departure


@compiled(**REORDERED)
def bounded(
    estimate: np.ndarray,
    weight: float,
    alpha: np.ndarray,
    theta: np.ndarray,
    ceiling: np.ndarray,
    c: float,
) -> np.ndarray:
    """Return h/α of field and estimate together, h not below α/(α + ceiling) nor above one."""
    out = np.empty_like(alpha)
    for j in range(alpha.shape[0]):
        own = np.float64(alpha[j])
        h = weight * (own / (own + c * theta[j])) + (1 - weight) * estimate[j]
        out[j] = min(max(h, own / (own + ceiling[j])), 1.0) / own
    return out
