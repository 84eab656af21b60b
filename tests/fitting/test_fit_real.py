"""Real unknowns behind complex data (real=True) against the dense formulas."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cofem
from cofem.operators import Fourier
from cofem.operators.realified import Realified


def problem(seed):
    rng = np.random.default_rng(seed)
    phi = (rng.normal(size=(12, 20)) + 1j * rng.normal(size=(12, 20))) / 5
    z = np.zeros(20)
    z[rng.choice(20, 3, replace=False)] = rng.normal(size=3) * 2
    beta = 400.0
    noise = (rng.normal(size=12) + 1j * rng.normal(size=12)) / np.sqrt(2 * beta)
    return phi, phi @ z + noise, z, beta


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_posterior_is_the_formula_of_the_stacked_problem(seed, method):
    phi, y, _, beta = problem(seed)
    alpha = 10.0 ** np.random.default_rng(seed).uniform(-2, 2, 20)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=beta, method=method, real=True)
    precision = 2 * beta * np.real(phi.conj().T @ phi) + np.diag(alpha)
    mean = np.linalg.solve(precision, 2 * beta * np.real(phi.conj().T @ y))
    np.testing.assert_allclose(post.mean, mean, rtol=1e-5, atol=1e-7)
    assert post.mean.dtype == np.float64
    if method != "cofem":
        np.testing.assert_allclose(post.variance, np.diag(np.linalg.inv(precision)), rtol=1e-8)
        stacked = np.vstack([phi.real, phi.imag])
        covariance = stacked @ np.diag(1 / alpha) @ stacked.T + np.eye(24) / (2 * beta)
        data = np.concatenate([y.real, y.imag])
        expected = multivariate_normal(np.zeros(24), covariance).logpdf(data)
        assert post.log_evidence == pytest.approx(expected, rel=1e-9)


def test_real_halves_the_unknowns_of_a_fourier_problem():
    rng = np.random.default_rng(1)
    z = np.zeros(64)
    z[rng.choice(64, 5, replace=False)] = rng.normal(size=5) * 3
    mask = rng.random(64) < 0.35
    phi = Fourier((64,), mask=mask)
    y = phi.forward(z)
    y = y + 0.005 * (rng.normal(size=len(y)) + 1j * rng.normal(size=len(y)))
    post = cofem.fit(phi, y, noise_precision=1 / (2 * 0.005**2), real=True)
    assert cofem.simulate.nrmse(post.mean, z) < 2.0
    assert post.mean.dtype == np.float64


def test_variance_of_a_complex_map_of_real_unknowns():
    phi, y, _, beta = problem(0)
    post = cofem.posterior(
        phi, y, precision=np.ones(20), noise_precision=beta, method="em", real=True
    )
    covariance = np.linalg.inv(2 * beta * np.real(phi.conj().T @ phi) + np.eye(20))
    expected = np.real(np.einsum("ij,jk,ik->i", phi, covariance, phi.conj()))
    np.testing.assert_allclose(post.variance_of(phi), expected, rtol=1e-4)


def test_a_saved_real_posterior_takes_the_complex_operator_back(tmp_path):
    phi, y, _, beta = problem(0)
    post = cofem.posterior(
        phi, y, precision=np.ones(20), noise_precision=beta, method="em", real=True
    )
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi)
    np.testing.assert_array_equal(again.sample(3, seed=1), post.sample(3, seed=1))


def test_realified_is_its_dense_form():
    phi, *_ = problem(2)
    op = Realified(cofem.operators.Dense(phi))
    dense = np.sqrt(2) * np.vstack([phi.real, phi.imag])
    np.testing.assert_allclose(op.to_dense(), dense, atol=1e-12)
    x = np.random.default_rng(0).normal(size=(3, 20))
    np.testing.assert_allclose(op.gram(x), x @ dense.T @ dense, atol=1e-12)
    np.testing.assert_allclose(op.column_norms_squared(), (dense**2).sum(0))
    cofem.operators.check_adjoint(op)


def test_nonnegative_with_complex_data_needs_real():
    phi, y, _, beta = problem(0)
    with pytest.raises(ValueError, match="nonnegative"):
        cofem.fit(phi, y, noise_precision=beta, nonnegative=True)
    post = cofem.fit(phi, y, noise_precision=beta, nonnegative=True, real=True, max_iter=5, tol=0)
    assert np.all(post.mean >= 0)
