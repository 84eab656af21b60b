"""The one variance of the dense end, against a grid of variances in dense algebra."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cofem.learning.dense import dense_end
from cofem.learning.learned import Settings
from cofem.learning.moments.registry import make_esteps
from cofem.learning.moments.spectrum import Spectrum, factorised
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense

BETA = 4.0


def log_density(phi, y, v):
    """Return log p(y | v), plus that of v if the signal's share ρ of the power is uniform."""
    covariance = (phi * (v / np.sum(phi**2, axis=0))) @ phi.T + np.eye(len(y))
    evidence = multivariate_normal(np.zeros(len(y)), covariance / BETA).logpdf(y)
    power = v * phi.shape[1] / len(y)  # of the signal, over that of the noise
    share = power / (1 + power)
    return evidence + np.log(share * (1 - share))


@pytest.mark.parametrize(("n", "d"), [(12, 40), (40, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_most_probable_one(n, d, seed):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    y = phi @ rng.normal(size=d) + rng.normal(size=n) / np.sqrt(BETA)
    model = Model((Task(Dense(phi), y, BETA),), Tie())
    settings = Settings(EM(), 0, 100, 100, 1e-4)
    end, _ = dense_end(model, lambda m: make_esteps(m, EM(), 0), True, settings, 0)
    found = end.rule.prior.scales[1]
    grid = np.geomspace(1e-3, 1e4, 3000)
    best = grid[np.argmax([log_density(phi, y, v) for v in grid])]
    assert found == pytest.approx(best, rel=0.01)


def test_the_error_of_a_mean_of_rules_is_that_of_their_scatter():
    """Five rules of two nodes each, after y's own, which is no estimate of a determinant."""
    random = np.random.default_rng(4)
    values, weights = random.uniform(0.1, 2.0, (6, 2)), random.uniform(1.0, 9.0, (6, 2))
    weights[0] = 0.0
    found = Spectrum(values.ravel(), np.zeros(12), weights.ravel() / 5, rules=5)
    each = [np.sum(w * np.log1p(3.0 * v)) for v, w in zip(values[1:], weights[1:], strict=True)]
    assert found.log_det(3.0) == pytest.approx(np.mean(each))
    assert found.log_det_error(3.0) == pytest.approx(np.std(each, ddof=1) / np.sqrt(5))


def test_a_matrix_of_rank_one_has_one_value():
    random = np.random.default_rng(0)
    one, other = random.normal(size=7), random.normal(size=5)
    for phi in (np.outer(one, other), np.outer(other, one)):
        found = factorised(phi, random.normal(size=len(phi)))
        assert np.count_nonzero(found.values) == 1
        assert found.values.max() == pytest.approx(np.sum(one**2) * np.sum(other**2))
