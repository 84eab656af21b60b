"""What the walk rises counts for spikes where jumps are not sure, and nowhere else."""

import numpy as np
from scipy.ndimage import gaussian_filter1d

from cofem.calcium import deconvolve, simulate
from cofem.calcium.jumps.passes import posterior
from cofem.calcium.jumps.states import Constants, build_states
from cofem.calcium.jumps.unsure import walk_upward


def smoothed_correlation(estimate, spikes):
    a, b = (gaussian_filter1d(x.astype(float), 6.0) for x in (estimate, spikes))
    return np.corrcoef(a, b)[0, 1]


def test_in_much_noise_the_walk_tells_of_spikes():
    """Six dense cells; without the walk the mean correlation is lower by .01 or more."""
    dff, spikes = simulate(6, 3000, rate=3.0, noise_std=0.6, hill=1.0, seed=11)
    found = deconvolve(dff, 30.0, n_jobs=1)
    here, without = (
        np.mean([smoothed_correlation(x, y) for x, y in zip(rows, spikes, strict=True)])
        for rows in (found.spikes, found.mean)
    )
    assert here > without + 0.01
    assert np.all(found.spikes >= found.mean)


def test_with_little_noise_nothing_is_added():
    dff, _ = simulate(3, 1500, rate=0.5, noise_std=0.02, seed=12)
    found = deconvolve(dff, 30.0, n_jobs=1)
    np.testing.assert_array_equal(found.spikes, found.mean)


def test_a_threshold_keeps_its_meaning():
    """Frames without a probable jump are zero, whatever the walk does."""
    dff, _ = simulate(2, 1500, rate=3.0, noise_std=0.6, seed=13)
    found = deconvolve(dff, 30.0, threshold=0.5, n_jobs=1)
    assert np.mean(found.spikes == 0) > 0.5


def test_jumps_are_no_part_of_the_walk():
    """Of a sure jump nothing is left over, of a ramp almost everything."""
    states = build_states(Constants(0.7, 0.0, 0.0, 1.0, 1.0, 0.0), 30.0)
    constants, seen = Constants(0.7, 0.0, 0.0, 1.0, 1.0, 0.0), np.ones(300, bool)
    y = np.zeros(300)
    y[100:] += 1.5 * states.height * np.exp(-np.arange(200) / 21.0)
    jumps = posterior(states, y, seen)
    assert walk_upward(jumps, constants, 30.0).sum() < 0.2 * jumps.number.sum()
    ramp = np.clip((np.arange(300) - 100) / 60, 0, 1) * 1.5 * states.height
    jumps = posterior(states, ramp, seen)
    assert walk_upward(jumps, constants, 30.0).sum() > jumps.number.sum()
