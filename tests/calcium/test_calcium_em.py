"""The compiled fit against dense matrices, SciPy and mpmath."""

import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.signal

from cofem.calcium.half_cauchy.em import RELAXATION, fit_trace, rectified_row
from cofem.calcium.half_cauchy.kernel import kernel_from_times
from cofem.calcium.simulation import simulate
from cofem.calcium.traces import log_response, white_noise
from cofem.learning.sites.rectified import rectified_second_moment
from cofem.solvers.banded import factors as banded

KERNELS = [kernel_from_times(0.4, 0.0, 30.0), kernel_from_times(0.4, 0.06, 30.0)]


def response(kernel, n):
    impulse = np.eye(1, n)[0]
    return scipy.signal.lfilter([1.0], [1.0, *-kernel.coefficients], impulse)


def drawn(kernel, n, seed, missing=0):
    """A trace in units of its noise, with events, and its mask."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.uniform(size=n) < 0.05, rng.exponential(8.0, size=n), 0.0) / kernel.peak
    y = scipy.signal.lfilter([1.0], [1.0, *-kernel.coefficients], z) + rng.standard_normal(n)
    beta = np.ones(n)
    beta[rng.choice(n, size=missing, replace=False)] = 0.0
    return y, beta


def dense_em(kernel, y, beta, iterations):
    """The same EM with a dense matrix; returns mean, variance, q, log evidence."""
    n = len(y)
    phi = scipy.linalg.toeplitz(response(kernel, n), np.zeros(n))
    seen = beta > 0
    u2 = 1 / np.sum(response(kernel, 5000) ** 2)
    q = np.full(n, 1 / np.max(response(kernel, 5000)) ** 2)
    relaxation, change, last = RELAXATION, np.inf, np.zeros(n)
    for i in range(iterations):
        rows = phi[seen]
        covariance = np.eye(len(rows)) + (rows * q) @ rows.T
        gain = q[:, None] * np.linalg.solve(covariance, rows).T
        mean = gain @ y[seen]
        variance = np.diag(np.diag(q) - gain @ rows * q)
        change, before = np.linalg.norm(mean - last) / np.linalg.norm(mean), change
        relaxation, last = (0.0 if change > before else relaxation), mean
        if i < iterations - 1:
            fresh = 0.5 * (rectified_second_moment(mean, variance) + u2)
            q = np.maximum(fresh + relaxation * (fresh - q), 0.5 * u2)
    evidence = scipy.stats.multivariate_normal(cov=covariance).logpdf(y[seen])
    return mean, variance, q, evidence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0, 15])
@pytest.mark.parametrize("kernel", KERNELS, ids=["order 1", "order 2"])
def test_every_iteration_is_that_of_dense_em(kernel, missing, seed):
    y, beta = drawn(kernel, 120, seed, missing)
    for iterations in (1, 2, 7):
        found = fit_trace(kernel, y, beta, max_iter=iterations, tol=0)
        mean, variance, q, evidence = dense_em(kernel, y, beta, iterations)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.variance, variance, rtol=1e-7)
        np.testing.assert_allclose(found.prior_variance, q, rtol=1e-7)
        assert found.log_evidence == pytest.approx(evidence, rel=1e-10)
        assert found.iterations == iterations


@pytest.mark.parametrize("kernel", KERNELS, ids=["order 1", "order 2"])
def test_moments_are_those_of_the_banded_posterior(kernel):
    y, beta = drawn(kernel, 2000, 0, missing=100)
    found = fit_trace(kernel, y, beta)
    exact = banded.moments(kernel.coefficients, y, 1 / found.prior_variance, beta)
    np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.variance, exact.variance, rtol=1e-9)
    assert found.log_evidence == pytest.approx(float(exact.log_evidence), rel=1e-11)


def test_the_fixed_point_maximises_the_score():
    """At the end no single prior variance can be moved to a better score."""
    kernel = KERNELS[0]
    y, beta = drawn(kernel, 60, 1)
    found = fit_trace(kernel, y, beta, max_iter=5000, tol=1e-13)
    u2 = 1 / kernel.norm**2
    gaussian = 0.5 * (rectified_second_moment(found.mean, found.variance) + u2)
    np.testing.assert_allclose(found.prior_variance, gaussian, rtol=1e-6)


def test_the_score_is_evidence_and_hyperprior():
    kernel = KERNELS[0]
    y, beta = drawn(kernel, 80, 2)
    found = fit_trace(kernel, y, beta, max_iter=4, tol=0)
    _, _, q, evidence = dense_em(kernel, y, beta, 4)
    # 1/q ~ Gamma(½, rate ½u²), as a density of log q: times 1/q.
    prior = scipy.stats.gamma(0.5, scale=2 * kernel.norm**2)
    assert found.score == pytest.approx(
        evidence + np.sum(prior.logpdf(1 / q) - np.log(q)), rel=1e-9
    )


@pytest.mark.parametrize("t", [-40.0, -12.0, -3.01, -2.99, -1.0, 0.0, 2.0, 12.0, 40.0])
def test_rectified_moments_against_mpmath(t):
    with mpmath.workdps(60):
        x = mpmath.mpf(t)
        hazard = mpmath.npdf(x) / mpmath.ncdf(x)
        first, spread = x + hazard, 1 - hazard * (x + hazard)
        expected = float(0.3 * first), float(0.3 * mpmath.sqrt(spread))
    mean, std = np.empty(1), np.empty(1)
    rectified_row(np.array([0.3 * t]), np.array([0.09]), mean, std)
    np.testing.assert_allclose((mean[0], std[0]), expected, rtol=1e-9)


@pytest.mark.parametrize("rate", [8.0, 60.0, 160.0])
@pytest.mark.parametrize("tau_r", [0.0, 0.01, 0.05, 0.2])
def test_peak_and_norm_are_the_kernels_own(rate, tau_r):
    kernel = kernel_from_times(0.7, tau_r, rate)
    h = response(kernel, int(20 * rate))
    assert kernel.peak == pytest.approx(h.max(), rel=1e-9)
    assert kernel.norm == pytest.approx(math.sqrt(np.sum(h * h)), rel=1e-9)


def test_a_double_pole_has_a_kernel():
    kernel = kernel_from_times(0.3, 0.3, 30.0)
    assert kernel.peak == pytest.approx(response(kernel, 600).max(), rel=1e-5)


@pytest.mark.parametrize("seed", range(160, 164))
def test_a_fit_that_swings_falls_back_to_plain_em(seed):
    """Nearly without noise, over-relaxed steps alone would cycle for ever."""
    kernel = kernel_from_times(0.267, 0.0473, 30.0)
    dff = 100 * simulate(n_cells=2, n_frames=1694, noise_std=0.01, seed=seed)[0]
    for row in dff:
        x = log_response(row - np.median(row))
        y = x / white_noise(x, 30.0)
        assert fit_trace(kernel, y, np.ones(len(y)), max_iter=200).change <= 1e-2
