"""Banded posteriors against dense algebra in 60 digits, and against SciPy in double."""

import mpmath
import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import multivariate_normal

from cofem.solvers.banded import factors as banded
from cofem.solvers.banded import traces as banded_traces

KERNELS = {
    "fast": (0.5,),
    "slow": (0.9999,),
    "alternating": (-0.9,),
    "double pole": (2 * 0.95, -(0.95**2)),
    "double pole near one": (2 * 0.9999, -(0.9999**2)),
    "double pole at one": (2.0, -1.0),
    "rise and decay": (0.99 + 0.5, -0.99 * 0.5),
    "complex near one": (2 * 0.9999 * np.cos(0.001), -(0.9999**2)),
    "complex": (2 * 0.97 * np.cos(0.7), -(0.97**2)),
    "quarter turn": (0.0, -0.9),
    "opposite signs": (0.1, 0.72),
    "both negative": (-1.7, -0.72),
    "order one in disguise": (0.9, 0.0),
}


def draw(kernel, seed, n, kind):
    """α over twenty orders of magnitude, β over eight, and data from the model."""
    random = np.random.default_rng(seed)
    alpha = 10 ** random.uniform(-6, 14, n)
    if kind == "events":  # mostly silent, the case that sparse learning ends in
        alpha = np.where(random.random(n) < 0.15, 10 ** random.uniform(-6, 0, n), 1e14)
    beta = np.full(n, 10 ** random.uniform(-2, 6))
    if kind == "uneven":
        beta = 10 ** random.uniform(-2, 6, n) * (random.random(n) < 0.8)
    z = random.standard_normal(n) / np.sqrt(alpha)
    noise = random.standard_normal(n) / np.sqrt(np.where(beta > 0, beta, 1))
    return lfilter([1.0], np.append(1.0, -np.array(kernel)), z) + noise, alpha, beta


def exact_precision(kernel, alpha, beta):
    """Φ and A = ΦᵀBΦ + diag(α) in 60 digits; call it inside their workdps."""
    n = len(alpha)
    g = [mpmath.mpf(float(c)) for c in kernel]
    k = [mpmath.mpf(1)]
    for t in range(1, n):
        k.append(mpmath.fsum(c * k[t - 1 - i] for i, c in enumerate(g) if t > i))
    phi = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(i + 1):
            phi[i, j] = k[i - j]
    alpha, beta = (mpmath.diag([mpmath.mpf(float(x)) for x in v]) for v in (alpha, beta))
    return phi, phi.T * beta * phi + alpha


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


# -- in double precision, where dense algebra is good enough -------------------


def tame(kernel, seed, n=40):
    random = np.random.default_rng(seed)
    alpha, beta = 10 ** random.uniform(-1, 2, n), 10 ** random.uniform(0, 2, n)
    z = random.standard_normal(n) / np.sqrt(alpha)
    clean = lfilter([1.0], np.append(1.0, -np.array(kernel)), z)
    return clean + random.standard_normal(n) / np.sqrt(beta), alpha, beta


def dense(kernel, n):
    return lfilter([1.0], np.append(1.0, -np.array(kernel)), np.eye(n), axis=0)


BOTH_ORDERS = [(0.95,), (0.95 + 0.6, -0.95 * 0.6)]


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


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_rows_are_independent_and_broadcast(kernel, monkeypatch):
    random = np.random.default_rng(0)
    y = random.standard_normal((2, 3, 50))
    alpha = 10 ** random.uniform(-2, 3, (3, 50))
    beta = 10 ** random.uniform(0, 2, (2, 1, 1))
    found = banded.moments(kernel, y, alpha, beta)
    monkeypatch.setattr(banded_traces, "SAMPLES_PER_THREAD", 10)
    monkeypatch.setenv("COFEM_NUM_THREADS", "2")
    threaded = banded.moments(kernel, y, alpha, beta)
    for i in range(2):
        for j in range(3):
            alone = banded.moments(kernel, y[i, j], alpha[j], beta[i, 0, 0])
            for name in alone._fields:
                value = np.asarray(getattr(alone, name))
                np.testing.assert_array_equal(getattr(found, name)[i, j], value)
                np.testing.assert_array_equal(getattr(threaded, name)[i, j], value)


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
@pytest.mark.parametrize("beta", [30.0, np.linspace(1, 60, 50)])
def test_rows_with_one_prior_share_their_covariance(kernel, beta):
    random = np.random.default_rng(0)
    y, alpha = random.standard_normal((4, 50)), 10 ** random.uniform(-2, 3, 50)
    found = banded.moments(kernel, y, alpha, beta)
    apart = banded.moments(kernel, y, np.tile(alpha, (4, 1)), beta)
    for name in found._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(apart, name))


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_rows_with_a_noise_precision_each_have_a_covariance_each(kernel):
    random = np.random.default_rng(0)
    y, alpha = random.standard_normal((3, 50)), 10 ** random.uniform(-2, 3, 50)
    beta = np.array([[1.0], [30.0], [500.0]])
    found = banded.moments(kernel, y, alpha, beta)
    for i in range(3):
        alone = banded.moments(kernel, y[i], alpha, float(beta[i, 0]))
        for name in found._fields:
            np.testing.assert_array_equal(getattr(found, name)[i], getattr(alone, name))


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_single_precision_and_views_are_computed_in_double(kernel):
    y, alpha, beta = tame(kernel, 0)
    single = banded.moments(kernel, y.astype(np.float32), alpha, beta)
    double = banded.moments(kernel, y.astype(np.float32).astype(float), alpha, beta)
    np.testing.assert_array_equal(single.mean, double.mean)
    strided = np.stack([y, y], axis=-1)[:, 0]
    strided.flags.writeable = False
    np.testing.assert_array_equal(
        banded.moments(kernel, strided, alpha, beta).mean,
        banded.moments(kernel, y, alpha, beta).mean,
    )


