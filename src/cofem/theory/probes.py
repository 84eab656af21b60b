"""The standard deviation of an estimate of diag(Σ) by K probes, and bounds on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.arguments import whole_number
from cofem.theory.columns import active_gram, isometry_constant, positive
from cofem.theory.scaling import resolve_theta, spectral_departure

# α_j Σ_jj is at most 1; so much more is accepted as rounding.
LARGEST_SHARE = 1 + 1e-6
# An eigenvalue below n times this share of the largest is rounding.
ROUNDING = 1e-15


def probe_std(matrix: Any, n_probes: int) -> np.ndarray:
    """Return the standard deviation of every entry of the estimated diagonal, exactly.

    Lemma 1: with K random signs, ν_j = √(Σ_{j'≠j} M_jj'² / K). For a complex matrix the
    probes have modulus one and uniform phases, the real part is kept, and half of each
    |M_jj'|² counts.

    Parameters
    ----------
    matrix : array (D, D)
        The matrix whose diagonal is estimated, such as Σ.
    n_probes : int
        K.

    Returns
    -------
    np.ndarray (D,)

    Examples
    --------
    >>> probe_std(np.array([[5.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]]), n_probes=4)
    array([2.5, 1.5, 2. ])
    """
    K = whole_number("n_probes", n_probes, least=1)
    M = np.asarray(backend.to_numpy(matrix) if backend.is_array(matrix) else matrix)
    if M.dtype.kind not in "biufc":
        raise TypeError(f"matrix must hold numbers, got {M.dtype}")
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise ValueError(f"matrix must be square, got shape {M.shape}")
    if not np.all(np.isfinite(M)):
        raise ValueError("matrix must be finite in every entry")
    M = M.astype(np.complex128 if M.dtype.kind == "c" else np.float64)
    np.fill_diagonal(M, 0.0)
    halves = 0.5 if M.dtype.kind == "c" else 1.0
    return np.asarray(np.linalg.norm(M, axis=1) * math.sqrt(halves / K))


def std_bound(
    phi: Any, support: Any, noise_precision: float, n_probes: int, theta: Any = None
) -> float:
    """Return Theorem 1's bound on the standard deviation of s_j at every active j.

    K^-½ ‖Θ⁻¹Φ_SᴴΦ_S − I‖₂ / (β σ²_min(Φ_S)). It holds for unscaled random signs in the
    limit of EM, where α is infinite outside of S; there the standard deviation is zero.

    Parameters
    ----------
    phi : operator or matrix (N, D)
        Φ, in any form that ``fit`` takes.
    support : mask (D,) or indices
        S, the active coordinates. One product with ΦᴴΦ for each.
    noise_precision : float
        β.
    n_probes : int
        K.
    theta : None, "jacobi", "best", a positive number or an array (D,)
        Any Θ gives a bound. None is θ = 1, as in the paper's figure; "best" minimises
        over Θ, as the theorem does.

    Returns
    -------
    float
        Infinite if the active columns are linearly dependent.

    Examples
    --------
    >>> phi = np.eye(4)[:3] * [1.0, 2.0, 1.0, 1.0]
    >>> std_bound(phi, [0, 1], noise_precision=100.0, n_probes=9)
    0.01
    >>> std_bound(phi, [0, 1], noise_precision=100.0, n_probes=9, theta="best")
    0.0
    """
    beta = positive("noise_precision", noise_precision)
    K = whole_number("n_probes", n_probes, least=1)
    op, indices, gram = active_gram(phi, support)
    smallest = smallest_eigenvalue(gram)
    if smallest == 0:
        return math.inf
    xi = spectral_departure(gram, resolve_theta(theta, gram, indices, op.shape[1]))
    return xi / (math.sqrt(K) * beta * smallest)


def std_bound_rip(delta: float, noise_precision: float, n_probes: int) -> float:
    """Return the bound of :func:`std_bound` for every Φ with restricted isometry.

    δ / (β (1 − δ) √K), for every support of d coordinates if Φ is a (d, δ) isometry.

    Parameters
    ----------
    delta : float
        δ in [0, 1).
    noise_precision : float
        β.
    n_probes : int
        K.

    Examples
    --------
    >>> std_bound_rip(0.5, noise_precision=100.0, n_probes=4)
    0.005
    """
    constant = isometry_constant(delta)
    beta = positive("noise_precision", noise_precision)
    K = whole_number("n_probes", n_probes, least=1)
    return constant / (beta * (1 - constant) * math.sqrt(K))


def assumption_free_std_bound(precision: Any, n_probes: int, variance: Any = None) -> Any:
    """Bound the standard deviation of s_j for probes scaled by √α, whatever Φ is.

    Σ = α^-½ H α^-½, and H has its eigenvalues in (0, 1], so that (H²)_jj ≤ H_jj. The
    estimate of h_j = α_jΣ_jj then has a variance of [(H²)_jj − h_j²]/K ≤ h_j(1 − h_j)/K,
    and s_j a standard deviation of at most √(h_j(1 − h_j)/K)/α_j ≤ 1/(2 α_j √K). No
    isometry, no limit of EM, no dimension.

    Parameters
    ----------
    precision : float or array
        α.
    n_probes : int
        K.
    variance : float or array of the same shape, optional
        Σ_jj, if known: the first of the two bounds. Without it, the second.

    Returns
    -------
    float or np.ndarray, of the shape of ``precision``

    Examples
    --------
    >>> assumption_free_std_bound(np.array([1.0, 100.0]), n_probes=25)
    array([0.1  , 0.001])
    >>> float(assumption_free_std_bound(2.0, n_probes=25, variance=0.1).round(6))
    0.04
    """
    K = whole_number("n_probes", n_probes, least=1)
    alpha = _positive_array("precision", precision)
    if variance is None:
        bound = 0.5 / (alpha * math.sqrt(K))
    else:
        sigma = _positive_array("variance", variance)
        if sigma.shape != alpha.shape:
            raise ValueError(f"variance has shape {sigma.shape}, precision {alpha.shape}")
        h = alpha * sigma
        if np.any(h > LARGEST_SHARE):
            raise ValueError("variance must not exceed that of the prior, 1/precision")
        h = np.minimum(h, 1.0)
        bound = np.sqrt(h * (1 - h) / K) / alpha
    return bound[()]


def smallest_eigenvalue(gram: np.ndarray) -> float:
    """Return σ²_min(Φ_S); zero if it is not larger than rounding."""
    values = np.linalg.eigvalsh(gram)
    return float(values[0]) if values[0] > len(gram) * ROUNDING * values[-1] else 0.0


def _positive_array(name: str, value: Any) -> np.ndarray:
    try:
        given = np.asarray(
            backend.to_numpy(value) if backend.is_array(value) else value, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {value!r}") from None
    if not (np.all(np.isfinite(given)) and np.all(given > 0)):
        raise ValueError(f"{name} must be positive and finite in every entry")
    return given
