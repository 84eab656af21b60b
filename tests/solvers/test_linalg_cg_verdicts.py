"""Batched CG where it cannot work, or only just: the verdict it gives on every system."""

import numpy as np
import pytest
from linalg_cases import DTYPES, draw, eps, random_system

from cofem.operators import Dense, LinearOperator
from cofem.solvers import ShiftedGram, Status, solve
from cofem.solvers.quadrature import log_quadratic_form

# -- rounding as large as the tolerance ------------------------------------------------


def hard_system(seed, dtype="float32", d=60, smallest=1e-4):
    """Eigenvalues from 1 to ``smallest``: hard for single precision."""
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.standard_normal((d, d)))
    right, _ = np.linalg.qr(random.standard_normal((d, d)))
    phi = ((left * np.geomspace(1, smallest**0.5, d)) @ right).astype(dtype)
    alpha = np.full(d, smallest, dtype)
    wide = phi.astype(float)
    return ShiftedGram(Dense(phi), 1.0, alpha), wide.T @ wide + smallest * np.eye(d)


# Where rounding is about as large as the tolerance: most systems restart from their
# true residual and then converge, a few cannot.
EDGE = [(1e-3, 1e-5), (1e-4, 1e-4), (1e-5, 1e-3)]


@pytest.fixture
def restarts(monkeypatch):
    """Count the restarts from the true residual."""
    from cofem.solvers.controller import Controller

    counted = []
    original = Controller._verify

    def verified(self):
        original(self)
        s = self._steps.scalars
        counted.append(int(np.sum((s.true > s.target) & ~s.stuck & ~s.bad)))

    monkeypatch.setattr(Controller, "_verify", verified)
    return counted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("smallest", "rtol"), EDGE)
def test_success_is_claimed_for_the_true_residual_only(seed, smallest, rtol, restarts):
    gram, dense = hard_system(seed, smallest=smallest)
    rhs = draw(np.random.default_rng(seed), (6, 60), "float32")
    found = solve(gram, rhs, rtol=rtol, max_steps=5000)
    assert sum(restarts) > 0
    assert found.converged.any()
    r = rhs.astype(float) - found.x.astype(float) @ dense.T
    true = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    # What the solver itself cannot see: rounding in its own evaluation of b − Ax.
    unseen = 8 * eps("float32") * np.linalg.norm(found.x, axis=1) / np.linalg.norm(rhs, axis=1)
    assert (true[found.converged] <= rtol + unseen[found.converged]).all()
    # In the solver's own arithmetic; it does not look where drift is a tenth of rtol.
    r = (rhs - gram.product(found.x)).astype(float)
    own = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    assert (own[found.converged] <= 1.1 * rtol).all()
    others = found.status[~found.converged]
    assert (others == Status.STAGNATED).all()
    assert (true[~found.converged] > 0.8 * rtol).all()


@pytest.mark.parametrize("seed", range(3))
def test_stagnation_is_named(seed):
    gram, dense = hard_system(seed)
    rhs = draw(np.random.default_rng(seed), (6, 60), "float32")
    found = solve(gram, rhs, rtol=1e-6, max_steps=5000)
    assert (found.status == Status.STAGNATED).all()
    assert (found.residual > 1e-6).all()
    r = rhs - found.x.astype(float) @ dense.T
    true = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    # The residual told is the true one, to the rounding of its evaluation, and small.
    np.testing.assert_allclose(found.residual, true, rtol=0.5)
    assert (true < 1e-3).all()
    assert "precision" in Status.STAGNATED.message


@pytest.mark.parametrize("seed", range(4))
def test_coefficients_are_those_of_one_lanczos_process(seed, restarts):
    # After a restart from the true residual another process begins; its coefficients
    # do not belong to the quadrature of the first.
    gram, dense = hard_system(seed)
    rhs = draw(np.random.default_rng(seed), (5, 60), "float32")
    found = solve(gram, rhs, rtol=1e-4, max_steps=3000, keep_coefficients=True)
    assert sum(restarts) > 0
    values, vectors = np.linalg.eigh(dense)
    for q in range(5):
        exact = ((vectors.T @ rhs[q]) ** 2 * np.log(values)).sum() / (rhs[q] @ rhs[q])
        assert log_quadratic_form(found.coefficients[q]) == pytest.approx(exact, abs=0.02)


# -- matrices and data that are broken -------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_indefinite_matrix_is_named(dtype):
    # diag(1, …, 1, −3): the second system never sees the negative direction.
    diagonal = np.ones(6, dtype=np.dtype(dtype).type(0).real.dtype)
    diagonal[-1] = -3
    zero = Dense(np.zeros((1, 6), dtype))
    rhs = np.zeros((2, 6), dtype)
    rhs[0], rhs[1, :3] = 1, 1
    found = solve(ShiftedGram(zero, 1.0, diagonal), rhs, rtol=1e-5)
    assert found.status.tolist() == [Status.NOT_POSITIVE, Status.CONVERGED]
    np.testing.assert_allclose(found.x[1], rhs[1], rtol=1e-5)
    assert "positive" in Status.NOT_POSITIVE.message
    assert "adjoint" in Status.NOT_POSITIVE.message


class Breaking(LinearOperator):
    """A diagonal operator whose output is NaN from the third product on."""

    shape = (8, 8)
    splits_rows = False
    calls = 0

    def _forward(self, x):
        return x * np.arange(1.0, 9.0)

    _adjoint = _forward

    def _gram(self, x):
        self.calls += 1
        return x * np.arange(1.0, 9.0) ** 2 * (np.nan if self.calls > 2 else 1.0)

    def _column_norms_squared(self, like):
        return np.arange(1.0, 9.0) ** 2


def test_nan_from_the_operator_is_named():
    gram = ShiftedGram(Breaking(), 1.0, np.ones(8))
    found = solve(gram, np.random.default_rng(0).standard_normal((2, 8)), rtol=1e-12)
    assert (found.status == Status.NOT_POSITIVE).all()
    assert (found.steps == 2).all()
    assert np.isfinite(found.x).all()


def test_nan_in_the_right_hand_side_stays_in_its_row():
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    rhs[1, 7] = np.nan
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-8)
    assert found.status.tolist() == [0, Status.NOT_POSITIVE, 0]
    np.testing.assert_allclose(found.x[[0, 2]], system.solutions(rhs[[0, 2]]), rtol=1e-6)


def test_a_direction_of_no_curvature_is_named():
    matrix = ShiftedGram(Dense(np.diag([1.0, 0.0])), 1.0, np.zeros(2))
    found = solve(matrix, np.eye(2), preconditioner=np.ones(2), rtol=1e-6)
    assert found.status.tolist() == [Status.CONVERGED, Status.NOT_POSITIVE]
    assert np.all(np.isfinite(found.x))
