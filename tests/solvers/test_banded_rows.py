"""Banded systems of many rows, draws from them, and what is refused."""

import mpmath
import numpy as np
import pytest
from banded_cases import BOTH_ORDERS, KERNELS, dense, draw, exact_precision, tame

from cofem.solvers.banded import factors as banded
from cofem.solvers.banded import traces as banded_traces


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
