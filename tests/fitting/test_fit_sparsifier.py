"""Sparsity of Rx: against dense formulas, against exact EM, and what is refused."""

import numpy as np
import pytest

import cofem
from cofem.learning.moments.leverage import ExactLeverage, probed_leverage
from cofem.operators import Convolution, FiniteDifference, Identity, from_functions
from cofem.operators.algebra import Stack


def piecewise(n, seed, jumps=5):
    random = np.random.default_rng(seed)
    edges = np.sort(random.choice(np.arange(1, n), jumps, replace=False))
    levels = 2 * random.standard_normal(jumps + 1)
    return np.repeat(levels, np.diff(np.r_[0, edges, n]))


def both_gradients(shape):
    return Stack([FiniteDifference(shape, axis) for axis in range(len(shape))])


def dense_posterior(phi, y, R, alpha, beta):
    Q = beta * phi.conj().T @ phi + R.conj().T @ (alpha[:, None] * R)
    covariance = np.linalg.inv(Q)
    return beta * covariance @ (phi.conj().T @ y), covariance


SPARSIFIERS = {
    "differences": lambda: FiniteDifference((36,), 0),
    "both gradients": lambda: both_gradients((6, 6)),
    "dense": lambda: np.random.default_rng(5).standard_normal((50, 36)),
    "gradients and identity": lambda: Stack([both_gradients((6, 6)), 0.3 * Identity(36)]),
}


# -- the posterior of x --------------------------------------------------------


@pytest.mark.parametrize("kind", SPARSIFIERS)
@pytest.mark.parametrize("complex_", [False, True])
def test_the_posterior_is_the_dense_formula(kind, complex_):
    R = SPARSIFIERS[kind]()
    dense_r = R if isinstance(R, np.ndarray) else R.to_dense()
    for seed in range(3):
        random = np.random.default_rng(seed)
        phi, y = random.standard_normal((30, 36)), random.standard_normal(30)
        if complex_:
            phi = phi + 1j * random.standard_normal((30, 36))
            y = y + 1j * random.standard_normal(30)
        alpha, beta = 10 ** random.uniform(-1, 2, dense_r.shape[0]), 20.0
        mean, covariance = dense_posterior(phi, y, dense_r, alpha, beta)
        variance = np.diag(covariance).real
        options = cofem.CoFEM(mean_rtol=1e-10, report_probes=200, report_rtol=1e-8)
        given = {"precision": alpha, "noise_precision": beta, "sparsifier": R}
        exact = cofem.posterior(phi, y, method="em", **given)
        np.testing.assert_allclose(exact.mean, mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(exact.variance, variance, rtol=1e-8)
        assert (exact.variance_error == 0).all()
        found = cofem.posterior(phi, y, method=options, **given)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-7)
        # 36 coordinates × 24 posteriors: 4.5 standard errors are exceeded by chance once
        # in 150 runs of this file; the seeds are fixed.
        score = (found.variance - variance) / found.variance_error
        assert abs(score).max() < 4.5


