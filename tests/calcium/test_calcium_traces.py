"""Baseline, noise, response, kinetics and probabilities, each by itself."""

import numpy as np
import pytest
import scipy.signal
from scipy.ndimage import gaussian_filter1d, maximum_filter1d, minimum_filter1d

from cofem.calcium import INDICATORS, maximin_baseline
from cofem.calcium.foopsi import fast_oopsi
from cofem.calcium.half_cauchy.calibration import event_odds, probability
from cofem.calcium.indicators import indicator_named, latency
from cofem.calcium.scoring import binned_correlation, detection
from cofem.calcium.traces import (
    downward_noise,
    log_response,
    log_response_inverse,
    white_noise,
)


def test_maximin_is_suite2ps():
    trace = np.random.default_rng(0).standard_normal(3000)
    smooth = gaussian_filter1d(trace, 10.0)
    expected = maximum_filter1d(minimum_filter1d(smooth, 1800), 1800)
    np.testing.assert_allclose(maximin_baseline(trace, 30.0), expected, atol=1e-12)


def test_maximin_does_not_look_at_missing_frames():
    rng = np.random.default_rng(1)
    trace = np.linspace(0, 1, 6000) + 0.01 * rng.standard_normal(6000)
    holed = trace.copy()
    holed[rng.choice(6000, 600, replace=False)] = np.nan
    holed[2000:4500] = np.nan  # longer than the window
    there = maximin_baseline(holed, 30.0, window=20.0)
    assert np.all(np.isfinite(there))
    assert np.max(np.abs(there - maximin_baseline(trace, 30.0, window=20.0))) < 0.2


@pytest.mark.parametrize("rate", [10.0, 60.0, 160.0])
def test_white_noise_is_found_whatever_the_rate(rate):
    noise = 0.07 * np.random.default_rng(2).standard_normal(20_000)
    holed = noise.copy()
    holed[::97] = np.nan
    every_third = noise.copy()
    every_third[::3] = np.nan
    for trace in (noise, holed, every_third):
        assert white_noise(trace, rate) == pytest.approx(0.07, rel=0.03)
        assert (
            downward_noise(trace, rate, 0.05) == pytest.approx(0.07, rel=0.06)
            or np.isnan(trace).any()
        )


def test_steps_downward_do_not_see_events_and_see_slow_noise():
    rng = np.random.default_rng(3)
    noise = 0.05 * rng.standard_normal(20_000)
    up = np.zeros(20_000)
    for start in rng.choice(19_000, 60, replace=False):
        up[start:] += 0.6 * 0.97 ** np.arange(20_000 - start)
    assert downward_noise(noise + up, 60.0, 0.05) == pytest.approx(0.05, rel=0.12)
    beat = 0.1 * np.sin(2 * np.pi * 6 * np.arange(20_000) / 60)
    assert white_noise(noise + beat, 60.0) == pytest.approx(0.05, rel=0.05)
    assert downward_noise(noise + beat, 60.0, 0.05) > 0.1


def test_the_response_is_monotone_and_inverted():
    x = np.linspace(-0.9, 9, 1000)
    assert np.all(np.diff(log_response(x)) > 0)
    np.testing.assert_allclose(log_response_inverse(log_response(x)), x, atol=1e-12)


@pytest.mark.parametrize("name", INDICATORS)
def test_every_indicator_has_a_source_and_rises_before_it_decays(name):
    found = indicator_named(name.lower().replace("-", " "))
    assert found == INDICATORS[name]
    assert 0 < found.tau_r < found.tau_d < 3
    assert len(found.source) > 20


@pytest.mark.parametrize("tau_r", [0.01, 0.05, 0.1])
def test_latency_is_where_least_squares_puts_the_event(tau_r):
    rate, tau_d = 1000.0, 0.7
    t = np.arange(6000) / rate
    y = np.exp(-t / tau_d) - np.exp(-t / tau_r)
    fits = []
    for lag in range(150):
        h = np.where(t >= lag / rate, np.exp(-(t - lag / rate) / tau_d), 0.0)
        fits.append((y @ h) ** 2 / (h @ h))
    assert latency(tau_d, 0.0, tau_r) == pytest.approx(np.argmax(fits) / rate, abs=0.002)


def test_odds_are_those_of_a_known_mixture():
    """False events exponential, true ones from 3 to 15: the share of true ones by class."""
    rng = np.random.default_rng(4)
    false, decoys = rng.exponential(1.2, size=(2, 4000))
    true = rng.uniform(3, 15, size=400)
    a, b = event_odds(np.concatenate([false, true]), decoys)
    for low, high in ((2, 3), (3, 4), (6, 8), (10, 15)):
        n_true = np.sum((true >= low) & (true < high))
        n_false = 4000 * (np.exp(-low / 1.2) - np.exp(-high / 1.2))
        share = n_true / (n_true + n_false)
        assert probability(np.array([(low + high) / 2]), a, b)[0] == pytest.approx(share, abs=0.15)


def test_without_true_events_hardly_any_is_called_true():
    """Of 20,000 events in 20 silent cells fewer than one in a hundred."""
    rng = np.random.default_rng(5)
    called = 0
    for _ in range(20):
        events, decoys = rng.exponential(1.2, size=(2, 1000))
        called += np.sum(probability(events, *event_odds(events, decoys)) > 0.5)
    assert called < 200


def test_odds_of_nothing_are_the_priors():
    a, b = event_odds(np.zeros(0), np.zeros(0))
    assert (a, b) == pytest.approx((-3.0, 0.75))


def test_fast_oopsi_minimises_its_objective():
    """Against projected gradient descent on the same objective."""
    rng = np.random.default_rng(6)
    n, gamma, noise = 60, 0.9, 0.2
    z = np.where(rng.uniform(size=n) < 0.1, 1.0, 0.0)
    phi = np.tril(gamma ** np.subtract.outer(np.arange(n), np.arange(n)).clip(0))
    y = phi @ z + noise * rng.standard_normal(n)
    rate = noise / (y.mean() * (1 - gamma))
    found = fast_oopsi(y, gamma, noise, tol=1e-9)
    x = np.zeros(n)
    step = 1 / np.linalg.norm(phi, 2) ** 2
    for _ in range(20_000):
        x = np.maximum(x - step * (phi.T @ (phi @ x - y / noise) + rate), 0)
    np.testing.assert_allclose(found, noise * x, atol=2e-3)


def test_scores():
    rng = np.random.default_rng(7)
    a, b = rng.uniform(size=(2, 65))
    sums = [[x[i : i + 10].sum() for i in range(0, 65, 10)] for x in (a, b)]
    assert binned_correlation(a, b, 10) == pytest.approx(np.corrcoef(*sums)[0, 1])
    assert np.isnan(binned_correlation(np.zeros(20), b[:20], 5))
    perfect = detection(np.array([1.0, 2.0]), np.array([2.05, 0.95]))
    assert perfect == (1.0, 1.0, 1.0)
    twice = detection(np.array([1.0]), np.array([1.0, 1.01]))
    assert (twice.precision, twice.recall) == (0.5, 1.0)


@pytest.mark.parametrize("n", [40, 100, 101, 3000])
def test_white_noise_is_welchs_estimate(n):
    trace = np.random.default_rng(n).standard_normal(n).cumsum()
    frequency, density = scipy.signal.welch(trace, fs=30.0, nperseg=min(256, n))
    expected = np.sqrt(np.mean(density[frequency > 7.5]) * 15.0)
    assert white_noise(trace, 30.0) == pytest.approx(expected, rel=1e-12)
