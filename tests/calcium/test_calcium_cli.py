"""``cofem calcium`` on files and suite2p folders."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cofem.calcium import deconvolve, load_deconvolution, read_suite2p, simulate
from cofem.cli import app

# The package's attribute of that name is the command itself.
command = importlib.import_module("cofem.cli.calcium")


def run(*arguments):
    return CliRunner().invoke(app, ["calcium", *(str(argument) for argument in arguments)])


def assert_refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("cofem: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def written():
    return sorted(path.name for path in Path().iterdir())


@pytest.fixture
def dff(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    traces, _ = simulate(n_cells=3, n_frames=900, seed=0)
    np.save("dff.npy", traces)
    return traces


def suite2p_folder(path, rate=30.0, **changes):
    """Write raw fluorescence of five regions, of which three are cells."""
    traces, _ = simulate(n_cells=5, n_frames=900, seed=1)
    arrays = {
        "F.npy": 100 * (1 + traces) + 70.0,
        "Fneu.npy": np.full(traces.shape, 100.0),
        "iscell.npy": np.array([[1, 0.9], [0, 0.1], [1, 0.8], [0, 0.2], [1, 0.7]]),
        "ops.npy": np.array({"fs": rate, "tau": 1.0, "meanImg": np.zeros((4, 4)), "p": Path("x")}),
    } | changes
    path.mkdir()
    for name, array in arrays.items():
        if array is not None:
            np.save(path / name, array, allow_pickle=True)
    return traces


def test_a_file_in_and_both_files_out(dff):
    result = run("dff.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1, "--figure", "f.png")
    assert result.exit_code == 0, result.output
    assert written() == ["dff.npy", "f.png", "out.npz", "out.spks.npy"]
    expected = deconvolve(dff, 30.0, n_jobs=1)
    np.testing.assert_array_equal(load_deconvolution("out.npz").spikes, expected.spikes)
    spks = np.load("out.spks.npy")
    assert spks.dtype == np.float32
    np.testing.assert_allclose(spks, expected.spikes, rtol=1e-6)
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    assert "decay time" in result.stdout


def test_json_and_options(dff):
    np.save("truth.npy", [1.0, 5.0])
    result = run(
        "dff.npy", "--framerate", 30, "-o", "out.npz", "--json", "--jobs", 1, "--tau-d", 0.5,
        "--threshold", 0.5, "--figure", "f.png", "--cell", 1, "--truth", "truth.npy",
    )  # fmt: skip
    facts = json.loads(result.stdout)
    assert (facts["n_cells"], facts["n_frames"], facts["median_tau_d"]) == (3, 900, 0.5)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_other_formats(dff, kind):
    if kind == "csv":
        rows = [",".join(f"{x:.9g}" for x in row) for row in dff]
        Path("t.csv").write_text("\n".join(rows) + "\n")
    else:
        np.savez("t.npz", dff=dff, fs_hz=30.0)
    assert run(f"t.{kind}", "--framerate", 30, "-o", "out.npz", "--jobs", 1).exit_code == 0
    expected = deconvolve(dff, 30.0, n_jobs=1).spikes
    np.testing.assert_allclose(load_deconvolution("out.npz").spikes, expected, atol=1e-5)


def test_a_suite2p_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite2p_folder(tmp_path / "plane0")
    Path("out").mkdir()
    result = run("plane0", "-o", "out/out.npz", "--jobs", 1, "--indicator", "GCaMP6f")
    assert result.exit_code == 0, result.output
    spks = np.load("out/out.spks.npy")
    assert spks.shape == (5, 900)
    assert np.all(spks[[1, 3]] == 0)
    assert np.all(spks[[0, 2, 4]].max(axis=1) > 0)
    assert load_deconvolution("out/out.npz").framerate == 30.0
    # Two outputs beside each other, and suite2p's own spks.npy, do not touch each other.
    assert run("plane0", "-o", "out/all.npz", "--jobs", 1, "--all-rois").exit_code == 0
    assert np.all(np.load("out/all.spks.npy").max(axis=1) > 0)
    np.testing.assert_array_equal(np.load("out/out.spks.npy"), spks)


@pytest.mark.parametrize("name", ["F.npy", "Fneu.npy", "iscell.npy"])
def test_a_folder_with_missing_files(tmp_path, name):
    suite2p_folder(tmp_path / "plane0", **{name: None})
    assert_refused(run(tmp_path / "plane0", "-o", tmp_path / "out.npz"), name, "missing")


def test_a_folder_that_contradicts_itself(tmp_path):
    suite2p_folder(tmp_path / "a", **{"Fneu.npy": np.zeros((4, 900))})
    with pytest.raises(ValueError, match="Fneu"):
        read_suite2p(tmp_path / "a")
    suite2p_folder(tmp_path / "b", **{"iscell.npy": np.zeros((5, 2))})
    with pytest.raises(ValueError, match="no region a cell"):
        read_suite2p(tmp_path / "b")
    suite2p_folder(tmp_path / "c", **{"iscell.npy": np.zeros((2, 2))})
    with pytest.raises(ValueError, match="2 rows"):
        read_suite2p(tmp_path / "c")


def test_ops_are_read_without_running_what_is_in_them(tmp_path):
    suite2p_folder(tmp_path / "plane0", rate=12.5)
    assert read_suite2p(tmp_path / "plane0").framerate == 12.5
    evil = tmp_path / "evil"
    suite2p_folder(evil, **{"ops.npy": np.array({"fs": 10.0, "x": _Runs(tmp_path / "hacked")})})
    assert read_suite2p(evil).framerate == 10.0
    assert not (tmp_path / "hacked").exists()
    (evil / "ops.npy").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"ops\.npy"):
        read_suite2p(evil)


class _Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_interrupted_run_goes_on(dff, monkeypatch):
    monkeypatch.setattr(command, "BATCH", 1)
    import cofem.calcium

    real, calls = cofem.calcium.deconvolve, []

    def stops(batch, *arguments, **options):
        calls.append(len(batch))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(batch, *arguments, **options)

    monkeypatch.setattr(cofem.calcium, "deconvolve", stops)
    assert run("dff.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1).exit_code == 130
    assert "out.npz" not in written()
    assert run("dff.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1).exit_code == 0
    assert len(calls) == 4  # two kept, one interrupted, one to do
    assert written() == ["dff.npy", "out.npz", "out.spks.npy"]
    expected = real(dff, 30.0, n_jobs=1)
    np.testing.assert_array_equal(load_deconvolution("out.npz").spikes, expected.spikes)


def test_batches_are_kept_until_the_output_is_written(dff, monkeypatch):
    monkeypatch.setattr(command, "BATCH", 1)
    import cofem.calcium

    real, calls = cofem.calcium.deconvolve, []

    def counted(batch, *arguments, **options):
        calls.append(len(batch))
        return real(batch, *arguments, **options)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cofem.calcium, "deconvolve", counted)
    with monkeypatch.context() as patch:
        patch.setattr(command, "write_spks", full)
        assert run("dff.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1).exit_code == 2
    assert run("dff.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1).exit_code == 0
    assert len(calls) == 3  # none of them twice
    assert written() == ["dff.npy", "out.npz", "out.spks.npy"]


def test_another_task_does_not_go_on_from_it():
    a = np.zeros((2, 30))
    assert command.name_of_task(a, 30.0, {"x": 1}) != command.name_of_task(a + 1, 30.0, {"x": 1})
    assert command.name_of_task(a, 30.0, {"x": 1}) != command.name_of_task(a, 31.0, {"x": 1})
    assert command.name_of_task(a, 30.0, {"x": 1}) != command.name_of_task(a, 30.0, {"x": 2})


def test_what_is_refused(dff):
    assert_refused(run("dff.npy", "-o", "out.npz"), "--framerate")
    assert_refused(run("dff.npy", "--framerate", 0, "-o", "out.npz"), "framerate")
    assert_refused(run("dff.npy", "--framerate", 30, "-o", "out.txt"), ".npz")
    assert_refused(run("no.npy", "--framerate", 30, "-o", "out.npz"), "does not exist")
    assert_refused(run("dff.npy", "--framerate", 30, "-o", "no/out.npz"), "does not exist")
    assert_refused(run("dff.npy", "--framerate", 30, "-o", "o.npz", "--figure", "f.xyz"), "figure")
    assert_refused(
        run("dff.npy", "--framerate", 30, "-o", "o.npz", "--indicator", "X"), "indicator"
    )
    assert written() == ["dff.npy"]


# -- what is told first --------------------------------------------------------------


def test_the_reason_is_told(dff):
    ask = ("-o", "out.npz", "--jobs", 1)
    assert_refused(run("missing.npy", "--framerate", 30, *ask), "missing.npy does not exist")
    assert_refused(run("dff.npy", *ask), "--framerate")
    assert_refused(run("dff.npy", "--framerate", -3, *ask), "framerate must be positive")
    assert_refused(run("dff.npy", "--framerate", 30, "--indicator", "nothing", *ask), "indicator")
    assert_refused(run("dff.npy", "--framerate", 30, "--tau-d", -1, *ask), "tau_d")
    assert_refused(run("dff.npy", "--framerate", 30, "--cell", 3, *ask), "--cell 3", "3 cells")
    np.save("turned.npy", dff.T[:, :3])
    assert_refused(run("turned.npy", "--framerate", 30, *ask), "columns")
    assert_refused(run("dff.npy", "--framerate", 30, "--into-nwb", *ask), "no .nwb file")
    assert_refused(run("dff.npy", "--framerate", 30, "--report", "r.txt", *ask), ".html")
    Path("t.tiff").write_bytes(b"II")
    assert_refused(run("t.tiff", "--framerate", 30, *ask), ".nwb", "CaImAn", "Minian", "suite2p")


def test_a_page_for_all_cells(dff):
    ask = ("-o", "out.npz", "--jobs", 1, "--report", "r.html")
    result = run("dff.npy", "--framerate", 30, "--json", *ask)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["written"] == ["out.npz", "out.spks.npy", "r.html"]
    assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_silent_field_is_one_line_by_the_numbers_of_the_file(tmp_path, monkeypatch):
    """More cells than a batch has: what many have in common is said once for all of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "BATCH", 5)
    noise = 0.1 * np.random.default_rng(2).standard_normal((8, 300))
    noise[6] = 0.0
    np.save("noise.npy", noise)
    result = run("noise.npy", "--framerate", 30, "-o", "out.npz", "--jobs", 1)
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if "cells with problems" in line]
    assert len(told) == 1
    assert told[0].count("stand clear of the noise") == 1
    assert "7 of 8, such as 0 (" in told[0]
    assert "6 (the trace is constant)" in told[0]
