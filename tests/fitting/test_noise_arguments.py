"""The noise as users know it: precision or standard deviation, of all rows or of each."""

import math
import warnings

import numpy as np
import pytest
from test_intercept import dense_posterior, problem

import cofem
from cofem.operators import DCT

N, D = 14, 9


def known(seed):
    """Φ, y, α, and a noise precision for every row."""
    phi, y, alpha = problem(seed)
    return phi, y, alpha, 10 ** np.random.default_rng(seed).uniform(0, 3, N)


def test_a_standard_deviation_is_a_precision():
    phi, y, alpha, rows = known(0)
    for std, precision in ((0.2, 25.0), (rows**-0.5, rows)):
        first = cofem.posterior(phi, y, precision=alpha, noise_std=std)
        second = cofem.posterior(phi, y, precision=alpha, noise_precision=precision)
        np.testing.assert_allclose(first.mean, second.mean, rtol=1e-9)
        assert first.log_evidence == pytest.approx(second.log_evidence)


@pytest.mark.parametrize("method", ["em", "woodbury"])
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_known_precision(seed, complex_, method):
    phi, y, alpha = problem(seed, complex_)
    rows = known(seed)[3]
    covariance = np.linalg.inv((phi.conj().T * rows) @ phi + np.diag(alpha))
    mean = covariance @ (phi.conj().T * rows) @ y
    data = np.diag(1 / rows) + (phi / alpha) @ phi.conj().T
    half = 1.0 if complex_ else 0.5
    quadratic = (y.conj() @ np.linalg.solve(data, y)).real
    log_p = -half * (np.linalg.slogdet(math.pi / half * data)[1] + quadratic)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=rows, method=method)
    np.testing.assert_allclose(post.mean, mean, atol=1e-8)
    np.testing.assert_allclose(post.variance, np.diag(covariance).real, rtol=1e-8)
    assert post.log_evidence == pytest.approx(log_p, rel=1e-9)
    assert post.noise_precision == pytest.approx(rows.mean())


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_known_precision_and_a_constant(seed, complex_):
    phi, y, alpha = problem(seed, complex_)
    rows = known(seed)[3]
    mean, covariance, log_evidence = dense_posterior(phi, y, alpha, 1.0, rows)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=rows, intercept=True)
    np.testing.assert_allclose(post.mean, mean[:-1], atol=1e-6)
    assert post.intercept == pytest.approx(mean[-1], abs=1e-6)
    assert post.intercept_std == pytest.approx(math.sqrt(covariance[-1, -1].real), rel=1e-5)
    assert post.log_evidence == pytest.approx(log_evidence, abs=1e-4)
    new = problem(seed + 20, complex_, n=4)[0]
    both = np.column_stack([new, np.ones(4)])
    found, std = post.predict(new, noise=False)
    np.testing.assert_allclose(found, both @ mean, atol=1e-4)
    spread = np.einsum("ij,jk,ik->i", both, covariance, both.conj()).real
    np.testing.assert_allclose(std**2, spread, rtol=1e-3)


def test_weights_and_one_precision_make_precisions_of_rows():
    phi, y, alpha, rows = known(1)
    first = cofem.posterior(phi, y, precision=alpha, noise_precision=rows)
    second = cofem.posterior(phi, y, precision=alpha, noise_precision=10.0, weights=rows / 10)
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-9)
    assert first.log_evidence == pytest.approx(second.log_evidence)
    assert second.noise_precision == 10.0


@pytest.mark.parametrize("prior", ["mixture", "ard"])
def test_a_factor_of_the_weights_goes_into_the_noise(prior):
    phi, y, _ = sparse(0)
    weights = np.random.default_rng(0).uniform(0.1, 10, len(y))
    first = cofem.fit(phi, y, weights=weights, prior=prior)
    second = cofem.fit(phi, y, weights=100 * weights, prior=prior)
    np.testing.assert_allclose(first.mean, second.mean, atol=1e-8)
    assert second.noise_precision == pytest.approx(first.noise_precision / 100, rel=1e-5)
    assert second.log_evidence == pytest.approx(first.log_evidence, rel=1e-6)


def sparse(seed, n=100, d=150, weights=1.0):
    random = np.random.default_rng(seed)
    phi = random.standard_normal((n, d))
    z = np.zeros(d)
    z[random.choice(d, 6, replace=False)] = random.standard_normal(6)
    return phi, phi @ z + 0.3 * random.standard_normal(n) / np.sqrt(weights), z


def test_knowing_which_rows_are_bad_helps():
    """A fifth of the rows is ten times as noisy: 10 problems, the factor learned."""
    weights = np.where(np.arange(100) % 5, 1.0, 0.01)
    plain, told, factors = [], [], []
    for seed in range(10):
        phi, y, z = sparse(seed, weights=weights)
        with warnings.catch_warnings():  # the worst of the noisy rows may be named
            warnings.simplefilter("ignore", UserWarning)
            plain.append(np.linalg.norm(cofem.fit(phi, y).mean - z))
        post = cofem.fit(phi, y, weights=weights)
        told.append(np.linalg.norm(post.mean - z))
        factors.append(post.noise_precision * 0.3**2)
    assert np.median(told) < 0.5 * np.median(plain)
    assert 0.6 < np.median(factors) < 1.6


def test_joint_tasks_and_operators_and_torch():
    op = DCT(40, np.arange(0, 40, 2))
    random = np.random.default_rng(0)
    y, rows = random.standard_normal((2, 20)), random.uniform(1, 9, (2, 20))
    alpha = np.ones(40)
    joint = cofem.posterior(op, y, precision=alpha, noise_precision=rows)
    for i in range(2):
        alone = cofem.posterior(op, y[i], precision=alpha, noise_precision=rows[i])
        np.testing.assert_allclose(joint.mean[i], alone.mean, atol=1e-6)
    shared = cofem.posterior(op, y, precision=alpha, noise_precision=2.0, weights=rows[0])
    assert len({id(task.operator) for task in shared.tasks}) == 1
    torch = pytest.importorskip("torch")
    phi = op.to_dense()
    there = cofem.posterior(
        torch.asarray(phi), torch.asarray(y[0]), precision=torch.asarray(alpha),
        noise_precision=torch.asarray(rows[0]),
    )  # fmt: skip
    np.testing.assert_allclose(there.mean.numpy(), joint.mean[0], atol=1e-6)
