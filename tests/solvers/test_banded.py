"""Banded posteriors against dense algebra in 60 digits: moments and evidence."""

import mpmath
import numpy as np
import pytest
from banded_cases import BOTH_ORDERS, KERNELS, dense, draw, exact_precision, tame
from scipy.signal import lfilter
from scipy.stats import multivariate_normal

from cofem.solvers.banded import factors as banded


def exact(kernel, y, alpha, beta):
    """Mean, Σ_i |∂mean_j/∂y_i||y_i|, variance and evidence by dense algebra in 60 digits."""
    with mpmath.workdps(60):
        n = len(y)
        phi, A = exact_precision(kernel, alpha, beta)
        y, alpha, beta = (
            mpmath.matrix([mpmath.mpf(float(x)) for x in v]) for v in (y, alpha, beta)
        )
        covariance = mpmath.inverse(A)
        weights = covariance * phi.T * mpmath.diag(beta)
        mean = weights * y
        size = [mpmath.fsum(abs(weights[j, i] * y[i]) for i in range(n)) for j in range(n)]
        residual = y - phi * mean
        L = mpmath.cholesky(A)
        log_det = 2 * mpmath.fsum(mpmath.log(L[i, i]) for i in range(n))
        log_det -= mpmath.fsum(mpmath.log(a) for a in alpha)
        log_det -= mpmath.fsum(mpmath.log(b) for b in beta if b > 0)
        quadratic = mpmath.fsum(
            beta[i] * residual[i] ** 2 + alpha[i] * mean[i] ** 2 for i in range(n)
        )
        seen = sum(b > 0 for b in beta)
        evidence = -(seen * mpmath.log(2 * mpmath.pi) + log_det + quadratic) / 2
        return mean, size, [covariance[j, j] for j in range(n)], evidence, log_det, quadratic


def relative(found, truth, size):
    """The largest |found − truth| / size, in the oracle's own digits."""
    with mpmath.workdps(60):
        triples = zip(found, truth, size, strict=True)
        return float(max(abs(mpmath.mpf(float(f)) - t) / s for f, t, s in triples if s > 0))


