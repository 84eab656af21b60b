"""Sources of EEG through MNE's own objects, on a sphere."""

import sys

import numpy as np
import pytest

import cofem
from cofem.fields import mne_sources

mne = pytest.importorskip("mne")
SFREQ, SAMPLES, ACTIVE = 100.0, 12, (5, 20)


def upper_half(n):
    """Return n directions spread evenly over the upper half of a sphere (a Fibonacci spiral)."""
    k = np.arange(n) + 0.5
    z, angle = 1 - k / n, np.pi * (1 + 5**0.5) * k
    return np.stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z], 1)


@pytest.fixture(scope="module")
def head():
    """Return a forward solution of free orientation, and what the electrodes are."""
    names = [f"E{i}" for i in range(60)]
    at = dict(zip(names, 0.095 * upper_half(60), strict=True))
    info = mne.create_info(names, SFREQ, "eeg", verbose="error")
    info.set_montage(mne.channels.make_dig_montage(at, coord_frame="head"), verbose="error")
    sphere = mne.make_sphere_model((0.0, 0.0, 0.0), 0.095, info, verbose="error")
    places = 0.06 * upper_half(40)
    source = {"rr": places, "nn": np.tile([0.0, 0.0, 1.0], (40, 1))}
    space = mne.setup_volume_source_space(pos=source, sphere_units="m", verbose="error")
    forward = mne.make_forward_solution(
        info, trans=None, src=space, bem=sphere, meg=False, eeg=True, verbose="error"
    )
    return forward, info


def recorded(head, noise=0.05, seed=1):
    forward, info = head
    rng = np.random.default_rng(seed)
    z = np.zeros((forward["nsource"], 3, SAMPLES))
    t = np.arange(SAMPLES) / SAMPLES
    for place, turns in zip(ACTIVE, (1, 2), strict=True):
        z[place] = 1e-8 * rng.standard_normal(3)[:, None] * np.sin(2 * np.pi * turns * t)
    signal = forward["sol"]["data"] @ z.reshape(-1, SAMPLES)
    sigma = noise * signal.std()
    data = signal + sigma * rng.standard_normal(signal.shape)
    return mne.EvokedArray(data, info, tmin=-0.02, verbose="error"), z, sigma


def test_sources_are_found_with_the_noise_unknown(head):
    evoked, z, sigma = recorded(head)
    stc, post = mne_sources(evoked, head[0], return_posterior=True)
    assert isinstance(stc, mne.VolSourceEstimate)
    assert stc.data.shape == (40, SAMPLES)
    assert stc.tmin == pytest.approx(-0.02)
    assert stc.tstep == pytest.approx(0.01)
    power = np.mean(stc.data**2, axis=1)
    assert set(np.argsort(-power)[:2]) == set(ACTIVE)
    assert np.partition(power, -3)[-3] < 1e-2 * power.max()
    truth = np.linalg.norm(z, axis=1)
    assert np.linalg.norm(stc.data - truth) < 0.2 * np.linalg.norm(truth)
    assert post.mean.shape == (SAMPLES, 120)
    # 60 · 12 numbers less some 70 that the sources take: 1/β is known to 6 %.
    np.testing.assert_allclose(post.noise_precision, sigma**-2.0, rtol=0.25)


def test_a_covariance_whitens_and_its_size_does_not_matter(head):
    evoked, _, _ = recorded(head)
    plain = mne_sources(evoked, head[0])
    for size in (1.0, 1e-12):
        cov = mne.Covariance(
            size * np.ones(60), evoked.ch_names, bads=[], projs=[], nfree=1, verbose="error"
        )
        stc = mne_sources(evoked, head[0], cov)
        np.testing.assert_allclose(stc.data, plain.data, rtol=1e-3, atol=1e-3 * plain.data.max())


def test_bad_channels_are_left_out(head):
    evoked, _, _ = recorded(head)
    evoked.data[7] = 1.0  # a volt
    evoked.info["bads"] = [evoked.ch_names[7]]
    stc = mne_sources(evoked, head[0])
    assert set(np.argsort(-np.mean(stc.data**2, axis=1))[:2]) == set(ACTIVE)


def test_fixed_orientations_have_signs(head):
    evoked, _, _ = recorded(head)
    forward = head[0].copy()
    rng = np.random.default_rng(3)
    turn = rng.standard_normal((40, 3))
    gain = np.einsum("nik,ik->ni", forward["sol"]["data"].reshape(60, 40, 3), turn)
    forward["sol"]["data"], forward["sol"]["ncol"] = gain, 40
    z = np.zeros((40, SAMPLES))
    z[9] = 1e-8 * np.sin(np.arange(SAMPLES))
    clean = gain @ z
    evoked.data = clean + 0.01 * clean.std() * rng.standard_normal(clean.shape)
    stc = mne_sources(evoked, forward)
    np.testing.assert_allclose(stc.data, z, atol=0.05 * np.abs(z).max())


def test_channels_of_two_kinds_need_a_covariance(head):
    evoked, _, _ = recorded(head)
    evoked.set_channel_types({evoked.ch_names[0]: "mag"}, on_unit_change="ignore")
    with pytest.raises(ValueError, match="noise_cov must be given for channels of several kinds"):
        mne_sources(evoked, head[0])


def test_nothing_in_common_is_said(head):
    evoked, _, _ = recorded(head)
    other = evoked.copy().rename_channels({name: f"x{name}" for name in evoked.ch_names})
    with pytest.raises(ValueError, match="no good channel in common"):
        mne_sources(other, head[0])


def test_options_go_to_the_fit_and_wrong_ones_are_refused(head):
    evoked, _, _ = recorded(head)
    with pytest.warns(cofem.ConvergenceWarning):
        _, post = mne_sources(evoked, head[0], return_posterior=True, prior="ard", max_iter=2)
    assert post.prior == "ard"
    with pytest.raises(TypeError, match="wrong"):
        mne_sources(evoked, head[0], wrong=1)


def test_a_missing_mne_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(ImportError, match=r"pip install mne$"):
        mne_sources(None, None)
