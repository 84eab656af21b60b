"""What ``deconvolve`` is given: missing frames, units, bad input, files, tensors."""

import warnings

import numpy as np
import pytest
from deconvolve_cases import RATE

from cofem.calcium import deconvolve, load_deconvolution, simulate
from cofem.calcium.storage import join

# -- missing frames ------------------------------------------------------------------------


def test_missing_frames_are_in_the_model(cells):
    trace = cells[0][0].copy()
    clean = deconvolve(trace, RATE, tau_d=0.7)
    spoiled, missing = trace.copy(), np.zeros(4000, bool)
    spoiled[1000:1010], missing[1000:1010] = 50.0, True  # an artefact
    known = {"tau_d": 0.7, "sn": clean.noise_std}
    with pytest.warns(UserWarning, match="not white"):
        event = deconvolve(spoiled, RATE, **known)
    found = deconvolve(np.ma.array(spoiled, mask=missing), RATE, **known)
    full = deconvolve(trace, RATE, **known)
    assert np.all(np.isfinite(found.spikes))
    assert event.spikes[990:1012].sum() > 3.0  # it is an enormous event, unless it is masked
    assert found.spikes[990:1012].sum() < 1.0
    same = deconvolve(np.where(missing, np.nan, trace), RATE, **known)
    np.testing.assert_array_equal(found.spikes, same.spikes)
    # A frame that was not seen is less certain, and far away nothing changes.
    assert found.std[1000:1007].mean() > full.std[1000:1007].mean()
    far = np.r_[0:900, 1200:4000]
    np.testing.assert_allclose(found.spikes[far], full.spikes[far], atol=0.02)


def test_what_stands_in_a_missing_frame_is_never_read():
    """NaN frames are a likelihood of 1: fitted on the rest alone they give the same."""
    dff, _ = simulate(n_cells=1, n_frames=600, framerate=RATE, seed=6)
    trace = dff[0]
    trace[::2] = np.nan
    found = deconvolve(trace, RATE, tau_d=0.7, tau_r=0, sn=0.05, response="linear", baseline=None)
    # Every second frame seen, decay γ² between them, is a trace of half the rate; the
    # events in unseen frames share their prior with those in seen ones, so only the fit
    # is compared.
    half = deconvolve(
        trace[1::2], RATE / 2, tau_d=0.7, tau_r=0, sn=0.05, response="linear", baseline=None
    )
    assert np.corrcoef(found.denoised[1::2], half.denoised)[0, 1] > 0.99


# -- bad input -----------------------------------------------------------------------------


def test_cells_without_data_are_reported_and_the_rest_done(cells, result):
    dff = cells[0].copy()
    dff[1] = np.nan
    dff[2] = 3.0
    with pytest.warns(UserWarning, match=r"cells with problems: 1 \(0 frames.*2 \(the trace is co"):
        found = deconvolve(dff, RATE, n_jobs=1)
    np.testing.assert_array_equal(found.spikes[[0, 3]], result.spikes[[0, 3]])
    assert np.all(np.isnan(found.spikes[1]))
    assert np.all(found.spikes[2] == 0)
    assert list(found.converged) == [True, False, True, True]
    assert set(found.messages) == {1, 2}
    assert set(found.events()["cell"]) <= {0, 3}


def test_per_cent_is_noticed(cells):
    with pytest.warns(UserWarning, match="must be a fraction"):
        deconvolve(100 * cells[0][0], RATE, method="banded")


