"""SparseBayesRegressor against dense formulas, scikit-learn's own checks, and ARDRegression."""

import pickle
import re
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import nnls

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning as LearnWarning
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cofem
from cofem.operators import Convolution, as_operator, from_functions
from cofem.sklearn import ConvergenceWarning, SparseBayesRegressor, design


@parametrize_with_checks([SparseBayesRegressor()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [SparseBayesRegressor(nonnegative=True), SparseBayesRegressor(fit_intercept=False)]
)
def test_scikit_learns_own_checks_of_other_settings(estimator, check):
    check(estimator)


# -- data and oracles --------------------------------------------------------------------


def problem(seed, n=60, d=12, outputs=None, noise=0.3):
    """Correlated features of very different units, some of them irrelevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    X = (X + rng.normal(size=d)) * np.exp(rng.normal(size=d))
    shape = (d,) if outputs is None else (d, outputs)
    w = rng.normal(size=shape) * (np.arange(d) < d // 3).reshape(-1, *[1] * (len(shape) - 1))
    y = X @ w + 2.0
    y = y + noise * y.std() * rng.normal(size=y.shape)
    return X, y, w


def flat_intercept_posterior(model, X, weights):
    """Mean map and covariance of (w, intercept) at the α and β that the model reports.

    The intercept is one more column with no prior at all.
    """
    alpha, beta = model.precision_, model.noise_precision_
    full = np.column_stack([X, np.ones(len(X))]) if model.fit_intercept else X
    alpha = np.append(alpha, 0.0) if model.fit_intercept else alpha
    scale = np.linalg.norm(full, axis=0)
    scaled = full / scale
    precision = beta * scaled.T @ (weights[:, None] * scaled) + np.diag(alpha / scale**2)
    covariance = np.linalg.inv(precision) / np.outer(scale, scale)
    return covariance, beta * covariance @ (full.T * weights)


def as_is(X):
    return X


def through_functions(X):
    return from_functions(lambda z: z @ X.T, lambda y: y @ X, X.shape, float)


KINDS = {
    "dense": as_is,
    "csr": scipy.sparse.csr_array,
    "csc matrix": scipy.sparse.csc_matrix,
    "operator": as_operator,
    "functions": through_functions,
    "scipy operator": scipy.sparse.linalg.aslinearoperator,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
def test_weights_intercept_and_error_bars_are_the_dense_posterior(kind, intercept, shape):
    for seed in range(2):
        X, y, _ = problem(seed, *shape)
        weights = np.random.default_rng(seed).uniform(0.5, 3, size=shape[0])
        model = SparseBayesRegressor(fit_intercept=intercept, max_iter=30, tol=0)
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
    model = SparseBayesRegressor(max_iter=20, tol=0).fit(X, y)
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
    monkeypatch.setattr(design, "SMALL", 0)
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


# -- invariances -------------------------------------------------------------------------


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
        np.testing.assert_allclose(
            weighted.noise_precision_, written.noise_precision_, rtol=1e-7
        )
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


# -- the noise ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(200, 10), (1000, 50), (5000, 8)])
def test_many_samples_give_the_noise_by_its_own_fixed_point(n, d):
    # The estimate's relative deviation is √(2/(n−d)); five of them, on 12 problems.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = X[:, :3] @ [1.0, -1, 0.5] + 0.7 * rng.normal(size=n)
        model = SparseBayesRegressor().fit(X, y)
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
    np.testing.assert_allclose(model.coef_, found.coef_, rtol=1e-9, atol=1e-12)


# -- quality beside scikit-learn ---------------------------------------------------------


def test_diabetes_beside_ard_and_ridge():
    X, y = load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    ours, ard, ridge = (
        cross_val_score(model, X, y, cv=folds).mean()
        for model in (SparseBayesRegressor(), ARDRegression(), BayesianRidge())
    )
    assert ours > min(ard, ridge) - 0.005
    model, theirs = SparseBayesRegressor().fit(X, y), ARDRegression().fit(X, y)
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


# -- several outputs, non-negative weights -----------------------------------------------


def test_outputs_share_their_support_and_keep_their_units():
    rng = np.random.default_rng(0)
    n, d, outputs = 40, 100, 8
    X = rng.normal(size=(n, d))
    chosen = np.arange(12)
    W = np.zeros((d, outputs))
    W[chosen] = rng.normal(size=(12, outputs))
    Y = (X @ W + 0.3 * rng.normal(size=(n, outputs))) * np.logspace(-3, 3, outputs)
    joint = SparseBayesRegressor().fit(X, Y)
    assert joint.coef_.shape == joint.coef_std_.shape == (outputs, d)
    assert joint.intercept_.shape == joint.noise_precision_.shape == (outputs,)
    assert joint.relevance_.shape == (d,)
    assert set(np.argsort(joint.relevance_)[-12:]) == set(chosen)
    scaled = joint.coef_.T / np.logspace(-3, 3, outputs)
    alone = np.column_stack([SparseBayesRegressor().fit(X, y).coef_ for y in Y.T])
    alone = alone / np.logspace(-3, 3, outputs)
    assert np.linalg.norm(scaled - W) < 0.7 * np.linalg.norm(alone - W)
    mean, std = joint.predict(X[:4], return_std=True)
    assert mean.shape == std.shape == (4, outputs)


def test_outputs_have_noises_of_their_own_when_there_are_samples_enough():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    sigma = np.array([0.1, 3.0])
    Y = X[:, :2] @ rng.normal(size=(2, 2)) + sigma * rng.normal(size=(600, 2))
    model = SparseBayesRegressor().fit(X, Y)
    np.testing.assert_allclose(model.noise_precision_ * sigma**2, 1, atol=5 * np.sqrt(2 / 600))
    std = model.predict(X[:3], return_std=True)[1]
    np.testing.assert_allclose(std, np.broadcast_to(sigma, (3, 2)), rtol=0.15)


def test_one_column_of_outputs_stays_a_column():
    X, y, _ = problem(0)
    flat, column = SparseBayesRegressor().fit(X, y), SparseBayesRegressor().fit(X, y[:, None])
    assert column.coef_.shape == (1, 12)
    assert column.predict(X).shape == (60, 1)
    np.testing.assert_allclose(column.coef_[0], flat.coef_)


@pytest.mark.parametrize("kind", ["dense", "csr", "operator"])
def test_nonnegative_weights(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 10))
    w = np.array([2.0, 1, 0.5, 0, 0, 0, 0, 0, 0, -1.0])
    y = X @ w + 0.05 * rng.normal(size=300) + 3
    given = KINDS[kind](X)
    model = SparseBayesRegressor(nonnegative=True).fit(given, y)
    assert np.all(model.coef_ >= 0)
    reference = nnls(X - X.mean(axis=0), y - y.mean())[0]
    assert np.max(np.abs(model.coef_ - reference)) < 0.1
    _, std = model.predict(given, return_std=True)
    centred = X - X.mean(axis=0)
    variance = centred**2 @ model.coef_std_**2 + (1 + 1 / 300) / model.noise_precision_
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-9)


# -- corners -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "csr", "operator"])
def test_a_constant_feature_is_left_alone(kind):
    X, y, _ = problem(0)
    without = SparseBayesRegressor().fit(X, y)
    X = np.insert(X, 3, 1234.567, axis=1)
    model = SparseBayesRegressor().fit(KINDS[kind](X), y)
    assert model.coef_[3] == 0
    assert model.coef_std_[3] == np.inf
    assert model.relevance_[3] == 0
    np.testing.assert_allclose(np.delete(model.coef_, 3), without.coef_, rtol=1e-3, atol=1e-4)
    mean, std = model.predict(KINDS[kind](X), return_std=True)
    assert np.all(np.isfinite([mean, std]))


@pytest.mark.parametrize("shape", [(30, 4), (5, 20)])
def test_a_constant_y_is_its_intercept(shape):
    X = np.random.default_rng(0).normal(size=shape)
    model = SparseBayesRegressor().fit(X, np.full(shape[0], 0.1))
    assert np.all(model.coef_ == 0)
    assert model.intercept_ == pytest.approx(0.1)
    assert model.noise_precision_ == np.inf
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 0.1)
    assert np.all(std == 0)


def test_no_feature_varies():
    X = np.ones((20, 3))
    y = np.arange(20.0)
    model = SparseBayesRegressor().fit(X, y)
    assert np.all(model.coef_ == 0)
    np.testing.assert_allclose(model.predict(X), np.mean(y))
    np.testing.assert_allclose(model.noise_precision_, 1 / np.var(y, ddof=1), rtol=1e-6)


def test_pure_noise_is_not_fitted_and_ends():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 20)), rng.normal(size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseBayesRegressor().fit(X, y)
    assert model.n_iter_ < 300
    assert np.var(model.predict(X)) < 0.05


@pytest.mark.parametrize("small", [True, False])
def test_single_precision_gives_the_same_answer(small, monkeypatch):
    if not small:
        monkeypatch.setattr(design, "SMALL", 0)
    X, y, _ = problem(0, 80, 20)
    X = X + 100  # the mean is not lost
    options = {"max_iter": 15, "tol": 0, "noise_precision": 1.0}
    double = SparseBayesRegressor(**options).fit(X, y)
    single = SparseBayesRegressor(**options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(
        single.predict(X), double.predict(X), atol=2e-3 * np.std(y), rtol=0
    )


def test_a_sparse_array_is_never_written_out():
    rng = np.random.default_rng(0)
    n, d = 1500, 40_000  # 480 MB when dense
    X = scipy.sparse.random_array((n, d), density=5e-4, rng=rng, format="csr")
    y = X @ (3.0 * (np.arange(d) < 50)) + 0.1 * rng.normal(size=n)
    method = cofem.CoFEM(report_probes=4)
    model = SparseBayesRegressor(max_iter=3, tol=0, noise_precision=100.0, method=method)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 8 * n * d
    assert model.predict(X[:10], return_std=True)[1].shape == (10,)


def test_an_operator_that_is_a_transform():
    rng = np.random.default_rng(0)
    phi = Convolution(0.8 ** np.arange(20), n=300)
    w = np.zeros(300)
    w[[20, 90, 200]] = 3.0
    y = phi.forward(w) + 5 + 0.05 * rng.normal(size=300)
    model = SparseBayesRegressor(nonnegative=True).fit(phi, y)
    assert set(np.argsort(model.coef_)[-3:]) == {20, 90, 200}
    # Weights that cannot be negative are a little positive, all 297 of them.
    assert model.intercept_ == pytest.approx(5, abs=0.15)
    assert model.n_features_in_ == 300


# -- at home in scikit-learn -------------------------------------------------------------


def test_pipeline_grid_search_clone_and_pickle():
    X, y, _ = problem(0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SparseBayesRegressor()),
        {"sparsebayesregressor__fit_intercept": [True, False]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_ == {"sparsebayesregressor__fit_intercept": True}
    model = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(again.predict(X, True), model.predict(X, True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert clone(model).get_params() == model.get_params()


def test_a_pickle_of_a_tall_fit_does_not_hold_the_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    model = SparseBayesRegressor().fit(X, X[:, 0] + rng.normal(size=5000))
    assert len(pickle.dumps(model)) < 20_000


def test_names_of_features():
    pandas = pytest.importorskip("pandas")
    X, y, _ = problem(0, 40, 3)
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = SparseBayesRegressor().fit(table, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["a", "c", "b"]])
    model.fit(as_operator(X), y)
    assert not hasattr(model, "feature_names_in_")


def test_not_converged_is_told_in_both_languages():
    X, y, _ = problem(0)
    for category in (LearnWarning, cofem.ConvergenceWarning):
        with pytest.warns(category, match="max_iter=2"):
            SparseBayesRegressor(max_iter=2).fit(X, y)


def test_unsolved_systems_are_told():
    X, y, _ = problem(0, 40, 60)
    method = cofem.CoFEM(max_cg_steps=1)
    with pytest.warns(ConvergenceWarning, match="not solved"):
        SparseBayesRegressor(method=method, max_iter=5, noise_precision=10.0).fit(X, y)


@pytest.mark.parametrize(
    ("options", "weights", "error", "match"),
    [
        ({"fit_intercept": "yes"}, None, TypeError, "fit_intercept"),
        ({"nonnegative": 1}, None, TypeError, "nonnegative"),
        ({"noise_precision": -1.0}, None, ValueError, "noise_precision"),
        ({"noise_precision": "1"}, None, TypeError, "noise_precision"),
        ({"noise_precision": [1.0, 2.0]}, None, ValueError, "one per output"),
        ({"max_iter": 0}, None, ValueError, "max_iter"),
        ({"tol": -1.0}, None, ValueError, "tol"),
        ({"method": "magic"}, None, ValueError, "method"),
        ({}, np.full(60, 1e-3), ValueError, "relative weights"),
        ({}, -np.ones(60), ValueError, "negative"),
        ({}, np.ones(59), ValueError, "sample_weight"),
        ({}, np.full(60, np.nan), ValueError, "sample_weight"),
    ],
)
def test_bad_arguments_are_named(options, weights, error, match):
    X, y, _ = problem(0)
    with pytest.raises(error, match=match):
        SparseBayesRegressor(**options).fit(X, y, weights)


def test_bad_operators_are_named():
    X, y, _ = problem(0)
    wrong = from_functions(lambda z: z @ X.T, lambda v: 2 * v @ X, X.shape, float)
    with pytest.raises(ValueError, match="adjoint"):
        SparseBayesRegressor().fit(wrong, y)
    with pytest.raises(ValueError, match="complex"):
        SparseBayesRegressor().fit(as_operator(X + 1j), y)
    with pytest.raises(ValueError, match=r"y must have shape \(60,\)"):
        SparseBayesRegressor().fit(as_operator(X), y[:-1])
    model = SparseBayesRegressor().fit(as_operator(X), y)
    with pytest.raises(ValueError, match="expecting 12 features"):
        model.predict(as_operator(X[:, :5]))


def test_without_scikit_learn_the_error_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None\nimport cofem.sklearn"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert 'pip install "cofem[sklearn]"' in run.stderr.splitlines()[-1]


def test_the_example_of_the_page_runs():
    page = Path(__file__).parents[1] / "docs" / "sklearn.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(example, names)
    assert names["std"].shape == (5,)
