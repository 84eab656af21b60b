"""The sampler around the chains: what it runs, compares, keeps and gives up, on small problems."""

import numpy as np
import pytest

from cofem.learning.supports import sampler, slabs
from cofem.learning.supports.chain import run_chain
from cofem.learning.supports.runs import BLOCK
from cofem.learning.supports.sampler import (
    COUNTED,
    WARMING,
    columns_alike,
    most_nonzeros,
    most_sweeps,
    sample_supports,
    sampling_cost,
)
from cofem.model.model import Model, Task, Tie
from cofem.operators import as_operator

N, D, SIGMA = 16, 12, 0.1
NONE = np.empty(0, np.int64)


def made(seed=0, zero_column=True):
    random = np.random.default_rng(seed)
    phi = random.normal(size=(N, D)) * np.exp(random.normal(size=D))
    if zero_column:
        phi[:, 7] = 0.0
    z = np.zeros(D)
    z[[1, 4]] = [3.0, -2.0] / np.linalg.norm(phi[:, [1, 4]], axis=0)
    y = phi @ z + SIGMA * random.normal(size=N)
    return Model((Task(as_operator(phi), y, 1.0),), Tie()), phi, z, y


def sampled(model, beta=0.0, likely=NONE, seed=0, tell=None):
    return sample_supports(model, beta, SIGMA**-2, likely, seed, tell)


@pytest.mark.parametrize("likely", [NONE, np.array([1, 4]), np.arange(D)], ids=len)
@pytest.mark.parametrize("beta", [0.0, SIGMA**-2])
def test_a_clear_support_is_found_from_every_start(beta, likely):
    model, phi, _, y = made()
    found = sampled(model, beta, likely)
    assert found.distance <= sampler.AGREE
    assert not found.stopped
    draws = found.draws.like(model.like)
    inside = draws.probability > 0.9
    assert np.flatnonzero(inside).tolist() == [1, 4]
    # Two values beside much weaker noise: least squares on the support, to a part of an error bar.
    least = np.zeros(D)
    least[[1, 4]] = np.linalg.lstsq(phi[:, [1, 4]], y, rcond=None)[0]
    bars = SIGMA / np.linalg.norm(phi[:, [1, 4]], axis=0)
    assert (abs(draws.mean - least)[[1, 4]] < 0.5 * bars).all()
    assert 0.5 < found.noise_precision * SIGMA**2 < 2 or beta
    assert draws.mean[7] == 0.0


@pytest.mark.parametrize("likely", [NONE, np.array([1, 4]), np.array([0, 2, 3])], ids=str)
@pytest.mark.parametrize("beta", [0.0, SIGMA**-2])
def test_with_no_negative_values_a_clear_support_is_found_too(beta, likely):
    model, phi, z, _ = made()
    y = phi @ abs(z) + SIGMA * np.random.default_rng(1).normal(size=N)
    model = Model((Task(as_operator(phi), y, 1.0),), Tie(), nonnegative=True)
    found = sample_supports(model, beta, 0.3 * SIGMA**-2, likely, 0)
    assert found.distance <= sampler.AGREE
    draws = found.draws.like(model.like)
    assert np.flatnonzero(draws.probability > 0.9).tolist() == [1, 4]
    assert draws.probability.min() < 0.3
    least = np.linalg.lstsq(phi[:, [1, 4]], y, rcond=None)[0]
    bars = SIGMA / np.linalg.norm(phi[:, [1, 4]], axis=0)
    assert (abs(draws.mean[[1, 4]] - least) < 0.5 * bars).all()
    if beta:
        assert found.noise_precision == pytest.approx(beta, rel=1e-12)
    else:
        # Given the support, the noise variance is inverse gamma with N − 2 degrees of freedom.
        left = np.sum((y - phi[:, [1, 4]] @ least) ** 2)
        assert found.noise_precision == pytest.approx((N - 2 - 2) / left, rel=0.3)