@pytest.mark.parametrize("kind", ["wide", "events", "uneven"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_right_to_rounding_where_alpha_spans_twenty_orders(kernel, kind):
    seed = sum(map(ord, kind)) + len(kernel)
    y, alpha, beta = draw(kernel, seed, 20, kind)
    found = banded.moments(kernel, y, alpha, beta)
    mean, size, variance, evidence, log_det, quadratic = exact(kernel, y, alpha, beta)
    assert relative(found.variance, variance, variance) < 1e-12
    # A mean may be zero by chance: its scale is what the data's entries contribute.
    assert relative(found.mean, mean, size) < 1e-11
    assert relative([found.log_evidence], [evidence], [abs(log_det) + quadratic]) < 1e-12
    freedom = [1 - a * v for a, v in zip(alpha, variance, strict=True)]
    assert float(found.freedom) == pytest.approx(float(sum(freedom)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wide", "events", "uneven"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("seed", range(2))
def test_right_to_rounding_on_longer_traces(kernel, kind, seed):
    y, alpha, beta = draw(kernel, seed, 40, kind)
    found = banded.moments(kernel, y, alpha, beta)
    mean, size, variance, *_ = exact(kernel, y, alpha, beta)
    assert relative(found.variance, variance, variance) < 1e-11
    assert relative(found.mean, mean, size) < 1e-10


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_pinned_coordinates_leave_the_model(kernel, seed):
    y, alpha, beta = tame(kernel, seed)
    pinned = np.random.default_rng(seed).random(len(y)) < 0.6
    pinned[:2] = True  # nothing is known of the state at first
    found = banded.moments(kernel, y, np.where(pinned, np.inf, alpha), beta)
    phi = dense(kernel, len(y))
    kept = phi[:, ~pinned]
    covariance = np.linalg.inv(kept.T @ (beta[:, None] * kept) + np.diag(alpha[~pinned]))
    mean = covariance @ kept.T @ (beta * y)
    np.testing.assert_allclose(found.mean[~pinned], mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.variance[~pinned], np.diag(covariance), rtol=1e-9)
    assert not found.mean[pinned].any()
    assert not found.variance[pinned].any()
    slope = banded.dual(kernel, y, np.where(pinned, np.inf, alpha), beta)
    residual = beta * (y - kept @ mean)
    np.testing.assert_allclose(slope, phi.T @ residual, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_all_pinned_is_no_model_at_all(kernel):
    y = np.arange(5.0)
    found = banded.moments(kernel, y, np.full(5, np.inf), 2.0)
    assert not found.mean.any()
    assert not found.variance.any()
    assert found.log_evidence == pytest.approx(
        multivariate_normal(np.zeros(5), np.eye(5) / 2).logpdf(y), rel=1e-13
    )


@pytest.mark.parametrize("kernel", [*BOTH_ORDERS, (0.0, -0.9)])
@pytest.mark.parametrize("seed", range(3))
def test_missing_samples_are_as_if_never_measured(kernel, seed):
    y, alpha, beta = tame(kernel, seed)
    missing = np.random.default_rng(seed).random(len(y)) < 0.5
    missing[[0, -2, -1]] = True
    found = banded.moments(
        kernel, np.where(missing, np.nan, y), alpha, np.where(missing, 0.0, beta)
    )
    phi = dense(kernel, len(y))[~missing]
    covariance = np.linalg.inv(phi.T @ (beta[~missing, None] * phi) + np.diag(alpha))
    mean = covariance @ phi.T @ (beta * y)[~missing]
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-9 * np.max(np.abs(mean)))
    np.testing.assert_allclose(found.variance, np.diag(covariance), rtol=1e-9)
    C = np.diag(1 / beta[~missing]) + (phi / alpha) @ phi.T
    logpdf = multivariate_normal(np.zeros(len(C)), C).logpdf(y[~missing])
    assert found.log_evidence == pytest.approx(logpdf, rel=1e-10)


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_evidence_of_a_long_trace_neither_over_nor_underflows(kernel):
    n = 1000
    random = np.random.default_rng(0)
    y, alpha = random.standard_normal(n), 10 ** random.uniform(-6, 14, n)
    phi = dense(kernel, n)
    log_det = np.linalg.slogdet(np.eye(n) + (phi / alpha) @ phi.T)[1]
    for beta in (1e-200, 1.0, 1e200):
        found = banded.moments(kernel, y, alpha * beta, beta)
        assert found.log_det == pytest.approx(log_det - n * np.log(beta), rel=1e-9)


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
@pytest.mark.parametrize("scale", [2.0**-300, 2.0**300])
def test_units_change_nothing_but_units(kernel, scale):
    y, alpha, beta = tame(kernel, 0)
    here = banded.moments(kernel, y, alpha, beta)
    there = banded.moments(kernel, y * scale, alpha / scale**2, beta / scale**2)
    np.testing.assert_array_equal(there.mean, here.mean * scale)
    np.testing.assert_array_equal(there.variance, here.variance * scale**2)
    assert there.quadratic == here.quadratic
    slope = banded.dual(kernel, y, alpha, beta)
    np.testing.assert_allclose(slope, alpha * here.mean, rtol=1e-13)
    normal = np.random.default_rng(0).standard_normal((2, len(y)))
    np.testing.assert_allclose(
        banded.deviations(kernel, alpha / scale**2, beta / scale**2, normal),
        banded.deviations(kernel, alpha, beta, normal) * scale,
        rtol=1e-13,
    )


@pytest.mark.parametrize("kernel", [(1.0,), (2.0, -1.0), (0.0, -1.0)])
def test_long_traces_on_the_unit_circle_stay_finite(kernel):
    """A hundred thousand steps, silent but for ten events: nothing decays."""
    n = 100_000
    random = np.random.default_rng(0)
    alpha = np.full(n, 1e14)
    alpha[random.choice(n, 10)] = 1e-2
    found = banded.moments(kernel, random.standard_normal(n), alpha, 1.0)
    assert np.all(np.isfinite(found.mean))
    assert np.all((found.variance > 0) & (found.variance <= 1 / alpha * (1 + 1e-12)))
    assert np.isfinite(found.log_evidence)
    # ‖φ_t‖² counts the samples that z_t is seen in; each alone would leave this variance.
    assert np.all(found.variance >= 1 / (alpha + np.cumsum(_kernel(kernel, n) ** 2)[::-1]) * 0.999)


def _kernel(kernel, n):
    return lfilter([1.0], np.append(1.0, -np.array(kernel)), np.eye(1, n)[0])
