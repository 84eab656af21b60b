"""Pruning in SparseBayesRegressor: the threshold, the fixed point, and what it is worth."""

import math

import numpy as np
import pytest

from sklearn_cases import flat_intercept_posterior

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from cofem.sklearn import SparseBayesRegressor
from cofem.sklearn.pruning import strictness


def sparse_problem(seed, n=120, d=300, relevant=8, noise=0.3, new=300):
    """Return training data, new data and the weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + new, d)) * np.exp(rng.normal(size=d))
    w = np.zeros(d)
    w[:relevant] = rng.normal(size=relevant) / X.std(axis=0)[:relevant]
    signal = X @ w
    y = 1 + signal + noise * signal.std() * rng.normal(size=n + new)
    return X[:n], y[:n], X[n:], y[n:], w


@pytest.mark.parametrize(("d", "k"), [(100, 20), (1000, 10), (200_000, 500)])
def test_a_weight_stays_if_it_stands_out_by_the_threshold(d, k):
    # EM for one weight seen with noise of deviation one: α = (1 + κ) / (μ² + Σ).
    kappa, threshold = strictness(d, k), math.sqrt(2 * math.log(d / k))

    def survives(v):
        alpha = 1 / v**2
        for _ in range(20_000):
            spread = 1 / (1 + alpha)
            alpha = min((1 + kappa) / ((spread * v) ** 2 + spread), 1e9)
        return alpha < 1e3

    assert survives(1.02 * threshold)
    assert not survives(0.98 * threshold)


def test_where_most_features_matter_nothing_is_pruned():
    assert strictness(60, 40) == 0
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30))
    y = X @ np.sign(rng.normal(size=30)) + rng.normal(size=300)
    pruned, plain = (SparseBayesRegressor(prune=p, tol=1e-7).fit(X, y) for p in (True, False))
    np.testing.assert_allclose(pruned.coef_, plain.coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_at_the_fixed_point_of_its_prior(seed):
    X, y, *_ = sparse_problem(seed, n=60, d=80, relevant=5)
    model = SparseBayesRegressor(noise_precision=1 / (0.3 * y.std()) ** 2, max_iter=5000, tol=1e-8)
    model.fit(X, y)
    covariance, mean_map = flat_intercept_posterior(model, X, np.ones(len(y)))
    mean, spread = (mean_map @ y)[:-1], np.diag(covariance)[:-1]
    relevance = 1 - model.precision_ * spread
    kappa = strictness(80, float(np.sum(np.clip(relevance, 0, 1))))
    kept = relevance > 0.3
    assert 2 <= np.sum(kept) <= 12
    assert kappa > 0.5
    found = model.precision_[kept] * (mean**2 + spread)[kept]
    np.testing.assert_allclose(found, 1 + kappa, rtol=0.02)


def test_it_does_not_depend_on_units():
    X, y, *_ = sparse_problem(0)
    scale = 10.0 ** np.random.default_rng(1).uniform(-3, 3, size=X.shape[1])
    one, other = SparseBayesRegressor().fit(X, y), SparseBayesRegressor().fit(X * scale, 100 * y)
    np.testing.assert_allclose(other.coef_ * scale / 100, one.coef_, rtol=1e-6, atol=1e-9)


def test_errors_of_sparse_problems_shrink_and_intervals_hold():
    # On all of six problems the error falls.
    ratios, coverage = [], []
    for seed in range(6):
        X, y, X_new, y_new, w = sparse_problem(seed)
        scale = X.std(axis=0)
        plain, pruned = (SparseBayesRegressor(prune=p, max_iter=1000).fit(X, y)
                         for p in (False, True))  # fmt: skip
        errors = [np.linalg.norm((m.coef_ - w) * scale) for m in (plain, pruned)]
        ratios.append(errors[1] / errors[0])
        mean, std = pruned.predict(X_new, return_std=True)
        coverage.append(np.mean(np.abs(y_new - mean) < 1.96 * std))
    assert np.median(ratios) < 0.7
    assert max(ratios) < 0.9
    assert np.mean(coverage) > 0.88


def test_several_outputs_are_pruned_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 200))
    w = np.zeros((200, 3))
    w[:5] = rng.normal(size=(5, 3))
    y = X @ w + 0.5 * rng.normal(size=(80, 3))
    plain, pruned = (SparseBayesRegressor(prune=p, max_iter=1000).fit(X, y) for p in (False, True))
    assert np.linalg.norm(pruned.coef_.T - w) < np.linalg.norm(plain.coef_.T - w)
    assert np.sum(pruned.relevance_ > 0.1) < np.sum(plain.relevance_ > 0.1)


@pytest.mark.parametrize(
    "options", [{"nonnegative": True}, {"method": "vi"}, {"method": "sequential"}], ids=str
)
def test_what_cannot_be_pruned_is_as_without(options):
    X, y, *_ = sparse_problem(0, n=40, d=60, relevant=3)
    options = {"noise_precision": 10.0, "max_iter": 30, "tol": 0, **options}
    pruned, plain = (SparseBayesRegressor(prune=p, **options).fit(X, y) for p in (True, False))
    np.testing.assert_array_equal(pruned.coef_, plain.coef_)


def test_prune_is_a_choice_of_two():
    with pytest.raises(TypeError, match="prune must be True or False, got 3"):
        SparseBayesRegressor(prune=3).fit(np.eye(4), np.arange(4.0))
