"""Ranks of the truth among posterior draws are uniform, for models with a generative form."""

from dataclasses import replace

import numpy as np
import pytest
from calibration_cases import BINS, DRAWS, KINDS, QUANTITIES, histogram, p_value, ranks

from cofem.learning.supports.chain import run_chain

PROBLEMS = 150
# One false alarm in a thousand runs of all of them together (Bonferroni).
LEVEL = 1e-3 / (len(KINDS) * len(QUANTITIES))


def found(name):
    return np.array([ranks(name, seed) for seed in range(PROBLEMS)])


@pytest.mark.parametrize("name", list(KINDS))
def test_ranks_are_uniform(name):
    for column in found(name).T:
        assert p_value(column) > LEVEL


def test_a_posterior_that_is_none_is_found_out(monkeypatch):
    """Draws of the Gaussian posterior cut off at zero are not draws of half-normal z."""

    def clipped(post, n, seed):
        gaussian = replace(post, nonnegative=False, marginals=None, site_precision=None)
        return np.maximum(gaussian.sample(n, seed), 0)

    monkeypatch.setattr("calibration_cases.draws_of", clipped)
    assert p_value(found("known precisions, z ≥ 0")[:, 0]) < LEVEL


def test_a_chain_that_believes_the_data_too_much_is_found_out(monkeypatch):
    def believing(*arguments):
        before, (beta, *rest) = arguments[:9], arguments[9:]
        return run_chain(*before, 4 * beta, *rest)

    monkeypatch.setattr("calibration_cases.run_chain", believing)
    assert p_value(found("mixture, sampled")[:, 1]) < LEVEL


def test_every_rank_has_its_bin():
    np.testing.assert_array_equal(
        histogram(np.arange(DRAWS + 1)), np.full(BINS, (DRAWS + 1) // BINS)
    )
