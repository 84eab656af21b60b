"""``deconvolve`` as a user meets it, on simulated cells."""

import numpy as np
import pytest
import scipy.linalg
from deconvolve_cases import RATE

from cofem.calcium import binned_correlation, deconvolve, detection, simulate
from cofem.calcium.jumps.counting import segments
from cofem.calcium.jumps.states import noise_at_30


@pytest.fixture(scope="module")
def banded(cells):
    return deconvolve(cells[0], RATE, method="banded", n_jobs=1)


def test_arrays_have_the_shape_of_dff(cells, result):
    names = ("spikes", "mean", "std", "prob_active", "denoised", "baseline", "spike_counts")
    for name in names:
        array = getattr(result, name)
        assert array.shape == cells[0].shape
        assert np.all(np.isfinite(array))
    for name in ("noise_std", "tau_d", "tau_r", "latency", "converged"):
        assert getattr(result, name).shape == (4,)
    assert result.converged.all()
    assert {len(values) for values in result.history.values()} == {4}
    assert np.all(result.spikes >= 0)
    assert np.all(result.std > 0)  # nothing is certain, not even silence
    assert np.all((result.prob_active >= 0) & (result.prob_active <= 1))


def test_it_finds_the_spikes(cells, result, banded):
    spikes = cells[1]
    for i in range(4):
        assert binned_correlation(result.spikes[i], spikes[i] > 0, 30) > 0.85
        assert binned_correlation(banded.spikes[i], spikes[i] > 0, 30) > 0.85
        assert binned_correlation(banded.filtered_mode()[i], spikes[i] > 0, 30) > 0.85
    with pytest.raises(ValueError, match="banded"):
        result.filtered_mode()
    np.testing.assert_allclose(result.noise_std, 0.05, rtol=0.25)
    times = result.events()
    for i in range(4):
        true = np.repeat(np.arange(4000) / RATE, spikes[i])
        assert detection(true, times["time"][times["cell"] == i]).f1 > 0.6


def test_the_fit_is_the_signal(cells, result):
    """The denoised trace is nearer to the noiseless fluorescence than the data are."""
    clean, _ = simulate(n_cells=4, n_frames=4000, framerate=RATE, seed=0, noise_std=1e-9)
    raw = np.sqrt(np.mean((cells[0] - clean) ** 2))
    assert np.sqrt(np.mean((result.denoised - clean) ** 2)) < 0.5 * raw


@pytest.mark.filterwarnings("ignore:cells with problems")  # two of them are nearly silent
def test_probabilities_are_calibrated_on_simulated_cells():
    """Of the segments with a jump of probability p a share p has a spike, from both sides.

    A spike within 0.1 s is there by accident too, as often as in the same segments of
    another cell. 20 linear cells without drift, fixed seed; classes with 40 segments and
    more. Half a tenth is allowed for the class's width, the rest is three binomial standard
    errors. (That not every jump is a spike is a fact of recordings, and tested on them.)
    """
    dff, spikes = simulate(
        20, 6000, RATE, noise_std=0.12, rate=0.3, hill=1.0, drift=1e-9, seed=1
    )  # fmt: skip
    found = deconvolve(dff, RATE, n_jobs=1)
    chance, real, accident = [], [], []
    for i in range(20):
        unit = noise_at_30(found.noise_std[i], RATE)
        runs = segments(found.prob_active[i], found.mean[i] / unit, RATE)
        ends = np.maximum(runs.start - 3, 0), np.minimum(runs.stop + 3, 6000)
        chance.append(runs.chance)
        for cell, hits in ((i, real), ((i + 1) % 20, accident)):
            total = np.concatenate([[0], np.cumsum(spikes[cell])])
            hits.append(total[ends[1]] > total[ends[0]])
    chance, real, accident = map(np.concatenate, (chance, real, accident))
    checked = 0
    for low in np.arange(0.0, 1.0, 0.1):
        chosen = (chance >= low) & (chance < low + 0.1 + (low > 0.85))
        n = np.count_nonzero(chosen)
        if n < 40:
            continue
        said = chance[chosen].mean()
        expected = said + (1 - said) * accident[chosen].mean()
        slack = 0.05 + 3 * np.sqrt(expected * (1 - expected) / n)
        assert abs(real[chosen].mean() - expected) < slack, low
        checked += 1
    assert checked >= 8


@pytest.mark.filterwarnings("ignore:cells with problems")  # rightly
def test_pure_noise_has_next_to_no_events():
    noise = 0.05 * np.random.default_rng(2).standard_normal((10, 6000))
    assert len(deconvolve(noise, 60.0, n_jobs=1).events()) <= 20


def test_a_batch_is_its_cells(cells, result):
    for i in (0, 3):
        alone = deconvolve(cells[0][i], RATE)
        np.testing.assert_array_equal(alone.spikes, result.spikes[i])
        assert alone.tau_d == result.tau_d[i]
        assert isinstance(alone.noise_std, float)
    threads = deconvolve(cells[0], RATE, n_jobs=2)
    np.testing.assert_array_equal(threads.prob_active, result.prob_active)


def test_single_precision_in_single_precision_out(cells, result):
    single = deconvolve(cells[0].astype(np.float32), RATE, n_jobs=1)
    assert single.spikes.dtype == np.float32
    assert np.corrcoef(single.spikes.ravel(), result.spikes.ravel())[0, 1] > 0.9999


