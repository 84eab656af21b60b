"""z ≥ 0 at known precisions: the posterior is a normal distribution cut off at zero."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtri_exp

import cofem
from cofem.learning.sites.rectified import rectified_quantile, shortest_interval


def problem(seed, n=6, d=2, alike=0.8, beta=9.0):
    """Columns that are alike, precisions over two decades, and z from that very prior."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    phi[:, 1:] = alike * phi[:, :1] + math.sqrt(1 - alike**2) * phi[:, 1:]
    alpha = 10 ** rng.uniform(-1, 1, d)
    z = np.abs(rng.normal(size=d)) / np.sqrt(alpha)
    return phi, phi @ z + rng.normal(size=n) / math.sqrt(beta), alpha, beta


def by_quadrature(phi, y, alpha, beta):
    """Return the nodes (n, D), their probabilities, and log p(y)."""
    d = len(alpha)
    x, w = np.polynomial.legendre.leggauss(200 if d == 2 else 60)
    top = 8 / np.sqrt(alpha + beta * np.sum(phi**2, axis=0)) + 2 * np.linalg.norm(y)
    z = np.array(list(itertools.product(*(0.5 * t * (x + 1) for t in top))))
    weight = np.prod(list(itertools.product(*(0.5 * t * w for t in top))), axis=1)
    log = -0.5 * beta * np.sum((y - z @ phi.T) ** 2, axis=1) - 0.5 * z**2 @ alpha
    log += 0.5 * len(y) * math.log(beta / (2 * math.pi))
    log += d * math.log(2) + 0.5 * np.sum(np.log(alpha / (2 * math.pi)))
    joint = weight * np.exp(log)
    return z, joint / joint.sum(), math.log(joint.sum())


def given(phi, y, alpha, beta, **options):
    return cofem.posterior(
        phi, y, precision=alpha, noise_precision=beta, nonnegative=True, **options
    )


