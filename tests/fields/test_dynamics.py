"""Equations of motion through PySINDy: Lorenz' seven terms, with intervals that hold them."""

import numpy as np
import pytest
import scipy.integrate

from cofem.fields import SparseBayesOptimizer

STEP, WINDOW, ORDER = 0.002, 31, 4


def lorenz(_, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


@pytest.fixture(scope="module")
def trajectory():
    times = np.arange(0, 8, STEP)
    clean = scipy.integrate.solve_ivp(
        lorenz, (0, 8), [-8, 7, 27], t_eval=times, rtol=1e-9, atol=1e-9
    ).y.T
    noise = np.random.default_rng(0).standard_normal(clean.shape)
    return times, clean, clean + 0.01 * clean.std(axis=0) * noise


def test_lorenz_inside_pysindy(trajectory):
    ps = pytest.importorskip("pysindy")
    times, clean, noisy = trajectory
    optimizer = SparseBayesOptimizer(independent=(ORDER + 1) / WINDOW)
    model = ps.SINDy(
        optimizer=optimizer,
        feature_library=ps.PolynomialLibrary(degree=2),
        differentiation_method=ps.SmoothedFiniteDifference(
            smoother_kws={"window_length": WINDOW, "polyorder": ORDER}
        ),
    )
    model.fit(noisy, t=STEP)
    names = ["1", "x0", "x1", "x2", "x0^2", "x0 x1", "x0 x2", "x1^2", "x1 x2", "x2^2"]
    assert model.get_feature_names() == names
    truth = np.zeros((3, 10))
    for equation, name, value in [
        (0, "x0", -10),
        (0, "x1", 10),
        (1, "x0", 28),
        (1, "x1", -1),
        (1, "x0 x2", -1),
        (2, "x2", -8 / 3),
        (2, "x0 x1", 1),
    ]:
        truth[equation, names.index(name)] = value  # fmt: skip
    found = model.coefficients()
    np.testing.assert_array_equal(found != 0, truth != 0)
    assert model.complexity == optimizer.complexity == 7
    np.testing.assert_allclose(found, truth, atol=0.1)
    there = truth != 0
    inside = (optimizer.coef_low_ <= truth) & (truth <= optimizer.coef_high_)
    assert np.sum(inside[there]) >= 6  # of seven, at 95 %
    assert np.all(optimizer.coef_probability_[there] > 0.95)
    assert model.score(noisy, t=STEP) > 0.99
    simulated = model.simulate(clean[0], times[:200])
    assert np.abs(simulated - clean[:200]).max() < 0.2  # of ± 20


def regression(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 6))
    y = np.stack([x[:, 1] * 2, x[:, 0] - x[:, 3]], axis=1) + 0.1 * rng.normal(size=(200, 2))
    return x, y


def test_fewer_independent_samples_mean_wider_intervals():
    x, y = regression()
    whole, part = SparseBayesOptimizer().fit(x, y), SparseBayesOptimizer(independent=0.25).fit(x, y)
    widths = [(o.coef_high_ - o.coef_low_)[o.ind_] for o in (whole, part)]
    np.testing.assert_array_equal(whole.ind_, part.ind_)
    np.testing.assert_allclose(widths[1] / widths[0], 2.0, rtol=0.1)  # 1/√0.25


def test_rows_with_nan_are_left_out():
    x, y = regression()
    wanted = SparseBayesOptimizer().fit(x[2:-1], y[2:-1]).coef_
    y = y.copy()
    y[:2] = y[-1] = np.nan
    np.testing.assert_allclose(SparseBayesOptimizer().fit(x, y).coef_, wanted)


def test_one_equation_and_predictions():
    x, y = regression()
    found = SparseBayesOptimizer().fit(x, y[:, 0])
    assert found.coef_.shape == (1, 6)
    np.testing.assert_allclose(found.predict(x)[:, 0], x @ found.coef_[0])


@pytest.mark.parametrize("share", [0, -1, 2, "all"])
def test_a_wrong_share_is_refused(share):
    with pytest.raises(ValueError, match="independent must be above 0 and at most 1"):
        SparseBayesOptimizer(independent=share).fit(*regression())


def test_a_clone_has_the_same_settings():
    from sklearn.base import clone

    assert clone(SparseBayesOptimizer(level=0.9)).level == 0.9
