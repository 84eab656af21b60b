"""Mistakes, errors and interrupts on the command line: one line, and nothing left behind."""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from cli_cases import run, written

import cofem


def assert_refused(result, *words):
    """One line on the error stream, exit code 2, nothing else."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("cofem: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["paint"],
        ["solve"],
        ["solve", "phi.npy", "y.npy"],
        ["demo", "--size", "many"],
        ["demo", "--size", "3"],
        ["demo", "--colour", "red"],
        ["--colour"],
        ["demo", "extra"],
    ],
)
def test_mistakes_in_the_arguments_are_one_line(arguments):
    assert_refused(run(*arguments))


def test_demo_refuses_a_figure_it_cannot_write_before_it_works(tmp_path, monkeypatch):
    monkeypatch.setattr(cofem, "fit", lambda *a, **k: pytest.fail("the fit was started"))
    assert_refused(run("demo", "--figure", tmp_path / "no" / "f.png"), "figure", "does not exist")
    assert_refused(run("demo", "--figure", tmp_path / "f.doc"), "does not end in one of")


def test_not_converged_is_a_warning_line_and_an_answer(problem):
    result = run(
        "solve",
        "phi.npy",
        "y.npy",
        "-o",
        "o.npz",
        "--noise-precision",
        1e4,
        "--max-iter",
        2,
        "--json",
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("cofem: warning: ")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["converged"] is False
    assert Path("o.npz").exists()


BAD = {
    "no phi": (["no.npy", "y.npy"], "phi: no.npy does not exist"),
    "no y": (["phi.npy", "no.npy"], "y: no.npy does not exist"),
    "ending of phi": (["phi.doc", "y.npy"], "phi: phi.doc has the ending .doc; accepted: .npy and"),
    "all that is accepted": (["phi.doc", "y.npy"], ".mtx (Matrix Market), .mat (MATLAB, not -v7"),
    "no table": (["phi.npy", "words.csv"], "y: words.csv is not a readable .csv file"),
    "phi is a vector": (["y.npy", "y.npy"], "expected a matrix"),
    "shapes": (["phi.npy", "long.npy"], "y"),
    "y is a cube": (["phi.npy", "cube.npy"], "y"),
    "y is empty": (["phi.npy", "empty.npy"], "y"),
    "NaN in y": (["phi.npy", "nan.npy"], "y contains NaN or Inf"),
    "NaN in phi": (["nanphi.npy", "y.npy"], "phi contains NaN or Inf"),
    "objects": (["phi.npy", "object.npy"], "holds values of type object"),
    "cut short": (["phi.npy", "short.npy"], "is cut short"),
    "method": (["phi.npy", "y.npy", "--method", "magic"], "magic"),
    "noise 0": (["phi.npy", "y.npy", "--noise-precision", "0"], "noise_precision"),
    "noise < 0": (["phi.npy", "y.npy", "--noise-precision", "-1"], "noise_precision"),
    "noise NaN": (["phi.npy", "y.npy", "--noise-precision", "nan"], "noise_precision"),
    "noise text": (["phi.npy", "y.npy", "--noise-precision", "loud"], "--noise-precision"),
    "max_iter": (["phi.npy", "y.npy", "--max-iter", "0"], "max_iter"),
    "tol": (["phi.npy", "y.npy", "--tol", "-1"], "tol"),
    "no directory": (["phi.npy", "y.npy", "-o", "no/o.npz"], "the directory no does not exist"),
    "output ending": (["phi.npy", "y.npy", "-o", "o.txt"], "output: o.txt does not end in .npz (t"),
    "output is a directory": (["phi.npy", "y.npy", "-o", "folder.npz"], "is a directory"),
    "output is an input": (["in.npz", "y.npy", "-o", "in.npz"], "would overwrite an input"),
    "figure ending": (["phi.npy", "y.npy", "--figure", "f.doc"], "figure: f.doc does not end"),
    "figure directory": (["phi.npy", "y.npy", "--figure", "no/f.png"], "figure: the directory no"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(problem, case):
    arguments, message = BAD[case]
    Path("phi.doc").write_text("1 2 3")
    Path("words.csv").write_text("1,2\nthree,four\n")
    Path("folder.npz").mkdir()
    np.save("long.npy", np.ones(77))
    np.save("cube.npy", np.ones((2, 2, 30)))
    np.save("empty.npy", np.ones(0))
    np.save("nan.npy", np.where(np.arange(30) == 3, np.nan, problem.y))
    np.save("nanphi.npy", np.full((30, 120), np.nan))
    np.save("object.npy", np.array([None] * 30), allow_pickle=True)
    np.savez("in.npz", problem.phi.matrix)
    Path("short.npy").write_bytes(Path("y.npy").read_bytes()[:-9])
    before = written()
    output = [] if "-o" in arguments else ["-o", "out.npz"]
    assert_refused(run("solve", *arguments, *output), message)
    assert written() == before


@pytest.mark.skipif(
    sys.platform == "win32" or (hasattr(os, "geteuid") and os.geteuid() == 0),
    reason="root may write anywhere",
)
def test_a_directory_that_may_not_be_written(problem):
    Path("locked").mkdir(mode=0o500)
    result = run("solve", "phi.npy", "y.npy", "-o", "locked/o.npz")
    assert_refused(result, "output: cannot write", "ermission denied")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", "o.npz"), "o.npz: No space left on device"),
        (MemoryError(), "not enough memory"),
        (ValueError("several\nlines  of text"), "several lines of text"),
    ],
)
def test_errors_of_the_machine_are_one_line_too(problem, monkeypatch, error, words):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(cofem, "fit", fail)
    assert_refused(run("solve", "phi.npy", "y.npy", "-o", "o.npz"), words)


def test_a_mistake_of_ours_keeps_its_traceback(problem, monkeypatch):
    monkeypatch.setattr(cofem, "fit", lambda *a, **k: [][0])
    result = run("solve", "phi.npy", "y.npy", "-o", "o.npz")
    assert isinstance(result.exception, IndexError)


# -- Ctrl-C ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["demo", "solve"])
def test_interrupt_in_the_fit_leaves_nothing(problem, monkeypatch, command):
    def fit(*args, **kwargs):
        warnings.warn("half way", cofem.ConvergenceWarning, stacklevel=2)
        raise KeyboardInterrupt

    monkeypatch.setattr(cofem, "fit", fit)
    before = written()
    arguments = ["phi.npy", "y.npy", "-o", "out.npz"] if command == "solve" else []
    result = run(command, *arguments)
    assert result.exit_code == 130
    assert result.stderr.endswith("cofem: interrupted\n")
    assert "Traceback" not in result.output
    assert written() == before


def test_interrupt_while_writing_leaves_nothing(problem, monkeypatch):
    def savez(stream, **arrays):
        stream.write(b"half of a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", savez)
    monkeypatch.setattr(np, "savez_compressed", savez)
    before = written()
    result = run(
        "solve", "phi.npy", "y.npy", "-o", "out.npz", "--noise-precision", 1e4, "--max-iter", 200
    )
    assert result.exit_code == 130
    assert written() == before
