"""SparseBayesRegressor with several outputs, and with weights that cannot be negative."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn_cases import KINDS, problem

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from cofem.sklearn import SparseBayesRegressor


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