# -- draws ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("seed", range(2))
def test_draws_have_the_posterior_covariance(kernel, seed):
    _, alpha, beta = tame(kernel, seed, n=25)
    beta[3] = 0.0
    root = banded.deviations(kernel, alpha, beta, np.eye(25)).T
    # In double precision the inverse itself is off by 1e-12 near a double pole at one.
    with mpmath.workdps(60):
        _, precision = exact_precision(kernel, alpha, beta)
        covariance = np.array(mpmath.inverse(precision).tolist(), dtype=float)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_draws_keep_their_digits_where_alpha_spans_twenty_orders(kernel):
    y, alpha, beta = draw(kernel, 5, 40, "wide")
    root = banded.deviations(kernel, alpha, beta, np.eye(40)).T
    variance = banded.moments(kernel, y, alpha, beta).variance
    np.testing.assert_allclose(np.sum(root**2, axis=1), variance, rtol=1e-9)


@pytest.mark.parametrize("kernel", BOTH_ORDERS)
def test_samples_scatter_around_the_mean(kernel):
    y, alpha, beta = tame(kernel, 1)
    draws = banded.sample(kernel, y, alpha, beta, n_samples=4000, seed=3)
    found = banded.moments(kernel, y, alpha, beta)
    # 40 standard normal numbers stay below 4.5 but once in 3,700 seeds.
    score = (draws.mean(axis=0) - found.mean) / np.sqrt(found.variance / 4000)
    assert np.max(np.abs(score)) < 4.5
    again = banded.sample(kernel, y, alpha, beta, n_samples=4000, seed=3)
    np.testing.assert_array_equal(draws, again)


# -- what is refused -----------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((0.9, 0.0, 0.0), np.ones(4), np.ones(4), 1.0), ValueError, "1 or 2 numbers"),
        (((), np.ones(4), np.ones(4), 1.0), ValueError, "1 or 2 numbers"),
        (((np.nan,), np.ones(4), np.ones(4), 1.0), ValueError, "coefficients"),
        (((0.9,), np.ones(4) + 1j, np.ones(4), 1.0), TypeError, "y must be real"),
        (((0.9,), np.array(["a"]), np.ones(1), 1.0), TypeError, "y must hold numbers"),
        (((0.9,), np.ones((2, 0)), np.ones(1), 1.0), ValueError, "y must be traces"),
        (((0.9,), np.ones(4), np.ones(3), 1.0), ValueError, "alpha of shape"),
        (((0.9,), np.ones(4), np.zeros(4), 1.0), ValueError, "alpha must be positive"),
        (((0.9,), np.ones(4), np.full(4, np.nan), 1.0), ValueError, "alpha must be positive"),
        (((0.9,), np.ones(4), np.ones(4), -1.0), ValueError, "noise_precision"),
        (((0.9,), np.ones(4), np.ones(4), np.inf), ValueError, "noise_precision"),
        (((0.9,), np.ones(4), np.ones(4), np.ones(3)), ValueError, "noise_precision of shape"),
        (((0.9,), np.array([1, np.nan]), np.ones(2), 1.0), ValueError, "y contains NaN"),
    ],
)
def test_bad_input_is_named(arguments, error, text):
    with pytest.raises(error, match=text):
        banded.moments(*arguments)


def test_samples_are_of_one_trace():
    with pytest.raises(ValueError, match="one trace"):
        banded.sample((0.9,), np.ones((2, 3)), np.ones(3), 1.0, 5)


# -- corners -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [(0.0,), (0.9,), (0.0, 0.0), (1.5, -0.6)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_traces_shorter_than_the_recursion(kernel, n):
    y, alpha, beta = tame(kernel, 0, n=n)
    phi = dense(kernel, n)
    covariance = np.linalg.inv(phi.T @ (beta[:, None] * phi) + np.diag(alpha))
    found = banded.moments(kernel, y, alpha, beta)
    np.testing.assert_allclose(found.mean, covariance @ phi.T @ (beta * y), rtol=1e-12)
    np.testing.assert_allclose(found.variance, np.diag(covariance), rtol=1e-12)
    root = banded.deviations(kernel, alpha, beta, np.eye(n)).T
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-12, atol=1e-14)


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
