"""SparseBayesRegressor against dense formulas, and what must not change its posterior."""

import numpy as np
import pytest
from sklearn_cases import KINDS, flat_intercept_posterior, problem

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

import cofem
from cofem.sklearn import SparseBayesRegressor, rotation

# -- against dense formulas ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
def test_weights_intercept_and_error_bars_are_the_dense_posterior(kind, intercept, shape):
    for seed in range(2):
        X, y, _ = problem(seed, *shape)
        weights = np.random.default_rng(seed).uniform(0.5, 3, size=shape[0])
        model = SparseBayesRegressor(fit_intercept=intercept, max_iter=30, tol=0, prior="ard")
        given = KINDS[kind](X)
        model.fit(given, y, sample_weight=weights)
        covariance, mean_map = flat_intercept_posterior(model, X, weights)
        mean, std = mean_map @ y, np.sqrt(np.diag(covariance))
        d = shape[1]
        np.testing.assert_allclose(model.coef_, mean[:d], rtol=1e-5, atol=1e-7 * abs(mean).max())
        np.testing.assert_allclose(model.coef_std_, std[:d], rtol=1e-5)
        relevance = np.clip(1 - model.precision_ * std[:d] ** 2, 0, 1)
        np.testing.assert_allclose(model.relevance_, relevance, atol=1e-5)
        if intercept:
            np.testing.assert_allclose(model.intercept_, mean[d], rtol=1e-5)
        else:
            assert model.intercept_ == 0
        X_new = np.random.default_rng(seed + 9).normal(size=(7, d)) * X.std(axis=0)
        full = np.column_stack([X_new, np.ones(7)]) if intercept else X_new
        predicted, spread = model.predict(KINDS[kind](X_new), return_std=True)
        np.testing.assert_allclose(predicted, full @ mean, rtol=1e-5, atol=1e-6 * y.std())
        variance = np.einsum("nd,de,ne->n", full, covariance, full) + 1 / model.noise_precision_
        np.testing.assert_allclose(spread, np.sqrt(variance), rtol=1e-5)


@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
def test_the_score_is_the_evidence_of_the_data_without_their_mean(shape):
    X, y, _ = problem(3, *shape)
    n = shape[0]
    model = SparseBayesRegressor(max_iter=20, tol=0, prior="ard").fit(X, y)
    # Orthonormal coordinates of what is left when the mean is taken away.
    basis = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
    turned = basis.T @ X
    covariance = np.eye(n - 1) / model.noise_precision_ + (turned / model.precision_) @ turned.T
    data = basis.T @ y
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    expected = -0.5 * (log_det + data @ np.linalg.solve(covariance, data))
    assert model.scores_.shape == (20,) == (model.n_iter_,)
    np.testing.assert_allclose(model.scores_[-1], expected, rtol=1e-6)
    assert np.all(np.diff(model.scores_) > -1e-8 * abs(expected))  # EM never goes down


def test_large_problems_take_another_way_to_the_same_posterior(monkeypatch):
    X, y, _ = problem(1, 50, 30)
    # The start depends on what is seen of the noise; here it is the same.
    method = cofem.EM(initial_precision=0.1)
    options = {"noise_precision": 2.0, "method": method, "max_iter": 15, "tol": 0}
    weights = np.linspace(0.2, 2, 50)
    X_new = X[:9] * 1.5
    rotated = SparseBayesRegressor(**options).fit(X, y, weights)
    expected = rotated.predict(X_new, return_std=True)
    monkeypatch.setattr(rotation, "SMALL", 0)
    for kind in KINDS.values():
        model = SparseBayesRegressor(**options).fit(kind(X), y, weights)
        assert not model._design.rotated
        np.testing.assert_allclose(model.coef_, rotated.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.coef_std_, rotated.coef_std_, rtol=1e-6)
        np.testing.assert_allclose(model.scores_, rotated.scores_, rtol=1e-8)
        np.testing.assert_allclose(model.predict(kind(X_new), True), expected, rtol=1e-4)


def test_many_features_and_few_samples_have_exact_predictive_deviations():
    X, y, _ = problem(2, 20, 1100)  # more than are factorised: Woodbury
    model = SparseBayesRegressor(max_iter=10, tol=0).fit(X, y)
    covariance, _ = flat_intercept_posterior(model, X, np.ones(20))
    full = np.column_stack([X[:5] * 1.3, np.ones(5)])
    variance = np.einsum("nd,de,ne->n", full, covariance, full) + 1 / model.noise_precision_
    np.testing.assert_allclose(
        model.predict(X[:5] * 1.3, return_std=True)[1], np.sqrt(variance), rtol=1e-4
    )


# -- invariances -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 10), (30, 45)])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_units_do_not_matter(shape, nonnegative):
    X, y, _ = problem(0, *shape)
    units = np.exp(5 * np.random.default_rng(1).normal(size=shape[1]))
    one = SparseBayesRegressor(nonnegative=nonnegative).fit(X, y)
    other = SparseBayesRegressor(nonnegative=nonnegative).fit(X * units, 1e4 * y - 7.0)
    np.testing.assert_allclose(other.coef_ * units / 1e4, one.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.coef_std_ * units / 1e4, one.coef_std_, rtol=1e-6)
    np.testing.assert_allclose(other.noise_precision_ * 1e8, one.noise_precision_, rtol=1e-6)
    np.testing.assert_allclose(other.intercept_, 1e4 * one.intercept_ - 7.0, rtol=1e-6)


@pytest.mark.parametrize("shape", [(40, 8), (15, 30)])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_weight_of_two_is_the_sample_twice(shape, kind):
    for seed in range(3):
        X, y, _ = problem(seed, *shape)
        count = np.random.default_rng(seed).integers(0, 4, size=shape[0])
        order = np.random.default_rng(seed).permutation(count.sum())
        repeated = np.repeat(np.arange(shape[0]), count)[order]
        weighted = SparseBayesRegressor().fit(KINDS[kind](X), y, count)
        written = SparseBayesRegressor().fit(KINDS[kind](X[repeated]), y[repeated])
        np.testing.assert_allclose(weighted.noise_precision_, written.noise_precision_, rtol=1e-7)
        np.testing.assert_allclose(weighted.coef_, written.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(weighted.coef_std_, written.coef_std_, rtol=1e-6)


def test_large_weights_pull_towards_their_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    sides = np.arange(200) % 2
    y = np.where(sides, 2.0, -2.0) * X[:, 0] + 0.1 * rng.normal(size=200)
    first = SparseBayesRegressor().fit(X, y, sample_weight=np.where(sides, 100, 0.001))
    second = SparseBayesRegressor().fit(X, y, sample_weight=np.where(sides, 0.001, 100))
    np.testing.assert_allclose([first.coef_[0], second.coef_[0]], [2, -2], atol=0.05)
