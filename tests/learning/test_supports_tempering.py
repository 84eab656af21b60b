"""Chains with more noise beside the one that counts: its law stays what it is."""

import math

import numpy as np
import pytest
from test_supports import LAWS, NONE, coherent, enumerated

from cofem.learning.supports import runs
from cofem.learning.supports.equal import log_prior
from cofem.learning.supports.runs import Run
from cofem.learning.supports.tempering import Law, exchange, moved, shares_for

SCALES, SPREADS = np.array([3.0, 60.0]), LAWS["equal"]


def law_of(phi, y, share=1.0, beta=0.0, most=9):
    return Law(np.ascontiguousarray(phi.T), y, SCALES, SPREADS, share, beta, most)


@pytest.mark.parametrize(("share", "beta"), [(1.0, 0.0), (1.0, 4.0), (0.2, 0.8)])
def test_the_likelihood_of_a_state_is_that_of_a_normal_law(share, beta):
    phi, y = coherent(3)
    law = law_of(phi, y, share, beta)
    states = [
        (NONE, NONE, np.array([1.5, 2.0])),
        (np.array([3, 0]), np.array([1, 0]), np.array([1.5, 2.0])),
        (np.array([4, 1, 2]), np.array([2, 3, 1]), np.array([1.5, 0.05])),
    ]

    def dense(places, slabs, equal):
        """Log N(y; Φb, C/β); with β unknown and prior 1/β, its integral; up to a constant."""
        v = np.append(share * SCALES, [equal[1]] * 2)[slabs]
        left = y - phi[:, places] @ np.array([0, 0, equal[0], -equal[0]])[slabs]
        c = np.eye(len(y)) + (phi[:, places] * v) @ phi[:, places].T
        q = left @ np.linalg.solve(c, left)
        return -0.5 * (np.linalg.slogdet(c)[1] + (beta * q if beta else len(y) * math.log(q)))

    found = [law.log_likelihood(state) - dense(*state) for state in states]
    np.testing.assert_allclose(found, found[0], atol=1e-9)
    assert law_of(phi, y, share, beta, most=1).log_likelihood(states[1]) == -math.inf


def test_a_state_keeps_its_variances_in_other_laws():
    phi, y = coherent(0)
    one, other = law_of(phi, y), law_of(phi, y, share=0.25, beta=1.0)
    there = moved((NONE, NONE, np.array([2.0, 8.0])), one, other)
    assert there[2].tolist() == [2.0, 2.0]  # 8 σ² is 2 of the unit 4 σ²
    assert moved(there, other, one)[2].tolist() == [2.0, 8.0]


def test_neighbours_exchange_their_states_as_often_as_their_laws_say():
    phi, y = coherent(0)
    laws = [law_of(phi, y, beta=4.0), law_of(phi, y, share=0.25, beta=1.0)]
    good = (np.array([0, 3]), np.array([1, 1]), np.array([1.0, 1.0]))
    bad = (np.array([0, 3]), np.array([1, 0]), np.array([1.0, 1.0]))
    down = laws[0].log_likelihood(bad) + laws[1].log_likelihood(good)
    gain = down - laws[0].log_likelihood(good) - laws[1].log_likelihood(bad)
    assert -2 < gain < -0.5  # neither always nor never
    random, n = np.random.default_rng(0), 4000
    done = sum(exchange(laws, [good, bad], random) for _ in range(n))
    expected = math.exp(gain)
    assert abs(done - n * expected) < 4 * math.sqrt(n * expected) + 1  # 1 in 15,000
    assert exchange(laws, [bad, good], random) == 1  # what fits better is always taken


