"""The figures from end to end, at sizes that take seconds."""

import csv
import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from cofem import simulate
from cofem.cli.errors import OneLineErrors
from cofem.cli.paper import paper
from cofem.paper import study
from cofem.paper.claims import Claim
from cofem.paper.contestants import ALL, LEARNED, OURS, PAPER, run_contestant
from cofem.paper.figures import fig1, fig2_trial, fig3
from cofem.paper.figures.fig2_trial import on_device, trial
from cofem.paper.study import Run

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def small(monkeypatch):
    """Shrink the figures: the same code on problems of 64 unknowns."""
    monkeypatch.setattr(fig1, "SIZE", 96)
    monkeypatch.setattr(fig1, "ITERATIONS", 4)
    monkeypatch.setattr(fig1, "PANELS", {
        name: dataclasses.replace(panel, quick_points=panel.quick_points[:2])
        for name, panel in fig1.PANELS.items()
    })  # fmt: skip
    monkeypatch.setattr(fig3, "SIZE", 64)
    monkeypatch.setattr(fig3, "ITERATION", 6)
    monkeypatch.setattr(fig3, "DRAWS", 50)
    monkeypatch.setattr(fig3, "QUICK_POWERS", (6, 7))
    monkeypatch.setattr(study, "QUICK_TRIALS", 2)
    fig3._state.cache_clear()
    yield
    fig3._state.cache_clear()


def assert_complete(outcome, n_claims):
    assert len(outcome.claims) == n_claims
    text = outcome.page.read_text(encoding="utf-8")
    for claim in outcome.claims:
        assert str(claim) in text
    for picture in outcome.pictures:
        assert picture.read_bytes().startswith(PNG)
        assert picture.name in text


def test_figure_1_writes_a_file_for_every_panel_and_resumes(tmp_path, small, monkeypatch):
    run = Run(out=tmp_path / "new", quick=True, seed=5)
    outcome = fig1.run_figure(run)
    assert_complete(outcome, 15)
    for panel in "abcdef":
        with (run.out / f"fig1{panel}.csv").open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert len(rows) == 2 * (2 * (7 if panel in "cf" else 8) + 1)
        assert {row["seed"] for row in rows} == {"5", "6"}
        assert all(float(row["nrmse"]) >= 0 for row in rows)
    before = {path: path.stat().st_mtime_ns for path in run.out.glob("*.csv")}
    monkeypatch.setattr(fig1, "measure", None)  # nothing is left to measure
    again = fig1.run_figure(run)
    assert again.claims == outcome.claims
    assert {path: path.stat().st_mtime_ns for path in run.out.glob("*.csv")} == before


def test_the_learned_prior_is_the_fit_that_a_user_calls():
    import cofem

    problem = simulate.dct(256, 3)
    found = run_contestant(LEARNED.name, problem, 3, 5)
    expected = cofem.fit(problem.phi, problem.y, seed=5)
    assert expected.prior == "mixture"
    assert found["nrmse"] == simulate.nrmse(expected.mean, problem.z)
    assert found["iterations"] == len(expected.history["iteration"]) > 3


def test_figure_3_from_end_to_end(tmp_path, small):
    outcome = fig3.run_figure(Run(out=tmp_path, quick=True))
    assert_complete(outcome, 13)
    # Lemma 1 and the bound for every Φ are theorems, at any size.
    exact = [c for c in outcome.claims if "√(h(1−h)/K)/α" in c.text]
    assert [c.held for c in exact] == [True]


def test_monte_carlo_of_figure_3_agrees_with_lemma_1():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((30, 30))
    matrix = matrix + matrix.T
    # 3000 draws: a relative error of 1/√6000 = 1.3 % in each standard deviation if the
    # estimates were Gaussian; 8 % is six of those.
    found = fig3._spread(matrix, K=3, draws=3000, seed=1)
    np.testing.assert_allclose(found, fig3.theory.probe_std(matrix, 3), rtol=0.08)


def test_steps_of_figure_3_are_those_of_the_fit_itself():
    # The systems of the paper's setting, solved again: the count of the fit's own history.
    import cofem

    problem = simulate.dct(256, 3)
    post = cofem.fit(problem.phi, problem.y, noise_precision=1e4, seed=3, max_iter=50, tol=0.0,
                     method=cofem.CoFEM.paper())  # fmt: skip
    found = fig3.measure_steps(256, 3, PAPER.name)
    assert abs(found["with_50"] - post.history["cg_steps"][-1]) <= 3  # other probes
    assert found["without_50"] > found["with_50"]


