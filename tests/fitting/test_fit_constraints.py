"""What ``fit`` finds with joint tasks, groups, complex numbers and z ≥ 0."""

import numpy as np
import pytest
from answer_cases import EXACT, ard, fitted, small

import cofem
from cofem import simulate

# -- joint tasks, groups, complex ----------------------------------------------


@pytest.mark.parametrize("method", EXACT)
def test_tasks_with_the_same_data_are_one_task(method):
    phi, y, beta, _ = small(1)
    single = ard(phi, y, noise_precision=beta, method=method, max_iter=25, tol=0.0)
    joint = ard(phi, np.stack([y, y, y]), noise_precision=beta, method=method,
                      max_iter=25, tol=0.0)  # fmt: skip
    listed = ard([phi, phi, phi], [y, y, y], noise_precision=[beta] * 3, method=method,
                       max_iter=25, tol=0.0)  # fmt: skip
    assert joint.mean.shape == joint.variance.shape == joint.std.shape == (3, 80)
    assert joint.precision.shape == (80,)
    assert joint.noise_precision.shape == (3,)
    for post in (joint, listed):
        for task in range(3):
            np.testing.assert_allclose(post.mean[task], single.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(post.precision, single.precision, rtol=1e-8)
        assert post.log_evidence == pytest.approx(3 * single.log_evidence, rel=1e-10)


def test_tasks_that_share_a_support_help_each_other():
    # M-step of L tasks: α = L / Σ E|z|². Checked against the formula by hand.
    random = np.random.default_rng(0)
    z = np.zeros((2, 60))
    support = random.choice(60, 6, replace=False)
    z[:, support] = random.normal(size=(2, 6)) + 2
    phis = [random.normal(size=(n, 60)) / n**0.5 for n in (20, 25)]
    ys = [p @ x + 0.01 * random.normal(size=len(p)) for p, x in zip(phis, z, strict=True)]
    betas = [1e4, 5e3]
    post = ard(phis, ys, noise_precision=betas, method="em", max_iter=12, tol=0.0)
    start = ard(phis, ys, noise_precision=betas, method="em", max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for _ in range(11):
        total = 0
        for phi, y, beta in zip(phis, ys, betas, strict=True):
            covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
            total = total + (beta * covariance @ phi.T @ y) ** 2 + np.diag(covariance)
        alpha = 2 / total
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)
    np.testing.assert_array_equal(post.noise_precision, betas)


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_groups_share_their_precision(method):
    phi, y, beta, _ = small(3)
    groups = np.arange(80) // 4
    post = ard(phi, y, noise_precision=beta, method=method, groups=groups, max_iter=15,
                     tol=0.0)  # fmt: skip
    precision = post.precision.reshape(20, 4)
    np.testing.assert_array_equal(precision, precision[:, :1] * np.ones(4))
    assert len(np.unique(precision[:, 0])) == 20


def test_groups_follow_the_formula():
    phi, y, beta, _ = small(3)
    labels = np.random.default_rng(0).integers(0, 10, 80) * 7  # neither sorted nor dense
    post = ard(phi, y, noise_precision=beta, method="em", groups=labels, max_iter=8, tol=0.0)
    start = ard(phi, y, noise_precision=beta, method="em", groups=labels, max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for _ in range(7):
        covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
        second = (beta * covariance @ phi.T @ y) ** 2 + np.diag(covariance)
        for label in np.unique(labels):
            alpha[labels == label] = 1 / second[labels == label].mean()
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-7)


@pytest.mark.parametrize("method", EXACT)
def test_a_complex_problem_is_its_stacked_real_form(method):
    # MATH.md: the stacked real form has 2α and 2β, with the parts of each z_j tied.
    random = np.random.default_rng(5)
    n, d, beta = 20, 30, 1e3
    phi = (random.normal(size=(n, d)) + 1j * random.normal(size=(n, d))) / n**0.5
    z = np.zeros(d, complex)
    z[[3, 11, 20]] = [2 + 1j, -1.5j, 1.0]
    y = phi @ z + (random.normal(size=n) + 1j * random.normal(size=n)) / (2 * beta) ** 0.5
    ours = ard(phi, y, noise_precision=beta, method=method, max_iter=15, tol=0.0)
    stacked = np.block([[phi.real, -phi.imag], [phi.imag, phi.real]])
    real = ard(
        stacked, np.concatenate([y.real, y.imag]), noise_precision=2 * beta, method=method,
        groups=np.tile(np.arange(d), 2), max_iter=15, tol=0.0,
    )  # fmt: skip
    np.testing.assert_allclose(ours.mean, real.mean[:d] + 1j * real.mean[d:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(2 * ours.precision, real.precision[:d], rtol=1e-7)
    np.testing.assert_allclose(ours.variance, real.variance[:d] + real.variance[d:], rtol=1e-8)
    assert ours.log_evidence == pytest.approx(real.log_evidence, rel=1e-9)
    assert np.iscomplexobj(ours.mean)
    assert not np.iscomplexobj(ours.variance)


@pytest.mark.parametrize("seed", range(2))
def test_cofem_on_complex_data_is_exact_em(seed):
    random = np.random.default_rng(seed)
    op = cofem.operators.Fourier(256, random.random(256) < 0.5)
    z = np.zeros(256, complex)
    z[random.choice(256, 20, replace=False)] = random.normal(size=(20, 2)) @ [1, 1j]
    n = op.shape[0]
    y = op.forward(z) + 0.01 * (random.normal(size=n) + 1j * random.normal(size=n)) / 2**0.5
    exact, ours = (
        ard(op, y, noise_precision=1e4, method=m, max_iter=40, tol=0.0) for m in ("em", "cofem")
    )
    assert simulate.nrmse(exact.mean, z) < 3
    assert simulate.nrmse(ours.mean, exact.mean) < 0.3


# -- z ≥ 0 ---------------------------------------------------------------------


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_nonnegative_means_are_not_negative(method):
    problem = simulate.convolution(256, 1)
    free = fitted(problem, method)
    post = fitted(problem, method, nonnegative=True)
    assert (free.mean < 0).any()
    assert (post.mean >= 0).all()
    low, high = post.interval()
    assert (low >= 0).all()
    assert (high > low).all()
    assert (post.mode >= 0).all()
    assert ((post.probability_of_zero >= 0) & (post.probability_of_zero <= 1)).all()
    assert simulate.nrmse(post.mean, problem.z) < 3
    assert simulate.nrmse(post.mean, problem.z) < 1.2 * simulate.nrmse(free.mean, problem.z)


def test_nonnegative_follows_the_formula():
    from scipy.stats import norm, truncnorm

    phi, y, beta, _ = small(4)
    post = ard(phi, y, noise_precision=beta, method="em", nonnegative=True, max_iter=6,
                     tol=0.0)  # fmt: skip
    start = ard(phi, y, noise_precision=beta, method="em", max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for iteration in range(6):
        covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
        mean, sigma = beta * covariance @ phi.T @ y, np.sqrt(np.diag(covariance))
        law = truncnorm(-mean / sigma, np.inf, mean, sigma)
        if iteration < 5:
            alpha = 1 / (law.mean() ** 2 + law.var())
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)
    # What is reported is the law of max(0, x), x ~ N(mean, sigma²).
    t = mean / sigma
    first = mean * norm.cdf(t) + sigma * norm.pdf(t)
    second = (mean**2 + sigma**2) * norm.cdf(t) + mean * sigma * norm.pdf(t)
    shown = t > -4  # further out these differences cancel
    assert shown.sum() >= 5
    np.testing.assert_allclose(post.mean[shown], first[shown], rtol=1e-6)
    np.testing.assert_allclose(post.variance[shown], (second - first**2)[shown], rtol=1e-5)
    np.testing.assert_allclose(post.gaussian_mean, mean, rtol=1e-6, atol=1e-10)
