"""Ranks of the truth among posterior draws are uniform, for models with a generative form."""

import numpy as np
import pytest
from calibration_cases import BINS, DRAWS, KINDS, QUANTITIES, histogram, p_value, ranks

PROBLEMS = 150
# One false alarm in a thousand runs of all of them together (Bonferroni).
LEVEL = 1e-3 / (len(KINDS) * len(QUANTITIES))
# Draws of a rectified Gaussian are clipped at zero: that is not the posterior of half-normal z.
NOT_CALIBRATED = "known precisions, z ≥ 0"


def found(name):
    return np.array([ranks(name, seed) for seed in range(PROBLEMS)])


@pytest.mark.parametrize("name", [name for name in KINDS if name != NOT_CALIBRATED])
def test_ranks_are_uniform(name):
    for column in found(name).T:
        assert p_value(column) > LEVEL


def test_a_posterior_that_is_none_is_found_out():
    assert p_value(found(NOT_CALIBRATED)[:, 0]) < LEVEL


def test_every_rank_has_its_bin():
    np.testing.assert_array_equal(
        histogram(np.arange(DRAWS + 1)), np.full(BINS, (DRAWS + 1) // BINS)
    )
