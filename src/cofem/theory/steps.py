"""How many conjugate-gradient steps: Theorem 2, its corollary, and a sharper form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem.arguments import whole_number
from cofem.theory.columns import active_gram, isometry_constant
from cofem.theory.probes import smallest_eigenvalue
from cofem.theory.scaling import resolve_theta, spectral_departure


def residual_bound(phi: Any, support: Any, steps: int, theta: Any = None) -> float:
    """Return Theorem 2's bound on the relative error after U preconditioned CG steps.

    2 exp(−U √((1 − ξ)/(1 + ξ))), ξ = ‖Θ⁻¹Φ_SᴴΦ_S − I‖₂, for M = diag(βθ + α) in the limit
    of EM, for every right-hand side and a start from zero. The error is ‖r‖ relative to
    that of the right-hand side, both in the norm of the inverse preconditioned matrix.

    Parameters
    ----------
    phi : operator or matrix (N, D)
        Φ, in any form that ``fit`` takes.
    support : mask (D,) or indices
        S, the active coordinates.
    steps : int
        U.
    theta : None, "jacobi", "best", a positive number or an array (D,)
        None is θ = 1, the paper's; "best" minimises ξ.

    Returns
    -------
    float
        2, which says nothing, if ξ ≥ 1; :func:`condition_bound` then still holds.

    Examples
    --------
    >>> phi = np.eye(4)[:3]
    >>> round(residual_bound(phi, [0, 1], steps=10), 8)
    9.08e-05
    """
    U = whole_number("steps", steps, least=0)
    op, indices, gram = active_gram(phi, support)
    xi = spectral_departure(gram, resolve_theta(theta, gram, indices, op.shape[1]))
    return _exponential(xi, U)


def residual_bound_rip(delta: float, steps: int) -> float:
    """Return the bound of :func:`residual_bound` for every Φ with restricted isometry.

    2 exp(−U √((1 − δ)/(1 + δ))), with θ = 1 and any support of d coordinates, if Φ is a
    (d, δ) isometry.

    Parameters
    ----------
    delta : float
        δ in [0, 1).
    steps : int
        U.

    Examples
    --------
    >>> round(residual_bound_rip(0.6, steps=20), 8)
    9.08e-05
    """
    return _exponential(isometry_constant(delta), whole_number("steps", steps, least=0))


def condition_bound(phi: Any, support: Any, theta: Any = "jacobi") -> float:
    """Bound the condition number of the preconditioned matrix in the limit of EM.

    max(1, λ_max)/min(1, λ_min), λ the eigenvalues of Θ^-½Φ_SᴴΦ_SΘ^-½. The matrix is
    D²Θ^-½Φ_SᴴΦ_SΘ^-½ + (I − D²) with D² = βθ/(βθ + α) between 0 and 1, written
    symmetrically, and the identity outside of S: a mixture, whose eigenvalues lie between
    those of its parts. Never above Theorem 2's (1 + ξ)/(1 − ξ), and finite where ξ ≥ 1.

    Parameters
    ----------
    phi, support
        As for :func:`residual_bound`.
    theta : None, "jacobi", "best", a positive number or an array (D,)
        "jacobi", this library's default, unless given.

    Examples
    --------
    >>> condition_bound(np.array([[1.0, 0.6], [0.0, 0.8]]), [0, 1])
    4.0
    """
    op, indices, gram = active_gram(phi, support)
    low, high = scaled_range(gram, resolve_theta(theta, gram, indices, op.shape[1]))
    return condition_from_range(low, high)


def steps_needed(condition: float, rtol: float) -> int:
    """Return a number of CG steps U after which ‖r‖ is guaranteed to be below rtol ‖b‖.

    2 √κ ((√κ − 1)/(√κ + 1))^U ≤ rtol: the classical bound, and the factor √κ that turns
    the norm of the theory into the one in which the solver measures.

    Parameters
    ----------
    condition : float
        κ ≥ 1, such as :func:`condition_bound` gives.
    rtol : float
        The relative residual asked for, between 0 and 1.

    Examples
    --------
    >>> steps_needed(4.0, rtol=1e-4)
    10
    """
    if not condition >= 1:
        raise ValueError(f"condition must be at least 1, got {condition!r}")
    if not 0 < rtol < 1:
        raise ValueError(f"rtol must lie between 0 and 1, got {rtol!r}")
    if math.isinf(condition):
        raise ValueError("condition is infinite: the active columns are linearly dependent")
    root = math.sqrt(condition)
    rate = (root - 1) / (root + 1)
    if rate == 0:
        return 1
    return max(1, math.ceil(math.log(rtol / (2 * root)) / math.log(rate)))


def scaled_range(gram: np.ndarray, theta: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest eigenvalue of Θ^-½GΘ^-½."""
    root = np.sqrt(theta)
    scaled = gram / (root[:, None] * root)
    return smallest_eigenvalue(scaled), float(np.linalg.eigvalsh(scaled)[-1])


def condition_from_range(low: float, high: float) -> float:
    """Return max(1, high)/min(1, low), infinite for low = 0."""
    return math.inf if low <= 0 else max(1.0, high) / min(1.0, low)


def _exponential(xi: float, steps: int) -> float:
    return 2.0 if xi >= 1 else 2.0 * math.exp(-steps * math.sqrt((1 - xi) / (1 + xi)))