@pytest.mark.parametrize("factor", [1e-3, 7.0])
def test_units_do_not_matter_in_a_linear_response_by_frames(cells, factor):
    trace = cells[0][0]
    way = {"response": "linear", "method": "banded"}
    one = deconvolve(trace, RATE, **way)
    other = deconvolve(factor * trace, RATE, sn=factor * one.noise_std, **way)
    same = deconvolve(trace, RATE, sn=one.noise_std, **way)
    np.testing.assert_allclose(other.spikes, factor * same.spikes, rtol=1e-6, atol=1e-9 * factor)
    np.testing.assert_allclose(other.prob_active, same.prob_active, rtol=1e-5, atol=1e-12)


def test_given_time_constants_are_used(cells):
    found = deconvolve(cells[0][:1], RATE, tau_d=0.6, tau_r=0.04, n_jobs=1)
    assert (found.tau_d[0], found.tau_r[0]) == (0.6, 0.04)
    assert found.latency[0] == pytest.approx(0.5 / RATE)  # a spike lies between two frames
    one = {"tau_d": 0.6, "method": "banded", "n_jobs": 1}
    found = deconvolve(cells[0][:1], RATE, tau_r=0.04, **one)
    assert (found.tau_d[0], found.tau_r[0], found.latency[0]) == (0.6, 0.04, 0.0)
    without = deconvolve(cells[0][:1], RATE, tau_r=0, **one)
    assert without.latency[0] == 0
    later = deconvolve(cells[0][:1], RATE, **one)
    shift = round(later.latency[0] * RATE)
    assert shift == 1
    np.testing.assert_array_equal(later.spikes[0, :-shift], without.spikes[0, shift:])


def test_the_decay_time_is_near_the_indicators():
    dff, _ = simulate(n_cells=2, n_frames=6000, framerate=RATE, tau_d=1.4, tau_r=0.1, seed=4)
    slow = deconvolve(dff, RATE, indicator="GCaMP6s", n_jobs=1)
    assert np.all((slow.tau_d > 0.99) & (slow.tau_d < 2.3))
    fast, _ = simulate(n_cells=2, n_frames=6000, framerate=RATE, tau_d=0.2, tau_r=0.01, seed=4)
    free = [deconvolve(x, RATE, n_jobs=1).tau_d for x in (fast, dff)]
    assert np.all(free[0] < free[1])


@pytest.mark.parametrize("which", ["result", "banded"])
def test_events_are_in_order_with_intervals_around_them(which, request):
    found = request.getfixturevalue(which)
    table = found.events(0.3, level=0.9)
    assert np.all(np.diff(table["cell"]) >= 0)
    assert np.all((table["low"] <= table["amplitude"]) & (table["amplitude"] <= table["high"]))
    wide = found.events(0.3, level=0.99)
    assert np.all(wide["high"] >= table["high"])
    assert len(found.events(0.9)) < len(table)


def test_events_of_frames_are_the_posterior_of_z(banded):
    table, strong = banded.events(0.3), banded.prob_active >= 0.3
    assert table["amplitude"].sum() == pytest.approx(banded.spikes[strong].sum())
    mean, _ = banded.posterior_of_z(0)
    frames = np.flatnonzero(banded.spikes[0] > 0) + round(banded.latency[0] * RATE)
    frames = frames[frames < 4000]
    np.testing.assert_allclose(
        np.maximum(mean, 0)[frames],
        banded.spikes[0][frames - round(banded.latency[0] * RATE)],
        rtol=1e-6,
    )


def test_threshold_clears_what_is_improbable(cells, result, banded):
    cleared = deconvolve(cells[0], RATE, threshold=0.5, method="banded", n_jobs=1)
    kept = banded.prob_active >= 0.5
    np.testing.assert_array_equal(cleared.spikes, np.where(kept, banded.spikes, 0.0))
    cleared = deconvolve(cells[0], RATE, threshold=0.5, n_jobs=1)
    assert np.all((cleared.spikes == 0) | (cleared.spikes == result.spikes))
    assert 0 < np.count_nonzero(cleared.spikes) < 0.5 * np.count_nonzero(result.spikes)


def test_the_filtered_mode_is_non_negative_least_squares():
    dff, _ = simulate(n_cells=1, n_frames=400, framerate=RATE, seed=5)
    found = deconvolve(dff[0], RATE, tau_d=0.7, tau_r=0, response="linear", method="banded")
    estimate = found.filtered_mode(0.05)
    kept = np.flatnonzero(estimate)
    h = np.exp(-np.arange(400) / (0.7 * RATE))
    phi = scipy.linalg.toeplitz(h, np.zeros(400))
    y = dff[0] - found.baseline
    slope = phi.T @ (y - phi @ estimate) / found.noise_std**2 - found.precision * estimate
    np.testing.assert_allclose(slope[kept], 0, atol=1e-6 * np.abs(slope).max())


# -- other ways ----------------------------------------------------------------------------


def test_a_measured_kernel_is_fitted_by_cofem():
    dff, spikes = simulate(n_cells=1, n_frames=1500, framerate=RATE, seed=7)
    t = np.arange(120) / RATE
    kernel = 3 * np.exp(-t / 0.9) * (1 - np.exp(-t / 0.05))
    found = deconvolve(dff[0], RATE, kernel=kernel)
    assert binned_correlation(found.spikes, spikes[0] > 0, 30) > 0.8
    assert np.isnan(found.tau_d)
    table = found.events()
    assert np.all(table["low"] <= table["high"])
    with pytest.raises(ValueError, match="measured kernel"):
        found.filtered_mode()
