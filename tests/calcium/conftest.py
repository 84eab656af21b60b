"""Simulated cells and their deconvolution, once for every file of tests."""

import pytest
from deconvolve_cases import RATE

from cofem.calcium import deconvolve, simulate


@pytest.fixture(scope="module")
def cells():
    return simulate(n_cells=4, n_frames=4000, framerate=RATE, seed=0)


@pytest.fixture(scope="module")
def result(cells):
    return deconvolve(cells[0], RATE, n_jobs=1)
