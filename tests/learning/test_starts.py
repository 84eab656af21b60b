"""Starts that hold the noise, and which of several ends is taken."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.fft import idct

import cofem
from cofem.learning import starts
from cofem.learning.certificate import Certificate
from cofem.learning.ends.best_end import HELD_HANDICAP, best_fit
from cofem.learning.loop import iterate
from cofem.learning.moments.registry import make_esteps, starting_precision
from cofem.learning.noise import LearnedNoise
from cofem.learning.sites.ard import Ard
from cofem.learning.sites.averages import averaged, worth_averaging
from cofem.learning.sites.marginals import Marginals
from cofem.learning.starts import noise_units, pruned_noise
from cofem.learning.stopping import Verdict
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie
from cofem.operators import as_operator


def near_the_limit(seed, sigma):
    """±1 on random rows of a DCT, 3 non-zeros in 10 data; noise relative to the rms of Φz."""
    rng = np.random.default_rng(seed)
    d = 512
    z = np.zeros(d)
    drawn = rng.choice([-1.0, 1.0], 51)
    z[rng.choice(d, 51, replace=False)] = drawn
    rows = np.sort(rng.choice(d, d // 3, replace=False))
    phi = idct(np.eye(d), norm="ortho", axis=0)[rows]
    clean = phi @ z
    noise = sigma * np.sqrt(np.mean(clean**2))
    return phi, clean + noise * rng.normal(size=len(rows)), z, noise


@pytest.mark.parametrize(("sigma", "bound"), [(0.01, 0.02), (0.1, 0.15)])
def test_equal_magnitudes_near_the_limit_are_found(monkeypatch, sigma, bound):
    """Seed 24: the three ordinary starts end with nearly all of y as noise (error .8 or more)."""
    phi, y, z, noise = near_the_limit(24, sigma)
    post = cofem.fit(phi, y)
    assert np.linalg.norm(post.mean - z) < bound * np.linalg.norm(z)
    assert 0.4 < post.noise_precision * noise**2 < 2.5
    assert set(np.flatnonzero(z)) <= set(np.flatnonzero(post.support()))
    monkeypatch.setattr(starts, "HELD", ())
    without = cofem.fit(phi, y)
    assert np.linalg.norm(without.mean - z) > 0.8 * np.linalg.norm(z)
    assert without.history["products"][-1] < post.history["products"][-1]


def test_nothing_is_held_where_the_first_start_explains_y(monkeypatch):
    held = []
    monkeypatch.setattr(starts, "_held_end", lambda *_, **options: held.append(1) or (None, 0))
    rng = np.random.default_rng(1)
    phi, z = rng.normal(size=(60, 100)), np.zeros(100)
    z[:5] = 3.0
    post = cofem.fit(phi, phi @ z + 0.1 * rng.normal(size=60))
    assert held == []
    np.testing.assert_array_equal(np.flatnonzero(post.support()), np.arange(5))
    assert not np.any(cofem.fit(phi, np.zeros(60)).mean)
    assert held == []


@pytest.mark.parametrize("law", ["noise", "sparse"])
def test_pure_noise_and_weak_signals_are_not_explained_away(law):
    """Twenty problems each; a held start that was believed by chance would explain y to 15 dB."""
    for seed in range(20):
        rng = np.random.default_rng([51, seed])
        phi, z = rng.normal(size=(40, 100)), np.zeros(100)
        z[:5] = law == "sparse"
        post = cofem.fit(phi, phi @ z + 3.0 * rng.normal(size=40))
        assert post.noise_precision < 10 / 9.0


@pytest.mark.parametrize(
    ("certificate", "crowded", "ratio", "explains"),
    [
        (Certificate.GIVEN, False, 31.0, True),
        (Certificate.GIVEN, False, 29.0, False),  # the limit is 30
        (Certificate.GIVEN, True, 31.0, False),
        (Certificate.APART, False, 31.0, False),
    ],
)
def test_an_end_explains_y_if_it_is_believed_and_leaves_little(
    certificate, crowded, ratio, explains
):
    """The power of y is ``ratio`` times that of the noise, in forty data."""
    noises = [SimpleNamespace(ratio=r, energy=40 * ratio / r, n_data=40) for r in (1.0, 5.0)]
    end = starts.End(SimpleNamespace(noises=noises), None, certificate, crowded)
    assert end.explains() is explains
    assert end.explains(ratio + 1) is False
    noises[1].energy /= 10  # every task counts
    assert end.explains() is False


@pytest.mark.parametrize(("apart", "counted"), [(0.19, 1), (0.21, 2)])
def test_ends_whose_means_differ_by_less_than_a_fifth_of_the_spread_are_one(apart, counted):
    def end(mean, variance):
        row = np.ones((1, 6))
        return SimpleNamespace(mean=mean * row, variance=variance * row)

    # The mean of both variances is 2.
    known = [end(1.0, 1.0), end(1.0 + apart * np.sqrt(2.0), 3.0)]
    assert len(worth_averaging(known, [-10.0, -10.0])) == counted


def test_a_held_end_needs_more_evidence():
    def fit(evidence):
        report = SimpleNamespace(log_evidence=evidence)
        return SimpleNamespace(outcome=SimpleNamespace(reports=[report]), marginals=None)

    ends = [starts.End(None, None, None, held=held) for held in (False, True)]
    for lead in (-1.0, 0.9 * HELD_HANDICAP, 1.1 * HELD_HANDICAP):
        fits = [fit(-40.0), fit(-40.0 + lead)]
        assert best_fit(ends, fits, False) is fits[lead > HELD_HANDICAP]
    assert 5.0 < HELD_HANDICAP < 6.0  # three starts, one false alarm in a hundred


def test_different_ends_of_equal_evidence_are_averaged():
    """A mixture of two normals, checked against draws; the same end again counts once."""
    rng = np.random.default_rng(3)

    def marginals(mean, variance, probability):
        row = np.ones((1, 4))
        return Marginals(
            value=mean * row, precision=row / variance, unit=row, scales=np.array([0.0, 1e12]),
            weights=np.array([1e-300, 1.0]), tie=Tie(None), nonnegative=False, mean=mean * row,
            variance=variance * row, probability=probability * row,
        )  # fmt: skip

    known = [marginals(1.0, 0.5, 0.9), marginals(1.02, 0.5, 0.9), marginals(-1.0, 0.25, 0.3)]
    shares = worth_averaging(known, [-10.0, -10.1, -9.0])
    assert list(shares) == [2, 0]
    assert shares[0] == pytest.approx(1 / (1 + np.e))
    found = averaged([known[i] for i in shares], list(shares.values()), atoms=False)
    first = rng.random(200_000) < shares[0]
    draws = np.where(first, 1.0, -1.0) + np.where(first, 0.5, 0.25) ** 0.5 * rng.normal(
        size=200_000
    )
    # Five standard errors of a mean and of a variance: once in a million.
    assert found.mean[0, 0] == pytest.approx(draws.mean(), abs=5 * draws.std() / 200_000**0.5)
    assert found.variance[0, 0] == pytest.approx(draws.var(), rel=5 * (2 / 200_000) ** 0.5)
    assert found.probability[0, 0] == pytest.approx(0.9 * shares[0] + 0.3 * shares[2])
    reach = 1.959964 * found.variance[0, 0] ** 0.5
    np.testing.assert_allclose(found.quantile(0.975), found.mean + reach, rtol=1e-6)
    # Less evidence by more than log 20: left out.
    assert list(worth_averaging(known, [-10.0, -10.1, -6.9])) == [2]


@pytest.mark.parametrize("single", [False, True])
def test_an_average_keeps_its_atom_mean_and_variance(single):
    """The average of laws with P(0) = .4, .2, .95 and of one whose value is certain."""
    kind = np.float32 if single else np.float64
    chance = np.array([[0.6, 0.8, 0.05, 1.0]], dtype=kind)
    centre, width = np.array([[0.3, -2.0, 0.1, 5.0]]), np.array([[0.2, 0.5, 0.1, 0.01]])
    mean = (chance * centre).astype(kind)
    variance = (chance * (centre**2 + width**2) - mean.astype(float) ** 2).astype(kind)
    one = Marginals(
        value=mean, precision=1 / variance, unit=np.ones_like(mean), scales=np.array([0.0, 1.0]),
        weights=np.array([0.5, 0.5]), tie=Tie(None), nonnegative=False, mean=mean,
        variance=variance, probability=chance,
    )  # fmt: skip
    found = averaged([one, one], [0.3, 0.7])
    np.testing.assert_allclose(found.shares()[1], chance[0], rtol=1e-3, atol=1e-6)
    levels = (np.arange(4000) + 0.5) / 4000
    values = np.array([found.quantile(float(level))[0] for level in levels], dtype=float)
    np.testing.assert_allclose(np.mean(values == 0, axis=0), 1 - chance[0], atol=2 / 4000)
    # The quantiles in steps of 1/4000 give a normal's moments to a thousandth of its width.
    np.testing.assert_allclose(values.mean(axis=0), mean[0], atol=2e-3 * width.max())
    np.testing.assert_allclose(values.var(axis=0), variance[0], rtol=2e-2)


def test_no_other_start_begins_after_the_user_stopped_one():
    """A callback that says so once was overheard: the next start asked it again."""
    rng = np.random.default_rng(0)
    phi, y, calls = rng.normal(size=(30, 60)), rng.normal(size=30), []
    model = starts.noise_units(Model((Task(as_operator(phi), y, 1.0),), Tie()), False)

    def once(state):
        calls.append(state.iteration)
        return len(calls) == 3

    ends = starts.learn_mixture(
        model, lambda m: make_esteps(m, EM(), 0), given=False, max_iter=50, tol=1e-4, callback=once
    )
    assert calls == [1, 2, 3]
    assert [end.found.verdict for end in ends] == [Verdict.STOPPED]


def test_pruning_finds_the_noise_better_than_all_precisions_together():
    """Without it more ends fit the noise too. By chance 10 of 12 are better once in fifty times."""
    better = 0
    for seed in range(50, 62):
        random = np.random.default_rng(seed)
        phi, z = random.normal(size=(40, 60)) / np.sqrt(40), np.zeros(60)
        z[:8] = random.choice([-3, 3], 8)
        y = phi @ z + random.normal(size=40)
        model = noise_units(Model((Task(as_operator(phi), y, np.nan),), Tie()), given=False)
        alpha, esteps = starting_precision(model, EM()), make_esteps(model, EM(), 0)
        found, _ = pruned_noise(model, lambda m: make_esteps(m, EM(), 0), alpha, 1e-4)
        noise = LearnedNoise(model.families, 0.0)
        iterate(model, esteps, Ard(model, alpha, 1e-4, noise=noise), max_iter=100, tol=1e-4)
        unit = model.tasks[0].noise_precision  # the noise has variance one
        better += abs(np.log(found * unit)) < abs(np.log(noise.ratio * unit))
    assert better >= 10
