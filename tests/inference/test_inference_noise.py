"""The noise precision from the data: how close, at what cost, and where it gives up."""

import math

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.inference.noise import Rung, _best_at_the_top, _choose, _past_the_rise
from cofem.operators import from_functions

PROBLEMS = {
    "gaussian": lambda seed, std: simulate.gaussian(512, seed, noise_std=std),
    "dct": lambda seed, std: simulate.dct(512, seed, noise_std=std),
    "convolution": lambda seed, std: simulate.convolution(512, seed, noise_std=std),
}


@pytest.mark.parametrize("noise_std", [0.01, 0.1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_within_a_factor_of_three(name, noise_std):
    # Deterministic for these seeds; benchmarks/noise.py counts over more problems.
    for seed in range(2):
        problem = PROBLEMS[name](seed, noise_std)
        post = cofem.fit(problem.phi, problem.y, method="cofem", max_iter=5, tol=0)
        ratio = post.noise_precision / problem.noise_precision
        assert 1 / 3 < ratio < 3


def test_the_fit_is_that_with_the_estimate_given():
    problem = simulate.dct(512, 0)
    post = cofem.fit(problem.phi, problem.y, method="cofem", max_iter=8, tol=0)
    given = cofem.fit(
        problem.phi,
        problem.y,
        noise_precision=post.noise_precision,
        method="cofem",
        max_iter=8,
        tol=0,
    )
    np.testing.assert_array_equal(post.mean, given.mean)
    # The search is counted.
    assert post.history["products"][0] > given.history["products"][0]


def test_units_do_not_matter():
    problem = simulate.dct(512, 1)
    one = cofem.fit(problem.phi, problem.y, method="cofem", max_iter=3, tol=0)
    other = cofem.fit(problem.phi, 1e5 * problem.y, method="cofem", max_iter=3, tol=0)
    assert other.noise_precision * 1e10 == pytest.approx(one.noise_precision, rel=1e-3)


def test_a_function_is_enough():
    problem = simulate.dct(512, 2)
    phi = from_functions(problem.phi.forward, problem.phi.adjoint, problem.phi.shape, float)
    post = cofem.fit(phi, problem.y, method="cofem", max_iter=3, tol=0)
    assert 1 / 3 < post.noise_precision / problem.noise_precision < 3


def test_exact_methods_can_be_asked_too():
    problem = simulate.dct(256, 0)
    post = cofem.fit(problem.phi, problem.y, method="woodbury", max_iter=3, tol=0)
    assert 1 / 3 < post.noise_precision / problem.noise_precision < 3


def test_clean_data_climb_the_ladder():
    problem = simulate.convolution(256, 0, noise_std=1e-3)  # 78 dB, beyond the second top
    post = cofem.fit(problem.phi, problem.y, method="em", max_iter=3, tol=0)
    assert 1 / 3 < post.noise_precision / problem.noise_precision < 3


def test_noise_alone_is_all_noise():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(200, 100)) / 14
    post = cofem.fit(phi, rng.normal(size=200), method="em", max_iter=3, tol=0)
    assert 1 / 2 < post.noise_precision < 2


def test_zero_data_have_no_scale_and_no_nan():
    post = cofem.fit(np.eye(4), np.zeros(4))
    assert np.all(post.mean == 0)
    assert np.all(np.isfinite(post.variance))
    assert math.isfinite(post.noise_precision)


def rung(error, *, divergence=10.0, beta=1.0):
    """A rung with the prediction error asked for, of 100 data."""
    residual = error * 100 * (1 - divergence / 100) ** 2
    return Rung(beta, residual, divergence, divergence, 100)


def test_choose_takes_the_lowest_precision_before_the_rise():
    ladder = [rung(e, beta=b) for e, b in [(1.2, 8.0), (1.0, 4.0), (1.1, 2.0), (5.0, 1.0)]]
    assert _choose(ladder).noise_precision == 2.0


def test_choose_ignores_rungs_that_use_up_the_data():
    saturated = rung(0.01, divergence=95.0, beta=8.0)
    assert _choose([saturated, rung(1.0, beta=4.0)]).noise_precision == 4.0


def test_the_walk_ends_after_the_rise_and_turns_at_the_top():
    assert _past_the_rise([rung(1.0), rung(3.0)])
    assert not _past_the_rise([rung(1.0), rung(1.5)])
    assert _best_at_the_top([rung(1.0), rung(1.5)])
    assert not _best_at_the_top([rung(1.0, divergence=95.0), rung(1.5)])


def test_noise_variance_counts_the_freedom():
    found = Rung(1.0, residual=50.0, freedom=20.0, divergence=30.0, n_data=70)
    assert found.noise_variance == pytest.approx(1.0)
    assert found.prediction_error == pytest.approx(50 / 70 / (40 / 70) ** 2)
