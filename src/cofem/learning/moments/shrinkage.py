"""Fewer probes for the same accuracy: shrink their estimate towards a mean field.

While learning we need h_j = α_j Σ_jj in (0, 1]. K probes give an unbiased ĥ_j with
a variance of up to 1/(4K): at K = 8 some of many coordinates come out near zero
by chance, their α jumps, and the spread of α costs CG steps, the more the larger
D is. But the h_j are not unrelated. For matrices without structure the posterior
variances are those of scalar channels of one common precision c ≤ β (the state
evolution of approximate message passing),

    h_j ≈ α_j / (α_j + c θ_j),   θ_j = ‖φ_j‖²,

and c follows from the trace Σ h_j, which the probes know to one part in √(KD).
How far the probes depart from that field, beyond their own noise, says how much
to trust it (James & Stein 1961): the weight is the ratio of the probes' variance
to the mean squared departure. For random and DCT matrices it is near one and the
noise is all but gone; for a convolution about half; where the field is wrong it
goes to zero and the plain estimate remains.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.mean_field import field_factor
from cofem.solvers.compiled import REORDERED, compiled


class Shrunk(NamedTuple):
    """The combined estimate of h, and the weight, without axes, of the mean field in it."""

    h: Array
    weight: Array


def mean_field(alpha: Array, theta: Array, noise_precision: float, trace: Any) -> Array:
    """Return h_j = α_j/(α_j + cθ_j) with c in [0, β] chosen so that Σ h_j = ``trace``.

    Examples
    --------
    >>> import numpy as np
    >>> mean_field(np.array([1.0, 3.0]), np.ones(2), 10.0, trace=1.25).round(4)
    array([0.5 , 0.75])
    """
    c: Array = field_factor(alpha, theta, noise_precision, trace)
    return alpha / (alpha + c * theta)


def shrink(
    estimate: Array, variance: Array, n_probes: int, alpha: Array, theta: Array,
    noise_precision: float,
) -> Shrunk:  # fmt: skip
    """Combine the probes' estimate of h with the mean field.

    Parameters
    ----------
    estimate : array (D,)
        ĥ, unbiased.
    variance : array (D,)
        Sample variance of a single probe's estimate.
    n_probes : int
        K; the variance of ``estimate`` is variance / K.
    alpha, theta : array (D,)
        Prior precisions and squared column norms.
    noise_precision : float
        β.
    """
    xp = backend.namespace(alpha)
    field = mean_field(alpha, theta, noise_precision, xp.sum(estimate))
    # From a single probe: the largest that its variance can be.
    spread = variance / n_probes if n_probes > 1 else field * (1 - field)
    noise, departure = xp.mean(spread), xp.mean((estimate - field) ** 2)
    # One where the departure is all noise. Nothing waits for the number.
    more, one = departure > noise, xp.ones_like(noise)
    weight = xp.where(more, noise, one) / xp.where(more, departure, one)
    return Shrunk(weight * field + (1 - weight) * estimate, weight)


def bounded_variance(
    diagonal: Any, spread: Any, alpha: Array, theta: Any, ceiling: Any, *,
    n_probes: int, noise_precision: float, scaled: bool, shrinkage: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Return Σ_jj inside its exact bounds, and the trace Σ h_j that the probes found.

    Parameters
    ----------
    diagonal, spread : array (D,)
        The probes' estimate of h if they were ``scaled``, otherwise of Σ_jj, and the
        sample variance of a single one's.
    alpha, theta : array (D,)
        Prior precisions and squared column norms.
    ceiling : array (D,)
        At least β‖φ_j‖², so that h_j ≥ α_j/(α_j + ceiling_j).
    n_probes, noise_precision
        As for :func:`shrink`.
    scaled, shrinkage : bool
        See :class:`~cofem.CoFEM`.
    """
    xp = backend.namespace(alpha)
    if not scaled:
        diagonal, spread = diagonal * alpha, spread * alpha**2
    trace = xp.sum(diagonal, dtype=xp.float64)
    if backend.is_numpy(alpha):  # the same with less memory to go through
        c = weight = 0.0
        if shrinkage:
            c = field_factor(alpha, theta, noise_precision, trace)
            noise, departure = _departures(diagonal, spread, n_probes, alpha, theta, c)
            weight = noise / departure if departure > noise else 1.0
        return _bounded(diagonal, weight, alpha, theta, ceiling, c), trace
    if shrinkage:
        diagonal = shrink(diagonal, spread, n_probes, alpha, theta, noise_precision).h
    h = xp.clip(xp.maximum(diagonal, alpha / (alpha + ceiling)), max=1.0)
    return h / alpha, trace


def shrink_report(
    variance: Array, spread: Array, n_probes: int, alpha: Array, theta: Array,
    noise_precision: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Combine reported variances with the mean field, in relative terms.

    As in learning, but every coordinate's relative error counts the same, and no
    coordinate is moved by more than two of its own standard errors (limited
    translation, Efron & Morris 1972): where single columns are correlated the field
    is wrong for them, however well it describes the rest.

    Parameters
    ----------
    variance : array (D,)
        Unbiased estimates of Σ_jj.
    spread : array (D,)
        Standard deviation of a single probe's estimate.
    n_probes, alpha, theta, noise_precision
        As for :func:`shrink`.

    Returns
    -------
    variance, error : array (D,)
        The combined estimate and its standard error: the probes' noise that is left,
        and the spread of the true values about the field.
    """
    xp = backend.namespace(alpha)
    own = spread / math.sqrt(n_probes)
    n = alpha.shape[0]
    used = float(xp.sum(theta * variance))
    if n_probes < 2 or used <= 0:
        return variance, own
    # Σ_jj (α_j + cθ_j) should be one on average.
    c = (n - float(xp.sum(alpha * variance))) / used
    field = 1 / (alpha + min(max(c, 0.0), noise_precision) * theta)
    departure = float(xp.mean((variance / field - 1) ** 2))
    noise = float(xp.mean((own / field) ** 2))
    # The departure is itself known to √(2/D) only: never trust the field entirely.
    most = 1 / (1 + 2 * math.sqrt(2 / n))
    weight = min(noise / departure, most) if departure > 0 else most
    combined = weight * field + (1 - weight) * variance
    limited = xp.minimum(xp.maximum(combined, variance - 2 * own), variance + 2 * own)
    # In relative terms: squares of variances leave the range of single precision.
    relative = (1 - weight) ** 2 * (own / field) ** 2 + weight * (1 - weight) * noise
    error = field * xp.sqrt(relative)
    return limited, xp.where(limited == combined, error, own)


# The passes over NumPy vectors: no temporaries, and every number is computed in double.


@compiled(**REORDERED)
def _departures(
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
def _bounded(
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
