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
fewer = settings(fixed, max_examples=2)
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


# -- groups, joint tasks, z ≥ 0, the sequential method ---------------------------

LABELS = np.repeat(np.arange(8), 5)
# The coordinates that must share their factor, and the options that ask for the kind of problem.
KINDS = {
    "groups": (LABELS, {"groups": LABELS}),
    "coupled": (np.zeros(40, int), {"coupling": np.eye(40) + 0.5 * np.eye(40, k=1)
                                    + 0.5 * np.eye(40, k=-1)}),
    "tasks": (np.arange(40), {}),
    "z ≥ 0": (np.arange(40), {"nonnegative": True}),
}  # fmt: skip
WAYS = [
    (kind, method, prior)
    for kind in KINDS
    for method in METHODS
    for prior in (("ard",) if kind == "coupled" else ("mixture", "ard"))
]


def data_of(kind, seed):
    """Return Φ and y of a problem, or lists of two of each."""
    case = drawn(30, 40, [0.85, 0.15], [9.0], 0.1, seed)
    random = np.random.default_rng([1, seed])
    noise = 0.1 * random.normal(size=(2, 30))
    if "tasks" in kind:  # the same coordinates with other values
        phis = [case.phi, random.normal(size=case.phi.shape) / np.sqrt(30)]
        return phis, [case.y, phis[1] @ (case.z * random.uniform(0.5, 2, 40)) + noise[1]]
    return case.phi, case.phi @ abs(case.z) + noise[0] if kind == "z ≥ 0" else case.y


def times(c, arrays):
    return [c * a for a in arrays] if isinstance(arrays, list) else c * arrays


def assert_only_units_differ_of(phi, y, factors, c, method, noise_known, **options):
    """Columns times ``factors``, data times ``c``."""
    beta = 100.0 if noise_known else None
    one = fitted(phi, y, method, noise_precision=beta, **options)
    # Every Φ is multiplied from the right, one factor for each column.
    other = fitted(times(factors, phi), times(c, y), method,
                   noise_precision=beta and beta / c**2, **options)  # fmt: skip
    size, close = abs(one.mean).max(), CLOSE.get(method, 1e-6)
    assert size > 0.1
    np.testing.assert_allclose(other.mean * factors / c, one.mean, rtol=0, atol=close * size)
    np.testing.assert_allclose(
        np.asarray(other.noise_precision) * c**2, one.noise_precision, rtol=10 * close
    )
    assert other.prior == one.prior
    if one.probability is not None:
        np.testing.assert_allclose(other.probability, one.probability, rtol=0, atol=10 * close)


@pytest.mark.parametrize("noise_known", [True, False])
@pytest.mark.parametrize(("kind", "method", "prior"), WAYS)
@fewer
@given(st.integers(0, 100), factors_within(6), st.floats(-6, 6))
def test_every_kind_of_problem_in_other_units(
    kind, method, prior, noise_known, seed, factors, exponent
):
    shared, options = KINDS[kind]
    assert_only_units_differ_of(
        *data_of(kind, seed), factors[shared], 10.0**exponent, method, noise_known, prior=prior,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("noise_known", [True, False])
@pytest.mark.parametrize("kind", ["one task", "tasks"])
@fewer
@given(st.integers(0, 100), factors_within(6), st.floats(-6, 6))
def test_the_sequential_method_in_other_units(kind, noise_known, seed, factors, exponent):
    assert_only_units_differ_of(
        *data_of(kind, seed), factors, 10.0**exponent, "sequential", noise_known, prior="auto"
    )