@pytest.mark.parametrize(("factor", "offset"), [(100.0, 0.0), (1e-3, 2.0), (530.0, 800.0)])
def test_units_do_not_matter(cells, result, factor, offset):
    """Per cent, raw fluorescence: the same events with the same probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = deconvolve(factor * cells[0][:2] + offset, RATE, n_jobs=1)
    np.testing.assert_allclose(other.spikes, factor * result.spikes[:2], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(other.prob_active, result.prob_active[:2], atol=1e-6)
    np.testing.assert_allclose(other.spike_counts, result.spike_counts[:2], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"framerate": 0}, ValueError, "framerate must be positive, got 0"),
        ({"framerate": None}, TypeError, "framerate"),
        ({"framerate": float("nan")}, ValueError, "framerate"),
        ({"tau_d": -1.0}, ValueError, "tau_d must be positive"),
        ({"tau_r": -0.1}, ValueError, "tau_r must be zero or positive"),
        ({"tau_d": 0.05, "tau_r": 0.1}, ValueError, "shorter than tau_d"),
        ({"sn": 0.0}, ValueError, "sn must be positive"),
        ({"baseline": "median"}, ValueError, "baseline"),
        ({"baseline": np.zeros(3)}, ValueError, "baseline must be real and of dff's shape"),
        ({"indicator": "GCaMP99"}, ValueError, "GCaMP99"),
        ({"indicator": 6}, TypeError, "indicator"),
        ({"threshold": 2.0}, ValueError, "threshold must be a probability"),
        ({"method": "oasis"}, ValueError, "method must be one of"),
        ({"method": "cofem"}, ValueError, "give tau_d or kernel"),
        ({"response": "cubic"}, ValueError, "response must be one of"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"kernel": [1.0, 0.5], "tau_d": 1.0}, ValueError, "kernel or time constants"),
        ({"kernel": [0.0, -1.0]}, ValueError, "kernel must be finite"),
        ({"dff": np.zeros(10)}, ValueError, "10 frames"),
        ({"dff": np.zeros((2, 2, 50))}, ValueError, "shape"),
        ({"dff": np.zeros(0)}, ValueError, "shape"),
        ({"dff": np.array([1, "a"], dtype=object)}, TypeError, "dtype"),
        ({"dff": np.ones(50) * 1j}, TypeError, "complex"),
        ({"dff": np.r_[np.inf, np.zeros(50)]}, ValueError, "infinite"),
        ({"callback": 3}, TypeError, "callback"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(change, error, words):
    arguments = {"dff": np.random.default_rng(0).standard_normal(50), "framerate": RATE} | change
    with pytest.raises(error, match=words):
        deconvolve(**arguments)


def test_files(tmp_path, cells, result):
    result.save(tmp_path / "r.npz")
    again = load_deconvolution(tmp_path / "r.npz", cells[0])
    np.testing.assert_array_equal(again.events(), result.events())
    with pytest.raises(ValueError, match="shape"):
        load_deconvolution(tmp_path / "r.npz", cells[0][:2])
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="no result of deconvolve"):
        load_deconvolution(tmp_path / "other.npz")
    parts = [deconvolve(cells[0][i : i + 2], RATE, n_jobs=1) for i in (0, 2)]
    np.testing.assert_array_equal(join(parts).events(), result.events())
    assert "4 cells, 4000 frames at 30 Hz" in repr(result)


def test_progress_is_told(cells):
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deconvolve(cells[0], RATE, n_jobs=2, callback=told.append)
    assert told == [1, 2, 3, 4]


# -- units and kinds of arrays ---------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.004, 0.008, 0.03])
def test_per_cent_is_noticed_also_when_it_is_clean(seed, noise):
    dff, _ = simulate(n_cells=4, n_frames=1500, seed=seed, noise_std=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deconvolve(dff, 30.0, n_jobs=1, max_iter=2, method="banded", tol=0)
    with pytest.warns(UserWarning, match="dff must be a fraction; divide per cent by 100"):
        deconvolve(100 * dff, 30.0, n_jobs=1, max_iter=2, method="banded", tol=0)


def test_tensors_give_numpy_arrays():
    torch = pytest.importorskip("torch")
    dff, _ = simulate(n_cells=2, n_frames=300, seed=0)
    expected = deconvolve(dff, 30.0, n_jobs=1)
    tensor = torch.from_numpy(dff).requires_grad_()
    found = deconvolve(tensor, 30.0, n_jobs=1)
    assert isinstance(found.spikes, np.ndarray)
    np.testing.assert_array_equal(found.spikes, expected.spikes)


def test_cells_in_columns_are_noticed():
    with pytest.raises(ValueError, match=r"3 frames.*are cells in columns"):
        deconvolve(np.zeros((900, 3)), 30.0)
