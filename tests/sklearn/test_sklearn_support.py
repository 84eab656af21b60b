"""Intervals and supports of weights: in the units of the data, and true as often as they say."""

import numpy as np
import pytest

from cofem.sklearn import SparseBayesRegressor


def data(seed, n=80, d=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-2, 2, d)
    coef = np.zeros(d)
    places = rng.choice(d, 3, replace=False)
    coef[places] = rng.choice([-1, 1], 3) * rng.uniform(1, 2, 3) / np.logspace(-2, 2, d)[places]
    return X, 5 + X @ coef + 0.3 * rng.normal(size=n), coef


@pytest.mark.parametrize("prior", ["mixture", "ard"])
def test_they_belong_to_the_data(prior):
    covered, false, found = [], 0, 0
    for seed in range(10):
        X, y, coef = data(seed)
        model = SparseBayesRegressor(prior=prior).fit(X, y)
        low, high = model.coef_interval(0.95)
        assert low.shape == high.shape == coef.shape
        assert np.all(low <= high)
        covered.append((low <= coef) & (coef <= high))
        chosen = model.coef_support(0.95)
        assert chosen.dtype == bool
        assert np.all(chosen[coef != 0])  # every one is ten error bars from zero
        false += int(np.sum(chosen & (coef == 0)))
        found += int(np.sum(chosen))
    # 200 weights: 95 % less three standard errors, 4.6 %.
    assert np.mean(covered) > 0.90
    # At most 5 % are false on average; "ard" promises it of each coordinate: 170 · 5 % = 8.5 ± 2.8.
    assert false <= (found * 0.05 + 4 if prior == "mixture" else 17)


def test_several_outputs_and_features_that_do_not_vary():
    X, y, _ = data(0)
    X[:, 3] = 7.0
    model = SparseBayesRegressor().fit(X, np.stack([y, 2 * y, np.ones(80)], axis=1))
    low, high = model.coef_interval()
    chosen = model.coef_support()
    assert low.shape == high.shape == chosen.shape == (3, 20)
    assert np.all(np.isneginf(low[:, 3]) & np.isposinf(high[:, 3]))
    assert not chosen[:, 3].any()
    assert not chosen[2].any()  # this output does not vary
    np.testing.assert_array_equal(chosen[0], chosen[1])


def test_before_a_fit_and_with_a_wrong_level():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        SparseBayesRegressor().coef_support()
    X, y, _ = data(0)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        SparseBayesRegressor().fit(X, y).coef_interval(95)
