"""The dense end: one normal prior for all coordinates, where z has no zeros to find."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cofem
from cofem.learning import dense
from cofem.learning.moments import spectrum as found_spectrum
from cofem.learning.moments.spectrum import by_lanczos, factorised, spectrum
from cofem.learning.stopping import Verdict
from cofem.operators import DCT, Dense


def problem(seed, n, d, sigma=0.1, share=1.0, law="normal"):
    """Return Φ, y and z; the noise is relative to the rms of Φz."""
    rng = np.random.default_rng([50, seed])
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    z = rng.normal(size=d) if law == "normal" else rng.choice([-1.0, 1.0], d)
    z *= rng.random(d) < share
    clean = phi @ z
    return phi, clean + sigma * np.sqrt(np.mean(clean**2)) * rng.normal(size=n), z


def is_dense(post):
    return Verdict.DENSE.value in post.message


@pytest.mark.parametrize(("n", "d"), [(12, 20), (20, 12), (15, 15)])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_both_sums_are_those_of_the_matrix(n, d, kind):
    rng = np.random.default_rng(n)
    phi, y = rng.normal(size=(n, d)), rng.normal(size=n)
    if kind == "complex":
        phi, y = phi + 1j * rng.normal(size=(n, d)), y + 1j * rng.normal(size=n)
    found = factorised(phi, y)
    for v in (1e-3, 1.0, 1e4):
        matrix = np.eye(n) + v * phi @ phi.conj().T
        expected = np.vdot(y, np.linalg.solve(matrix, y)).real
        assert found.quadratic(v) == pytest.approx(expected, rel=1e-6)
        assert found.log_det(v) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-9)


def test_lanczos_has_the_same_sums():
    phi, y, _ = problem(0, 300, 900)
    unit = np.sum(phi**2, axis=0)
    exact = spectrum(Dense(phi), y, unit, 0)
    found = [by_lanczos(Dense(phi), y, unit, seed) for seed in range(8)]
    for v in (0.01, 1.0, 30.0):
        assert found[0].quadratic(v) == pytest.approx(exact.quadratic(v), rel=1e-6)
        dets = np.array([f.log_det(v) for f in found])
        error = dets.std(ddof=1) / np.sqrt(len(dets))
        # Student's t with seven degrees of freedom exceeds 7 once in 5000 times.
        assert abs(dets.mean() - exact.log_det(v)) < 7 * error
        # The error that one of them states is that of the eight: of a χ² with seven degrees of
        # freedom, twice as many in the mean of eight.
        stated = np.mean([f.log_det_error(v) for f in found])
        assert 0.4 < stated / dets.std(ddof=1) < 2.5


def test_lanczos_stops_where_it_has_seen_all():
    operator = DCT(64, rows=np.arange(20))  # K is the identity
    y = np.arange(20.0)
    found = by_lanczos(operator, y, operator.column_norms_squared(y) * 0 + 1.0, 0)
    assert found.products == 2 * 9
    assert found.quadratic(3.0) == pytest.approx(y @ y / 4)
    assert found.log_det(3.0) == pytest.approx(20 * np.log(4))


@pytest.mark.parametrize(("n", "d"), [(40, 80), (80, 60)])
@pytest.mark.parametrize("given", [False, True])
def test_the_fit_is_a_ridge_with_its_exact_evidence(monkeypatch, n, d, given):
    monkeypatch.setattr(dense, "margin", lambda model: np.inf)  # whatever the evidence says
    phi, y, _ = problem(2, n, d, sigma=0.4)
    phi = phi * np.exp(np.random.default_rng(2).normal(size=d))  # units of their own
    options = {"noise_precision": 4.0} if given else {}
    post = cofem.fit(phi, y, **options)
    assert is_dense(post)
    assert post.prior == "mixture"
    assert post.converged
    beta = post.noise_precision
    v = post.marginals.scales[1]
    prior = v / (beta * np.sum(phi**2, axis=0))
    covariance = (phi * prior) @ phi.T + np.eye(n) / beta
    expected = multivariate_normal(np.zeros(n), covariance).logpdf(y)
    assert post.log_evidence == pytest.approx(expected, rel=1e-9)
    gain = (prior[:, None] * phi.T) @ np.linalg.inv(covariance)
    np.testing.assert_allclose(post.mean, gain @ y, rtol=1e-6, atol=1e-9)
    left = np.diag(prior) - gain @ (phi * prior)
    np.testing.assert_allclose(post.variance, np.diag(left), rtol=1e-6)
    if given:
        assert beta == 4.0
    else:  # the mean of the noise variance's posterior
        assert 1 / beta == pytest.approx(y @ np.linalg.solve(beta * covariance, y) / (n - 2))
    low, high = post.interval(0.9)
    np.testing.assert_allclose((low + high) / 2, post.mean, atol=1e-6)
    np.testing.assert_allclose((high - low) / 2, 1.6449 * post.std, rtol=1e-3)


def test_intervals_cover_where_z_has_no_zeros():
    """20 problems for each number of data; without the dense end .5 to .75 are covered."""
    for n, d in ((50, 100), (40, 120)):
        covered = []
        for seed in range(20):
            phi, y, z = problem(seed, n, d, law=("normal", "sign")[seed % 2])
            low, high = cofem.fit(phi, y).interval(0.95)
            covered.append(np.mean((low <= z) & (z <= high)))
        # The standard error of this mean is 1.5 %: v is learned from few data in each problem.
        assert 0.90 < np.mean(covered) < 0.98


def test_sparse_problems_stay_sparse():
    for seed in range(10):
        phi, y, z = problem(seed, 60, 120, sigma=(0.1, 0.3)[seed % 2], share=0.05)
        post = cofem.fit(phi, y)
        assert not is_dense(post)
        assert np.mean(post.probability[z == 0]) < 0.1


def test_probabilities_weigh_both_explanations():
    sure, unsure = problem(3, 200, 260, law="sign"), problem(3, 30, 120)
    for (phi, y, _), low, high in ((sure, 0.95, 1.0), (unsure, 0.0, 0.7)):
        post = cofem.fit(phi, y)
        assert is_dense(post)
        assert low < post.probability.mean() <= high
    assert cofem.fit(*sure[:2]).support().all()
    assert not cofem.fit(*unsure[:2]).support().any()


def test_ends_of_equal_evidence_are_averaged(monkeypatch):
    """Mean and variance are those of the mixture of both; with a large margin one of them is."""
    phi, y, _ = problem(3, 30, 120)
    kept = dense.averaged
    seen = []

    def spy(known, shares, **options):
        seen.append((*known, shares))
        return kept(known, shares, **options)

    monkeypatch.setattr(dense, "averaged", spy)
    monkeypatch.setattr(dense, "sigmoid", lambda odds: 0.4)
    post = cofem.fit(phi, y)
    one, other, (share, _) = seen[0]
    posts = [np.asarray(m.mean).ravel() for m in (one, other)]
    mean = share * posts[0] + (1 - share) * posts[1]
    np.testing.assert_allclose(post.mean, mean, rtol=1e-9)
    second = [np.asarray(m.variance + m.mean**2).ravel() for m in (one, other)]
    variance = share * second[0] + (1 - share) * second[1] - mean**2
    np.testing.assert_allclose(post.variance, variance, rtol=1e-6)
    low, high = post.interval(0.9)
    np.testing.assert_allclose((high - low) / 2, 1.6449 * post.std, rtol=1e-3)
    assert share == pytest.approx(0.4)
    assert "averaged with a sparse one, which has 60%" in post.message
    assert np.isfinite(post.sample(3, seed=0)).all()


def test_a_dense_posterior_can_all_that_others_can(tmp_path):
    phi, y, _ = problem(4, 60, 120)
    post = cofem.fit(phi, y)
    assert is_dense(post)
    post.save(tmp_path / "post.npz")
    again = cofem.load(tmp_path / "post.npz")
    np.testing.assert_array_equal(again.probability, post.probability)
    np.testing.assert_array_equal(again.interval()[0], post.interval()[0])
    draws = post.sample(4000, seed=0)
    error = post.std / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(axis=0) - post.mean) < 5 * error)  # of 120, once in 10,000
    # A ridge's joint covariance: what is predicted has the variance of its normal posterior.
    row = np.ones((1, 120))
    np.testing.assert_allclose(post.variance_of(row), np.var(draws @ row[0]), rtol=0.15)


def test_large_operators_have_it_too(monkeypatch):
    """Without any factorisation: Lanczos for the evidence, CoFEM for the moments."""
    phi, y, z = problem(6, 200, 400, sigma=0.3, law="sign")
    exact = cofem.fit(phi, y)
    monkeypatch.setattr(found_spectrum, "SMALL", 50)
    post = cofem.fit(phi, y, method="cofem")
    assert is_dense(exact)
    assert is_dense(post)
    assert abs(np.log(post.noise_precision / exact.noise_precision)) < 0.5
    assert np.linalg.norm(post.mean - exact.mean) < 0.15 * np.linalg.norm(exact.mean)
    low, high = post.interval()
    assert 0.9 < np.mean((low <= z) & (z <= high)) < 0.99


def test_complex_and_single_precision():
    rng = np.random.default_rng(7)
    n, d = 60, 120
    phi = (rng.normal(size=(n, d)) + 1j * rng.normal(size=(n, d))) / np.sqrt(2 * n)
    z = (rng.normal(size=d) + 1j * rng.normal(size=d)) / np.sqrt(2)
    y = phi @ z + 0.1 * (rng.normal(size=n) + 1j * rng.normal(size=n))
    post = cofem.fit(phi, y)
    assert is_dense(post)
    single = cofem.fit(phi.astype(np.complex64), y.astype(np.complex64))
    assert single.mean.dtype == np.complex64
    np.testing.assert_allclose(single.mean, post.mean, atol=1e-3)
