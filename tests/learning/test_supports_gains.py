"""The formulas of the chains against dense matrices and quadrature."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from supports_cases import (
    FREE,
    LOG_ODDS,
    MEANS,
    PLACES,
    SCALES,
    SLABS,
    D,
    K,
    N,
    dense,
    lists,
    log_likelihood,
    problem,
    seen,
)

from cofem.learning.supports import gains


@pytest.mark.parametrize("k", [0, 1, K])
def test_what_a_set_leaves_unexplained(k):
    phi, y = problem()
    s, t, q = seen(phi, y, k)
    c, left = dense(phi, y, PLACES[:k], SLABS[:k])
    solved = np.linalg.solve(c, np.column_stack([phi, left]))
    np.testing.assert_allclose(s[:5], np.sum(phi * solved[:, :D], axis=0)[:5], rtol=1e-9)
    np.testing.assert_allclose(t, phi.T @ solved[:, D], rtol=1e-9, atol=1e-12)
    assert q == pytest.approx(left @ solved[:, D], rel=1e-9)
    assert (s >= 0).all()


def test_what_is_only_rounding_is_no_less_than_that():
    phi = np.linalg.qr(np.random.default_rng(0).normal(size=(N, D)))[0]
    y = 1e3 * phi[:, 0]
    huge = np.full(4, 1e18)
    gram, squares, correlation, power = lists(phi, y)
    gram[0] = phi[:, 0] @ phi
    s, t = np.empty(D), np.empty(D)
    places, slabs = np.array([0]), np.array([0])
    q = gains.look(gram, squares, correlation, power, huge, places, slabs, 1, s, t)
    assert s[0] == gains.ROUNDING
    assert q == gains.ROUNDING * power


@pytest.mark.parametrize("heat", [1.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_odds_to_join_are_ratios_of_likelihoods(beta, heat):
    phi, y = problem()
    s, t, q = seen(phi, y)
    logs = np.full((D, 4), np.nan)
    total, top = gains.gains(
        SCALES, LOG_ODDS, MEANS, s, t, q, FREE, beta, float(N), heat, logs
    )  # fmt: skip
    now = log_likelihood(phi, y, PLACES[:K], SLABS[:K], beta, heat)
    expected = np.full((D, 4), -np.inf)
    for j in np.flatnonzero(FREE):
        for a in range(4):
            joined = np.append(PLACES[:K], j), np.append(SLABS[:K], a)
            expected[j, a] = LOG_ODDS[a] + log_likelihood(phi, y, *joined, beta, heat) - now
    np.testing.assert_allclose(logs, expected, rtol=1e-8)
    assert top == np.max(expected[FREE]) or top == pytest.approx(np.max(expected), rel=1e-9)
    assert total == pytest.approx(np.sum(np.exp(expected - top)), rel=1e-9)


def test_odds_of_a_half_normal_slab_are_an_integral():
    phi, y = problem()
    beta, none = 2.0, np.zeros(2)
    normal = {"scales": SCALES[:2], "means": none}
    gram, squares, correlation, power = lists(phi, y)
    s, t, logs = np.empty(D), np.empty(D), np.empty((D, 2))
    gains.look(gram, squares, correlation, power, SCALES[:2], PLACES, SLABS, 2, s, t)
    total, top = gains.gains(
        SCALES[:2], LOG_ODDS[:2], none, s, t, 1.0, FREE, beta, float(N), 1.0, logs, True
    )
    c, _ = dense(phi, y, PLACES[:2], SLABS[:2], **normal)
    inverse = np.linalg.inv(c)
    for j in (1, 3):
        for a in range(2):
            v = SCALES[a]

            def ratio(z, j=j, v=v):
                left = y - phi[:, j] * z
                fall = y @ inverse @ y - left @ inverse @ left
                slab = math.exp(-0.5 * beta * z * z / v) * 2 * math.sqrt(beta / (2 * math.pi * v))
                return slab * math.exp(0.5 * beta * fall)

            assert logs[j, a] - LOG_ODDS[a] == pytest.approx(
                math.log(quad(ratio, 0, np.inf, epsabs=0, epsrel=1e-11)[0]), abs=1e-8
            )
    known = logs[np.isfinite(logs)]
    assert total == pytest.approx(np.sum(np.exp(known - top)), rel=1e-8)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("place", [0, 7])
def test_what_is_passed_over_has_odds_that_do_not_count(positive, place):
    """One column explains very much; most others explain so little that they are passed over."""
    random = np.random.default_rng(1)
    s, t = np.ones(50), 0.1 * random.normal(size=50)
    t[place] = 12.0
    logs = np.empty((50, 4))
    arguments = (SCALES, LOG_ODDS, np.zeros(4), s, t, 1.0)
    total, top = gains.gains(
        *arguments, np.ones(50, bool), 2.0, 7.0, 1.0, logs, positive
    )  # fmt: skip
    assert np.isneginf(logs).all(axis=1).sum() == 49
    grown = 1 + SCALES * s[place]
    exact = LOG_ODDS + SCALES * t[place] ** 2 / grown - 0.5 * np.log(grown)
    exact += math.log(2) if positive else 0.0
    np.testing.assert_allclose(logs[place], exact, rtol=1e-9)
    assert top + math.log(total) == pytest.approx(np.logaddexp.reduce(exact), rel=1e-12)


@pytest.mark.parametrize("t", [-1e3, -30.0, -4.001, -4.0, -3.999, -1.0, 0.0, 2.0, 8.0])
def test_the_mass_above_zero(t):
    exact = math.log(2) + scipy.stats.norm.logcdf(t)
    assert gains.log_twice_normal(t) == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert gains.log_one_sided(t) == pytest.approx(exact + t * t / 2, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_scores_of_two_sets_differ_by_their_log_posteriors(beta):
    phi, y = problem()

    def score(k):
        gram = lists(phi, y)[0]
        q = seen(phi, y, k)[2]
        return gains.score(gram, SCALES, PLACES, SLABS, k, LOG_ODDS, q, beta, float(N))

    for k in (1, 2, 3):
        grows = log_likelihood(phi, y, PLACES[:k], SLABS[:k], beta)
        grows -= log_likelihood(phi, y, PLACES[: k - 1], SLABS[: k - 1], beta)
        assert score(k) - score(k - 1) == pytest.approx(grows + LOG_ODDS[SLABS[k - 1]], rel=1e-8)
