"""Exact posteriors of autoregressive traces, in time proportional to their length.

y_t = c_t + noise of precision β_t, c_t = Σ_k coefficients[k] c_{t−1−k} + z_t of order 1
or 2, z_t ~ N(0, 1/α_t). The posterior of z is Gaussian; its mean, variances, evidence
and samples come from recursions (Kalman filter and disturbance smoother in a form
without cancellation: de Jong 1989, Durbin & Koopman 2012), compiled, in double
precision, and batched: arrays have the trace as their last axis and any axes before
it. An entry of α may be infinite (that z_t is zero) and one of β zero (that sample
is missing, whatever number stands in y).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cofem.solvers.banded.traces import Traces


class BandedMoments(NamedTuple):
    """Posterior of the innovations z of traces.

    Attributes
    ----------
    mean, variance : ndarray (…, n)
        Exact mean and marginal variances of z.
    log_evidence : ndarray (…)
        log p(y | α, β) of every trace; missing samples do not count.
    log_det, quadratic : ndarray (…)
        log|C_y| and yᵀC_y⁻¹y, of which the evidence is made.
    freedom : ndarray (…)
        Σ_t (1 − α_t Σ_tt), the number of directions that the data determine.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: np.ndarray
    log_det: np.ndarray
    quadratic: np.ndarray
    freedom: np.ndarray


def moments(
    coefficients: Sequence[float], y: Any, alpha: Any, noise_precision: Any
) -> BandedMoments:
    """Return the exact posterior moments of z for every trace.

    Parameters
    ----------
    coefficients : sequence of 1 or 2 floats
        Of the recursion, as in :class:`cofem.operators.Autoregressive`.
    y : array (…, n)
        Real traces.
    alpha : array that broadcasts to y's shape
        Prior precisions, above zero; infinity pins a coordinate at zero.
    noise_precision : float or array that broadcasts to y's shape
        β: one number, (n,) per sample, (rows, 1) per trace; zero marks a missing sample.

    Examples
    --------
    One sample is ridge regression; two with γ = 1 share their events.

    >>> import numpy as np
    >>> found = moments((1.0,), np.array([[2.0], [4.0]]), np.ones(1), 3.0)
    >>> found.mean, found.variance
    (array([[1.5],
           [3. ]]), array([[0.25],
           [0.25]]))
    >>> found = moments((1.0,), np.array([1.0, 2.0]), np.array([1.0, np.inf]), 1.0)
    >>> found.mean, found.variance.round(3)
    (array([1., 0.]), array([0.333, 0.   ]))
    """
    problem = Traces(coefficients, y, alpha, noise_precision)
    mean, variance = problem.empty(), problem.empty()
    totals = np.empty((3, problem.rows))

    def one(i: int) -> None:
        y_row, s, beta, unit = problem.row(i)
        work = problem.work()
        log_det, quadratic = problem.recursions.filter_row(
            problem.coefficients, y_row, s, beta, work
        )
        problem.recursions.dual_row(problem.coefficients, work, mean[i])
        mean[i] *= s
        log_det -= np.count_nonzero(beta) * math.log(unit)
        totals[:2, i] = log_det, quadratic * unit
        if i == 0 or not problem.shared:
            totals[2, i] = problem.recursions.variance_row(
                problem.coefficients, s, beta, work, variance[i]
            )
            variance[i] /= unit

    problem.each_row(one)
    if problem.shared:
        variance[1:], totals[2, 1:] = variance[0], totals[2, 0]
    log_det, quadratic, freedom = totals.reshape(3, *problem.shape[:-1])
    observed = np.count_nonzero(problem.beta, axis=-1)
    return BandedMoments(
        mean=mean.reshape(problem.shape),
        variance=variance.reshape(problem.shape),
        log_evidence=-0.5 * (observed * math.log(2 * math.pi) + log_det + quadratic),
        log_det=log_det,
        quadratic=quadratic,
        freedom=freedom,
    )


def dual(coefficients: Sequence[float], y: Any, alpha: Any, noise_precision: Any) -> np.ndarray:
    """Return Φᵀ diag(β)(y − Φ mean), shape (…, n), without cancellation.

    It is α times the mean where α is finite, and where a coordinate is pinned at
    zero (α infinite) the slope of the log posterior in its direction.

    Examples
    --------
    >>> import numpy as np
    >>> dual((0.5,), np.array([1.0, 1.0]), np.array([np.inf, np.inf]), 2.0)
    array([3., 2.])
    """
    problem = Traces(coefficients, y, alpha, noise_precision)
    out = problem.empty()

    def one(i: int) -> None:
        y_row, s, beta, unit = problem.row(i)
        work = problem.work()
        problem.recursions.filter_row(problem.coefficients, y_row, s, beta, work)
        problem.recursions.dual_row(problem.coefficients, work, out[i])
        out[i] *= unit

    problem.each_row(one)
    return out.reshape(problem.shape)


def deviations(
    coefficients: Sequence[float], alpha: Any, noise_precision: Any, normal: Any
) -> np.ndarray:
    """Turn standard normals (…, n) into exact draws of z − mean, shape (…, n).

    A linear map whose square is the posterior covariance: forward sampling given
    the information of the data to come. α and β are (n,), the same for all draws
    (β may be a number).

    Examples
    --------
    >>> import numpy as np
    >>> root = deviations((0.9,), np.ones(2), 1.0, np.eye(2)).T
    >>> np.allclose(np.linalg.inv(root @ root.T), [[1 + 1.81, 0.9], [0.9, 2.0]])
    True
    """
    normal = np.asarray(normal, dtype=np.float64)
    n = normal.shape[-1]
    problem = Traces(coefficients, np.zeros(n), alpha, noise_precision)
    _, s, beta, unit = problem.row(0)
    rows = np.ascontiguousarray(normal.reshape(-1, n))
    out = np.empty_like(rows)
    problem.recursions.draw_rows(problem.coefficients, s, beta, rows, out)
    out /= math.sqrt(unit)
    return out.reshape(normal.shape)


def sample(
    coefficients: Sequence[float],
    y: Any,
    alpha: Any,
    noise_precision: Any,
    n_samples: int,
    seed: int = 0,
) -> np.ndarray:
    """Draw exact samples of z given one trace y (n,), shape (n_samples, n).

    Examples
    --------
    >>> import numpy as np
    >>> sample((0.9,), np.ones(4), np.ones(4), 1.0, n_samples=3).shape
    (3, 4)
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one trace (n,), got shape {y.shape}")
    centre = moments(coefficients, y, alpha, noise_precision).mean
    normal = np.random.default_rng(seed).standard_normal((n_samples, len(y)))
    draws: np.ndarray = centre + deviations(coefficients, alpha, noise_precision, normal)
    return draws