@pytest.mark.parametrize("leverage", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_m_step_is_the_dense_fixed_point(leverage, seed):
    """Three iterations of exact EM with the count P written out."""
    shape = (5, 6)
    R = both_gradients(shape)
    dense_r = R.to_dense()
    random = np.random.default_rng(seed)
    phi = np.concatenate([np.ones((1, 30)), random.standard_normal((20, 30))])
    y, beta = random.standard_normal(21), 10.0
    alphas = []
    cofem.fit(
        phi, y, noise_precision=beta, sparsifier=R, max_iter=4, tol=0,
        method=cofem.EM(leverage=leverage, initial_precision=2.0),
        callback=lambda state: alphas.append(state.precision),
    )  # fmt: skip
    alpha = np.full(60, 2.0)
    for found in alphas:
        np.testing.assert_allclose(found, alpha, rtol=1e-7)
        mean, covariance = dense_posterior(phi, y, dense_r, alpha, beta)
        second = (dense_r @ mean) ** 2 + np.diag(dense_r @ covariance @ dense_r.T)
        pseudo = np.linalg.pinv(dense_r.T @ (alpha[:, None] * dense_r), hermitian=True)
        count = alpha * np.diag(dense_r @ pseudo @ dense_r.T) if leverage else 1.0
        alpha = count / second


@pytest.mark.parametrize("kind", SPARSIFIERS)
def test_leverage_sums_to_the_rank_whatever_the_spread(kind):
    R = SPARSIFIERS[kind]()
    dense_r = R if isinstance(R, np.ndarray) else R.to_dense()
    exact = ExactLeverage(dense_r)
    rank = np.linalg.matrix_rank(dense_r)
    for spread in (0, 3, 6):
        alpha = 10 ** np.random.default_rng(spread).uniform(-spread, spread, dense_r.shape[0])
        # The floor on single entries may add at most itself for each.
        assert abs(exact(alpha).sum() - rank) < 1e-3 * len(alpha) + 1e-9


def test_probed_leverage_is_unbiased():
    R = both_gradients((5, 5))
    alpha = 10 ** np.random.default_rng(0).uniform(-1, 1, 50)
    exact = ExactLeverage(R.to_dense())(alpha)
    draws = np.stack([
        probed_leverage(
            R, alpha, like=np.empty(0), n_probes=64, seed=seed, rtol=1e-10, max_steps=500
        )
        for seed in range(40)
    ])  # fmt: skip
    free = (exact < 0.9).nonzero()[0]  # near one the clip at one would bias it
    error = draws.std(axis=0, ddof=1) / 40**0.5
    score = (draws.mean(axis=0) - exact)[free] / error[free]
    assert abs(score).max() < 4  # about 40 of them: exceeded by chance in 1 of 400 seeds


# -- fits ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_denoising_reaches_exact_em(seed):
    n = 150
    x = piecewise(n, seed)
    y = x + 0.2 * np.random.default_rng(100 + seed).standard_normal(n)
    R = FiniteDifference((n,), 0)
    errors = {}
    for method in ("em", "cofem"):
        post = cofem.fit(
            Identity(n), y, noise_precision=25.0, sparsifier=R, method=method, max_iter=40, tol=0
        )
        errors[method] = np.linalg.norm(post.mean - x) / np.linalg.norm(x)
    assert errors["em"] < 0.7 * np.linalg.norm(y - x) / np.linalg.norm(x)
    assert abs(errors["cofem"] - errors["em"]) < 0.05 * errors["em"]


def test_deblurring_and_undersampling():
    n = 120
    x = piecewise(n, 1)
    blur = Convolution(np.exp(-np.arange(8) / 2.0), n)
    y = blur.forward(x) + 0.02 * np.random.default_rng(0).standard_normal(n)
    post = cofem.fit(blur, y, noise_precision=2500.0, sparsifier=FiniteDifference((n,), 0))
    plain = cofem.fit(blur, y, noise_precision=2500.0)
    error = np.linalg.norm(post.mean - x) / np.linalg.norm(x)
    assert error < 0.03
    assert error < 0.5 * np.linalg.norm(plain.mean - x) / np.linalg.norm(x)


def test_draws_have_the_posterior_variance_and_zero_mean():
    n = 40
    random = np.random.default_rng(0)
    phi, y = random.standard_normal((25, n)), random.standard_normal(25)
    alpha = 10 ** random.uniform(-1, 2, n)
    R = FiniteDifference((n,), 0)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=9.0, sparsifier=R)
    _, covariance = dense_posterior(phi, y, R.to_dense(), alpha, 9.0)
    draws = post.sample(4000, seed=1)
    variance = np.diag(covariance)
    z = (draws.mean(axis=0) - post.mean) / np.sqrt(variance / 4000)
    assert abs(z).max() < 4.5
    ratio = draws.var(axis=0) / variance
    assert abs(ratio - 1).max() < 5 * np.sqrt(2 / 4000)
    rows = random.standard_normal((3, n))
    expected = np.diag(rows @ covariance @ rows.T)
    np.testing.assert_allclose(post.variance_of(rows), expected, rtol=1e-4)