@pytest.mark.parametrize("used", [True, False])
def test_the_common_magnitude_is_a_part_of_the_state_only_where_it_is_asked_for(used):
    _, phi, _, y = made(zero_column=False)
    spreads = np.array([0.1, 1.0]) if used else np.empty(0)
    columns = np.ascontiguousarray((phi / np.linalg.norm(phi, axis=0)).T)
    start = np.array([1.5, 0.1])
    found = run_chain(
        columns, y, np.array([3.0, 60.0]), 0.5, spreads, 8.0, NONE, NONE, start, 0.0, 9,
        np.ones(5), 0, np.random.default_rng(0),
    )  # fmt: skip
    assert (found[-1].tolist() != start.tolist()) is used
    assert (found[9] < 2).all() or used


@pytest.mark.parametrize("likely", [NONE, np.array([1, 4]), np.arange(D)], ids=len)
def test_the_chains_count_the_same_sweeps_and_the_callback_sees_each_block(likely):
    model, *_ = made()
    told = []
    found = sampled(
        model, likely=likely, tell=lambda mean, sweeps: told.append((mean.copy(), sweeps))
    )
    counts = [n for _, n in told]
    starts = [i for i, n in enumerate(counts) if n == BLOCK]
    assert starts[0] == 0
    for first, after in zip(starts, [*starts[1:], len(counts)], strict=True):
        assert counts[first:after] == [BLOCK * (i + 1) for i in range(after - first)]
    ends = [counts[i - 1] for i in [*starts[1:], len(counts)]]
    assert ends[0] == COUNTED
    assert found.sweeps in (sum(ends), sum(ends[-2:]))
    assert found.sweeps % (2 * BLOCK) == 0
    assert all(mean.shape == (D,) for mean, _ in told)
    best = np.mean([told[i - 1][0] for i in [*starts[1:], len(counts)]][-2:], axis=0)
    np.testing.assert_allclose(found.draws.like(model.like).mean, best, atol=1e-9)


