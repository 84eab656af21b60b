"""Where torch is not installed, the tests are collected all the same and the torch ones skipped."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# As if torch were not installed: no finder finds it.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "torch" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_tests_are_collected_without_torch():
    # The folders in which modules and test programs import torch at their top.
    folders = ["src/cofem/solvers/steps", "src/cofem/backend", "tests/backend"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "--collect-only", "-q", "-p", "no:cacheprovider", *folders],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "torch is not installed: its tests were skipped" in done.stdout
    assert "src/cofem/backend/arrays.py" in done.stdout  # others are there
    assert "steps/cuda" not in done.stdout
