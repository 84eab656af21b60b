"""Problems with nothing in them, or in absurd units: an answer, or an error that says which."""

import numpy as np
import pytest

import cofem

N, D = 20, 30


def problem(scale=1.0):
    random = np.random.default_rng(0)
    phi, z = random.standard_normal((N, D)), np.zeros(D)
    z[[3, 9]] = 1, -1
    return phi, scale * (phi @ z + 0.1 * random.standard_normal(N)), z


@pytest.mark.parametrize("options", [{}, {"prior": "ard"}, {"noise_std": 0.5}], ids=str)
@pytest.mark.parametrize("method", ["auto", "em", "cofem"])
def test_a_phi_of_zeros(method, options):
    y = problem()[1]
    post = cofem.fit(np.zeros((N, D)), y, method=method, **options)
    assert np.all(post.mean == 0)
    assert not np.any(post.support())
    # Nothing but noise: its precision is that of y.
    expected = options.get("noise_std", np.sqrt(np.mean(y**2))) ** -2
    assert post.noise_precision == pytest.approx(expected)
    exact = N / 2 * np.log(expected / (2 * np.pi)) - expected / 2 * np.sum(y**2)
    assert post.log_evidence == pytest.approx(exact)


def test_a_phi_of_constants_beside_an_intercept():
    y = problem()[1]
    for prior in ("auto", "ard"):
        post = cofem.fit(np.full((N, D), 3.7), y, intercept=True, prior=prior)
        assert np.all(post.mean == 0)
        assert post.intercept == pytest.approx(np.mean(y))
        # The constant is as unknown as z there; their sum is not.
        mean, std = post.predict(np.full((1, D), 3.7), noise=False)
        assert mean[0] == pytest.approx(np.mean(y))
        assert std[0] == pytest.approx(np.std(y) / np.sqrt(N - 1), rel=1e-4)


def test_a_learned_prior_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r'prior="mixture": phi is zero'):
        cofem.fit(np.zeros((N, D)), np.ones(N), prior="mixture")


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_absurd_units_are_named(scale):
    phi, y, _ = problem(scale)
    with pytest.raises(ValueError, match=r"y is (large|small), .* change its units"):
        cofem.fit(phi, y)


@pytest.mark.parametrize("scale", [1e-130, 1e130])
@pytest.mark.parametrize("prior", ["mixture", "ard"])
def test_units_that_are_only_strange_change_nothing(scale, prior):
    phi, y, _ = problem()
    plain = cofem.fit(phi, y, prior=prior)
    post = cofem.fit(phi, scale * y, prior=prior)
    np.testing.assert_allclose(post.mean / scale, plain.mean, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_data(n):
    phi, y, _ = problem()
    for intercept in (False, True)[:n]:
        post = cofem.fit(phi[:n], y[:n], intercept=intercept)
        assert np.isfinite(post.noise_precision)
        assert np.all(np.isfinite(post.std))
        # It explains the data no worse than an answer of zeros does.
        left = y[:n] - phi[:n] @ post.mean - (post.intercept if intercept else 0.0)
        assert np.linalg.norm(left) <= np.linalg.norm(y[:n])


def test_nobody_is_told_to_use_what_he_uses():
    from cofem.solvers.verdicts import Status

    assert "float32: use float64" in Status.NOT_POSITIVE.message
    x = np.linspace(0, 1, 30)
    y = np.sin(6 * x) + 0.01 * np.random.default_rng(0).standard_normal(30)
    for degree in (10, 20):
        post = cofem.fit(np.vander(x, degree), y, method="cofem", max_iter=300)
        assert np.linalg.norm(np.vander(x, degree) @ post.mean - np.sin(6 * x)) < 0.1
