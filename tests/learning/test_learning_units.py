"""The units of the columns, of the data and of the noise change nothing but units."""

import warnings

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from learning_cases import drawn

import cofem

# A failing example is not made smaller: that would take minutes.
fixed = settings(
    derandomize=True, deadline=None, max_examples=3, database=None, phases=[Phase.generate]
)
METHODS = ("em", "woodbury", "cofem")
# Coordinates are the same to what the solver leaves: CG may stop a step earlier or later.
CLOSE = {"em": 1e-6, "woodbury": 1e-6, "cofem": 2e-3}


def fitted(phi, y, method, prior, **options):
    options = {"noise_precision": 100.0, "max_iter": 25} | options
    with warnings.catch_warnings():  # whether the end is good is not the question here
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        return cofem.fit(phi, y, method=method, prior=prior, **options)


def assert_only_units_differ(seed, factors, method, prior, **options):
    case = drawn(30, 40, [0.9, 0.1], [1.0], 0.1, seed)
    one = fitted(case.phi, case.y, method, prior, **options)
    other = fitted(case.phi * factors, case.y, method, prior, **options)
    size = abs(one.mean).max()
    close = CLOSE[method]
    np.testing.assert_allclose(other.mean * factors, one.mean, rtol=0, atol=close * size)
    assert other.noise_precision == pytest.approx(one.noise_precision, rel=10 * close)
    assert other.prior == one.prior
    if one.probability is not None:
        np.testing.assert_allclose(other.probability, one.probability, rtol=0, atol=10 * close)


def factors_within(decades):
    return st.lists(st.floats(-decades, decades), min_size=40, max_size=40).map(
        lambda exponents: 10 ** np.array(exponents)
    )


@pytest.mark.parametrize("prior", ["mixture", "ard"])
@pytest.mark.parametrize("method", METHODS)
@fixed
@given(st.integers(0, 100), factors_within(1.5))
def test_columns_in_other_units(method, prior, seed, factors):
    assert_only_units_differ(seed, factors, method, prior)


@pytest.mark.parametrize("prior", ["mixture", "ard"])
@pytest.mark.parametrize("method", METHODS)
@fixed
@given(st.integers(0, 100), factors_within(6))
def test_columns_in_units_twelve_decades_apart(method, prior, seed, factors):
    assert_only_units_differ(seed, factors, method, prior)


@fixed
@given(st.integers(0, 100), factors_within(1.5))
def test_columns_in_other_units_with_the_noise_unknown(seed, factors):
    assert_only_units_differ(seed, factors, "em", "auto", noise_precision=None, max_iter=100)


@pytest.mark.parametrize("method", METHODS)
@fixed
@given(st.integers(0, 100), st.floats(-6, 6))
def test_data_in_other_units(method, seed, exponent):
    case, c = drawn(30, 40, [0.9, 0.1], [1.0], 0.1, seed), 10.0**exponent
    one = fitted(case.phi, case.y, method, "mixture")
    other = fitted(case.phi, c * case.y, method, "mixture", noise_precision=100.0 / c**2)
    size, close = abs(one.mean).max(), CLOSE[method]
    np.testing.assert_allclose(other.mean / c, one.mean, rtol=0, atol=close * size)
    np.testing.assert_allclose(other.probability, one.probability, rtol=0, atol=10 * close)
