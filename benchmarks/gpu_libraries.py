"""The array libraries' table of tests, counted by library.

    python benchmarks/gpu_libraries.py [--limit 240] [--output FILE]

Every library's tests are dealt out to processes, which all run at once; JAX, which compiles
every shape, gets several. What is not done when the time is over is counted as not run.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from gpu_tables import header, pick, table

# JAX as it comes, without double precision: the tests of single precision only.
SINGLE_JAX = "jax without x64"
TESTS = Path(__file__).parents[1] / "tests" / "backend" / "test_backends.py"
# How many processes each library gets: JAX compiles every shape anew.
SHARES = {"numpy": 1, "readonly": 1, "torch": 1, "torch-cuda": 1, "cupy": 1, "jax": 6,
          SINGLE_JAX: 2, "strict": 1}  # fmt: skip
OUTCOME = re.compile(
    r"::\S+\[.*\] (PASSED|FAILED|ERROR|SKIPPED)|::\S+ (PASSED|FAILED|ERROR|SKIPPED)"
)


def libraries(scale: str, limit: float = 240.0, only: tuple[str, ...] = ()) -> str:
    """Run the tests of each library in processes of their own, all at once, and count."""
    names = only or pick(scale, tuple(SHARES), ("torch", "torch-cuda"), ("numpy",))
    if not torch.cuda.is_available():
        names = tuple(name for name in names if name != "torch-cuda")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tests = {name: _tests(name) for name in names}
        started = []
        for name in names:
            for part in range(SHARES[name]):
                mine = tests[name][part :: SHARES[name]]
                if mine:
                    log = Path(folder) / f"{name}_{part}.txt"
                    started.append((name, log, _start(name, mine, log)))
        while time.monotonic() - began < limit and any(p.poll() is None for _, _, p in started):
            time.sleep(0.5)
        counts: dict[str, collections.Counter[str]] = {n: collections.Counter() for n in names}
        for name, log, process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
            text = log.read_text(errors="replace")
            counts[name].update(a or b for a, b in OUTCOME.findall(text))
            for line in text.splitlines():
                if line.startswith(("FAILED", "ERROR")):
                    print(name, line[:300], flush=True)
    rows = []
    for name in names:
        found = [counts[name][key] for key in ("PASSED", "FAILED", "ERROR", "SKIPPED")]
        rows.append([name, *found, len(tests[name]) - sum(found)])
    columns = ("arrays", "passed", "failed", "broke", "skipped (not installed)", "not run")
    return (
        "## Array libraries: methods, operators and options, answers compared with NumPy's\n\n"
        "`tests/backend/test_backends.py`; JAX on the device it chooses. Without `jax_enable_x64`\n"
        "only the tests of single precision are run, and JAX's own warning is not an error. JAX\n"
        "multiplies in full precision (`jax_default_matmul_precision`), not its default. Not\n"
        f"run: not done after {limit:.0f} s.\n\n" + table(columns, rows)
    )


def _command(name: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "-v"]
    return command + (["-W", "ignore:Explicitly requested dtype"] if name == SINGLE_JAX else [])


def _environment(name: str) -> dict[str, str]:
    # JAX would take most of the device's memory for itself, try many kernels for each shape, and
    # multiply single precision in 10 bits (TF32), which no test of single precision expects.
    quiet = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "COLUMNS": "400",
             "JAX_DEFAULT_MATMUL_PRECISION": "highest",
             "XLA_FLAGS": "--xla_gpu_autotune_level=0"}  # fmt: skip
    if name == SINGLE_JAX:
        quiet["JAX_ENABLE_X64"] = "0"
    return quiet


def _tests(name: str) -> list[str]:
    only = {"torch": "torch and not torch-cuda", SINGLE_JAX: "jax and float32"}.get(name, name)
    command = [*_command(name), str(TESTS), "-k", only, "--collect-only", "-q"]
    command.remove("-v")
    found = subprocess.run(command, capture_output=True, text=True, env=_environment(name),
                           cwd=TESTS.parents[2], check=False)  # fmt: skip
    return [line for line in found.stdout.splitlines() if "::" in line]


def _start(name: str, tests: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen([*_command(name), *tests], stdout=out, stderr=subprocess.STDOUT,
                                env=_environment(name), cwd=TESTS.parents[2])  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=240.0, help="seconds")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="*", default=(), help=", ".join(SHARES))
    options = parser.parse_args()
    text = header("gpu_libraries.py") + "\n" + libraries("full", options.limit, tuple(options.only))
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
