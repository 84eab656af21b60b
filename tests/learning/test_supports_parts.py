"""The parts of the chains, each by itself: lists, moments, and the comparison of two chains."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from cofem.learning.supports import cut_values, nonnegative
from cofem.learning.supports.draws import Draws
from cofem.learning.supports.runs import Run
from cofem.learning.supports.sampler import (
    AGREE,
    CLEARLY,
    LARGEST_COST,
    _distance,
    _those_that_count,
    most_nonzeros,
    sampling_cost,
)


class Chain(SimpleNamespace):
    """What is kept of explicit draws (n, D)."""

    def draws(self):
        z = self.z
        return np.array([z.sum(0), (z**2).sum(0), (z != 0).sum(0)]), [], len(z)

    @property
    def mean(self):
        return self.z.mean(axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_chains_differ_by_their_means_beside_the_spread_of_all_draws(seed):
    random = np.random.default_rng(seed)
    one = Chain(z=random.normal(size=(30, 5)))
    other = Chain(z=0.5 + 2 * random.normal(size=(90, 5)))
    pooled = np.concatenate([one.z, other.z]).var(axis=0)
    expected = np.sqrt(np.sum((one.mean - other.mean) ** 2) / np.sum(pooled))
    assert _distance(one, other) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("gap", "left"), [(0.99 * CLEARLY, 2), (1.01 * CLEARLY, 1)])
def test_a_chain_at_a_lesser_mode_is_left_out_where_chains_differ(gap, left):
    low, high = SimpleNamespace(height=-10.0), SimpleNamespace(height=-10.0 + gap)
    for chains in ([low, high], [high, low]):
        found, ahead = _those_that_count(chains, 1.01 * AGREE)
        assert len(found) == left
        assert high in found
        assert ahead == (pytest.approx(gap) if left == 1 else 0)
        assert _those_that_count(chains, AGREE) == (chains, 0)
    assert _those_that_count([high], np.inf) == ([high], 0)


def test_the_height_of_a_mode_does_not_depend_on_small_coefficients_besides():
    run = Run(np.eye(4), np.ones(4), np.ones(2), beta=1.0, most=3, seed=0, likely=np.arange(2))
    run.scores = [np.full(20, 7.0), np.array([-30.0] * 30), np.full(10, 7.0)]
    assert run.height == 7.0


@pytest.mark.parametrize("unknowns", [200, 10_000, 100_000, 10_000_000])
def test_as_many_non_zeros_as_the_cost_allows_and_at_least_one(unknowns):
    most = most_nonzeros(unknowns)
    assert sampling_cost(unknowns, most + 1) > LARGEST_COST
    assert most == 1 or sampling_cost(unknowns, most) <= LARGEST_COST


@pytest.mark.parametrize("place", [7, 2, 9])
def test_the_coordinate_that_moves_changes_places_with_the_last(place):
    places, k = np.array([7, 2, 9, 55, 66]), 3
    slabs, values = np.array([0, 1, 2, 8, 9]), np.array([0.7, 0.2, 0.9, 55.0, 66.0])
    gram = np.outer(places, np.ones(4)).astype(float)
    before = {p: (s, v) for p, s, v in zip(places, slabs, values, strict=True)}
    nonnegative._to_the_end(places, slabs, values, gram, k, place)
    assert places[k - 1] == place
    assert sorted(places[:k]) == [2, 7, 9]
    assert places[k:].tolist() == [55, 66]
    for i, p in enumerate(places):
        assert (slabs[i], values[i]) == before[p]
        assert np.all(gram[i] == p)


def test_moments_of_a_value_given_the_others_are_those_of_a_truncated_normal():
    random = np.random.default_rng(1)
    phi = random.normal(size=(6, 2))
    phi /= np.linalg.norm(phi, axis=0)
    y, beta, scales = 0.4 * random.normal(size=6), 3.0, np.array([2.0, 30.0])
    gram, correlation = np.zeros((2, 2)), phi.T @ y
    places, slabs = np.array([1, 0]), np.array([0, 1])
    gram[0], gram[1] = phi.T @ phi[:, 1], phi.T @ phi[:, 0]
    values, sums = np.array([0.3, 0.2]), np.zeros((3, 2))
    second = values[1]
    power = y @ y
    means = np.array([0.7, 0.0])
    energy = cut_values.refresh_values(
        gram, correlation, power, means, scales, places, slabs, 2, beta, values, sums, True, random
    )
    # The first value given the old second one: N(mean, 1/(β (1 + 1/v))) cut off at zero.
    precision = 1 + 1 / scales[0]
    mean = (correlation[1] + 0.7 / scales[0] - phi[:, 1] @ phi[:, 0] * second) / precision
    std = 1 / np.sqrt(beta * precision)
    law = scipy.stats.truncnorm(-mean / std, np.inf, loc=mean, scale=std)
    assert sums[0, 1] == pytest.approx(law.mean(), rel=1e-9)
    assert sums[1, 1] == pytest.approx(law.var() + law.mean() ** 2, rel=1e-9)
    assert sums[2].tolist() == [1, 1]
    z = np.array([values[1], values[0]])
    left = np.sum((y - phi @ z) ** 2) + (z[1] - 0.7) ** 2 / scales[0] + z[0] ** 2 / scales[1]
    assert energy == pytest.approx(left, rel=1e-9)


def test_draws_of_columns_of_length_one_are_told_in_the_users_units():
    lengths, z = np.array([2.0, 0.5]), np.array([[3.0, 0.0], [1.0, 4.0], [0.0, -2.0], [2.0, 0.0]])
    sizes = (z != 0).sum(axis=1)
    places = np.array([[0, 9], [0, 1], [1, 9], [0, 9]])
    drawn = np.array([[3.0, 9], [1, 4], [-2, 9], [2, 9]])
    sums = np.array([z.sum(axis=0), (z**2).sum(axis=0), (z != 0).sum(axis=0)])
    found = Draws.of(lengths, [(sums, [(sizes, places, drawn)], 4)])
    inside = z / lengths
    np.testing.assert_allclose(found.mean, inside.mean(axis=0))
    np.testing.assert_allclose(found.variance, inside.var(axis=0))
    np.testing.assert_allclose(found.probability, [0.75, 0.5])
    np.testing.assert_array_equal(found.kept.toarray(), inside)
