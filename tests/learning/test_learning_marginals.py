"""Quantiles, draws and supports under the learned prior."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import drawn
from scipy import stats

import cofem
from cofem.learning.sites.marginals import Marginals, support_by_probability
from cofem.model.model import Tie

fixed = settings(derandomize=True, deadline=None, max_examples=40, database=None)


def some_marginals(seed=0, size=60, tasks=None, groups=None):
    """Coordinates from lost to clear; moments are not needed for quantiles and draws."""
    random = np.random.default_rng(seed)
    shape = (size,) if tasks is None else (tasks, size)
    value = random.normal(size=shape) * 10 ** random.uniform(-1, 1, size)
    precision, unit = random.uniform(0.5, 4, shape), random.uniform(0.5, 2, shape)
    made = Marginals(
        value, precision, unit, np.array([0.0, 1.0, 9.0]), np.array([0.7, 0.2, 0.1]),
        Tie(groups), False, value, 1 / precision, np.zeros(shape),
    )  # fmt: skip
    inside = np.broadcast_to(1 - made.shares()[0], shape).copy()
    return Marginals(**{**vars(made), "probability": inside})


def independent_draws(m, j, n, seed):
    """Draw coordinate j of one task from its mixture by the definition."""
    random = np.random.default_rng(seed)
    shares = m.shares()[:, j]
    which = random.choice(len(shares), size=n, p=shares)
    slab = m.scales[which] / m.unit[j]
    gain = slab / (slab + 1 / m.precision[j])
    return gain * m.value[j] + np.sqrt(gain / m.precision[j]) * random.normal(size=n)


@pytest.mark.parametrize("p", [0.025, 0.3, 0.5, 0.9])
def test_quantiles_have_that_mass_below_them(p):
    m, n = some_marginals(), 20_000
    found = m.quantile(p)
    for j in range(0, 60, 5):
        draws = independent_draws(m, j, n, seed=j)
        error = 4.5 * np.sqrt(p * (1 - p) / n)  # 12 coordinates × 4: once in 3000
        assert (draws <= found[j]).mean() >= p - error
        assert (draws < found[j]).mean() <= p + error


def test_quantiles_rise_and_the_atom_is_exactly_zero():
    m = some_marginals(tasks=2)
    levels = (0.001, 0.05, 0.3, 0.5, 0.8, 0.99)
    found = np.stack([m.quantile(p) for p in levels])
    assert found.shape == (6, 2, 60)
    assert (np.diff(found, axis=0) >= 0).all()
    mostly = m.probability < 0.3  # so that neither tail holds more
    assert mostly.sum() > 10
    assert (m.quantile(0.31)[mostly] == 0).all()
    assert (m.quantile(0.69)[mostly] == 0).all()


def atoms_and_rest(m, j, draws):
    """P-values of a binomial test of the zeros, and of a KS test of the rest."""
    n, inside = len(draws), m.probability[j]
    rest = draws[draws != 0]
    atom = stats.binomtest(n - len(rest), n, 1 - inside).pvalue
    shares = m.shares()[1:, j] / inside
    slab = m.scales[1:] / m.unit[j]
    gain = slab / (slab + 1 / m.precision[j])

    def below(x):
        means, stds = gain * m.value[j], np.sqrt(gain / m.precision[j])
        return np.sum(shares * stats.norm.cdf((np.asarray(x)[:, None] - means) / stds), axis=1)

    return atom, stats.kstest(rest, below).pvalue if len(rest) > 50 else 1.0


@pytest.fixture(scope="module")
def post():
    case = drawn(40, 60, [0.9, 0.1], [1.0], 0.2, 4)
    return cofem.fit(case.phi, case.y, method="em", prior="mixture")


def test_draws_have_the_marginals(post):
    n = 4000
    draws = post.sample(n, seed=1)
    assert draws.shape == (n, 60)
    values = [p for j in range(60) for p in atoms_and_rest(post.marginals, j, draws[:, j])]
    # 120 P-values, at most: the smallest is below 1e-5 once in 800 choices of the seed.
    assert min(values) > 1e-5
    # And they are not all near one, as they would be if draws were no draws.
    assert np.median([p for p in values if p < 1.0]) < 0.9


def test_draws_have_mean_and_standard_deviation_of_the_posterior(post):
    n = 4000
    draws = post.sample(n, seed=2)
    shown = post.std > 1e-3 * post.std.max()
    score = (draws.mean(axis=0) - post.mean)[shown] / post.std[shown] * np.sqrt(n)
    assert abs(score).max() < 5
    clear = post.probability > 0.99
    assert clear.sum() >= 3
    np.testing.assert_allclose(draws.std(axis=0)[clear], post.std[clear], rtol=0.06)


def test_coordinates_that_are_not_zero_depart_together(post):
    # The correlation of clear coordinates is that of the Gaussian posterior.
    clear = np.flatnonzero(post.probability > 0.99)
    draws = post.sample(8000, seed=3)[:, clear]
    task = post.tasks[0]
    phi = task.operator.matrix
    precision = task.noise_precision * phi.T @ phi + np.diag(post.precision)
    covariance = np.linalg.inv(precision)[np.ix_(clear, clear)]
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        np.corrcoef(draws.T), covariance / np.outer(scale, scale), atol=5 / np.sqrt(8000)
    )


def test_members_of_a_group_are_zero_together():
    groups = np.repeat(np.arange(20), 3)
    m = some_marginals(groups=groups)
    draws = m.draw(np.random.default_rng(0).normal(size=(500, 60)), seed=0)
    zero = (draws == 0).reshape(500, 20, 3)
    assert (zero.all(axis=2) == zero.any(axis=2)).all()
    assert 0 < zero.mean() < 1


def test_tasks_are_zero_together():
    m = some_marginals(tasks=3)
    draws = m.draw(np.random.default_rng(0).normal(size=(500, 3, 60)), seed=0)
    zero = draws == 0
    assert (zero.all(axis=1) == zero.any(axis=1)).all()
    share = zero[:, 0].mean(axis=0)
    error = 4.5 * np.sqrt(m.probability[0] * (1 - m.probability[0]) / 500) + 1e-9
    assert (abs(share - (1 - m.probability[0])) <= error).all()


# -- support -----------------------------------------------------------------------


@fixed
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_the_support_is_the_largest_with_few_expected_false_ones(probabilities, level):
    p = np.array(probabilities)
    chosen = support_by_probability(p, level)
    inside, outside = p[chosen], np.sort(p[~chosen])[::-1]
    if len(inside):
        assert np.mean(1 - inside) <= 1 - level + 1e-12
        assert len(outside) == 0 or inside.min() >= outside[0]
    if len(outside):  # one more would be too many
        more = np.append(inside, outside[0])
        assert np.mean(1 - more) > 1 - level - 1e-12


def test_the_share_of_false_ones_is_kept():
    false = named = missed = true = 0
    for seed in range(30):
        case = drawn(50, 80, [0.92, 0.08], [1.0], 0.15, 200 + seed)
        support = cofem.fit(case.phi, case.y, method="em").support(0.9)
        named += support.sum()
        false += (support & (case.z == 0)).sum()
        missed += (~support & (case.z != 0)).sum()
        true += (case.z != 0).sum()
    assert named > 100
    # A tenth is what is asked for; three standard errors of a binomial share.
    assert false / named < 0.1 + 3 * np.sqrt(0.1 * 0.9 / named)
    assert missed < 0.5 * true


def cut_marginals():
    """Three coordinates that are seen at 0.4, −0.2 and 1, under a spike and half-normal slabs."""
    value, precision = np.array([0.4, -0.2, 1.0]), np.array([9.0, 4.0, 0.5])
    nothing = np.zeros(3)
    return Marginals(
        value, precision, np.array([1.0, 2.0, 0.5]), np.array([0.0, 0.3, 6.0]),
        np.array([0.5, 0.2, 0.3]), Tie(), True, nothing, nothing, nothing,
    )  # fmt: skip


def cut_by_quadrature(m, j):
    """Return nodes x > 0, each slab's density (2, n) there and the spike's share, normalised."""
    x = np.linspace(0, 12, 400_001)
    seen = stats.norm.pdf(m.value[j], x, m.precision[j] ** -0.5)
    slabs = [
        weight * seen * 2 * stats.norm.pdf(x, 0, np.sqrt(scale / m.unit[j]))
        for scale, weight in zip(m.scales[1:], m.weights[1:], strict=True)
    ]
    atom = m.weights[0] * stats.norm.pdf(m.value[j], 0, m.precision[j] ** -0.5)
    slabs = np.array(slabs) * (x[1] - x[0])
    total = atom + slabs.sum()
    return x, slabs / total, atom / total


def test_components_of_half_normal_slabs_are_those_of_quadrature():
    m = cut_marginals()
    for j in range(3):
        _, slabs, atom = cut_by_quadrature(m, j)
        np.testing.assert_allclose(m.shares()[:, j], [atom, *slabs.sum(axis=1)], rtol=1e-4)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
def test_quantiles_of_half_normal_slabs_are_those_of_quadrature(p):
    m = cut_marginals()
    m = replace(m, probability=1 - m.shares()[0])
    found = m.quantile(p)
    for j in range(3):
        x, slabs, atom = cut_by_quadrature(m, j)
        below = atom + np.cumsum(slabs.sum(axis=0))
        wanted = x[np.searchsorted(below, p)] if p > atom else 0.0
        assert found[j] == pytest.approx(wanted, abs=2e-4)
