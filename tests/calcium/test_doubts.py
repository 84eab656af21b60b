"""Traces that are no good: nothing is invented, and what is doubtful is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.ndimage import uniform_filter1d
from scipy.signal import lfilter

from cofem.calcium import deconvolve, detection, simulate
from cofem.calcium.jumps.doubts import lone_frames
from cofem.calcium.jumps.recording import course, top_noise

RATE = 30.0


def quietly(dff, rate=RATE, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return deconvolve(dff, rate, n_jobs=1, **options)


@pytest.mark.parametrize("seed", range(3))
def test_no_event_is_found_where_nothing_was_seen(seed):
    dff, spikes = simulate(n_cells=1, n_frames=2400, framerate=RATE, seed=seed)
    trace = dff[0].copy()
    trace[800:1600] = np.nan
    found = deconvolve(trace, RATE, n_jobs=1)
    deep = slice(800, 1510)  # a jump up to three seconds before the end shows after it
    assert found.spike_counts[deep].sum() < 0.5
    assert not np.any((found.events()["time"] > 27) & (found.events()["time"] < 50))
    seen = np.r_[0:800, 1600:2400]
    true = np.repeat(np.arange(2400), spikes[0].astype(int))
    times = true[np.isin(true, seen)] / RATE
    assert detection(times, found.events()["time"]).f1 > 0.6


def test_a_lone_frame_is_left_out_and_said():
    dff, _ = simulate(n_cells=1, n_frames=1200, framerate=RATE, seed=1)
    spoiled, missing = dff[0].copy(), dff[0].copy()
    spoiled[[300, 700]] = 1e6, -1e6
    missing[[300, 700]] = np.nan
    with pytest.warns(UserWarning, match="2 frames stand alone"):
        found = deconvolve(spoiled, RATE, n_jobs=1)
    np.testing.assert_array_equal(found.spikes, deconvolve(missing, RATE, n_jobs=1).spikes)


def test_an_event_is_no_lone_frame():
    """The fastest decay, and the slowest frames at which its event is more than one frame."""
    for rate in (10.0, 30.0, 120.0):
        trace = 0.001 * np.random.default_rng(0).standard_normal(600)
        trace[300:] += np.exp(-np.arange(300) / (0.1 * rate))
        assert not lone_frames(trace, rate).any()
    # At 5 Hz an event may be one frame; a frame below is an artefact all the same.
    trace = 0.001 * np.random.default_rng(0).standard_normal(600)
    trace[[100, 200]] += 1.0, -1.0
    np.testing.assert_array_equal(np.flatnonzero(lone_frames(trace, 5.0)), [200])


def doubtful(trace):
    return "upside down" in quietly(trace).messages.get(0, "")


def test_slow_noise_is_said_to_be_doubtful_and_cells_are_not():
    """Of 12 cells at most one may be doubted, of 12 walks and slow noises at most one not."""
    cells, _ = simulate(n_cells=12, n_frames=1200, framerate=RATE, seed=5)
    assert sum(doubtful(trace) for trace in cells) <= 1
    rng = np.random.default_rng(5)
    white = rng.standard_normal((12, 1200))
    memories = (0.9, 0.97, 1.0)
    slow = [lfilter([1.0], [1.0, -memories[i % 3]], x) for i, x in enumerate(white)]
    assert sum(doubtful(trace) for trace in slow) >= 11


def test_the_wrong_sign_is_said():
    cells, _ = simulate(n_cells=4, n_frames=1200, framerate=RATE, seed=6)
    assert all(doubtful(-trace) for trace in cells)


def test_a_smoothed_trace_is_said():
    cells, _ = simulate(n_cells=4, n_frames=1200, framerate=RATE, seed=7)
    smooth = uniform_filter1d(cells, 5, axis=1)
    assert all("not white" in text for text in quietly(smooth).messages.values())
    assert len(quietly(smooth).messages) == 4
    assert not any("not white" in text for text in quietly(cells).messages.values())


def test_a_decay_at_the_end_of_the_search_is_said():
    """A response that lasts 12 s is slower than anything that is searched."""
    rng = np.random.default_rng(8)
    calcium = lfilter([1.0], [1.0, -np.exp(-1 / (12 * RATE))], rng.poisson(0.003, 3000))
    found = quietly(calcium + 0.05 * rng.standard_normal(3000), baseline=None)
    assert found.at_limit
    assert "end of what is searched" in found.messages[0]


LEVEL, TOP = "the level of silence moves", "the top of the trace"


@pytest.fixture(scope="module")
def steady_cells():
    return simulate(n_cells=6, n_frames=3600, framerate=RATE, seed=11)[0]


def said(traces, words, **options):
    return sum(words in text for text in quietly(traces, **options).messages.values())


def drifting(cells):
    """A line that rises by one and a half large events."""
    large = np.quantile(cells, 0.99, axis=1, keepdims=True)
    return cells + 1.5 * large * np.linspace(0.0, 1.0, cells.shape[1])


def bleached(cells):
    """Fluorescence falls by half; F0 stays what it was at first."""
    return (1 + cells) * 0.5 ** np.linspace(0.0, 1.0, cells.shape[1]) - 1


def clipped(cells):
    """The highest four in a hundred frames are cut."""
    return np.minimum(cells, np.quantile(cells, 0.96, axis=1, keepdims=True))


def compressed(cells):
    """A detector that gives half where it should give a large event."""
    large = np.quantile(cells, 0.99, axis=1, keepdims=True)
    return np.where(cells > 0, cells / (1 + np.maximum(cells, 0.0) / large), cells)


def test_cells_of_a_steady_recording_are_neither_drifting_nor_cut(steady_cells):
    """The drift that ``simulate`` has is a fraction of an event. At most one false alarm of 12."""
    assert said(steady_cells, LEVEL) + said(steady_cells, TOP) <= 1


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(drifting, LEVEL), (bleached, LEVEL), (clipped, TOP), (compressed, TOP)],
)
def test_drift_bleaching_and_saturation_are_said(steady_cells, spoil, words):
    """Of six cells at least five."""
    assert said(spoil(steady_cells), words) >= 5


def test_a_baseline_that_is_given_is_not_judged(steady_cells):
    cells = steady_cells[:2]
    line = drifting(cells) - cells
    assert said(drifting(cells), LEVEL, baseline=line) == 0


def test_course_is_the_range_and_the_share_of_a_regression():
    random = np.random.default_rng(12)
    baseline = 0.01 * np.arange(300) + random.standard_normal(300)
    reach, steady = course(baseline)
    assert reach == np.ptp(baseline)
    correlation = np.corrcoef(np.arange(300), baseline)[0, 1]
    np.testing.assert_allclose(steady, correlation**2, atol=1e-8)
    assert course(np.full(5, 3.0)) == (0.0, 0.0)


def test_the_noise_at_the_top_is_that_of_the_top():
    """Half and twice the noise; a short or constant trace says nothing."""
    random = np.random.default_rng(13)
    for share in (0.5, 1.0, 2.0):
        trace = random.standard_normal(20_000)
        trace[5000:9000] = 30.0 + share * trace[5000:9000]
        trace[::50] = np.nan
        ratio, error = top_noise(trace)
        assert abs(np.log(ratio / share)) < 4 * error + 0.02
    for trace in (np.zeros(500), np.arange(15.0)):
        assert top_noise(trace) == (1.0, np.inf)


def test_neuropil_that_was_left_in_is_said():
    """Eight cells under one neuropil; without it, and of single cells, nothing is said."""
    cells, _ = simulate(n_cells=8, n_frames=1200, framerate=RATE, seed=31)
    others, _ = simulate(n_cells=24, n_frames=1200, framerate=RATE, rate=2.0, seed=32)
    under = cells + 2 * others.mean(axis=0)
    words, given = "goes with the mean of the other", {"tau_d": 0.7, "tau_r": 0.05}
    assert said(under, words, **given) >= 7
    assert said(cells, words, **given) == said(under[:3], words, **given) == 0
