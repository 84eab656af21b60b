"""The command line, as a user meets it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import typer
from typer.testing import CliRunner

import cofem
from cofem import simulate
from cofem.cli import app

PNG = b"\x89PNG"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """Write a small problem to the current directory."""
    monkeypatch.chdir(tmp_path)
    drawn = simulate.gaussian(120, 0)
    np.save("phi.npy", drawn.phi.matrix)
    np.save("y.npy", drawn.y)
    return drawn


def assert_refused(result, *words):
    """One line on the error stream, exit code 2, nothing else."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("cofem: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def written():
    return sorted(path.name for path in Path().iterdir())


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


def test_demo_refuses_a_figure_it_cannot_write_before_it_works(tmp_path, monkeypatch):
    monkeypatch.setattr(cofem, "fit", lambda *a, **k: pytest.fail("the fit was started"))
    assert_refused(run("demo", "--figure", tmp_path / "no" / "f.png"), "figure", "does not exist")
    assert_refused(run("demo", "--figure", tmp_path / "f.doc"), "does not end in one of")


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


LARGE = """
import resource, sys
import numpy as np, scipy.sparse, scipy.special, cofem, cofem.cli
from cofem import simulate
# Compiled code, libraries and their memory come before the limit.
small = simulate.gaussian(120, 0)
cofem.fit(small.phi, small.y, noise_precision=1e4, method="cofem", max_iter=500)
held = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) << 10
size = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (held + size // 2, held + size // 2))
cofem.cli.main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_a_large_matrix_is_mapped_and_never_copied(tmp_path, monkeypatch, dtype):
    """The memory that a process may write to is limited to half of the matrix; all is as usual."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    size = 260 << 20  # just above what is read
    rows = 1000
    columns = size // (rows * np.dtype(dtype).itemsize)
    phi = np.lib.format.open_memmap("phi.npy", "w+", dtype, (rows, columns))  # holes on the disk
    places = np.sort(rng.choice(columns, 400, replace=False))
    phi[:, places] = rng.standard_normal((rows, 400))
    z = np.zeros(400)
    z[:5] = 3.0
    np.save("y.npy", phi[:, places] @ z + 0.01 * rng.standard_normal(rows))
    del phi
    arguments = ["solve", "phi.npy", "y.npy", "-o", "z.csv", "--noise-precision", 1e4,
                 "--max-iter", 2, "--json"]  # fmt: skip
    with python(LARGE, size, *arguments) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert json.loads(out)["method"] == "cofem"  # chosen because the matrix is mapped
    table = np.genfromtxt("z.csv", delimiter=",", names=True)
    assert set(np.argsort(-np.abs(table["mean"]))[:5]) == set(places[:5])


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


# -- the real thing, in its own process --------------------------------------------------------


def start(*arguments, before="pass", module="cofem.cli", **environment):
    return python(f"import pathlib, {module} as m; {before}; m.main()", *arguments, **environment)


def python(code, *arguments, **environment):
    # A process that a shell has put into the background ignores interrupts, and its children do.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    # The package under test, also where it is on a relative path and not installed.
    path = os.pathsep.join([str(Path(cofem.__file__).parents[1]), *sys.path[1:]])
    return subprocess.Popen(
        [sys.executable, "-c", f"{heard}; {code}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": path, "PYTHONUTF8": "1"} | environment,
    )


def test_process_demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with start("demo", "--size", 1024, "--json") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["figure"] == "cofem-demo.png"
    assert Path("cofem-demo.png").read_bytes().startswith(PNG)


def test_process_on_a_terminal_without_greek(tmp_path):
    figure = tmp_path / "f.png"
    with start(
        "demo", "--size", 256, "--figure", figure, PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    ) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "products with ?" in out


def test_process_bad_input(tmp_path):
    with start("solve", tmp_path / "no.npy", "y.npy", "-o", tmp_path / "o.npz") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == f"cofem: error: phi: {tmp_path / 'no.npy'} does not exist\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_process_interrupted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with start("demo", "--size", 2_000_000, before="pathlib.Path('ready').touch()") as process:
        deadline = time.monotonic() + 60
        while not Path("ready").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "cofem: interrupted\n"
    assert written() == ["ready"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("after", [0.02, 0.3, 0.8])
def test_process_interrupted_while_it_loads(tmp_path, monkeypatch, after):
    monkeypatch.chdir(tmp_path)
    ready = {"module": "cofem.__main__", "before": "pathlib.Path('ready').touch()"}
    with start("demo", "--size", 2_000_000, **ready) as process:
        deadline = time.monotonic() + 60
        while not Path("ready").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "cofem: interrupted\n")


def test_an_error_made_of_an_interrupt_is_one(monkeypatch, tmp_path):
    def fit(*args, **kwargs):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as cause:  # as modules in C++ do while they are loaded
            raise ImportError("initialization failed") from cause

    monkeypatch.setattr(cofem, "fit", fit)
    result = run("demo", "--size", 100, "--figure", tmp_path / "f.png")
    assert (result.exit_code, result.stderr) == (130, "cofem: interrupted\n")


# -- what is loaded, and when --------------------------------------------------------------------

HEAVY = {"numpy", "scipy", "numba", "matplotlib", "joblib", "rich", "typer", "torch", "sklearn"}


def loaded(code):
    with python(f"import sys; {code}; print(*{HEAVY} & set(sys.modules))") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return set(out.split())


def test_the_package_loads_nothing_before_it_is_used():
    assert loaded("import cofem, cofem.__main__; dir(cofem)") == set()
    assert "numpy" in loaded("import cofem; cofem.fit")


def test_fits_and_commands_load_no_libraries_that_they_do_not_use():
    assert not loaded("import cofem; cofem.fit") & {"matplotlib", "rich", "typer", "torch"}
    assert not loaded("import cofem.cli") & {"matplotlib", "numba", "torch", "sklearn"}


def test_posterior_is_the_function_whatever_was_imported_first():
    with python(
        "from cofem.result.posterior import Posterior; import cofem; "
        "print(cofem.posterior.__module__); "
        "import cofem.result.storage; print(cofem.posterior is cofem.fitting.calls.posterior, "
        "cofem.Posterior is Posterior, 'fit' in dir(cofem), hasattr(cofem, 'nothing'))"
    ) as process:
        out, err = process.communicate(timeout=120)
    assert (out, err) == ("cofem.fitting.calls\nTrue True True False\n", "")