def test_the_identity_as_sparsifier_changes_nothing():
    random = np.random.default_rng(0)
    phi = random.standard_normal((20, 30))
    z = np.zeros(30)
    z[[3, 17]] = 2.0, -1.0
    y = phi @ z + 0.05 * random.standard_normal(20)
    # From one start: left alone, it comes from the columns or from a first picture of x.
    again = [
        cofem.fit(
            phi, y, noise_precision=400.0, max_iter=20, tol=0, sparsifier=R,
            method=cofem.EM(initial_precision=1.0),
        )
        for R in (None, Identity(30))
    ]  # fmt: skip
    np.testing.assert_allclose(again[0].mean, again[1].mean, atol=1e-10)
    np.testing.assert_allclose(again[0].variance, again[1].variance, rtol=1e-8)


@pytest.mark.parametrize("c", [1e-6, 1e3])
def test_units_change_nothing(c):
    n = 60
    y = piecewise(n, 2) + 0.1 * np.random.default_rng(0).standard_normal(n)
    R = FiniteDifference((n,), 0)
    one = cofem.fit(Identity(n), y, noise_precision=100.0, sparsifier=R, max_iter=10, tol=0)
    other = cofem.fit(
        Identity(n), c * y, noise_precision=100.0 / c**2, sparsifier=R, max_iter=10, tol=0
    )
    np.testing.assert_allclose(other.mean, c * one.mean, rtol=1e-6)


def test_noise_is_found_behind_a_sparsifier():
    n = 300
    x = piecewise(n, 3)
    y = x + 0.1 * np.random.default_rng(1).standard_normal(n)
    post = cofem.fit(Identity(n), y, sparsifier=FiniteDifference((n,), 0), max_iter=60, tol=1e-3)
    assert 100 / 3 < post.noise_precision < 300


def test_saved_and_loaded(tmp_path):
    n = 30
    y = piecewise(n, 0)
    R = both_gradients((5, 6))
    post = cofem.posterior(Identity(n), y, precision=np.ones(60), noise_precision=4.0, sparsifier=R)
    post.save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="sparsifier must be given"):
        cofem.load(tmp_path / "p.npz", Identity(n))
    with pytest.raises(ValueError, match="sparsifier must have shape"):
        cofem.load(tmp_path / "p.npz", Identity(n), Identity(n))
    again = cofem.load(tmp_path / "p.npz", Identity(n), R)
    np.testing.assert_array_equal(again.sample(2, seed=0), post.sample(2, seed=0))


# -- what is refused -----------------------------------------------------------


def test_bad_sparsifiers_are_named():
    phi, y = np.eye(4), np.ones(4)
    with pytest.raises(ValueError, match="sparsifier must have 4 columns"):
        cofem.fit(phi, y, noise_precision=1.0, sparsifier=np.ones((3, 5)))
    with pytest.raises(ValueError, match="sparsifier is complex"):
        cofem.fit(phi, y, noise_precision=1.0, sparsifier=1j * np.eye(4))
    with pytest.raises(ValueError, match="nonnegative"):
        cofem.fit(phi, y, noise_precision=1.0, sparsifier=np.eye(4), nonnegative=True)
    with pytest.raises(ValueError, match='"woodbury" does not take a sparsifier'):
        cofem.fit(phi, y, noise_precision=1.0, sparsifier=np.eye(4), method="woodbury")
    wrong = from_functions(lambda x: 2 * x, lambda v: v, (4, 4), float)
    with pytest.raises(ValueError, match="sparsifier"):
        cofem.fit(phi, y, noise_precision=1.0, sparsifier=wrong)


def test_a_direction_that_nothing_determines_is_named():
    # Differences do not see a constant, and neither does this phi.
    phi = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    R = FiniteDifference((3,), 0)
    with pytest.raises(ValueError, match="sparsifier"):
        cofem.fit(phi, np.ones(2), noise_precision=1e4, sparsifier=R, method="em")
