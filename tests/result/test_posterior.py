"""The posterior's draws and maps against the dense covariance."""

import numpy as np
import pytest
from posterior_cases import BETA, D, exact, problem, rectified

import cofem
from cofem.operators import DCT, Convolution, Dense, FiniteDifference
from cofem.result import sampling

# -- samples -------------------------------------------------------------------


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_samples_have_the_posteriors_mean_and_covariance(complex_, method):
    post, covariance, mean = exact(complex_, method)
    n = 8000
    draws = post.sample(n, seed=1)
    assert draws.shape == (n, D)
    assert np.iscomplexobj(draws) == complex_
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    white = (draws - mean) @ root.T  # standard normal, independent, if all is right
    # 16 means of standard deviation 1/√n, 136 covariances of at most √2/√n: all within 5
    # standard errors, an error rate of 1e-4.
    assert (abs(white.mean(axis=0)) < 5 / n**0.5).all()
    second = white.T @ white.conj() / n
    assert (abs(second - np.eye(D)) < 5 * 2**0.5 / n**0.5).all()
    if complex_:  # circular: no correlation without the conjugate
        assert (abs(white.T @ white / n) < 5 * 2**0.5 / n**0.5).all()


@pytest.mark.parametrize("method", ["em", "cofem"])
def test_std_of_samples_is_std(method):
    post, covariance, _ = exact(method=method)
    draws = post.sample(4000, seed=2)
    exact_std = np.sqrt(np.diag(covariance))
    # A standard deviation of 4000 draws is good to 1/√8000 = 1.1 %: five of them.
    np.testing.assert_allclose(draws.std(axis=0), exact_std, rtol=0.056)
    error = post.variance_error / post.variance / 2
    assert (abs(post.std / exact_std - 1) < 0.001 + 4.5 * error).all()


def test_samples_are_reproducible():
    post, _, _ = exact()
    np.testing.assert_array_equal(post.sample(20, seed=5), post.sample(20, seed=5))
    assert not np.array_equal(post.sample(20, seed=5), post.sample(20, seed=6))
    assert not np.array_equal(post.sample(2), post.sample(2))
    # No draw comes twice, within a block of solves or across blocks.
    draws = post.sample(50, seed=5)
    assert len({tuple(row) for row in draws}) == 50


def test_samples_of_joint_tasks():
    phi, y, alpha, covariance, mean = problem()
    post = cofem.posterior(phi, np.stack([y, -y]), precision=alpha, noise_precision=BETA)
    draws = post.sample(3000, seed=0)
    assert draws.shape == (3000, 2, D)
    scale = np.sqrt(np.diag(covariance))
    z = (draws.mean(axis=0) - np.stack([mean, -mean])) / (scale / 3000**0.5)
    assert (abs(z) < 4.7).all()  # 32 scores: error rate 1e-4
    a, b = ((draws[:, i] - draws[:, i].mean(axis=0)) / scale for i in (0, 1))
    assert (abs((a * b).mean(axis=0)) < 4.7 / 3000**0.5).all()  # the tasks are independent


def test_samples_of_a_nonnegative_posterior():
    phi, y, alpha, _, _ = problem()
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, nonnegative=True)
    draws = post.sample(8000, seed=0)
    assert (draws >= 0).all()
    z = (draws.mean(axis=0) - post.mean) / (post.std / 8000**0.5)
    assert (abs(z) < 4.5).all()  # 16 scores: error rate 1e-4
    np.testing.assert_allclose(draws.std(axis=0), post.std, rtol=0.08)
    assert (draws > 0).all()  # a half-normal law has no mass at zero


def test_samples_of_the_papers_nonnegative_posterior():
    post = rectified()
    draws = post.sample(8000, seed=0)
    zero = (draws == 0).mean(axis=0)
    error = np.sqrt(np.maximum(zero * (1 - zero), 1e-3) / 8000)
    assert (abs(zero - post.probability_of_zero) < 5 * error).all()
    # A coordinate that is not zero once in a thousand draws shows nothing of its spread.
    seen = post.probability_of_zero < 0.99
    assert seen.sum() >= 10
    np.testing.assert_allclose(draws.std(axis=0)[seen], post.std[seen], rtol=0.08)


@pytest.mark.parametrize("bad", [0, -1, 2.5, "3", None])
def test_a_bad_number_of_samples_is_named(bad):
    post, _, _ = exact()
    with pytest.raises((ValueError, TypeError), match=r"\bn\b"):
        post.sample(bad)


# -- maps ----------------------------------------------------------------------


@pytest.fixture(params=["rows", "factor", "samples"])
def route(request, monkeypatch):
    """Each of the three ways to the variance of a map, forced."""
    if request.param != "rows":
        monkeypatch.setattr(sampling, "EXACT_ROWS", 0)
    if request.param == "samples":
        monkeypatch.setattr(sampling, "EXACT_UNKNOWNS", 0)
    return request.param


@pytest.mark.parametrize("complex_", [False, True])
def test_variance_of_a_map(route, complex_):
    post, covariance, _ = exact(complex_)
    random = np.random.default_rng(3)
    R = random.standard_normal((7, D)) + (1j * random.standard_normal((7, D)) if complex_ else 0)
    expected = np.diag(R @ covariance @ R.conj().T).real
    if route == "samples":
        # Relative error √(2/4000) = 2.2 % (√(1/4000) complex); five of them.
        found = post.variance_of(R, n_samples=4000)
        np.testing.assert_allclose(found, expected, rtol=0.112)
    else:
        np.testing.assert_allclose(post.variance_of(R), expected, rtol=1e-5)
    assert not np.iscomplexobj(post.variance_of(R))