@pytest.mark.parametrize("beta", [0.0, 4.0])
def test_the_first_of_tempered_chains_visits_sets_as_often_as_they_are_probable(beta, monkeypatch):
    phi, y = coherent(1, d=4)
    monkeypatch.setattr(runs, "spreads_for", lambda _: SPREADS)
    monkeypatch.setattr(runs, "reach_of", lambda _: 8.0)
    monkeypatch.setattr(runs, "shares_for", lambda *_: np.array([0.5, 0.2]))
    inside, mean, _ = enumerated(phi, y, SCALES, 0.5, beta, SPREADS)
    found = []
    for seed in range(8):
        run = Run(np.ascontiguousarray(phi.T), y, SCALES, beta=beta, most=4, seed=seed, likely=NONE)
        run.temper(beta or 4.0, 2, 3)
        assert run.laws == 3
        run.warm(np.ones(100))
        run.go_on(1500, None)
        found.append(np.concatenate([run.draws()[0][2] / run.counted, run.mean]))
    exact = np.concatenate([inside, mean])
    error = np.std(found, axis=0, ddof=1) / math.sqrt(8)
    # A t distribution with 7 degrees of freedom: beyond 6.5 lies 1 in 3000; 8 numbers.
    assert np.max(np.abs(np.mean(found, axis=0) - exact) / (error + 1e-4)) < 6.5


def test_few_laws_where_the_noise_is_large_and_never_more_than_asked_for():
    y = np.ones(10)
    assert len(shares_for(10.0, y)) == 0
    shares = shares_for(1e4, y)
    assert np.all(np.diff(shares) < 0)
    assert shares[-1] == pytest.approx(1e-3)  # noise of a tenth of the power of y
    np.testing.assert_allclose(shares_for(1e4 / 9, 3 * y), shares)  # whatever the unit of y
    run = Run(np.eye(10), y, SCALES, beta=0.0, most=4, seed=0, likely=NONE)
    run.temper(1e4, 2, len(shares))
    assert run.laws == 1
    run.temper(1e4, 2, len(shares) + 1)
    assert run.laws == len(shares) + 1


def test_chains_with_more_noise_begin_where_the_first_one_is(monkeypatch):
    monkeypatch.setattr(runs, "shares_for", lambda *_: np.array([0.5, 0.2]))
    phi, y = coherent(1, d=4)
    run = Run(np.ascontiguousarray(phi.T), y, SCALES, beta=4.0, most=4, seed=0, likely=NONE)
    run.warm(np.ones(20))
    run.temper(4.0, 2, 3)
    for law, state in zip(run._laws[1:], run._states[1:], strict=True):
        expected = moved(run._states[0], run._laws[0], law)
        for part, other in zip(state, expected, strict=True):
            np.testing.assert_allclose(part, other)
    assert [law.beta / law.share for law in run._laws] == pytest.approx([4.0] * 3)


@pytest.mark.parametrize(("most_laws", "times"), [(1, 0), (3, 7)])
def test_after_every_sweep_neighbours_may_exchange_their_states(most_laws, times, monkeypatch):
    monkeypatch.setattr(runs, "shares_for", lambda *_: np.array([0.5, 0.2]))
    called = []
    monkeypatch.setattr(runs, "exchange", lambda *arguments: called.append(arguments))
    run = Run(np.eye(6), np.ones(6), SCALES, beta=4.0, most=4, seed=0, likely=NONE)
    run.temper(4.0, 2, most_laws)
    run.warm(np.ones(7))
    assert len(called) == times


def test_z_at_least_zero_has_no_laws_with_more_noise():
    values = (np.empty(0), 1.0)
    run = Run(np.eye(10), np.ones(10), SCALES, beta=0.0, most=4, seed=0, likely=NONE, values=values)
    run.temper(1e4, 2, 99)
    assert run.laws == 1


def test_the_prior_of_a_set_is_the_integral_over_the_weights():
    """Two coordinates, one ordinary slab: P ∝ ∫ w_0^zeros w_1^(in it) (w_2/2)^(equal) Dirichlet."""
    random = np.random.default_rng(0)
    weights = random.dirichlet([1.0, 0.5, 1.0], size=400_000)
    values = []
    for slabs in ([], [0], [1], [0, 0], [0, 2], [1, 2]):
        used = np.array(slabs, np.int64)
        exact = weights[:, 0] ** (2 - len(used))
        for a in used:
            exact = exact * (weights[:, 1] if a == 0 else weights[:, 2] / 2)
        held = log_prior(used, len(used), 2, 0.5, 3)
        values.append((held, math.log(exact.mean())))
    departure = np.diff(values, axis=1).ravel()
    np.testing.assert_allclose(departure, departure[0], atol=0.02)
