"""What the chains draw against the laws that it is drawn from."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
from supports_cases import (
    FREE,
    MEANS,
    PLACES,
    SCALES,
    SLABS,
    D,
    K,
    N,
    lists,
    log_likelihood,
    problem,
    seen,
)

from cofem.learning.supports import chain, cut_values, equal, gains


def test_a_place_is_picked_with_its_odds():
    logs = np.log(np.random.default_rng(0).uniform(0.1, 1, (5, 3)))
    logs[2], logs[4, 0] = -np.inf, -200.0
    top = logs.max()
    odds = np.exp(logs - top)
    odds[4, 0] = 0.0
    ends = np.cumsum(odds)
    for seed in range(40):  # the same number, inverted by hand
        expected = np.searchsorted(ends, np.random.default_rng(seed).random() * ends[-1])
        found = gains.pick(logs, top, ends[-1], np.random.default_rng(seed))
        assert found == divmod(expected, 3)


def test_weights_have_their_dirichlet_law():
    random, log_odds = np.random.default_rng(0), np.zeros(3)
    slabs, drawn = np.array([1, 1, 2, 9]), []
    for _ in range(3000):
        chain.draw_weights(slabs, 3, 6, 0.5, log_odds, random)
        odds = np.append(1.0, np.exp(log_odds))
        drawn.append(odds / odds.sum())
    counts = np.array([4.0, 0.5, 2.5, 1.5])  # one, or the pseudo count, and those that are held
    law = scipy.stats.dirichlet(counts)
    # Four means and four second moments, each within five standard errors.
    assert (abs(np.mean(drawn, axis=0) - law.mean()) < 5 * np.sqrt(law.var() / 3000)).all()
    beta = scipy.stats.beta(counts, counts.sum() - counts)
    fourth = beta.stats("k") + 2  # the variance of a square, relative to the squared variance
    relative = np.var(drawn, axis=0) / law.var() - 1
    assert (abs(relative) < 5 * np.sqrt(fourth / 3000)).all()


@pytest.mark.parametrize("used", [True, False])
def test_the_share_of_equal_magnitudes_is_drawn_beside_the_spikes(used):
    random, log_odds, spike = np.random.default_rng(0), np.zeros(4), 3.0
    drawn = []
    for _ in range(3000):
        equal.draw_share(np.array([1, 2, 3, 3]), 3, used, spike, log_odds, random)
        drawn.append(np.exp(log_odds[2:]))
    drawn = np.array(drawn)
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (log_odds[:2] == 0).all()
    if not used:
        assert (drawn == 0).all()
        return
    shape = equal.COUNT + 2  # Gamma(shape) over twice the spike's
    mean, std = shape / (2 * spike), math.sqrt(shape) / (2 * spike)
    assert abs(drawn[:, 0].mean() - mean) < 5 * std / 3000**0.5
    assert drawn[:, 0].std() == pytest.approx(std, rel=0.1)


def test_a_list_of_coordinates_that_join_and_leave():
    phi, _ = problem()
    rows = np.ascontiguousarray(phi.T)
    places, slabs, free = np.full(4, -1), np.full(4, -1), np.ones(D, bool)
    gram, k, held = np.zeros((4, D)), 0, {}
    for j, a, leaves in [(2, 0, None), (5, 1, None), (0, 2, 2), (3, 1, 3), (4, 0, 1), (1, 1, 5)]:
        k = chain._join(rows, places, slabs, free, gram, k, j, a)
        held[j] = a
        if leaves is not None:
            k = chain._leave(places, slabs, free, gram, k, leaves) if leaves in held else k
            held.pop(leaves, None)
        assert dict(zip(places[:k].tolist(), slabs[:k].tolist(), strict=True)) == held
        assert set(np.flatnonzero(~free)) == set(held)
        np.testing.assert_allclose(gram[:k], phi[:, places[:k]].T @ phi, atol=1e-15)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_values_given_the_set_are_those_of_the_normal_law(beta):
    phi, y = problem()
    gram, _, correlation, _ = lists(phi, y)
    q = seen(phi, y)[2]
    columns, prior = phi[:, PLACES[:K]], 1 / SCALES[SLABS[:K]]
    covariance = np.linalg.inv(columns.T @ columns + np.diag(prior))
    mean = covariance @ (columns.T @ y + prior * MEANS[SLABS[:K]])
    noise = 1 / beta if beta else q / (N - 2)  # the mean of the inverse gamma law
    random, first, second, inside = np.random.default_rng(0), *np.zeros((3, D))
    values, drawn, noises = np.zeros(4), [], []
    for _ in range(4000):
        noise_drawn = chain._draw_values(
            gram, correlation, MEANS, SCALES, PLACES, SLABS, K, q, beta, float(N),
            values, first, second, inside, random,
        )  # fmt: skip
        noises.append(noise_drawn)
        drawn.append(values[:K].copy())
    np.testing.assert_allclose(first[PLACES[:K]] / 4000, mean, rtol=1e-9)
    expected = mean**2 + noise * np.diag(covariance)
    np.testing.assert_allclose(second[PLACES[:K]] / 4000, expected, rtol=1e-9)
    assert (inside == np.where(FREE, 0, 4000)).all()
    # Means within five standard errors, and covariances to a tenth of the largest.
    spread = np.sqrt(noise * np.diag(covariance) / 4000)
    assert (abs(np.mean(drawn, axis=0) - mean) < 5 * spread).all()
    found = np.cov(np.array(drawn).T)
    np.testing.assert_allclose(found, noise * covariance, atol=0.1 * found.max())
    assert np.mean(noises) == pytest.approx(noise, rel=0.08)


def test_an_empty_set_draws_the_noise_alone():
    phi, y = problem()
    gram, _, correlation, power = lists(phi, y)
    random, sums = np.random.default_rng(0), np.zeros((3, D))
    before = (gram, correlation, MEANS, SCALES, PLACES, SLABS, 0, power, 0.0, float(N))
    drawn = [chain._draw_values(*before, np.zeros(4), *sums, random) for _ in range(4000)]
    law = scipy.stats.invgamma(N / 2, scale=power / 2)
    # An error rate of 1e-4 for the right law.
    assert scipy.stats.kstest(drawn, law.cdf).pvalue > 1e-4
    assert not sums.any()


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_the_common_magnitude_has_its_conditional_law(beta):
    phi, y = problem()
    gram, _, correlation, power = lists(phi, y)
    slabs = np.array([2, 3, 1])
    spreads, reach = np.array([0.02, 30.0]), 60.0

    def log_density(m, v):
        law = {"scales": np.array([3.0, 60.0, v, v]), "means": np.array([0.0, 0.0, m, -m])}
        return log_likelihood(phi, y, PLACES[:K], slabs, beta, **law)

    grid = np.linspace(-reach, reach, 20001)
    logs = np.array([[log_density(m, v) for m in grid[::10]] for v in spreads])
    density = np.exp(logs - logs.max())
    odds = density.sum(axis=1) / density.sum()
    marginal = density.sum(axis=0) / density.sum()
    mean = marginal @ grid[::10]
    std = math.sqrt(marginal @ (grid[::10] - mean) ** 2)
    random, drawn, taken = np.random.default_rng(1), [], []
    for _ in range(8000):
        means, scales = np.array([0.0, 0.0, 1.0, -1.0]), SCALES.copy()
        equal.draw_equal(
            gram, correlation, power, spreads, reach, PLACES[:K].copy(), slabs, K, beta, float(N),
            1.0, means, scales, random,
        )  # fmt: skip
        assert means[2] == -means[3]
        assert scales[2] == scales[3]
        assert (scales[:2] == SCALES[:2]).all()
        drawn.append(means[2])
        taken.append(scales[2] == spreads[1])
    # Five standard errors each.
    assert abs(np.mean(drawn) - mean) < 5 * std / 8000**0.5
    assert np.std(drawn) == pytest.approx(std, rel=0.15)
    assert abs(np.mean(taken) - odds[1]) < 5 * math.sqrt(odds[1] * odds[0] / 8000)


def test_the_width_of_the_magnitudes_law_is_that_of_its_parabola():
    phi, y = problem()
    gram, _, correlation, power = lists(phi, y)
    slabs, beta, reach, v = np.array([2, 3, 1]), 2.0, 50.0, 0.3
    scales = np.array([3.0, 60.0, v, v])
    width = equal.draw_equal(
        gram, correlation, power, np.array([v]), reach, PLACES[:K].copy(), slabs, K, beta,
        float(N), 1.0, MEANS.copy(), scales.copy(), np.random.default_rng(0),
    )  # fmt: skip

    def log(m):
        law = {"scales": scales, "means": np.array([0.0, 0.0, m, -m])}
        return log_likelihood(phi, y, PLACES[:K], slabs, beta, **law)

    curvature = -(log(1) - 2 * log(0) + log(-1))
    # The prior is flat on −reach … reach.
    assert width == pytest.approx(0.5 * math.log(2 * math.pi / curvature) - math.log(2 * reach))


def test_a_magnitude_of_no_coordinate_is_drawn_from_its_prior():
    phi, y = problem()
    gram, _, correlation, power = lists(phi, y)
    random, spreads, drawn = np.random.default_rng(0), np.array([0.1, 1.0, 5.0]), []
    for _ in range(1500):
        means, scales = MEANS.copy(), SCALES.copy()
        width = equal.draw_equal(
            gram, correlation, power, spreads, 4.0, PLACES[:2].copy(), np.array([1, 0]), 2, 0.0,
            float(N), 1.0, means, scales, random,
        )  # fmt: skip
        assert width == 0.0
        assert means[2] == -means[3]
        drawn.append((means[2], scales[2]))
    magnitudes, kinds = np.array(drawn).T
    uniform = scipy.stats.uniform(-4, 8)
    assert scipy.stats.kstest(magnitudes, uniform.cdf).pvalue > 1e-4
    counts = [np.sum(kinds == v) for v in spreads]
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_a_magnitude_out_of_reach_changes_nothing():
    phi, y = problem()
    gram, _, correlation, power = lists(phi, y)
    means, scales = MEANS.copy(), SCALES.copy()
    equal.draw_equal(
        gram, correlation, power, np.array([0.1, 7.0]), 1e-9, PLACES[:K].copy(), SLABS[:K].copy(),
        K, 2.0, float(N), 1.0, means, scales, np.random.default_rng(0),
    )  # fmt: skip
    np.testing.assert_array_equal(means, MEANS)
    np.testing.assert_array_equal(scales, SCALES)


@pytest.mark.parametrize("t", [-6.0, -0.6, -0.4, 2.0])
def test_draws_above_zero_are_those_of_the_truncated_normal_law(t):
    random = np.random.default_rng(0)
    drawn = [cut_values.above_zero(t, random) for _ in range(2000)]
    law = scipy.stats.truncnorm(-t, np.inf, loc=t)
    assert scipy.stats.kstest(drawn, law.cdf).pvalue > 1e-4


def test_values_are_drawn_one_after_the_other_given_those_before():
    phi, y = problem()
    gram, _, correlation, _ = lists(phi, y)
    beta, scales = 2.0, np.array([3.0, 60.0])
    places, slabs, values = PLACES[:K].copy(), np.array([1, 0, 1]), np.zeros(K)
    columns = phi[:, places]
    precision = beta * (columns.T @ columns + np.diag(1 / scales[slabs]))
    slab_means = np.array([0.0, 0.8])  # half-normal, and about a magnitude
    pull = columns.T @ y + slab_means[slabs] / scales[slabs]
    mean = np.linalg.solve(precision, beta * pull)
    covariance = np.linalg.inv(precision)
    draw = partial(cut_values.draw_values, gram, correlation, slab_means, scales, places, slabs)
    rest, last = draw(K, beta, values, True, np.random.default_rng(3))
    assert (values > 0).all()
    logs = []
    for i in range(K - 1, -1, -1):  # given those behind it, without those before it
        behind = covariance[i, i + 1 :] @ np.linalg.inv(covariance[i + 1 :, i + 1 :])
        centre = mean[i] + behind @ (values[i + 1 :] - mean[i + 1 :])
        spread = math.sqrt(covariance[i, i] - behind @ covariance[i + 1 :, i])
        whole = slab_means[slabs[i]] * math.sqrt(beta / scales[slabs[i]])  # before it is cut off
        logs.append(scipy.stats.norm.logcdf(centre / spread) - scipy.stats.norm.logcdf(whole))
    assert last == pytest.approx(logs[0], rel=1e-9)
    assert rest == pytest.approx(sum(logs[1:]), rel=1e-9)
    again = draw(K, beta, values, False, np.random.default_rng(4))
    assert again == (rest, last)
    empty = draw(0, beta, values, True, np.random.default_rng(4))
    assert empty == (0.0, 0.0)
