"""Batched CG with other rules for the end: a balance to keep, and the paper's joint rule."""

import numpy as np
import pytest
from linalg_cases import draw, random_system

from cofem.operators import Dense
from cofem.solvers import ShiftedGram, solve

SEEDS = range(4)


# -- balance ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("seed", SEEDS)
def test_balance_is_a_second_demand(dtype, seed):
    # Large β: a residual small beside b = βΦᴴy is large beside diag(α) x.
    system = random_system(seed, dtype, scale=1e6, decades=2)
    phi = system.gram.operator.matrix
    rhs = (1e6 * phi.conj().T @ draw(np.random.default_rng(seed), 30, dtype))[None]
    rhs = np.repeat(rhs, 3, axis=0)
    balance = np.array([0.0, 0.1, 0.001])
    found = solve(
        system.gram, rhs, preconditioner=system.jacobi, rtol=1e-3, balance=balance, max_steps=5000
    )
    assert found.converged.all()
    assert (np.diff(found.steps) > 0).all()
    r = rhs - found.x @ system.dense.T
    left = np.sqrt((abs(r) ** 2 / system.jacobi).sum(axis=1))
    pull = np.sqrt((abs(system.gram.diagonal * found.x) ** 2 / system.jacobi).sum(axis=1))
    assert (left[1:] <= balance[1:] * pull[1:] * (1 + 1e-3)).all()
    assert left[0] > 0.001 * pull[0]  # without the demand it is not met
    assert (system.residual(found.x, rhs, system.jacobi) <= 1e-3).all()


# -- the paper's joint rule ------------------------------------------------------------


def algorithm_2(dense, rhs, diagonal, rtol, max_steps):
    """The paper's Alg. 2, corrected (MATH.md): all systems stop together."""
    B = rhs.T
    X, R = np.zeros_like(B), B.copy()
    W = R / diagonal[:, None]
    P, rho = W.copy(), (R.conj() * W).sum(axis=0).real
    for step in range(max_steps + 1):
        if np.linalg.norm(R) <= rtol * np.linalg.norm(B) or step == max_steps:
            return X.T, step
        Q = dense @ P
        length = rho / (P.conj() * Q).sum(axis=0).real
        X, R = X + length * P, R - length * Q
        W = R / diagonal[:, None]
        new = (R.conj() * W).sum(axis=0).real
        P, rho = W + P * (new / rho), new
    raise AssertionError


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_joint_rule_is_the_papers(dtype, rtol, seed):
    system = random_system(seed, dtype)
    random = np.random.default_rng(seed)
    rhs = draw(random, (6, 40), dtype)
    rhs[0] *= 1000  # βΦᵀy dominates, as it does in EM
    expected, steps = algorithm_2(system.dense, rhs, system.jacobi, rtol, 400)
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=rtol, joint=True)
    assert (found.steps == steps).all()
    assert found.converged.all()
    np.testing.assert_allclose(found.x, expected, rtol=1e-8, atol=1e-12)
    norm = np.linalg.norm(rhs - found.x @ system.dense.T) / np.linalg.norm(rhs)
    np.testing.assert_allclose(found.residual, norm, rtol=1e-6)


def test_the_joint_rule_neglects_the_small_systems():
    # MATH.md, measured 1: a large right-hand side that is easy ends the whole batch.
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (2, 40), "float64")
    root = np.sqrt(system.jacobi)
    _, vectors = np.linalg.eigh(system.dense / np.outer(root, root))
    rhs[0] = 1e6 * root * vectors[:, 5]  # solved in one step
    joint = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-4, joint=True)
    own = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-4)
    assert joint.steps.tolist() == [1, 1]
    assert joint.converged.all()
    assert system.residual(joint.x, rhs, system.jacobi)[1] > 0.1
    assert own.steps[0] == 1
    assert system.residual(own.x, rhs, system.jacobi)[1] <= 1.001e-4


def test_a_start_within_the_tolerance_must_balance_too():
    """As the mean of an earlier iteration, where one coefficient dwarfs the right-hand side."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(30, 50))
    alpha = 10.0 ** rng.uniform(-2, 2, 50)
    matrix = ShiftedGram(Dense(phi), 400.0, alpha)
    z = np.zeros(50)
    z[:5], z[7] = 1.0, 1e5
    rhs = 400.0 * (phi.T @ (phi @ z))[None, :]
    diagonal = 400.0 * np.sum(phi**2, axis=0) + alpha
    dense = 400.0 * phi.T @ phi + np.diag(alpha)
    exact = np.linalg.solve(dense, rhs[0])
    # Off by what the tolerance allows, in a direction that the data do not see.
    null = np.linalg.svd(phi)[2][-1]
    start = (exact + 30.0 * null)[None, :]
    options = {"preconditioner": diagonal, "rtol": 1e-6, "max_steps": 2000}
    loose = solve(matrix, rhs, start=start, **options)
    strict = solve(matrix, rhs, start=start, balance=1e-3, **options)

    def ratio(x):
        """Return the residual beside the diagonal's part of A x, in the norm of M⁻¹."""
        left, force = rhs[0] - dense @ x, alpha * x
        return np.sqrt(np.sum(left**2 / diagonal) / np.sum(force**2 / diagonal))

    assert loose.steps[0] == 0  # within the tolerance,
    assert ratio(loose.x[0]) > 1e-3  # and out of balance
    assert ratio(strict.x[0]) <= 1.01e-3


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_the_joint_rule_does_not_depend_on_units(unit):
    system = random_system(0, "float64")
    rhs = draw(np.random.default_rng(1), (4, system.dense.shape[0]), "float64")
    options = {"rtol": 1e-4, "joint": True, "preconditioner": system.jacobi}
    one, other = (solve(system.gram, rhs * scale, **options) for scale in (1.0, unit))
    np.testing.assert_array_equal(other.steps, one.steps)
    np.testing.assert_allclose(other.x, unit * one.x, rtol=1e-9, atol=1e-12 * unit)


def test_no_right_hand_sides_are_no_work():
    system = random_system(0, "float64")
    found = solve(system.gram, np.zeros((0, system.dense.shape[0])))
    assert found.x.shape == (0, system.dense.shape[0])
    assert (found.rows, len(found.steps)) == (0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_systems_out_of_balance_go_on_and_do_not_start_anew(seed):
    """Array libraries look at the balance only at the end of a run; its directions are kept."""
    xp = pytest.importorskip("array_api_strict")
    system = random_system(seed, "float64", scale=1e6, decades=2)
    phi, diagonal = system.gram.operator.matrix, system.gram.diagonal
    rhs = (1e6 * phi.T @ draw(np.random.default_rng(seed), 30, "float64"))[None]
    options = {"rtol": 1e-3, "balance": 1e-3, "max_steps": 5000}
    there = ShiftedGram(Dense(xp.asarray(phi)), system.gram.scale, xp.asarray(diagonal))
    one = solve(system.gram, rhs, preconditioner=system.jacobi, **options)
    other = solve(there, xp.asarray(rhs), preconditioner=xp.asarray(system.jacobi), **options)
    assert other.converged.all()
    # A restart loses what the directions know of the matrix, and costs steps.
    assert other.steps[0] <= 1.1 * one.steps[0]
