"""Theorem 2, the steps of conjugate gradients: against textbook CG and the solver itself."""

import math

import numpy as np
import pytest
from theory_cases import DICTIONARIES, dense, limit_of_em, random_support

from cofem import CoFEM, fit, simulate, theory
from cofem.operators import Dense
from cofem.solvers import ShiftedGram, solve


def preconditioned(op, alpha, beta, theta):
    phi = dense(op)
    root = np.sqrt(beta * theta + alpha)
    return (beta * phi.conj().T @ phi + np.diag(alpha)) / (root[:, None] * root)


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("choice", ["identity", "jacobi", "best"])
def test_theorem_2_holds_on_random_supports(name, choice):
    op, beta = DICTIONARIES[name], 20.0
    for seed in range(3):
        support = np.sort(random_support(op, seed))
        alpha = limit_of_em(op, support, seed)
        theta = np.ones(op.shape[1])
        if choice == "jacobi":
            theta = op.column_norms_squared()
        elif choice == "best":
            theta[support] = theory.best_theta(op, support)
        A = preconditioned(op, alpha, beta, theta)
        values = np.linalg.eigvalsh(A)
        condition = theory.condition_bound(op, support, theta)
        assert values[-1] / values[0] <= condition * (1 + 1e-6)
        xi = theory.departure(op, support, theta)
        if xi < 1:
            assert condition <= (1 + xi) / (1 - xi) * (1 + 1e-9)
        b = np.random.default_rng(seed).standard_normal(op.shape[1])
        for steps, error in enumerate(cg_errors(A, b, 40)):
            assert error <= theory.residual_bound(op, support, steps, theta) * (1 + 1e-6)


def cg_errors(A, b, steps):
    """‖r‖/‖b‖ in the norm of A⁻¹ after 0, 1, … steps of textbook CG."""
    exact = np.linalg.solve(A, b)
    size = math.sqrt((exact.conj() @ b).real)
    x, r = np.zeros_like(exact), b.astype(exact.dtype)
    p, rho = r, (r.conj() @ r).real
    for _ in range(steps):
        e = exact - x
        yield math.sqrt(abs((e.conj() @ (A @ e)).real)) / size
        if rho < 1e-24 * (b @ b):
            return
        psi = A @ p
        gamma = rho / (p.conj() @ psi).real
        x, r = x + gamma * p, r - gamma * psi
        rho, old = (r.conj() @ r).real, rho
        p = r + (rho / old) * p


def test_steps_needed_are_enough_and_follow_the_formula():
    for seed in range(5):
        random = np.random.default_rng(seed)
        values = random.uniform(1.0, 200.0, 80)
        values[:2] = 1.0, 200.0
        Q = np.linalg.qr(random.standard_normal((80, 80)))[0]
        A, b = (Q * values) @ Q.T, random.standard_normal(80)
        U = theory.steps_needed(200.0, rtol=1e-5)
        root = math.sqrt(200.0)
        assert 2 * root * ((root - 1) / (root + 1)) ** U <= 1e-5
        assert 2 * root * ((root - 1) / (root + 1)) ** (U - 1) > 1e-5
        identity = ShiftedGram(Dense(np.linalg.cholesky(A).T), 1.0, np.zeros(80))
        found = solve(identity, b[None], rtol=1e-5, max_steps=U)
        assert found.converged.all()
    assert theory.steps_needed(1.0, 1e-6) == 1


def cg_steps_at(problem, iteration):
    """Steps for the mean at the α of that iteration: without a preconditioner, and with."""
    seen = {}

    def keep(state):
        if state.iteration == iteration:
            seen["alpha"] = np.array(state.precision)
        return state.iteration >= iteration

    fit(problem.phi, problem.y, noise_precision=problem.noise_precision,
        method=CoFEM(report_probes=0), max_iter=iteration + 1, tol=0.0, prior="ard",
        callback=keep)  # fmt: skip
    beta, alpha = problem.noise_precision, seen["alpha"]
    system = ShiftedGram(problem.phi, beta, alpha)
    rhs = beta * problem.phi.adjoint(problem.y)[None]
    jacobi = beta * problem.phi.column_norms_squared() + alpha
    return [
        int(solve(system, rhs, preconditioner=m, rtol=1e-4, max_steps=100_000).steps[0])
        for m in (None, jacobi)
    ]


def test_steps_grow_without_the_preconditioner_and_stay_flat_with_it():
    # With the iterations, at every size; with the size they do not grow where variances are
    # clipped to their bounds, as they are here: α then rises by at most β‖φ‖² an iteration.
    for D in (256, 1024):
        plain, with_it = np.transpose([
            np.mean([cg_steps_at(simulate.dct(D, seed), T) for seed in range(2)], axis=0)
            for T in (15, 40, 100)
        ])  # fmt: skip
        assert plain[1] > 1.5 * plain[0]
        assert plain[2] > 1.5 * plain[1]
        assert with_it.max() <= 1.3 * with_it[0]
        assert plain[2] > 3 * with_it[2]


def test_steps_with_the_preconditioner_do_not_grow_with_the_size():
    steps = [
        np.mean([cg_steps_at(simulate.dct(D, seed), 40)[1] for seed in range(2)])
        for D in (256, 1024, 4096)
    ]
    assert max(steps) <= 1.3 * steps[0]
