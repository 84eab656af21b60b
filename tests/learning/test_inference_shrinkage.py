"""The mean field and how much it is trusted."""

import numpy as np
import pytest

from cofem import simulate
from cofem.learning.loop import run_em
from cofem.learning.moments.exact import CholeskyEStep
from cofem.learning.moments.shrinkage import (
    bounded_variance,
    mean_field,
    shrink,
    shrink_report,
)
from cofem.model.model import Model, Task, Tie, initial_precision


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.95])
def test_the_field_has_the_trace_it_was_given(seed, fraction):
    random = np.random.default_rng(seed)
    alpha, theta = 10 ** random.uniform(-2, 6, 300), random.uniform(0.1, 10, 300)
    beta = 1e4
    smallest = (alpha / (alpha + beta * theta)).sum()
    trace = smallest + fraction * (300 - smallest)
    field = mean_field(alpha, theta, beta, trace)
    assert field.sum() == pytest.approx(trace, rel=1e-5)
    assert (field >= alpha / (alpha + beta * theta) * (1 - 1e-12)).all()
    assert (field <= 1).all()


@pytest.mark.parametrize("trace", [-5.0, 0.0, 10.0, 12.0])
def test_a_trace_out_of_reach_gives_the_nearest_bound(trace):
    alpha, theta = np.geomspace(0.1, 10, 10), np.ones(10)
    lowest = alpha / (alpha + 100)
    field = mean_field(alpha, theta, 100.0, trace)
    np.testing.assert_allclose(field, lowest if trace <= 0 else 1.0, rtol=1e-12)


