"""On recordings with true spikes, where they are there (COFEM_DATA)."""

import os
from pathlib import Path

import numpy as np
import pytest

from cofem.calcium import binned_correlation, deconvolve, detection
from cofem.calcium.contest import CONTESTANTS, exact_setting, foopsi, has_oasis
from cofem.calcium.recordings import load_recordings

WIDTHS = (10, 20, 30, 40, 50, 60)


@pytest.fixture(scope="module")
def recordings():
    default = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("COFEM_DATA", default))
    try:
        return load_recordings(folder)
    except FileNotFoundError:
        pytest.skip("no recordings here: set COFEM_DATA")


def correlations(recordings, estimate):
    rows = []
    for r in recordings:
        x = estimate(r.dff, r.framerate)
        rows.append([binned_correlation(x, r.spikes, b) for b in WIDTHS])
    return np.array(rows)


@pytest.fixture(scope="module")
def ours(recordings):
    return [deconvolve(r.dff, r.framerate, n_jobs=1) for r in recordings]


@pytest.fixture(scope="module")
def our_correlations(recordings, ours):
    return np.array(
        [
            [binned_correlation(found.spikes, r.spikes, b) for b in WIDTHS]
            for r, found in zip(recordings, ours, strict=True)
        ]
    )


@pytest.mark.parametrize("rival", ["OASIS AR(2), penalty 1", "OASIS AR(1), s_min = 2 sn"])
def test_the_default_is_above_oasis_at_every_width(recordings, our_correlations, rival):
    """Paired over recordings, by more than twice the standard error."""
    if not has_oasis():
        pytest.skip("oasis-deconv is not installed")
    pairs = our_correlations - correlations(recordings, CONTESTANTS[rival])
    error = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
    assert np.all(pairs.mean(axis=0) > 2 * error)


def test_events_are_found(recordings, ours):
    scores = [
        detection(r.spike_times, found.events()["time"]).f1
        for r, found in zip(recordings, ours, strict=True)
    ]
    assert np.mean(scores) > 0.75


def test_probabilities_hold_for_true_spikes(recordings, ours):
    """Events called 90 % and more are real in 95 % of cases, those at a half in about half."""
    chance, real = [], []
    for r, found in zip(recordings, ours, strict=True):
        table = found.events(0.05)
        chance.append(table["probability"])
        away = np.min(np.abs(table["time"][:, None] - r.spike_times), axis=1)
        real.append(away <= 0.1)
    chance, real = np.concatenate(chance), np.concatenate(real)
    assert real[chance > 0.9].mean() > 0.95
    assert 0.35 < real[(chance > 0.4) & (chance < 0.6)].mean() < 0.75
    assert real[chance < 0.2].mean() < 0.4


def test_the_papers_claim(recordings):
    """The paper's setting, with the exact E-step, is above fast-oopsi at every width."""
    lead = correlations(recordings, exact_setting) - correlations(recordings, foopsi)
    assert np.all(lead.mean(axis=0) > 0)


@pytest.mark.slow
def test_cofem_agrees_with_the_exact_step(recordings):
    few = recordings[:2]
    paper = correlations(few, CONTESTANTS["CoFEM, the paper's setting"])
    assert np.max(np.abs((paper - correlations(few, exact_setting)).mean(axis=0))) <= 0.005
