"""A problem in files, for every test of the command line."""

import numpy as np
import pytest

from cofem import simulate


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """Write a small problem to the current directory."""
    monkeypatch.chdir(tmp_path)
    drawn = simulate.gaussian(120, 0)
    np.save("phi.npy", drawn.phi.matrix)
    np.save("y.npy", drawn.y)
    return drawn
