"""The second view, of smaller and more frequent spikes: in much noise, and nowhere else."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from cofem.calcium import deconvolve, simulate
from cofem.calcium.jumps import fitting

pytestmark = pytest.mark.filterwarnings("ignore:cells with problems")


def smoothed_correlation(estimate, spikes):
    a, b = (gaussian_filter1d(x.astype(float), 6.0) for x in (estimate, spikes))
    return np.corrcoef(a, b)[0, 1]


@pytest.fixture(scope="module")
def noisy():
    return simulate(6, 3000, rate=3.0, noise_std=0.6, hill=1.0, seed=11)


def test_in_much_noise_it_finds_more(noisy, monkeypatch):
    """Six dense cells: with it the mean correlation is higher by .01 or more."""
    dff, spikes = noisy
    here = deconvolve(dff, 30.0, n_jobs=1)
    monkeypatch.setattr(fitting, "share_of_second", lambda *_: (0.0, 0.0))
    without = deconvolve(dff, 30.0, n_jobs=1)
    a, b = (
        np.mean([smoothed_correlation(x, y) for x, y in zip(found.spikes, spikes, strict=True)])
        for found in (here, without)
    )
    assert a > b + 0.01
    np.testing.assert_array_equal(here.spike_counts, without.spike_counts)


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
    monkeypatch.setattr(fitting, "share_of_second", lambda *_: (0.0, 0.0))
    without = deconvolve(dff, 30.0, n_jobs=1)
    np.testing.assert_array_equal(here.spikes, without.spikes)
    assert not any("stand clear" in text for text in here.messages.values())


def test_a_threshold_keeps_its_meaning():
    """Frames without a probable jump are zero, whatever the second view says."""
    dff, _ = simulate(2, 1500, rate=3.0, noise_std=0.6, seed=13)
    found = deconvolve(dff, 30.0, threshold=0.5, n_jobs=1)
    assert np.mean(found.spikes == 0) > 0.5
