"""Averages over the share of non-zeros, against sums over all supports with it integrated out."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from learning_cases import drawn

import cofem
from cofem.learning import dense
from cofem.learning.certificate import Certificate
from cofem.learning.ends import best_end, held_shares
from cofem.learning.ends.best_end import best_of
from cofem.learning.ends.held_shares import HeldShares
from cofem.learning.learned import Settings
from cofem.learning.moments.registry import make_esteps
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import End, ended, noise_units
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense

N, D = 12, 9
SHARES = (1 / D, 2 / D, 4 / D)


def integrated(case):
    """Return means and probabilities under one slab, averaged over SHARES by their evidence."""
    choices = np.array(list(itertools.product((False, True), repeat=D)))
    logs, means = np.empty(len(choices)), np.empty((len(choices), D))
    for i, choice in enumerate(choices):
        variances = choice * case.variances[1]
        covariance = np.eye(N) / case.beta + (case.phi * variances) @ case.phi.T
        solved = np.linalg.solve(covariance, case.y)
        logs[i] = -0.5 * (np.linalg.slogdet(covariance)[1] + case.y @ solved)
        means[i] = variances * (case.phi.T @ solved)
    k = choices.sum(axis=1)
    prior = sum(w**k * (1 - w) ** (D - k) for w in SHARES)
    shares = np.exp(logs - logs.max()) * prior
    shares /= shares.sum()
    return shares @ means, shares @ choices


class OneSlab(MixturePrior):
    """All of the share in one slab of known variance, which is always in use."""

    def in_use(self, visible):
        return np.ones(len(self.scales), dtype=bool)


class Known(HeldShares):
    """The slab and the noise are known, and only the share is not."""

    case = None

    def around(self, best):
        return list(SHARES[1:]), []

    def end(self, share):
        esteps = self.make(self.model)
        rule = Propagation(self.model, 10.0, True, 1e-6)
        weights = np.array([1 - share, share])
        rule.prior = OneSlab(self.case.scales, weights, Tie(), 0.5, 1.0, weights, held=share)
        found = held_shares.iterate(self.model, esteps, rule, max_iter=300, tol=1e-6)
        end = replace(ended(rule, found, esteps), share=share, certificate=Certificate.GIVEN)
        return end, 0


def averaged(case):
    """Return what is averaged over SHARES by expectation propagation."""
    model = Model((Task(Dense(case.phi), case.y, case.beta),), Tie())
    make = lambda m: make_esteps(m, EM(), 0)  # noqa: E731
    held = Known(model, make, True, Settings(EM(), 0, 300, 1e-6))
    held.case = case
    return best_of([held.end(SHARES[0])[0]], make, True, 0, held)


@pytest.mark.parametrize("noise_std", [0.3, 0.6])
def test_the_average_is_near_the_sum_over_all_supports(monkeypatch, noise_std):
    """Eight problems; with the first share alone the probabilities are off by .16."""
    monkeypatch.setattr(best_end, "LEAST_SHARE", 1e-6)
    off, off_alone, means = [], [], []
    for seed in range(8):
        case = drawn(N, D, [0.75, 0.25], [1.0], noise_std, seed)
        mean, probability = integrated(case)
        learned = averaged(case)
        found = learned.marginals
        assert "averaged over" in learned.outcome.found.note
        means.append((found.mean[0] - mean) / np.sqrt(case.variances[1]))
        off.append(found.probability[0] - probability)
        monkeypatch.setattr(Known, "around", lambda *_: ([], []))
        off_alone.append(averaged(case).marginals.probability[0] - probability)
        monkeypatch.undo()
        monkeypatch.setattr(best_end, "LEAST_SHARE", 1e-6)
    rms = np.sqrt(np.mean(np.square(off)))
    assert rms < 0.03
    assert np.sqrt(np.mean(np.square(means))) < 0.03
    assert np.sqrt(np.mean(np.square(off_alone))) > 3 * rms


def few_data(seed, n=20, d=30, sigma=0.3):
    """Return Φ, y and z with three values ±1."""
    rng = np.random.default_rng([70, seed])
    phi, z = rng.normal(size=(n, d)) / np.sqrt(n), np.zeros(d)
    z[rng.choice(d, 3, replace=False)] = rng.choice([-1.0, 1.0], 3)
    return phi, phi @ z + sigma * rng.normal(size=n), z


def test_intervals_of_few_data_are_wider(monkeypatch):
    """Twenty problems: more of the true non-zeros are covered, and the error is no larger."""
    covered, errors = [], []
    for without in (False, True):
        if without:
            monkeypatch.setattr(HeldShares, "around", lambda *_: ([], []))
        rows = []
        for seed in range(20):
            phi, y, z = few_data(seed)
            post = cofem.fit(phi, y)
            low, high = post.interval(0.95)
            inside = (low <= z) & (z <= high)
            rows.append([np.mean(inside[z != 0]), np.linalg.norm(post.mean - z)])
        covered.append(np.mean(rows, axis=0)[0])
        errors.append(np.mean(rows, axis=0)[1])
    assert covered[0] > covered[1] + 0.05
    assert errors[0] < errors[1]


def best(share, most=0.5):
    rule = SimpleNamespace(prior=SimpleNamespace(slabs=share, most=most))
    return End(rule, None, Certificate.GIVEN)


def test_the_shares_lie_between_one_coordinate_and_the_most():
    model = SimpleNamespace(n_unknowns=100)
    held = HeldShares(model, None, False, None)
    up, down = held.around(best(0.1))
    assert up == pytest.approx([0.2, 0.4])
    assert down == pytest.approx([0.05, 0.025, 0.0125])
    up, down = held.around(best(1e-9))  # nothing was found
    assert up == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32])
    assert down == []
    assert held.around(best(0.5))[0] == []


def test_a_held_share_stays_what_it_is():
    phi, y, _ = few_data(0)
    model = noise_units(Model((Task(Dense(phi), y, 1.0),), Tie()), False)
    make = lambda m: make_esteps(m, EM(), 0)  # noqa: E731
    held = HeldShares(model, make, False, Settings(EM(), 0, 100, 1e-4))
    for share in (1 / 30, 0.2):
        end, _ = held.end(share)
        assert end.share == share
        assert end.rule.prior.slabs == pytest.approx(share)
        assert np.sum(end.rule.prior.components(end.rule.visible)[1][1:]) == pytest.approx(share)


def test_no_other_share_is_tried_after_the_user_stopped_one():
    calls = []

    def once(state):
        calls.append(state.iteration)
        return True

    phi, y, _ = few_data(1)
    model = noise_units(Model((Task(Dense(phi), y, 1.0),), Tie()), False)
    make = lambda m: make_esteps(m, EM(), 0)  # noqa: E731
    held = HeldShares(model, make, False, Settings(EM(), 0, 100, 1e-4, callback=once))
    assert held.end(0.1)[0] is None
    assert held.stopped
    assert calls == [1]


@pytest.mark.parametrize(("n", "d"), [(100, 400), (50, 100), (100, 100), (200, 100)])
def test_the_dense_end_stands_for_all_larger_shares(n, d):
    model = Model((Task(Dense(np.ones((n, d))), np.ones(n), 1.0),), Tie())
    ratio = n / d
    most = 1.1 * (0.36 + 0.54 * ratio) * ratio
    points = max(np.log2(1 / most), 1.0)
    assert dense.margin(model) == pytest.approx(0.5 + np.log(points) if n < d else 0.0)
