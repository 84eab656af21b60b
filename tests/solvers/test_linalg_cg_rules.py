"""Batched CG with other rules for the end: a balance to keep, and the paper's joint rule."""

import numpy as np
import pytest
from linalg_cases import draw, random_system

from cofem.solvers import solve

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
