"""SparseBayesRegressor on the learned prior: quality, draws, groups, covariances."""

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn.utils.validation", exc_type=ImportError)

from sklearn.linear_model import BayesianRidge

from cofem.sklearn import SparseBayesRegressor, rotation


def sparse_problem(seed, n=120, d=300, relevant=8, noise=0.3, new=300):
    """Return training data, new data and the weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + new, d)) * np.exp(rng.normal(size=d))
    w = np.zeros(d)
    w[:relevant] = rng.normal(size=relevant) / X.std(axis=0)[:relevant]
    signal = X @ w
    y = 1 + signal + noise * signal.std() * rng.normal(size=n + new)
    return X[:n], y[:n], X[n:], y[n:], w


def test_it_does_not_depend_on_units():
    X, y, *_ = sparse_problem(0)
    scale = 10.0 ** np.random.default_rng(1).uniform(-3, 3, size=X.shape[1])
    one, other = SparseBayesRegressor().fit(X, y), SparseBayesRegressor().fit(X * scale, 100 * y)
    np.testing.assert_allclose(other.coef_ * scale / 100, one.coef_, rtol=1e-6, atol=1e-9)
    assert other.intercept_ == pytest.approx(100 * one.intercept_)
    assert other.intercept_std_ == pytest.approx(100 * one.intercept_std_)


def test_errors_of_sparse_problems_are_below_those_of_one_precision_each():
    ratios = []
    for seed in range(6):
        X, y, _, _, w = sparse_problem(seed)
        scale = X.std(axis=0)
        learned = SparseBayesRegressor().fit(X, y)
        ard = SparseBayesRegressor(prior="ard", noise_precision=learned.noise_precision_)
        ard.fit(X, y)
        assert (learned.prior_, ard.prior_) == ("mixture", "ard")
        errors = [np.linalg.norm((m.coef_ - w) * scale) for m in (learned, ard)]
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 0.7


# How many of 50 weights are not zero.
COVERED = {"dense": 50, "mixed": 20, "sparse": 5}


@pytest.mark.parametrize("kind", COVERED)
def test_intervals_hold_with_everything_learned(kind):
    """20 problems of 60 × 50, 400 new observations each, noise half of the signal."""
    inside, ours, ridge = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(460, 50))
        w = rng.permutation(rng.normal(size=50) * (np.arange(50) < COVERED[kind]))
        signal = X @ w
        y = 3 + signal + 0.5 * signal.std() * rng.normal(size=460)
        model = SparseBayesRegressor().fit(X[:60], y[:60])
        mean, std = model.predict(X[60:], return_std=True)
        inside.append(np.mean(np.abs(y[60:] - mean) < 1.96 * std))
        ours.append(np.mean((y[60:] - mean) ** 2))
        other = BayesianRidge().fit(X[:60], y[:60]).predict(X[60:])
        ridge.append(np.mean((y[60:] - other) ** 2))
    # The coverage differs between problems by 4 %: its mean is good to 1 %.
    assert 0.92 < np.mean(inside) < 0.97
    if kind != "dense":  # ridge regression is made for that
        assert np.mean(ours) < np.mean(ridge)


def test_probabilities_tell_the_relevant_ones():
    X, y, _, _, w = sparse_problem(1)
    model = SparseBayesRegressor().fit(X, y)
    assert model.coef_probability_.shape == (300,)
    assert np.all((model.coef_probability_ >= 0) & (model.coef_probability_ <= 1))
    large = np.abs(w * X.std(axis=0)) > 0.5
    assert np.all(model.coef_probability_[large] > 0.9)
    assert np.mean(model.coef_probability_[w == 0]) < 0.05
    assert SparseBayesRegressor(prior="ard").fit(X[:, :20], y).coef_probability_ is None


@pytest.mark.parametrize("prior", ["ard", "mixture"])
@pytest.mark.parametrize("small", [True, False])
def test_draws_have_the_moments_and_predictions_of_the_posterior(prior, small, monkeypatch):
    if not small:
        monkeypatch.setattr(rotation, "SMALL", 0)
    X, y, X_new, *_ = sparse_problem(2, n=60, d=20, relevant=4)
    model = SparseBayesRegressor(prior=prior).fit(X, y)
    n = 4000
    coef, intercept = model.sample_coef(n, random_state=0)
    assert coef.shape == (n, 20)
    assert intercept.shape == (n,)
    # Means within 5 standard errors, standard deviations within 10 %.
    assert np.all(np.abs(coef.mean(axis=0) - model.coef_) < 5 * model.coef_std_ / n**0.5 + 1e-12)
    relevant = model.relevance_ > 0.5
    np.testing.assert_allclose(coef.std(axis=0)[relevant], model.coef_std_[relevant], rtol=0.1)
    assert abs(intercept.mean() - model.intercept_) < 5 * model.intercept_std_ / n**0.5
    assert intercept.std() == pytest.approx(model.intercept_std_, rel=0.1)
    predicted = coef @ X_new[:5].T + intercept[:, None]
    _, cov = model.predict(X_new[:5], return_cov=True)
    cov = cov - np.eye(5) / model.noise_precision_
    if prior == "ard":  # the mixture's draws have their own joint law
        bound = 6 * np.sqrt(np.outer(np.diag(cov), np.diag(cov)) * 2 / n)
        assert np.all(np.abs(np.cov(predicted.T) - cov) < bound)


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"prior": "ard"}], ids=str)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("shape", [(60, 20), (30, 50)])
def test_the_covariance_has_the_variances_on_its_diagonal(shape, small, options, monkeypatch):
    if not small:
        monkeypatch.setattr(rotation, "SMALL", 0)
    X, y, X_new, *_ = sparse_problem(3, *shape, relevant=4)
    model = SparseBayesRegressor(noise_precision=3.0, max_iter=1000, **options)
    model.fit(X, np.abs(y))
    mean, std = model.predict(X_new[:9], return_std=True)
    again, cov = model.predict(X_new[:9], return_cov=True)
    np.testing.assert_array_equal(mean, again)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-4)
    assert np.all(np.linalg.eigvalsh(cov) > 0)
    sparse = model.predict(scipy.sparse.csr_array(X_new[:9]), return_cov=True)[1]
    np.testing.assert_allclose(sparse, cov, rtol=1e-9, atol=1e-12)


def test_several_outputs_have_draws_and_covariances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10))
    noise = rng.normal(size=(80, 3)) * [0.1, 1, 3]
    y = X[:, :2] @ rng.normal(size=(2, 3)) + [1, 5, 9] + noise
    model = SparseBayesRegressor().fit(X, y)
    coef, intercept = model.sample_coef(50, random_state=1)
    assert coef.shape == (50, 3, 10)
    assert intercept.shape == (50, 3)
    assert model.intercept_std_.shape == (3,)
    # Each output has its own noise, known to √(10/80) of its spread or so beside what was drawn.
    np.testing.assert_allclose(model.noise_precision_ * noise.var(axis=0), 1.0, rtol=0.2)
    _, cov = model.predict(X[:4], return_cov=True)
    _, std = model.predict(X[:4], return_std=True)
    assert cov.shape == (4, 4, 3)
    np.testing.assert_allclose(np.einsum("iik->ik", cov), std**2, rtol=1e-6)


def test_groups_are_relevant_together():
    rng = np.random.default_rng(0)
    errors = {True: [], False: []}
    labels = np.arange(120) // 4
    for _ in range(6):
        w = np.repeat(rng.permutation(30) < 4, 4) * rng.normal(size=120)
        X = rng.normal(size=(60, 120))
        y = X @ w + rng.normal(size=60)
        for told in (True, False):
            model = SparseBayesRegressor(groups=labels if told else None).fit(X, y)
            errors[told].append(np.linalg.norm(model.coef_ - w))
        # Members of a group share their probability.
        grouped = SparseBayesRegressor(groups=labels).fit(X, y)
        if grouped.coef_probability_ is not None:
            assert np.ptp(grouped.coef_probability_.reshape(30, 4), axis=1).max() < 1e-9
    assert np.median(errors[True]) < np.median(errors[False])


def test_what_is_refused():
    X, y, *_ = sparse_problem(0, n=30, d=5, relevant=2)
    with pytest.raises(ValueError, match="prior must be one of"):
        SparseBayesRegressor(prior="flat").fit(X, y)
    with pytest.raises(ValueError, match="groups must have shape"):
        SparseBayesRegressor(groups=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="return_std and return_cov"):
        SparseBayesRegressor().fit(X, y).predict(X, return_std=True, return_cov=True)
    with pytest.raises(TypeError, match="nonnegative must be True or False"):
        SparseBayesRegressor(nonnegative=1).fit(X, y)
