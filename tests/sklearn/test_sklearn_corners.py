"""SparseBayesRegressor in the corners: constants, noise alone, large and unusual X."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn_cases import KINDS, problem

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

import cofem
from cofem.operators import Convolution
from cofem.sklearn import SparseBayesRegressor, rotation


@pytest.mark.parametrize("kind", ["dense", "csr", "operator"])
def test_a_constant_feature_is_left_alone(kind):
    X, y, _ = problem(0)
    without = SparseBayesRegressor().fit(X, y)
    X = np.insert(X, 3, 1234.567, axis=1)
    model = SparseBayesRegressor().fit(KINDS[kind](X), y)
    assert model.coef_[3] == 0
    assert model.coef_std_[3] == np.inf
    assert model.relevance_[3] == 0
    # It is one coordinate more for the learned prior to set out from, and no more than that.
    moved = np.abs(np.delete(model.coef_, 3) - without.coef_)
    assert np.all(moved < 0.1 * without.coef_std_)
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
        monkeypatch.setattr(rotation, "SMALL", 0)
    X, y, _ = problem(0, 80, 20)
    X = X + 100  # the mean is not lost
    options = {"max_iter": 15, "tol": 0, "noise_precision": 1.0}
    double = SparseBayesRegressor(**options).fit(X, y)
    single = SparseBayesRegressor(**options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=2e-3 * np.std(y), rtol=0)


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


NUMBERS = [0.0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "words",
    [
        ["0", "1", "2", "3", "4", "5"],
        np.array(["0", "1", "2", "3", "4", "5"], dtype=object),
        np.array([0, 1, 2, 3, 4, "5"], dtype=object),
        np.array([b"0", b"1", b"2", b"3", b"4", b"5"]),
        np.arange(6).astype("datetime64[D]"),
    ],
    ids=["list", "objects", "one of them", "bytes", "dates"],
)
@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_text_is_refused_by_name_even_if_it_reads_as_numbers(name, words):
    data = {"X": np.vander(NUMBERS, 3), "y": np.array(NUMBERS), "sample_weight": None}
    data[name] = [[word, word] for word in words] if name == "X" else words
    with pytest.raises(TypeError, match=f"^{name} must hold numbers, got"):
        SparseBayesRegressor().fit(**data)


def test_text_is_refused_with_an_operator_too():
    with pytest.raises(TypeError, match=r"^y must hold numbers, got strings such as 'a'"):
        SparseBayesRegressor().fit(Convolution(np.ones(2), n=3), ["a", "b", "c"])


def test_objects_that_are_numbers_are_taken():
    X, y, _ = problem(0)
    model, other = SparseBayesRegressor(), SparseBayesRegressor()
    np.testing.assert_array_equal(
        model.fit(X, y).coef_, other.fit(X.astype(object), list(y.astype(object))).coef_
    )
