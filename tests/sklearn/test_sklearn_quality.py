"""The noise that SparseBayesRegressor finds, and its predictions beside scikit-learn's own."""

import numpy as np
import pytest
from sklearn_cases import problem

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from sklearn.datasets import load_diabetes
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.model_selection import KFold, cross_val_score

from cofem.sklearn import SparseBayesRegressor

# -- the noise -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(200, 10), (1000, 50), (5000, 8)])
def test_many_samples_give_the_noise_by_its_own_fixed_point(n, d):
    # The estimate's relative deviation is √(2/(n−d)); five of them, on 12 problems.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = X[:, :3] @ [1.0, -1, 0.5] + 0.7 * rng.normal(size=n)
        learned = SparseBayesRegressor().fit(X, y)
        assert abs(learned.noise_precision_ * 0.49 - 1) < 5 * np.sqrt(2 / (n - d))
        model = SparseBayesRegressor(prior="ard").fit(X, y)
        assert abs(model.noise_precision_ * 0.49 - 1) < 5 * np.sqrt(2 / (n - d))
        residual = np.sum((y - model.predict(X)) ** 2)
        # 1 − α_j Σ_jj summed is what the fit used up, and the intercept is one more.
        fixed_point = (n - 1 - np.sum(model.relevance_)) / residual
        np.testing.assert_allclose(model.noise_precision_, fixed_point, rtol=0.011)


@pytest.mark.parametrize(("n", "d"), [(60, 40), (60, 120)])
def test_few_samples_do_not_let_the_noise_vanish(n, d):
    """Where EM's own update would run away; ARDRegression's is 1.5 to 7 times too high here."""
    ratios = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = X[:, :4] @ [2.0, -1, 1.5, 1] + 0.5 * rng.normal(size=n)
        ratios.append(SparseBayesRegressor().fit(X, y).noise_precision_ * 0.25)
    assert 0.5 < np.median(ratios) < 2


def test_clean_data_are_believed_up_to_a_limit():
    X, _, w = problem(0, 100, 6)
    model = SparseBayesRegressor().fit(X, X @ w + 1)
    np.testing.assert_allclose(model.coef_, w, rtol=1e-4, atol=1e-5)
    spread = np.std(X @ w)
    assert 1e5 < model.noise_precision_ * spread**2 < 1e11


def test_known_noise_is_used_as_given():
    X, y, _ = problem(0, 30, 40)
    found = SparseBayesRegressor().fit(X, y)
    model = SparseBayesRegressor(noise_precision=found.noise_precision_).fit(X, y)
    np.testing.assert_allclose(model.noise_precision_, found.noise_precision_, rtol=1e-12)
    # Another way to the same place.
    assert np.all(np.abs(model.coef_ - found.coef_) < 0.3 * found.coef_std_)


def test_known_noise_gives_the_same_weights_under_ard():
    X, y, _ = problem(0, 30, 40)
    found = SparseBayesRegressor(prior="ard").fit(X, y)
    model = SparseBayesRegressor(prior="ard", noise_precision=found.noise_precision_).fit(X, y)
    np.testing.assert_allclose(model.coef_, found.coef_, rtol=1e-9, atol=1e-12)


# -- quality beside scikit-learn -------------------------------------------------------


def test_diabetes_beside_ard_and_ridge():
    X, y = load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    ours, ard, ridge = (
        cross_val_score(model, X, y, cv=folds).mean()
        for model in (SparseBayesRegressor(), ARDRegression(), BayesianRidge())
    )
    assert ours > min(ard, ridge) - 0.005
    model = SparseBayesRegressor(prior="ard", tol=1e-6, max_iter=3000).fit(X, y)
    theirs = ARDRegression().fit(X, y)
    np.testing.assert_allclose(model.noise_precision_, theirs.alpha_, rtol=0.01)
    # Both maximise the same evidence; they stop at different places on a flat top.
    assert np.all(np.abs(model.coef_ - theirs.coef_) < 0.2 * model.coef_std_ + 3)


def test_predictive_intervals_hold_what_they_promise():
    """30 problems, 6,000 new observations: the standard error of the coverage is 0.4 %."""
    inside = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=20) * (np.arange(20) < 5)
        X, X_new = rng.normal(size=(2, 200, 20))
        y, y_new = (x @ w + 1 + 0.5 * rng.normal(size=200) for x in (X, X_new))
        mean, std = SparseBayesRegressor().fit(X, y).predict(X_new, return_std=True)
        inside.append(np.mean(np.abs(y_new - mean) < 1.96 * std))
    assert 0.93 < np.mean(inside) < 0.97
