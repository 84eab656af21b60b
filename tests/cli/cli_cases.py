"""Calls of the command line, and a problem in files."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

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


def written():
    return sorted(path.name for path in Path().iterdir())
