"""Cavities and sites by themselves: units, single probes, and sites that give the moments back."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from cofem.learning.moments.mean_field import MEMORY, Cavities
from cofem.learning.moments.spot_check import lowest_ratio
from cofem.learning.sites.matching import (
    STRONGEST,
    WEAKEST,
    Look,
    matching_sites,
    site_weight,
    squared_lengths,
    typical_precision,
)
from cofem.learning.sites.shares import Seen
from cofem.model.model import Model, Task, Tie
from cofem.operators import Convolution, Dense, FiniteDifference
from cofem.solvers.probes import DiagonalEstimate
from cofem.solvers.systems import ShiftedGram

M = 30


def estimate(h, variance, n_probes):
    return DiagonalEstimate(
        diagonal=h, variance=variance, n_probes=n_probes, coefficients=[], steps=np.zeros(1),
        status=np.zeros(1), rows=1, extra=None,
    )  # fmt: skip


def made(seed=0):
    random = np.random.default_rng(seed)
    alpha, unit = random.uniform(1, 3, M), random.uniform(0.5, 2, M)
    field = 1.7 * unit
    return alpha, unit, field, field / (alpha + field)


def test_cavities_without_noise_are_found_and_do_not_depart():
    alpha, unit, field, expected = made()
    found, sums = Cavities(unit, 50.0).update(estimate(1 - expected, np.zeros(M), 4), alpha)
    np.testing.assert_allclose(found, field, rtol=1e-9)
    np.testing.assert_allclose(sums, [0.0, np.sum(expected**2)], atol=1e-9)


@pytest.mark.parametrize("n_probes", [1, 2, 8])
def test_the_noise_of_the_probes_is_no_departure(n_probes):
    """Of a single probe, whose spread is not known, the largest noise that it can have."""
    alpha, unit, _, expected = made()
    wrong = np.resize([0.05, -0.05], M)
    noise = np.full(M, 0.01)
    h = 1 - expected + wrong
    field, sums = Cavities(unit, 50.0).update(estimate(h, n_probes * noise, n_probes), alpha)
    share = field / (alpha + field)
    taken_off = share * (1 - share) if n_probes == 1 else noise
    assert sums[0] == pytest.approx(np.sum((1 - h - share) ** 2 - taken_off), rel=1e-9)


def test_departures_are_averaged_over_iterations():
    cavities = Cavities(np.ones(M), 1.0)
    assert cavities.departed(np.array([2.0, 8.0]), 1) == pytest.approx(0.5)
    assert cavities.departed(np.array([0.02, 0.08]), 1) == pytest.approx(0.5)  # in few coordinates
    assert cavities.departed(np.array([2.0, 8.0]), 1) == pytest.approx(0.5)
    kept, new = MEMORY, 1 - MEMORY
    share = (kept * 2.0 + new * 9.0) / (kept * 8.0 + new * 3.0)
    assert cavities.departed(np.array([9.0, 3.0]), 2) == pytest.approx(math.sqrt(share))
    assert cavities.departed(np.array([-1.0, 3.0]), 1) == 0.0
    assert cavities.departed(np.zeros(2), 1) == 0.0


@pytest.mark.parametrize("chosen", [[0], [0, 7, 3, 12, 20]])
def test_the_lowest_cavity_of_the_chosen_and_their_likest_neighbours(chosen):
    random = np.random.default_rng(2)
    phi = random.normal(size=(25, M)) * np.exp(random.normal(size=M))
    phi[:, 5] = 3 * phi[:, 0] + 0.05 * random.normal(size=25)  # hardly known apart from column 0
    alpha, beta = np.exp(random.normal(size=M)), 10.0
    operator = Dense(phi)
    field = random.uniform(1, 5, M)
    ratio, products = lowest_ratio(
        operator, lambda a: (ShiftedGram(operator, beta, a), None), alpha, field,
        np.array(chosen), np.empty(M),
    )  # fmt: skip
    gram = phi.T @ phi
    cosines = abs(gram) / np.sqrt(np.diag(gram))
    np.fill_diagonal(cosines, 0)
    where = sorted({*chosen, *np.argmax(cosines[chosen], axis=1).tolist()})
    assert 5 in where
    variance = np.diag(np.linalg.inv(beta * gram + np.diag(alpha)))
    exact = ((1 / variance - alpha) / field)[where].min()
    assert ratio == pytest.approx(exact, rel=1e-3)
    assert products >= 2 * len(chosen) + 2 * len(where)


def test_a_column_of_zeros_has_no_cavity_to_compare():
    operator = Dense(np.zeros((4, 3)))
    alpha = np.ones(3)
    ratio, _ = lowest_ratio(
        operator, lambda a: (ShiftedGram(operator, 1.0, a), None), alpha, np.zeros(3),
        np.array([1]), np.empty(3),
    )  # fmt: skip
    assert ratio == 1.0


def test_the_lowest_cavity_in_single_precision_where_sites_are_strong():
    # Site precisions of 10^5 cavities: as a difference, 1/Σ_jj − α_j would be wrong by a tenth.
    random = np.random.default_rng(4)
    phi = random.normal(size=(40, M))
    phi[:, 1] = phi[:, 0] + 0.3 * random.normal(size=40)
    alpha = np.where(np.arange(M) % 5 == 0, 0.1, 1e5 * random.uniform(1, 3, M)).astype(np.float32)
    field = random.uniform(5, 20, M).astype(np.float32)
    operator = Dense(phi.astype(np.float32))
    chosen = np.array([0, 5, 10])
    ratio, _ = lowest_ratio(
        operator, lambda a: (ShiftedGram(operator, 1.0, a), None), alpha, field, chosen,
        np.empty(M, np.float32),
    )  # fmt: skip
    gram = phi.T @ phi
    cosines = abs(gram) / np.sqrt(np.diag(gram))
    np.fill_diagonal(cosines, 0)
    where = sorted({*chosen, *np.argmax(cosines[chosen], axis=1).tolist()})
    exact = []
    for j in where:  # without its own site, so that nothing is subtracted
        others = np.diag(np.where(np.arange(M) == j, 0, alpha.astype(float)))
        exact.append(1 / np.linalg.inv(gram + others)[j, j] / field[j])
    assert ratio == pytest.approx(min(exact), rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_two_neighbours_that_are_alike_rounding_does_not_choose(dtype):
    # Of a convolution the columns before and after are equally close. Their cavities differ.
    n, chosen = 64, np.array([20, 40])
    operator = Convolution(0.9 ** np.arange(16), n)
    random = np.random.default_rng(5)
    alpha = np.exp(2 * random.normal(size=n)).astype(dtype)
    field = np.ones(n, dtype)
    gram = operator.to_dense().T @ operator.to_dense()
    cavities = 1 / np.diag(np.linalg.inv(gram + np.diag(alpha.astype(float)))) - alpha
    before, after = (cavities[np.concatenate([chosen, chosen + s])].min() for s in (-1, 1))
    assert abs(before / after - 1) > 0.05
    for sign in (1, -1):  # mirrored, the rounding is another one
        turned = _Turned(operator, sign * 3e-7)
        ratio, _ = lowest_ratio(
            turned, lambda a: (ShiftedGram(operator, 1.0, a), None), alpha, field, chosen,
            np.empty(n, dtype),
        )  # fmt: skip
        assert ratio == pytest.approx(before, rel=1e-3)


class _Turned:
    """Another operator's products, with an error that grows along a row."""

    def __init__(self, operator, error):
        self._operator, self._error = operator, error

    def column_norms_squared(self, like):
        return self._operator.column_norms_squared(like)

    def gram(self, x):
        ramp = 1 + self._error * np.arange(x.shape[1]) / x.shape[1] * 64
        return self._operator.gram(x) * ramp.astype(x.dtype)


