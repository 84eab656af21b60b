"""The tests that need a GPU, run and counted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gpu_tables import pick, table

ROOT = Path(__file__).parents[1]
FILES = ("tests/backend/test_cuda.py", "tests/backend/test_cuda_graphs.py",
         "tests/backend/test_cuda_launches.py", "tests/backend/test_nccl.py",
         "tests/mri/test_mri_cuda.py", "tests/calcium/test_deconvolve_cuda.py")  # fmt: skip
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")


def device_tests(scale: str, limit: float = 300.0) -> str:
    """Run each file in a process of its own, all at once, and count; failures by name."""
    started = [(name, _start(name)) for name in pick(scale, FILES, FILES, FILES[2:3])]
    rows, failures = [], []
    for name, process in started:
        try:
            text = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0]
        found = {what: int(n) for n, what in COUNT.findall(text.splitlines()[-1] if text else "")}
        ended = "yes" if process.returncode in (0, 1, 5) else "NO"
        rows.append([name, *(found.get(k, 0) for k in ("passed", "failed", "error", "skipped")),
                     ended])  # fmt: skip
        failures += [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    columns = ("tests", "passed", "failed", "broke", "skipped", "ran to its end")
    told = "\n".join(f"- `{line[:300]}`" for line in failures)
    return f"## `python -m pytest -m cuda`\n\n{table(columns, rows)}{told}\n"


def _start(name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "-q",
               "-m", "cuda", name]  # fmt: skip
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
