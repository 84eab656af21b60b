"""The array libraries' table of tests, counted by library: python benchmarks/gpu_libraries.py."""

from __future__ import annotations

import collections
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from gpu_tables import header, table

TESTS = Path(__file__).parents[1] / "tests" / "backend" / "test_backends.py"
NAMES = ("numpy", "readonly", "torch", "torch-cuda", "cupy", "jax", "strict")


def libraries(quick: bool) -> str:
    """Run the tests, JAX as it finds a device, and count."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(TESTS), "-q", "-o", "addopts=", "-p",
                   "no:cacheprovider", f"--junitxml={report}"]  # fmt: skip
        if quick:
            command += ["-k", "torch"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        cases = list(ElementTree.parse(report).iter("testcase"))
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for case in cases:
        pieces = case.get("name", "").partition("[")[2].rstrip("]").replace("torch-cuda", "GPU")
        found = [name for name in NAMES if name.replace("torch-cuda", "GPU") in pieces.split("-")]
        outcome = next((child.tag for child in case if child.tag != "properties"), "passed")
        counts[found[-1] if found else "any"][outcome] += 1
    rows = [[name, *(counts[name][key] for key in ("passed", "failure", "error", "skipped"))]
            for name in (*NAMES, "any") if name in counts]  # fmt: skip
    columns = ("arrays", "passed", "failed", "broke", "skipped (not installed)")
    return (
        "## Array libraries: methods, operators and options, answers compared with NumPy's\n\n"
        "`tests/backend/test_backends.py`; JAX with `jax_enable_x64`, on the device it chooses.\n\n"
        + table(columns, rows)
    )


if __name__ == "__main__":
    print(header("gpu_libraries.py"))
    print(libraries(False))