# -- figure 2 ------------------------------------------------------------------------


def test_a_trial_of_figure_2_tells_time_memory_and_error():
    found = trial("dct", 0.12, 512, 0, OURS.name, "cpu", 30, 2.0)
    assert found["status"] == "done"
    assert found["iterations"] == 30
    assert found["wall_seconds"] > 0
    assert found["cpu_seconds"] > 0
    again = run_contestant(OURS.name, simulate.dct(512, 0, 0.12), 30, 0)
    assert found["nrmse"] == pytest.approx(again["nrmse"], rel=1e-12)


def test_the_device_is_numpy_or_torch():
    torch = pytest.importorskip("torch")
    assert isinstance(on_device(np.zeros(2), "cpu"), np.ndarray)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device 'cuda' cannot be used"):
            on_device(np.zeros(2), "cuda")


@pytest.mark.slow
def test_a_trial_on_tensors_gives_the_same_answer(monkeypatch):
    # What --device cuda does, with tensors on the CPU.
    torch = pytest.importorskip("torch")
    expected = trial("dct", 0.05, 128, 0, OURS.name, "cpu", None, 2.0)
    monkeypatch.setattr(fig2_trial, "on_device", lambda x, device: torch.asarray(x))
    memory = SimpleNamespace(reset=lambda: None, peak=lambda: 7)
    monkeypatch.setattr(fig2_trial, "_memory", lambda device, limit: memory)
    found = trial("dct", 0.05, 128, 0, OURS.name, "cuda", None, 2.0)
    assert found["peak_bytes"] == 7
    assert found["status"] == expected["status"] == "done"
    # Probes are drawn by another generator: close, not equal.
    assert abs(found["nrmse"] - expected["nrmse"]) < 1.0


@pytest.mark.parametrize("name", ALL)
def test_every_contestant_runs(name):
    found = run_contestant(name, simulate.dct(128, 0, 0.05), 20, 0)
    assert np.isfinite(found["nrmse"])
    assert found["products"] > 0 or name.startswith(("EM", "IRLS"))


# -- the command ---------------------------------------------------------------------


def command():
    app = typer.Typer(cls=OneLineErrors, add_completion=False)
    app.callback()(lambda: None)
    app.command()(paper)
    return app


def test_the_command_prints_verdicts_and_the_page(tmp_path, small):
    found = CliRunner().invoke(
        command(), ["paper", "fig3", "--quick", "--output", str(tmp_path / "deep" / "out")]
    )
    assert found.exit_code == 0, found.output
    assert "Held" in found.output
    assert (tmp_path / "deep" / "out" / "fig3.md").exists()


def test_applications_are_called_with_what_was_asked(tmp_path, monkeypatch):
    called = []

    def calcium(data, out, quick):
        called.append((data, out, quick))
        return [Claim("it works", True, "1 > 0")]

    def mri(data, out, quick, device):
        called.append((data, out, quick, device))
        return out / "mri.md"

    monkeypatch.setitem(sys.modules, "cofem.paper.calcium", SimpleNamespace(run=calcium))
    monkeypatch.setitem(sys.modules, "cofem.paper.mri", SimpleNamespace(run=mri))
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--output", str(out), "--quick"]
    found = CliRunner().invoke(command(), ["paper", "calcium", *options])
    assert found.exit_code == 0, found.output
    assert "Held: it works" in found.output
    found = CliRunner().invoke(command(), ["paper", "mri", *options, "--device", "cuda"])
    assert found.exit_code == 0, found.output
    assert "mri.md" in found.output.replace("\n", "")
    assert called == [(tmp_path, out, True), (tmp_path, out, True, "cuda")]


def test_applications_need_their_data(tmp_path):
    for arguments in (["paper", "mri"], ["paper", "calcium", "--data", str(tmp_path / "no")]):
        found = CliRunner().invoke(command(), arguments, env={"COFEM_DATA": None})
        assert found.exit_code == 2
        assert "data" in found.output
