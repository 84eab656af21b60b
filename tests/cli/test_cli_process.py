"""The command line in a process of its own: signals, terminals, what is loaded."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_cases import PNG, run, written

import cofem

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