def seen_of(random, tasks=1):
    value = random.normal(size=(tasks, M))
    return Seen(value, random.uniform(1, 5, M), random.uniform(0.5, 2, M))


@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_under_its_sites_a_coordinate_has_the_moments_they_were_made_of(ratio):
    random = np.random.default_rng(0)
    seen = seen_of(random)
    mean = random.normal(size=(1, M))
    variance = random.uniform(0.1, 0.9, (1, M)) / (ratio * seen.precision)
    precision, pull = matching_sites(seen, mean, variance, ratio)
    # Cavity times site, at the noise: precisions and pulls add.
    total = ratio * (seen.precision + precision)
    np.testing.assert_allclose(1 / total, variance[0])
    found = ratio * (seen.precision * seen.value + pull) / total
    np.testing.assert_allclose(found, mean)


def test_the_weight_of_a_site_is_that_of_the_mean_variance_and_limited():
    random = np.random.default_rng(0)
    seen = seen_of(random, tasks=2)
    variance = np.stack([0.2 / seen.precision, 0.6 / seen.precision])
    np.testing.assert_allclose(site_weight(seen, variance, 1.0), 1 / 0.4 - 1)
    for share, weight in [(0.0, STRONGEST), (2.0, WEAKEST)]:
        spread = np.broadcast_to(share / seen.precision, (2, M))
        precision, _ = matching_sites(seen, seen.value, spread, 1.0)
        np.testing.assert_allclose(precision, weight * seen.precision)


def test_how_far_the_two_means_are_apart():
    """In error bars, and where these are tiny in a hundredth of the data's own."""
    precision, ratio = np.array([4.0, 4.0, 4.0, 4.0]), 0.5
    bar = 1 / math.sqrt(ratio * 4.0)
    variance = np.array([[bar**2, bar**2 / 4, 1e-12, 2 * bar**2]])
    off = np.array([[0.09 * bar, 0.6 * bar, 0.002 * bar, 0.0]])
    seen = Seen(np.zeros((1, 4)), precision, np.ones(4))
    shares = SimpleNamespace(mean=[off], variance=[variance])
    look = Look()
    look.compare([seen], shares, [np.zeros((1, 4))], [ratio], determined=2.0)
    distances = np.array([0.09, 1.2, 0.2, 0.0])
    assert look.distance == pytest.approx(math.sqrt(np.sum(distances**2) / 2))
    assert look.apart == 2 / 4


def test_typical_precision_is_that_of_columns_of_length_one():
    random = np.random.default_rng(0)
    seen = seen_of(random)
    assert typical_precision(seen) == pytest.approx(np.mean(seen.precision / seen.unit))


def test_units_are_squared_lengths_and_behind_a_sparsifier_one_number():
    phi = np.diag([1.0, 2.0, 0.0, 3.0])
    task = Task(Dense(phi), np.ones(4), 1.0)
    plain = Model((task,), Tie())
    like = np.empty(0)
    found = squared_lengths(plain.families[0], plain, like)
    np.testing.assert_array_equal(found, [1, 4, 9, 9])  # a column of zeros has no unit of its own
    sparse = Model((task,), Tie(), sparsifier=FiniteDifference((4,), axis=0))
    found = squared_lengths(sparse.families[0], sparse, like)
    np.testing.assert_array_equal(found, np.full(sparse.n_precisions, 14 / 4))
    nothing = Model((Task(Dense(np.zeros((4, 4))), np.ones(4), 1.0),), Tie())
    np.testing.assert_array_equal(squared_lengths(nothing.families[0], nothing, like), np.ones(4))
