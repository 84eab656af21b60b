"""The second view, of smaller and more frequent spikes: in much noise, and nowhere else."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from cofem.calcium import deconvolve, detection, simulate
from cofem.calcium.jumps import fitting, unsure

pytestmark = pytest.mark.filterwarnings("ignore:cells with problems")


def smoothed_correlation(estimate, spikes):
    a, b = (gaussian_filter1d(x.astype(float), 6.0) for x in (estimate, spikes))
    return np.corrcoef(a, b)[0, 1]


def f1_of_cell(found, spikes, cell):
    events = found.events()
    times = events["time"][events["cell"] == cell]
    return detection(np.repeat(np.arange(spikes.shape[1]), spikes[cell]) / 30.0, times).f1


def first_alone(found, *_):
    return found, 0.0, 0.0


@pytest.fixture(scope="module")
def noisy():
    return simulate(6, 3000, rate=3.0, noise_std=0.6, hill=1.0, seed=11)


def test_in_much_noise_it_finds_more(noisy, monkeypatch):
    """Six dense cells: with it the mean correlation is higher by .01 or more."""
    dff, spikes = noisy
    here = deconvolve(dff, 30.0, n_jobs=1)
    monkeypatch.setattr(fitting, "decided", first_alone)
    without = deconvolve(dff, 30.0, n_jobs=1)
    a, b = (
        np.mean([smoothed_correlation(x, y) for x, y in zip(found.spikes, spikes, strict=True)])
        for found in (here, without)
    )
    assert a > b + 0.01
    np.testing.assert_array_equal(here.spike_counts, without.spike_counts)


def test_told_jumps_are_counted_by_the_second_view(monkeypatch):
    """Eight cells with a spike a second, three or more of which the second view answers for.

    In these the number of spikes is nearer the truth, and the mean F1 of events by half
    higher.
    """
    dff, spikes = simulate(8, 3000, rate=1.0, noise_std=0.4, hill=1.0, seed=45)
    here = deconvolve(dff, 30.0, n_jobs=1)
    monkeypatch.setattr(fitting, "decided", first_alone)
    without = deconvolve(dff, 30.0, n_jobs=1)
    changed = np.flatnonzero(np.any(here.spike_counts != without.spike_counts, axis=1))
    assert len(changed) >= 3
    true = spikes.sum(axis=1)
    a, b = (np.abs(np.log(x.spike_counts.sum(axis=1) / true))[changed] for x in (here, without))
    assert np.all(a < b)
    a, b = (np.mean([f1_of_cell(x, spikes, i) for i in changed]) for x in (here, without))
    assert a > 1.5 * b


def test_mere_noise_has_no_events(monkeypatch):
    """Ten traces of 100 s: two events at most, and more where it is not told apart."""
    noise = np.random.default_rng(22).standard_normal((10, 3000))
    assert len(deconvolve(noise, 30.0, n_jobs=1).events()) <= 2
    monkeypatch.setattr(unsure, "TOLD", -np.inf)
    assert len(deconvolve(noise, 30.0, n_jobs=1).events()) > 4


def test_counts_in_much_noise_are_said_to_be_unsure(noisy):
    """The interval at 95 % holds the truth in most cells, where it is wider, and it is said."""
    dff, spikes = noisy
    found = deconvolve(dff, 30.0, n_jobs=1)
    low, high = found.count_interval()
    true = spikes.sum(axis=1)
    lost = [i for i, text in found.messages.items() if "stand clear of the noise" in text]
    assert len(lost) >= 4
    assert np.mean(((low <= true) & (true <= high))[lost]) >= 0.8
    assert np.all(high[lost] / low[lost] > 20)
    assert "what cells usually fire" in found.counts_in_words(lost[0])


def test_with_little_noise_nothing_changes(monkeypatch):
    dff, _ = simulate(3, 1500, rate=0.5, noise_std=0.02, seed=12)
    here = deconvolve(dff, 30.0, n_jobs=1)
    monkeypatch.setattr(fitting, "decided", first_alone)
    without = deconvolve(dff, 30.0, n_jobs=1)
    np.testing.assert_array_equal(here.spikes, without.spikes)
    assert not any("stand clear" in text for text in here.messages.values())


def test_a_threshold_keeps_its_meaning():
    """Frames without a probable jump are zero, whatever the second view says."""
    dff, _ = simulate(2, 1500, rate=3.0, noise_std=0.6, seed=13)
    found = deconvolve(dff, 30.0, threshold=0.5, n_jobs=1)
    assert np.mean(found.spikes == 0) > 0.5
