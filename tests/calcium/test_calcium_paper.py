"""The paper's figure 4 on simulated recordings, and the page about calcium."""

import re
from pathlib import Path

import numpy as np
import pytest

from cofem.calcium import simulate
from cofem.calcium.contest import CONTESTANTS, exact_setting, paper_setting
from cofem.calcium.recordings import load_recordings
from cofem.paper import calcium as figure

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def folder(tmp_path):
    """Three simulated recordings in the form of the real ones, and a file without spikes."""
    inside = tmp_path / "data" / "calcium"
    inside.mkdir(parents=True)
    for i in range(3):
        dff, spikes = simulate(n_cells=1, n_frames=1800, framerate=60.0, seed=i)
        times = 0.5 + np.repeat(np.arange(1800) / 60.0, spikes[0])
        np.savez(
            inside / f"cell{i}.npz", dff=dff[0].astype(np.float32), fs_hz=60.0, t0_s=0.5,
            spike_times_s=times, spike_counts=spikes[0], indicator="GCaMP6f",
        )  # fmt: skip
    np.savez(inside / "population.npz", dff=dff, fs_hz=60.0)
    return tmp_path / "data"


def test_recordings_are_read(folder):
    found = load_recordings(folder)
    assert [r.name for r in found] == ["cell0", "cell1", "cell2"]
    frames = np.round(found[0].spike_times * 60).astype(int)
    assert set(frames) == set(np.flatnonzero(found[0].spikes))
    assert found[0].dff.dtype == np.float64


def test_the_figure_is_made_and_continued(folder, tmp_path, monkeypatch):
    calls = []

    def quick_paper(dff, rate):
        calls.append(len(dff))
        return exact_setting(dff, rate)

    contestants = dict(CONTESTANTS) | {figure.PAPER: quick_paper}
    monkeypatch.setattr(figure, "CONTESTANTS", contestants)
    out = tmp_path / "out"
    claims = figure.run(folder, out, quick=True)
    assert len(calls) == 3
    assert {path.name for path in out.iterdir()} == {"calcium.csv", "calcium.png", "calcium.md"}
    assert claims[2].held  # the stand-in agrees with itself
    page = (out / "calcium.md").read_text("utf-8")
    assert "| fast-oopsi |" in page
    assert all(claim.text in page for claim in claims)
    figure.run(folder, out, quick=True)
    assert len(calls) == 3


@pytest.mark.parametrize(("lead", "held"), [((0.0, 0.02), True), ((0.02, 0.0), False)])
def test_the_lead_over_foopsi_must_grow(lead, held):
    means = {name: np.full(6, 0.5) for name in CONTESTANTS}
    means[figure.PAPER] = means[figure.PAPER] + np.linspace(*lead, 6)
    names = ["one", "two"]
    scores = {(recording, name): list(means[name]) for recording in names for name in means}
    claims = {c.text: c.held for c in figure.judge(means, scores, names)}
    assert [h for text, h in claims.items() if text.startswith("its lead over")] == [held]


@pytest.mark.slow
def test_cofem_and_the_exact_step_keep_the_same_frames(folder):
    """All but a few: 20 probes leave variances, and so P(z = 0), some 20 % uncertain."""
    both = either = 0
    for recording in load_recordings(folder):
        short = recording.dff[:900]
        a, b = paper_setting(short, 60.0) > 0, exact_setting(short, 60.0) > 0
        both, either = both + np.sum(a & b), either + np.sum(a | b)
    assert both / either > 0.85


def test_the_page_runs_and_its_pictures_are_there():
    text = (DOCS / "calcium.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["result"].spikes.shape == (3, 3000)
    for picture in re.findall(r"\]\((images/[^)]+)\)", text):
        assert (DOCS / picture).is_file()
