"""One coordinate at a time: after any number of moves the state is as dense algebra has it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sequential_cases import CASES, case, evidence, gammas, sparse_task

from cofem.model.model import Model, Tie
from cofem.operators import Dense
from cofem.rivals.sequential import Learner


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_after_every_move_all_is_as_computed_directly(name, seed):
    model, phi = case(name, seed)
    y, beta, d = model.tasks[0].y, model.tasks[0].noise_precision, phi.shape[1]
    learner = Learner(model, min_gain=1e-7)
    state = learner.states[0]
    last = evidence(phi, y, np.zeros(d), beta)
    assert learner.log_evidence == pytest.approx(last, rel=1e-10)
    kinds = set()
    for _ in range(60):
        before = set(learner.active.members.tolist())
        if learner.sweep(1) == 0:
            break
        after = set(learner.active.members.tolist())
        kinds.add(len(after) - len(before))
        gamma = gammas(learner, d)
        S = learner.active.members
        # Σ and μ by a direct inverse.
        A = beta * phi[:, S].conj().T @ phi[:, S] + np.diag(1 / gamma[S])
        covariance = np.linalg.inv(A)
        mean = beta * covariance @ phi[:, S].conj().T @ y
        scale = abs(covariance).max()
        np.testing.assert_allclose(state.covariance, covariance, rtol=1e-7, atol=1e-8 * scale)
        np.testing.assert_allclose(state.means[0], mean, rtol=0, atol=1e-8 * abs(mean).max())
        # S_j and Q_j of all coordinates from the inverse of C.
        C = np.eye(len(y)) / beta + (phi * gamma) @ phi.conj().T
        solved = np.linalg.solve(C, phi)
        sparsity = np.sum(phi.conj() * solved, axis=0).real
        quality = solved.conj().T @ y
        np.testing.assert_allclose(state.sparsity, sparsity, rtol=1e-6, atol=1e-9 * beta)
        np.testing.assert_allclose(
            state.quality[0], quality, rtol=1e-6, atol=1e-8 * beta * np.linalg.norm(y)
        )
        # The running evidence is the evidence, and it has not fallen.
        exact = evidence(phi, y, gamma, beta)
        assert learner.log_evidence == pytest.approx(exact, rel=1e-9, abs=1e-7)
        assert exact > last
        last = exact
    assert {0, 1} <= kinds  # it added and re-estimated


def test_deletions_happen_and_leave_a_sound_state():
    # Greedy choices are regretted when columns are correlated.
    deletions = 0
    for seed in range(6):
        random = np.random.default_rng(seed)
        phi = random.standard_normal((30, 3)) @ random.standard_normal((3, 40))
        phi += 0.3 * random.standard_normal((30, 40))
        task = sparse_task(Dense(phi), random, beta=1e3, nonzeros=8)
        learner = Learner(Model((task,), Tie()), min_gain=1e-6)
        last = learner.log_evidence
        for _ in range(300):
            size = len(learner.active)
            if learner.sweep(1) == 0:
                break
            deletions += len(learner.active) < size
            assert learner.log_evidence > last
            last = learner.log_evidence
        assert last == pytest.approx(evidence(phi, task.y, gammas(learner, 40), 1e3), rel=1e-8)
        S = learner.active.members
        A = 1e3 * phi[:, S].T @ phi[:, S] + np.diag(learner.active.alphas())
        np.testing.assert_allclose(
            learner.states[0].covariance, np.linalg.inv(A), rtol=1e-6, atol=1e-9
        )
    assert deletions > 3


@pytest.mark.parametrize("name", ["dense", "complex", "convolution"])
def test_each_move_is_the_best_single_move_there_is(name):
    model, phi = case(name, 1)
    y, beta, d = model.tasks[0].y, model.tasks[0].noise_precision, phi.shape[1]
    learner = Learner(model, min_gain=1e-3)
    for _ in range(6):
        gamma = gammas(learner, d)
        now = evidence(phi, y, gamma, beta)

        def rise(log_gamma, j, gamma=gamma, now=now):
            trial = gamma.copy()
            trial[j] = np.exp(log_gamma)
            return evidence(phi, y, trial, beta) - now

        best = max(
            -minimize_scalar(
                lambda t, j=j: -rise(t, j),
                bounds=(-12, 5),
                method="bounded",
                options={"xatol": 1e-4},
            ).fun
            for j in range(d)
        )
        before = learner.log_evidence
        learner.sweep(1)
        assert learner.log_evidence - before >= best - 1e-5


@pytest.mark.parametrize("name", CASES)
def test_a_refresh_changes_nothing_but_rounding(name):
    model, _ = case(name, 5)
    learner = Learner(model, min_gain=1e-6)
    learner.sweep(40)
    state = learner.states[0]
    kept = [np.array(x) for x in (state.covariance, state.means, state.sparsity, state.quality)]
    evidence_before = learner.log_evidence
    learner.refresh()
    state.refresh_sparsity()
    again = (state.covariance, state.means, state.sparsity, state.quality)
    for old, new in zip(kept, again, strict=True):
        np.testing.assert_allclose(new, old, rtol=0, atol=1e-8 * abs(old).max())
    assert learner.log_evidence == pytest.approx(evidence_before, rel=1e-10)


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_running_sums_that_are_off_are_noticed_and_repaired(factor):
    model, phi = case("dense", 2)
    y, beta = model.tasks[0].y, model.tasks[0].noise_precision
    learner = Learner(model, min_gain=1e-4)
    learner.sweep(4)
    learner.states[0].sparsity = factor * learner.states[0].sparsity  # worse than any rounding
    last = learner.log_evidence
    for _ in range(100):
        if learner.sweep(1) == 0:
            break
        assert learner.log_evidence >= last - 1e-9 * abs(last)
        last = learner.log_evidence
    gamma = gammas(learner, 35)
    assert last == pytest.approx(evidence(phi, y, gamma, beta), rel=1e-9)
    C = np.eye(20) / beta + (phi * gamma) @ phi.T
    direct = np.sum(phi * np.linalg.solve(C, phi), axis=0)
    np.testing.assert_allclose(learner.states[0].sparsity, direct, rtol=1e-6, atol=1e-9 * beta)
