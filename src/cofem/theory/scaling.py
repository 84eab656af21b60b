"""The diagonal Θ in ‖Θ⁻¹Φ_SᴴΦ_S − I‖₂, the quantity on which both theorems depend.

With t = 1/θ the matrix diag(t) G − I is linear in t and the norm is convex, so the
infimum over Θ that Theorem 1 asks for is a convex problem, and what a descent finds is
the infimum itself. The norm has corners; they are rounded off by
τ log Σ 2 cosh(σ_i/τ), which exceeds the largest singular value σ_1 by at most
τ log 2d, and τ is lowered in stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from cofem import backend
from cofem.theory.columns import active_gram

# The width τ of the smoothed maximum in each stage, relative to the norm.
ROUNDINGS = (0.1, 0.01, 0.001)
STEPS_PER_STAGE = 150
# Scales stay positive, relative to those at the start. The tolerances of L-BFGS-B are so small that
# the number of steps decides.
LEAST_SCALE, FTOL, GTOL = 1e-6, 1e-12, 1e-9


def departure(phi: Any, support: Any, theta: Any = None) -> float:
    """Return ξ = ‖Θ⁻¹Φ_SᴴΦ_S − I‖₂, the largest singular value.

    Parameters
    ----------
    phi : operator or matrix (N, D)
        Φ, in any form that ``fit`` takes.
    support : mask (D,) or indices
        S, the active coordinates.
    theta : None, "jacobi", "best", a positive number or an array (D,)
        None is the paper's θ = 1; "jacobi" is θ_j = ‖φ_j‖²; "best" minimises ξ.

    Examples
    --------
    >>> phi = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> departure(phi, [0, 1]), departure(phi, [0, 1], theta="jacobi")
    (3.0, 0.0)
    """
    op, indices, gram = active_gram(phi, support)
    return spectral_departure(gram, resolve_theta(theta, gram, indices, op.shape[1]))


def best_theta(phi: Any, support: Any) -> np.ndarray:
    """Return the θ of the active columns, (d,), that minimises ξ; see :func:`departure`.

    Never worse than Jacobi's θ, than θ = 1, or than the best common multiple of either.
    One singular value decomposition of a d × d matrix for each of a few hundred steps:
    seconds for d = 100, minutes for d = 500.

    Examples
    --------
    >>> phi = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> best_theta(phi, [0, 1])
    array([4., 1.])
    """
    return minimise_departure(active_gram(phi, support)[2])


def spectral_departure(gram: np.ndarray, theta: np.ndarray) -> float:
    """Return ‖diag(θ)⁻¹G − I‖₂ for a Gram matrix (d, d) and θ (d,)."""
    return float(np.linalg.norm(gram / theta[:, None] - np.eye(len(theta)), 2))


def resolve_theta(theta: Any, gram: np.ndarray, indices: np.ndarray, n_columns: int) -> np.ndarray:
    """Return θ on the active columns, (d,), from what the caller gave."""
    if theta is None:
        return np.ones(indices.size)
    if isinstance(theta, str):
        if theta == "best":
            return minimise_departure(gram)
        if theta == "jacobi":
            return _column_norms(gram)
        raise ValueError(f'theta must be None, "jacobi", "best" or positive, got {theta!r}')
    if backend.is_array(theta):
        theta = backend.to_numpy(theta)
    try:
        given = np.asarray(theta, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"theta must be a name or numbers, got {theta!r}") from None
    if given.shape not in ((), (n_columns,)):
        raise ValueError(f"theta must have shape ({n_columns},), got {given.shape}")
    if not (np.all(np.isfinite(given)) and np.all(given > 0)):
        raise ValueError("theta must be positive and finite in every entry")
    return np.array(np.broadcast_to(given, (n_columns,))[indices])


def minimise_departure(gram: np.ndarray) -> np.ndarray:
    """Return the θ, (d,), with the smallest ‖diag(θ)⁻¹G − I‖₂."""
    jacobi = _column_norms(gram)
    candidates = [np.ones(len(jacobi)), jacobi, *(
        shape * _best_multiple(gram, shape) for shape in (np.ones(len(jacobi)), jacobi)
    )]  # fmt: skip
    best = min(candidates, key=lambda theta: spectral_departure(gram, theta))
    for rounding in ROUNDINGS:
        found = _descend(gram, best, rounding)
        if spectral_departure(gram, found) < spectral_departure(gram, best):
            best = found
    return best


def _best_multiple(gram: np.ndarray, theta: np.ndarray) -> float:
    """Return the c for which the eigenvalues of Θ^-½GΘ^-½/c lie symmetrically about one.

    For θ = 1 that is the best multiple; for another θ, whose ξ is no longer set by
    eigenvalues alone, it is where the descent may start.
    """
    root = np.sqrt(theta)
    values = scipy.linalg.eigvalsh(gram / (root[:, None] * root))
    return float(values[0] + values[-1]) / 2


def _column_norms(gram: np.ndarray) -> np.ndarray:
    norms = np.diag(gram).real.copy()
    if not np.all(norms > 0):
        raise ValueError("support has a column of phi that is zero")
    return norms


def _descend(gram: np.ndarray, theta: np.ndarray, rounding: float) -> np.ndarray:
    """Minimise the rounded norm over t = 1/θ > 0, starting from ``theta``."""
    size = len(theta)
    start = 1.0 / theta
    reach = rounding * spectral_departure(gram, theta) / np.log(2 * size)
    if reach <= 0:
        return theta

    def value_and_gradient(u: np.ndarray) -> tuple[float, np.ndarray]:
        t = start * u
        left, values, right = scipy.linalg.svd(t[:, None] * gram - np.eye(size), check_finite=False)
        # log Σ 2 cosh(σ/τ) and its derivative, with the largest exponential taken out.
        up = np.exp((values - values[0]) / reach)
        down = np.exp(-(values + values[0]) / reach)
        total = np.sum(up + down)
        pull = (left * ((up - down) / total)) @ right  # the gradient with respect to E
        slope = np.sum((pull.conj() * gram).real, axis=1)
        return float(values[0] + reach * np.log(total)), slope * start

    found = scipy.optimize.minimize(
        value_and_gradient,
        np.ones(size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(LEAST_SCALE, None)] * size,
        options={"maxiter": STEPS_PER_STAGE, "ftol": FTOL, "gtol": GTOL},
    )
    return np.asarray(1.0 / (start * found.x))