def by_gibbs(phi, y, alpha, beta, sweeps, seed=0):
    """Return draws of the same by conditional draws of one coordinate after the other."""
    rng = np.random.default_rng(seed)
    q, h = beta * phi.T @ phi + np.diag(alpha), beta * phi.T @ y
    z, kept = np.ones(len(alpha)), []
    for _ in range(sweeps):
        for j in range(len(z)):
            spread = 1 / math.sqrt(q[j, j])
            centre = (h[j] - q[j] @ z + q[j, j] * z[j]) * spread**2
            left = ndtri_exp(np.log1p(-rng.random()) + log_ndtr(centre / spread))
            z[j] = max(centre - spread * left, 0.0)
        kept.append(z.copy())
    return np.array(kept[sweeps // 10 :])


@pytest.mark.parametrize("method", ["em", "woodbury"])
@pytest.mark.parametrize("seed", range(6))
def test_moments_and_evidence_are_those_of_quadrature(seed, method):
    parts = problem(seed)
    z, share, evidence = by_quadrature(*parts)
    post = given(*parts, method=method)
    mean = share @ z
    std = np.sqrt(share @ (z - mean) ** 2)
    # Expectation propagation is not exact where coordinates depend on each other.
    assert np.max(np.abs(post.mean - mean) / std) < 0.05
    np.testing.assert_allclose(post.std, std, rtol=0.05)
    assert post.log_evidence == pytest.approx(evidence, abs=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_and_draws_are_those_of_quadrature(seed):
    parts = problem(seed)
    z, share, _ = by_quadrature(*parts)
    post = given(*parts)
    low, high = post.interval(0.9)
    inside = share @ ((z >= low) & (z <= high))
    np.testing.assert_allclose(inside, 0.9, atol=0.02)
    np.testing.assert_array_equal(post.support(0.9), low > 0)
    draws = post.sample(20_000, seed=1)
    mean = share @ z
    covariance = (z - mean).T @ (share[:, None] * (z - mean))
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert np.max(np.abs(draws.mean(axis=0) - mean) / error) < 5
    np.testing.assert_allclose(
        np.cov(draws.T), covariance, atol=0.05 * np.sqrt(np.max(np.diag(covariance)) ** 2)
    )
    assert np.all(draws >= 0)
    # A half-normal law has no mass at zero.
    np.testing.assert_array_equal(post.probability_of_zero, 0)
    assert post.probability is None


def test_one_unknown_is_exact():
    post = given(np.ones((1, 1)), np.array([-1.0]), np.array([2.0]), 3.0)
    mean, variance = -3 / 5, 1 / 5
    x, w = np.polynomial.legendre.leggauss(200)
    z, w = 4 * (x + 1), 4 * w
    law = w * np.exp(-0.5 * (z - mean) ** 2 / variance)
    law /= law.sum()
    assert post.mean[0] == pytest.approx(law @ z, rel=1e-6)
    assert post.variance[0] == pytest.approx(law @ z**2 - (law @ z) ** 2, rel=1e-6)
    assert post.interval(0.95)[0][0] == 0  # the density falls from zero on
    assert not post.support()[0]


@pytest.mark.parametrize("method", ["auto", "cofem"])
def test_neighbours_behind_a_blur_agree_with_a_long_chain(method):
    rng = np.random.default_rng(3)
    d, beta = 30, 400.0
    apart = np.arange(d)[:, None] - np.arange(d)
    phi = np.exp(-(apart**2) / 2.0)
    phi /= np.linalg.norm(phi[:, d // 2])
    alpha = 10 ** rng.uniform(-1, 2, d)
    z = np.abs(rng.normal(size=d)) / np.sqrt(alpha)
    y = phi @ z + rng.normal(size=d) / math.sqrt(beta)
    chain = by_gibbs(phi, y, alpha, beta, 6000)
    mean, std = chain.mean(axis=0), chain.std(axis=0)
    post = given(phi, y, alpha, beta, method=method)
    rtol = 0.15 if method == "auto" else 0.6  # one number for all cavities is wrong by so much
    assert np.max(np.abs(post.mean - mean) / std) < rtol
    # What the data know well, the draws know as well, and the stated error bars too.
    draws = post.sample(2000, seed=0)
    expected = (chain @ phi.T).std(axis=0)
    np.testing.assert_allclose((draws @ phi.T).std(axis=0), expected, rtol=0.15)
    _, told = post.predict(phi, noise=False)
    assert np.median(np.abs(told / expected - 1)) < rtol
    assert abs(np.sum(post.mean) / np.sum(mean) - 1) < 0.01


def test_the_papers_setting_keeps_its_rule():
    parts = problem(0)
    post = given(*parts, method=cofem.CoFEM.paper())
    assert post.marginals is None
    gaussian = given(*parts, method="em")
    np.testing.assert_allclose(post.gaussian_mean, gaussian.gaussian_mean, rtol=1e-3)
    with pytest.raises(ValueError, match="rectified"):
        post.predict(parts[0])


@pytest.mark.parametrize("joint", [False, True])
def test_a_file_gives_it_back(tmp_path, joint):
    phi, y, alpha, beta = problem(1)
    y = np.stack([y, y + 1]) if joint else y
    post = given(phi, y, alpha, beta)
    post.save(tmp_path / "post.npz")
    again = cofem.load(tmp_path / "post.npz", phi=phi)
    np.testing.assert_array_equal(again.mean, post.mean)
    np.testing.assert_array_equal(again.interval()[1], post.interval()[1])
    np.testing.assert_array_equal(again.sample(5, seed=0), post.sample(5, seed=0))


@pytest.mark.parametrize("t", [-30.0, -1.0, 0.0, 0.5, 1.9, 2.0, 8.0])
def test_the_shortest_interval_is_shorter_than_its_neighbours_and_holds_its_share(t):
    mean, variance, level = np.array([t]), np.ones(1), 0.95
    low, high = (x[0] for x in shortest_interval(mean, variance, level))

    def quantile(p):
        return rectified_quantile(mean, variance, p)[0]

    below = math.exp(log_ndtr(t - low) - log_ndtr(t))
    above = math.exp(log_ndtr(t - high) - log_ndtr(t))
    assert below - above == pytest.approx(level, abs=1e-9)
    for p in np.linspace(0, 1 - level, 21)[:-1]:
        assert quantile(p + level) - quantile(p) >= (high - low) * (1 - 1e-9)


def blurred(seed, width=5, d=120):
    rng = np.random.default_rng(seed)
    phi = np.exp(-((np.arange(d)[:, None] - np.arange(d)) ** 2) / (2 * width**2))
    phi /= np.linalg.norm(phi[:, d // 2])
    z = np.zeros(d)
    z[rng.choice(d, 6, replace=False)] = 0.5 + rng.random(6)
    return phi, z, phi @ z + 0.02 * rng.normal(size=d)


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_a_store_of_many_fits_has_the_same_marginals():
    phi, _, y = blurred(0)
    many = cofem.fit_many(phi, y[None], nonnegative=True, max_iter=49)
    one = cofem.fit(phi, y, nonnegative=True, max_iter=49)
    assert one.prior == "ard"
    np.testing.assert_allclose(many.mean[0], one.mean)
    for a, b in zip(many.interval(0.9), one.interval(0.9), strict=True):
        np.testing.assert_allclose(np.asarray(a)[0], b, rtol=1e-5, atol=1e-12)
