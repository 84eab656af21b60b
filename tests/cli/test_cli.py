"""The command line: help, the demonstration, and what ``solve`` reads and writes."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import typer
from cli_cases import PNG, run, written

import cofem
from cofem import simulate
from cofem.cli import app

# -- the front -----------------------------------------------------------------------------


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"cofem {cofem.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_the_commands(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "demo" in result.stdout
    assert "solve" in result.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("demo", ["--size", "--seed", "--figure", "--json"]),
        ("solve", ["PHI", "--noise-precision", "--nonnegative", "--method", "--output", "--tol"]),
    ],
)
def test_help_of_a_command(command, words):
    result = run(command, "--help")
    assert result.exit_code == 0
    for word in words:
        assert word in result.stdout


COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_has_an_example_that_can_be_typed(command):
    result = run(command, "--help")
    assert "Example" in result.stdout
    examples = re.findall(rf"^ +cofem ({command} .*)$", result.stdout, re.MULTILINE)
    assert examples, result.stdout
    for example in examples:  # every option exists and every value is of its kind
        name, *arguments = shlex.split(example)
        COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_where_to_write_has_one_name(command):
    names = [name for option in COMMANDS[command].params for name in option.opts]
    assert "--out" not in names
    assert ("--output" in names) == ("-o" in names)


# -- demo ----------------------------------------------------------------------------------


def test_demo_prints_a_table_and_draws(tmp_path):
    figure = tmp_path / "demo.png"
    result = run("demo", "--size", 1024, "--figure", figure)
    assert result.exit_code == 0, result.output
    for word in ("error", "hold the truth", "of these false", "CG steps", "products", "memory"):
        assert word in result.stdout
    assert figure.read_bytes().startswith(PNG)


def test_demo_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--size", 1024, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["unknowns"] == 1024
    assert facts["measurements"] == 341
    assert facts["nonzeros"] == 122
    assert facts["nrmse"] < 3
    assert 60 < facts["coverage"] <= 100
    assert facts["iterations"] > 1
    assert facts["products"] > facts["iterations"]
    assert written() == ["cofem-demo.png"]


# -- solve ---------------------------------------------------------------------------------


def test_solve_writes_a_posterior(problem):
    result = run("solve", "phi.npy", "y.npy", "-o", "out.npz", "--noise-precision", 1e4)
    assert result.exit_code == 0, result.output
    assert "noise precision" in result.stdout
    post = cofem.load("out.npz")
    assert simulate.nrmse(post.mean, problem.z) < 5
    assert written() == ["out.npz", "phi.npy", "y.npy"]


def test_solve_json_and_figure(problem):
    result = run(
        "solve",
        "phi.npy",
        "y.npy",
        "-o",
        "out.npz",
        "--noise-precision",
        1e4,
        "--figure",
        "f.png",
        "--json",
        "--seed",
        3,
        "--max-iter",
        200,
        "--tol",
        1e-3,
    )
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert set(facts) == {
        "method",
        "converged",
        "message",
        "iterations",
        "noise_precision",
        "log_evidence",
        "n_support",
        "seconds",
        "products",
        "output",
    }
    assert facts["converged"] is True
    assert facts["noise_precision"] == 1e4
    assert facts["output"] == "out.npz"
    assert 0 < facts["n_support"] < 120
    assert Path("f.png").read_bytes().startswith(PNG)


def test_solve_chooses_the_noise_precision(problem):
    result = run("solve", "phi.npy", "y.npy", "-o", "out.npz", "--json", "--max-iter", 500)
    assert result.exit_code == 0, result.output
    # 30 measurements of 120 unknowns say little about the noise.
    assert 1e2 < json.loads(result.stdout)["noise_precision"] < 1e6


@pytest.mark.parametrize("method", ["cofem", "em", "woodbury"])
def test_solve_with_a_method(problem, method):
    result = run(
        "solve",
        "phi.npy",
        "y.npy",
        "-o",
        "o.npz",
        "--noise-precision",
        1e4,
        "--method",
        method,
        "--json",
        "--max-iter",
        300,
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["method"] == method


def test_solve_reads_every_format(problem):
    matrix = problem.phi.matrix
    np.savez("both.npz", phi=matrix, y=problem.y)
    scipy.io.mmwrite("phi.mtx", scipy.sparse.csr_array(matrix))
    scipy.io.mmwrite("y.mtx", problem.y[:, None])
    options = ["-o", "o.npz", "--noise-precision", 1e4, "--json", "--method", "em"]
    answers = [
        json.loads(run("solve", phi, y, *options).stdout)["n_support"]
        for phi, y in [("phi.npy", "y.npy"), ("both.npz", "both.npz"), ("phi.mtx", "y.mtx")]
    ]
    assert len(set(answers)) == 1


def test_solve_reads_tables_and_matlab_files(problem):
    matrix = problem.phi.matrix
    names = ",".join(f"column{j}" for j in range(matrix.shape[1]))
    np.savetxt("phi.csv", matrix, delimiter=",", header=names, comments="", fmt="%.17g")
    np.savetxt("y.txt", problem.y, fmt="%.17g")
    scipy.io.savemat("both.mat", {"phi": matrix, "y": problem.y})
    options = ["--noise-precision", 1e4, "--json", "--method", "em"]
    means = []
    for phi, y in [("phi.npy", "y.npy"), ("phi.csv", "y.txt"), ("both.mat", "both.mat")]:
        result = run("solve", phi, y, "-o", "o.npz", *options)
        assert result.exit_code == 0, result.output
        means.append(cofem.load("o.npz").mean)
    np.testing.assert_array_equal(means[1], means[0])
    np.testing.assert_array_equal(means[2], means[0])


def test_solve_writes_a_table(problem):
    options = ["--noise-precision", 1e4, "--method", "em"]
    assert run("solve", "phi.npy", "y.npy", "-o", "o.npz", *options).exit_code == 0
    result = run("solve", "phi.npy", "y.npy", "-o", "o.csv", *options, "--json")
    assert result.exit_code == 0, result.output
    post, table = cofem.load("o.npz"), np.genfromtxt("o.csv", delimiter=",", names=True)
    assert table.dtype.names[:5] == ("index", "mean", "std", "low", "high")
    np.testing.assert_array_equal(table["index"], np.arange(120))
    np.testing.assert_array_equal(table["mean"], post.mean)
    np.testing.assert_array_equal(table["std"], post.std)
    np.testing.assert_array_equal([table["low"], table["high"]], post.interval(0.95))
    np.testing.assert_array_equal(table["support"], post.support())
    assert json.loads(result.stdout)["output"] == "o.csv"


def test_tables_of_joint_and_complex_answers(problem):
    options = ["-o", "o.csv", "--noise-precision", 1e4, "--method", "em"]
    np.save("y.npy", np.stack([problem.y, 2 * problem.y]))
    assert run("solve", "phi.npy", "y.npy", *options).exit_code == 0
    joint = np.genfromtxt("o.csv", delimiter=",", names=True)
    assert joint.dtype.names[:3] == ("task", "index", "mean")
    assert joint["task"].tolist() == [0] * 120 + [1] * 120
    np.save("y.npy", problem.y * np.exp(0.3j))
    assert run("solve", "phi.npy", "y.npy", *options).exit_code == 0
    turned = np.genfromtxt("o.csv", delimiter=",", names=True)
    assert turned.dtype.names[:4] == ("index", "mean_real", "mean_imag", "std")
    np.testing.assert_allclose(turned["mean_imag"], np.tan(0.3) * turned["mean_real"], atol=1e-3)


def test_solve_joint_tasks(problem):
    np.save("y.npy", np.stack([problem.y, 2 * problem.y]))
    options = ["-o", "o.npz", "--noise-precision", 1e4, "--figure", "f.png"]
    result = run("solve", "phi.npy", "y.npy", *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["noise_precision"] == [1e4, 1e4]
    assert run("solve", "phi.npy", "y.npy", *options).exit_code == 0
    assert cofem.load("o.npz").mean.shape == (2, 120)


def test_solve_complex(problem):
    np.save("phi.npy", problem.phi.matrix * np.exp(0.3j))
    np.save("y.npy", problem.y * np.exp(0.3j))
    options = ["-o", "o.npz", "--noise-precision", 1e4, "--figure", "f.png", "--json"]
    result = run("solve", "phi.npy", "y.npy", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_support"] > 0


def test_solve_nonnegative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = simulate.convolution(100, 0)
    np.save("phi.npy", drawn.phi.to_dense())
    np.save("y.npy", drawn.y)
    result = run(
        "solve", "phi.npy", "y.npy", "-o", "o.npz", "--noise-precision", 1e4, "--nonnegative"
    )
    assert result.exit_code == 0, result.output
    assert (cofem.load("o.npz").mean >= 0).all()
