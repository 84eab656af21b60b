"""The array libraries' table of tests, counted by library: python benchmarks/gpu_libraries.py."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import torch

from gpu_tables import header, table

# JAX as it comes, without double precision: the tests of single precision only.
SINGLE_JAX = "jax without x64"
TESTS = Path(__file__).parents[1] / "tests" / "backend" / "test_backends.py"
NAMES = ("numpy", "readonly", "torch", "torch-cuda", "cupy", "jax", SINGLE_JAX, "strict")


def libraries(quick: bool) -> str:
    """Run the tests of each library in a process of its own, all at once, and count."""
    names = ("torch", "torch-cuda") if quick else NAMES
    if not torch.cuda.is_available():
        names = tuple(name for name in names if name != "torch-cuda")
    with tempfile.TemporaryDirectory() as folder:
        started = {name: _start(name, Path(folder) / f"{name}.xml") for name in names}
        rows = []
        for name, process in started.items():
            process.wait()
            counts = _counts(Path(folder) / f"{name}.xml")
            found = (counts[key] for key in ("passed", "failure", "error", "skipped"))
            rows.append([name, *found])
    columns = ("arrays", "passed", "failed", "broke", "skipped (not installed)")
    return (
        "## Array libraries: methods, operators and options, answers compared with NumPy's\n\n"
        "`tests/backend/test_backends.py`; JAX on the device it chooses. Without `jax_enable_x64`\n"
        "only the tests of single precision are run, and JAX's own warning is not an error.\n\n"
        + table(columns, rows)
    )


def _start(name: str, report: Path) -> subprocess.Popen[bytes]:
    only = {"torch": "torch and not torch-cuda", SINGLE_JAX: "jax and float32"}.get(name, name)
    command = [sys.executable, "-m", "pytest", str(TESTS), "-q", "-o", "addopts=", "-p",
               "no:cacheprovider", "-k", only, f"--junitxml={report}"]  # fmt: skip
    # JAX would take most of the device's memory for itself.
    quiet = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if name == SINGLE_JAX:
        quiet["JAX_ENABLE_X64"] = "0"
        command += ["-W", "ignore:Explicitly requested dtype"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=quiet)


def _counts(report: Path) -> collections.Counter[str]:
    cases = ElementTree.parse(report).iter("testcase")
    return collections.Counter(
        next((child.tag for child in case if child.tag != "properties"), "passed") for case in cases
    )


if __name__ == "__main__":
    print(header("gpu_libraries.py"))
    print(libraries(False))