@pytest.mark.parametrize("order", ["random", "sorted"])
@pytest.mark.parametrize("fraction", [-0.1, 1e-6, 0.05, 0.5, 0.999999, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_a_field_of_many_coordinates_begins_with_a_few_of_them(order, fraction, seed):
    random = np.random.default_rng(seed)
    n, beta = 5000, 1e4
    alpha, theta = 10 ** random.uniform(-4, 8, n), random.uniform(0.1, 10, n)
    if order == "sorted":
        alpha = np.sort(alpha)  # and the few are not like the others
    smallest = (alpha / (alpha + beta * theta)).sum()
    trace = smallest + fraction * (n - smallest)
    field = mean_field(alpha, theta, beta, trace)
    assert field.sum() == pytest.approx(min(max(trace, smallest), n), rel=1e-5)


@pytest.mark.parametrize("n_probes", [1, 8])
@pytest.mark.parametrize("shrinkage", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_passes_equal_the_plain_formulas(n_probes, shrinkage, scaled, dtype):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    alpha, theta = 10 ** random.uniform(-1, 3, 900), random.uniform(0.5, 2, 900)
    h, spread = synthetic(alpha / (alpha + 20.0 * theta), 8, 1)
    units = 1.0 if scaled else 1 / alpha
    vectors = [v.astype(dtype) for v in (h * units, spread * units**2, alpha, theta, 1e4 * theta)]
    options = {"n_probes": n_probes, "noise_precision": 1e4, "scaled": scaled,
               "shrinkage": shrinkage}  # fmt: skip
    ours, trace = bounded_variance(*vectors, **options)
    theirs, wanted = bounded_variance(*map(torch.asarray, vectors), **options)
    close = 1e-10 if dtype == "float64" else 2e-4
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=close)
    assert float(trace) == pytest.approx(float(wanted), rel=close)


def synthetic(truth, n_probes, seed):
    """Probe estimates of h with binomial-like noise around ``truth``."""
    random = np.random.default_rng(seed)
    ones = truth + np.sqrt(truth * (1 - truth)) * random.standard_normal((n_probes, len(truth)))
    return ones.mean(axis=0), ones.var(axis=0, ddof=1)


@pytest.mark.parametrize("seed", range(4))
def test_weight_is_near_one_where_the_field_is_true(seed):
    random = np.random.default_rng(seed)
    alpha, theta = 10 ** random.uniform(-1, 3, 4000), np.ones(4000)
    truth = alpha / (alpha + 20.0)
    estimate, variance = synthetic(truth, 8, seed)
    found = shrink(estimate, variance, 8, alpha, theta, 1e4)
    assert found.weight > 0.9
    before = np.mean((estimate - truth) ** 2)
    assert np.mean((found.h - truth) ** 2) < 0.05 * before


@pytest.mark.parametrize("seed", range(4))
def test_weight_is_near_zero_where_the_field_is_wrong(seed):
    random = np.random.default_rng(seed)
    alpha, theta = 10 ** random.uniform(-1, 3, 4000), np.ones(4000)
    truth = random.permutation(alpha / (alpha + 20.0))  # the same trace, on other coordinates
    estimate, variance = synthetic(truth, 200, seed)
    found = shrink(estimate, variance, 200, alpha, theta, 1e4)
    assert found.weight < 0.05
    before = np.mean((estimate - truth) ** 2)
    assert np.mean((found.h - truth) ** 2) < 1.05 * before


@pytest.mark.parametrize("n_probes", [1, 2, 8])
def test_the_result_lies_between_the_estimate_and_the_field(n_probes):
    random = np.random.default_rng(0)
    alpha, theta = 10 ** random.uniform(-1, 3, 500), random.uniform(0.5, 2, 500)
    truth = alpha / (alpha + 20.0)
    estimate, variance = synthetic(truth, max(n_probes, 2), 0)
    found = shrink(estimate, variance, n_probes, alpha, theta, 1e4)
    assert 0 <= found.weight <= 1
    field = mean_field(alpha, theta, 1e4, float(estimate.sum()))
    expected = found.weight * field + (1 - found.weight) * estimate
    np.testing.assert_allclose(found.h, expected, rtol=1e-8, atol=1e-12)


def test_one_probe_is_believed_to_vary_as_much_as_it_can():
    """Zero or one varies most. Here it is twice as far off, which is four times in variance."""
    random = np.random.default_rng(0)
    alpha, theta = 10 ** random.uniform(-1, 3, 20_000), np.ones(20_000)
    field = alpha / (alpha + 20.0)
    estimate = field + 2 * ((random.random(20_000) < field) - field)
    found = shrink(estimate, np.zeros(20_000), 1, alpha, theta, 1e4)
    assert found.weight == pytest.approx(0.25, rel=0.05)  # its standard error is about 1 %


def test_two_probes_that_agree_everywhere_are_believed():
    random = np.random.default_rng(0)
    alpha, estimate = 10 ** random.uniform(-1, 3, 50), random.uniform(0.1, 0.9, 50)
    found = shrink(estimate, np.zeros(50), 2, alpha, np.ones(50), 1e4)
    assert found.weight == 0
    np.testing.assert_array_equal(found.h, estimate)


LAWS = {"gaussian": simulate.gaussian, "dct": simulate.dct, "convolution": simulate.convolution}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("iterations", [3, 15])
def test_shrinkage_does_not_raise_the_error_along_em(law, iterations):
    """With the α of exact EM after a few and after many iterations, K = 8, solves exact."""
    random = np.random.default_rng(0)
    errors = {True: 0.0, False: 0.0}
    for seed in range(4):
        problem = LAWS[law](256, seed)
        beta = problem.noise_precision
        task = Task(problem.phi, problem.y, beta)
        model = Model((task,), Tie())
        exact = CholeskyEStep(model.families[0], model.like)
        alpha = np.full(256, initial_precision(model))
        alpha = run_em(model, [exact], alpha, max_iter=iterations, tol=0.0).found.alpha
        phi = problem.phi.to_dense() / np.sqrt(alpha)
        H = np.linalg.inv(np.eye(256) + beta * phi.T @ phi)
        theta = problem.phi.column_norms_squared()
        for _ in range(20):
            p = random.choice([-1.0, 1.0], (8, 256))
            ones = p * (p @ H)
            estimate = ones.mean(axis=0)
            shrunk = shrink(estimate, ones.var(axis=0, ddof=1), 8, alpha, theta, beta).h
            errors[True] += np.mean((shrunk - np.diag(H)) ** 2)
            errors[False] += np.mean((estimate - np.diag(H)) ** 2)
    # 80 draws of 256 coordinates each: means to a few per cent, differences of tens.
    assert errors[True] < errors[False]


@pytest.mark.parametrize("units", ["of y", "of the columns"])
def test_reported_variances_have_the_units_of_the_data(units):
    random = np.random.default_rng(3)
    alpha, theta, beta = 10 ** random.uniform(0, 2, 200), random.uniform(0.5, 2, 200), 30.0
    exact = 1 / (alpha + 0.4 * beta * theta)
    spread = exact * random.uniform(0.2, 0.6, 200)
    variance = exact * (1 + 0.2 * random.standard_normal(200))
    value, error = shrink_report(variance, spread, 8, alpha, theta, beta)
    if units == "of y":  # 10⁻³ of the old one: all variances in the square of that
        factor, scale, noise = 1e-6, 1.0, 1e6
    else:
        factor, scale, noise = 1 / random.uniform(0.01, 100, 200), 1.0, 1.0
        scale = 1 / factor
    found, its_error = shrink_report(
        variance * factor, spread * factor, 8, alpha / factor, theta * scale, beta * noise
    )
    np.testing.assert_allclose(found, value * factor, rtol=1e-9)
    np.testing.assert_allclose(its_error, error * factor, rtol=1e-9)


def test_the_error_of_a_report_between_probes_and_field_is_the_error():
    """True values scatter about the field as far as the probes do about them: both count a half."""
    random = np.random.default_rng(5)
    alpha, theta, beta = 10 ** random.uniform(0, 2, 20_000), np.ones(20_000), 30.0
    field, noise = 1 / (alpha + 12.0), 0.1
    truth = field * (1 + noise * random.standard_normal(20_000))
    variance = truth + noise * field * random.standard_normal(20_000)
    value, error = shrink_report(variance, noise * np.sqrt(8) * field, 8, alpha, theta, beta)
    # 20,000 squares: their mean is known to 1 %; the weight is estimated from them too.
    assert np.sqrt(np.mean(((value - truth) / error) ** 2)) == pytest.approx(1.0, abs=0.04)


@pytest.mark.parametrize("shrinkage", [True, False])
def test_probes_that_are_not_scaled_say_the_same_in_other_units(shrinkage):
    random = np.random.default_rng(1)
    alpha, theta = 10 ** random.uniform(-1, 3, 900), random.uniform(0.5, 2, 900)
    h, spread = synthetic(alpha / (alpha + 20.0 * theta), 8, 1)
    options = {"n_probes": 8, "noise_precision": 1e4, "shrinkage": shrinkage}
    scaled = bounded_variance(h, spread, alpha, theta, 1e4 * theta, scaled=True, **options)
    plain = bounded_variance(
        h / alpha, spread / alpha**2, alpha, theta, 1e4 * theta, scaled=False, **options
    )
    np.testing.assert_allclose(plain[0], scaled[0], rtol=1e-9)
    assert plain[1] == pytest.approx(scaled[1])