@pytest.mark.parametrize("block", [1, 3, COUNTED // BLOCK + 2])
def test_the_callback_ends_the_chains_where_it_says_so(block):
    model, *_ = made()
    calls = []

    def tell(mean, sweeps):
        calls.append(sweeps)
        return len(calls) == block

    found = sampled(model, tell=tell)
    assert found.stopped
    assert len(calls) == block
    counted = [n for n, later in zip(calls, [*calls[1:], 0], strict=True) if later <= n]
    assert found.sweeps == sum(counted)


def test_another_seed_is_another_chain_and_both_chains_differ():
    model, *_ = made()

    def first_means(seed):
        told = []
        sampled(model, seed=seed, tell=lambda mean, sweeps: told.append(mean.copy()))
        return told

    one, same, other = first_means(0), first_means(0), first_means(5)
    np.testing.assert_array_equal(one[0], same[0])
    assert not np.array_equal(one[0], other[0])
    assert not np.array_equal(one[0], one[COUNTED // BLOCK])


@pytest.mark.parametrize(("distance", "ends"), [(0.2, [1, 1, 1, 1]), (0.5, [1, 1, 1, 3, 7, 7])])
def test_chains_that_are_apart_go_on_with_more_noise_beside_them(monkeypatch, distance, ends):
    """They begin to count anew; if they still do not agree, they make twice as many sweeps more."""
    model, *_ = made()
    monkeypatch.setattr(sampler, "_distance", lambda one, other: distance)
    told = []
    found = sampled(model, tell=lambda mean, sweeps: told.append(sweeps))
    last = [n for n, later in zip(told, [*told[1:], 0], strict=True) if later <= n]
    # Where one chain goes on after the other at COUNTED, the number of sweeps does not fall.
    assert last == [COUNTED * n for n in ends]
    assert found.sweeps == 2 * COUNTED * ends[-1]
    assert found.distance == distance


def test_without_laws_of_more_noise_chains_go_on_for_longer(monkeypatch):
    model, *_ = made()
    monkeypatch.setattr(sampler, "_distance", lambda one, other: 0.5)
    monkeypatch.setattr(sampler.Run, "temper", lambda *_: None)
    assert sampled(model).sweeps == 2 * (2 + 4) * COUNTED


def test_chains_that_cannot_go_on_for_longer_keep_what_they_counted(monkeypatch):
    model, *_ = made()
    monkeypatch.setattr(sampler, "_distance", lambda one, other: 0.5)
    monkeypatch.setattr(sampler, "most_sweeps", lambda *_: COUNTED + 1)  # neither tempered nor on
    found = sampled(model)
    assert found.sweeps == 2 * COUNTED
    assert found.distance == 0.5


def test_a_fit_that_needs_nearly_all_coordinates_is_given_up():
    random = np.random.default_rng(0)
    phi = random.normal(size=(6, 9))
    y = 100 * random.normal(size=6)
    model = Model((Task(as_operator(phi), y, 1.0),), Tie())
    assert sample_supports(model, 1e6, 1e6, NONE, 0) is None


def test_cost_grows_as_the_work_does():
    """Every look at all columns takes about (k + 3)² operations a column."""
    once = sampling_cost(100, 5)
    looks = 5 + 2 * sampler.PROPOSALS
    assert once == 2.0 * (WARMING + COUNTED) * looks * 100 * 8**2
    assert sampling_cost(200, 5) == 2 * once
    for unknowns in (50, 3000):
        k = most_nonzeros(unknowns)
        assert sampling_cost(unknowns, k) <= sampler.LARGEST_COST or k == 1
        assert sampling_cost(unknowns, k + 1) > sampler.LARGEST_COST
    sweeps = most_sweeps(100, 5)
    per_sweep = once / (WARMING + COUNTED)
    assert sweeps * per_sweep <= sampler.LARGEST_COST < (sweeps + 1) * per_sweep


@pytest.mark.parametrize("largest", [0.01, 30.0, 1e5, 1e30])
def test_slabs_reach_from_what_is_just_visible_to_all_there_can_be(largest):
    noise_precision = 7.0
    scales = slabs.scales_for(np.array([0.1, -largest]), noise_precision)
    power = max(largest**2 * noise_precision, 1.0)  # the noise's own, if there is no more
    assert scales[0] == pytest.approx(slabs.SMALLEST_SCALE)
    assert scales[-1] == pytest.approx(slabs.CANCELLING * power)
    steps = scales[1:] / scales[:-1]
    np.testing.assert_allclose(steps, steps[0])
    assert len(scales) == slabs.MOST_SLABS or steps[0] <= slabs.SCALE_RATIO * (1 + 1e-12)
    assert len(scales) == slabs.MOST_SLABS or steps[0] ** len(scales) >= scales[-1] / scales[0]
    # Values of equal magnitude differ by at most a fifth of the largest.
    spreads = slabs.spreads_for(scales)
    assert len(spreads) == slabs.SPREADS
    assert spreads[0] == pytest.approx(slabs.SMALLEST_SPREAD)
    assert spreads[-1] == pytest.approx(max(0.04 * power, 0.1))
    # The largest slab's standard deviation is the largest magnitude that is thought possible.
    assert slabs.reach_of(largest) == pytest.approx(10 * largest)
    assert slabs.reach_of(0.0) > 0


@pytest.mark.parametrize(("cosine", "alike"), [(0.895, False), (0.905, True), (-0.905, True)])
def test_columns_that_are_nearly_alike(cosine, alike):
    phi = np.zeros((5, 4))
    phi[0, 0] = 3.0
    phi[:2, 1] = 0.2 * np.array([cosine, np.sqrt(1 - cosine**2)])
    phi[2, 2] = 1.0  # the last column is zero
    model = Model((Task(as_operator(phi), np.ones(5), 1.0),), Tie())
    assert columns_alike(model, np.array([0])) is alike
    assert columns_alike(model, np.array([1, 2])) is alike
    assert columns_alike(model, np.array([2, 3])) is False
    assert columns_alike(model, NONE) is False