def test_variance_of_a_complex_map_of_real_unknowns(route):
    post, covariance, _ = exact()
    random = np.random.default_rng(3)
    R = random.standard_normal((7, D)) + 1j * random.standard_normal((7, D))
    expected = np.diag(R @ covariance @ R.conj().T).real
    found = post.variance_of(R, n_samples=4000)
    np.testing.assert_allclose(found, expected, rtol=0.112 if route == "samples" else 1e-5)


@pytest.mark.parametrize("op", [DCT(D), FiniteDifference((D,), 0), Convolution([1.0, 0.5], D)])
def test_variance_of_an_operator(op):
    post, covariance, _ = exact()
    R = op.to_dense()
    np.testing.assert_allclose(post.variance_of(op), np.diag(R @ covariance @ R.T), rtol=1e-5)


def test_variance_of_more_rows_than_a_block():
    post, covariance, _ = exact()
    R = np.random.default_rng(0).standard_normal((300, D))
    np.testing.assert_allclose(post.variance_of(R), np.diag(R @ covariance @ R.T), rtol=1e-5)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_predict(complex_, method):
    post, covariance, mean = exact(complex_, method)
    random = np.random.default_rng(4)
    R = random.standard_normal((5, D)) + (1j * random.standard_normal((5, D)) if complex_ else 0)
    variance = np.diag(R @ covariance @ R.conj().T).real
    centre, spread = post.predict(R)
    np.testing.assert_allclose(centre, R @ mean, rtol=0, atol=1e-4 * abs(mean).max())
    np.testing.assert_allclose(spread, np.sqrt(variance + 1 / BETA), rtol=1e-5)
    centre, spread = post.predict(Dense(R), noise=False)
    np.testing.assert_allclose(spread, np.sqrt(variance), rtol=1e-5)


def test_predictions_cover_new_data():
    random = np.random.default_rng(0)
    alpha = 10 ** random.uniform(-1, 2, 60)
    inside = []
    for _ in range(40):
        phi = random.standard_normal((70, 60)) / 6
        z = random.standard_normal(60) / np.sqrt(alpha)
        y = phi @ z + random.standard_normal(70) / BETA**0.5
        post = cofem.posterior(phi[:40], y[:40], precision=alpha, noise_precision=BETA)
        centre, spread = post.predict(phi[40:])
        inside.append(abs(y[40:] - centre) < 1.96 * spread)
    # 1200 predictions, correlated in thirties; ± 0.03 is about three standard errors.
    assert abs(np.mean(inside) - 0.95) < 0.03


@pytest.mark.parametrize("call", ["variance_of", "predict"])
def test_a_map_of_another_width_is_refused(call):
    post, _, _ = exact()
    with pytest.raises(ValueError, match=str(D)):
        getattr(post, call)(np.ones((3, D + 1)))
    name = "linear_map" if call == "variance_of" else "phi_new"
    with pytest.raises((ValueError, TypeError), match=name):
        getattr(post, call)(np.full((3, D), np.nan))


@pytest.mark.parametrize("shared", [True, False], ids=["one phi", "a list"])
def test_maps_of_joint_tasks_have_an_axis_of_tasks(shared):
    phi, y, alpha, _, _ = problem()
    beta = [BETA, 5 * BETA]
    phis = phi if shared else [phi, phi[:20]]
    data = [y, 2 * y] if shared else [y, y[:20]]
    joint = cofem.posterior(phis, data, precision=alpha, noise_precision=beta)
    R = np.random.default_rng(4).standard_normal((5, D))
    variance, (centre, spread) = joint.variance_of(R), joint.predict(R)
    assert variance.shape == centre.shape == spread.shape == (2, 5)
    for i, (p, d) in enumerate(zip([phi, phi] if shared else phis, data, strict=True)):
        covariance = np.linalg.inv(beta[i] * p.T @ p + np.diag(alpha))
        expected = np.diag(R @ covariance @ R.T)
        np.testing.assert_allclose(variance[i], expected, rtol=1e-5)
        np.testing.assert_allclose(spread[i], np.sqrt(expected + 1 / beta[i]), rtol=1e-5)
        mean = R @ (beta[i] * covariance @ (p.T @ d))
        np.testing.assert_allclose(centre[i], mean, rtol=0, atol=1e-4 * abs(mean).max())


def test_a_list_of_one_task_has_its_axis_too():
    phi, y, alpha, _, _ = problem()
    joint = cofem.posterior(phi, y[None], precision=alpha, noise_precision=BETA)
    found = joint.variance_of(np.eye(D))
    assert found.shape == (1, D)
    matrix = phi.to_dense() if hasattr(phi, "to_dense") else phi
    covariance = np.linalg.inv(BETA * matrix.conj().T @ matrix + np.diag(alpha))
    np.testing.assert_allclose(found[0], np.diag(covariance), rtol=1e-6)


@pytest.mark.parametrize("call", ["variance_of", "predict"])
def test_maps_of_the_papers_nonnegative_posterior_are_refused_with_a_way_out(call):
    phi, y, alpha, _, _ = problem()
    positive = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, nonnegative=True,
                               method=cofem.CoFEM.paper())  # fmt: skip
    with pytest.raises(ValueError, match=r"rectified.*post\.sample\(1000\)"):
        getattr(positive, call)(np.eye(D))


def test_maps_of_a_nonnegative_posterior_vary_as_its_draws_do():
    phi, y, alpha, _, _ = problem()
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, nonnegative=True)
    rows = np.random.default_rng(5).normal(size=(6, D))
    mapped = post.sample(8000, seed=3) @ rows.T
    mean, std = post.predict(rows, noise=False)
    assert np.max(np.abs(mapped.mean(axis=0) - mean) / std) < 0.1
    np.testing.assert_allclose(std, mapped.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(post.variance_of(rows), std**2, rtol=1e-10)
