"""What a fit says of its own work, and of the evidence: products, CG steps, units."""

import math

import numpy as np
import pytest

import cofem
from cofem.learning.moments.mean_field import Cavities
from cofem.learning.moments.registry import make_esteps
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense
from cofem.operators.base import LinearOperator
from cofem.solvers.probes import DiagonalEstimate


class Counted(LinearOperator):
    """Counts the rows that go through Φ or Φᴴ."""

    exact_column_norms = True

    def __init__(self, inner):
        self.shape, self.inner, self.rows = inner.shape, inner, 0

    def _forward(self, x):
        self.rows += math.prod(x.shape[:-1])
        return self.inner.forward(x)

    def _adjoint(self, y):
        self.rows += math.prod(y.shape[:-1])
        return self.inner.adjoint(y)

    def _column_norms_squared(self, like):
        return self.inner.column_norms_squared(like)


@pytest.fixture
def problem():
    return cofem.simulate.dct(D=300, seed=0)


def test_the_products_of_an_iteration_are_the_rows_that_were_multiplied(problem):
    phi = Counted(problem.phi)
    model = Model((Task(phi, problem.y, problem.noise_precision),), Tie())
    [estep] = make_esteps(model, cofem.CoFEM(), 0)
    alpha = np.full(300, 3.0)
    first = estep.moments(alpha, None, 1, False)
    assert first.products == phi.rows
    second = estep.moments(alpha, first.mean, 2, False)
    assert second.products == phi.rows - first.products


@pytest.mark.parametrize("method", ["em", "woodbury"])
def test_exact_methods_take_no_cg_steps(problem, method):
    post = cofem.fit(
        problem.phi, problem.y, noise_precision=problem.noise_precision, method=method,
        prior="ard", max_iter=5, tol=0,
    )  # fmt: skip
    assert post.history["cg_steps"] == [0] * 5


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_the_evidence_is_that_of_the_data_in_their_units(n_tasks):
    """log p(cy) = log p(y) − N log c for every prior that follows the units of the data."""
    random = np.random.default_rng(3)
    phi = Dense(random.normal(size=(40, 60)))
    z = np.zeros((n_tasks, 60))
    z[:, [5, 30, 44]] = 2.0
    y = phi.forward(z) + 0.1 * random.normal(size=(n_tasks, 40))
    y = y if n_tasks > 1 else y[0]
    post = cofem.fit(phi, y, method="em", prior="mixture")
    again = cofem.fit(phi, 8 * y, method="em", prior="mixture")
    expected = post.log_evidence - y.size * math.log(8)
    assert again.log_evidence == pytest.approx(expected, abs=1e-3)
    assert abs(post.log_evidence) > 1


def test_a_new_start_forgets_the_cavities_of_the_last_one():
    random = np.random.default_rng(0)
    alpha, unit = np.full(50, 2.0), np.ones(50)

    def estimate(noise):
        h = np.clip(0.5 + noise * random.normal(size=50), 0.01, 0.99)
        return DiagonalEstimate(
            diagonal=h, variance=np.full(50, 0.01), n_probes=4, coefficients=[],
            steps=np.zeros(4), status=np.zeros(4), rows=4, extra=None,
        )  # fmt: skip

    wild, calm = estimate(0.4), estimate(0.05)
    used, fresh = Cavities(unit, 10.0), Cavities(unit, 10.0)

    def departed(cavities, found, iteration):
        return cavities.departed(cavities.update(found, alpha)[1], iteration)

    departed(used, wild, 1)
    remembered = departed(used, calm, 2)
    forgotten, once = departed(used, calm, 1), departed(fresh, calm, 1)
    assert forgotten == once
    assert remembered > 2 * once
