"""How far two chains are apart does not depend on the units of the coefficients."""

from types import SimpleNamespace

import numpy as np
import pytest

from cofem.learning.supports.sampler import _distance


def run(draws):
    sums = np.stack([np.sum(draws, axis=0), np.sum(draws**2, axis=0)])
    return SimpleNamespace(draws=lambda: (sums, None, len(draws)), mean=np.mean(draws, axis=0))


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_chains_that_differ_are_apart_in_any_unit(unit):
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 500, 6))
    other[:, 0] += 3.0
    both = np.concatenate([one, other])
    gap = np.linalg.norm(one.mean(axis=0) - other.mean(axis=0))
    wanted = gap / np.sqrt(np.sum(np.var(both, axis=0)))
    assert _distance(run(unit * one), run(unit * other)) == pytest.approx(wanted, rel=1e-6)


def test_chains_that_never_move_are_together():
    still = np.ones((5, 3))
    assert _distance(run(still), run(still)) == 0.0
