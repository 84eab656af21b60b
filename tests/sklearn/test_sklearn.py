"""SparseBayesRegressor at home in scikit-learn: its own checks, its tools, warnings and errors."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn_cases import problem

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning as LearnWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cofem
from cofem.operators import as_operator, from_functions
from cofem.sklearn import ConvergenceWarning, SparseBayesRegressor


@parametrize_with_checks([SparseBayesRegressor()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [SparseBayesRegressor(nonnegative=True), SparseBayesRegressor(fit_intercept=False)]
)
def test_scikit_learns_own_checks_of_other_settings(estimator, check):
    check(estimator)


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
    assert "pip install scikit-learn" in run.stderr.splitlines()[-1]
