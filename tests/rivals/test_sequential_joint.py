"""One coordinate at a time over several tasks: one set of coordinates, evidences that add."""

import math

import numpy as np
import pytest
from rival_cases import draw
from sequential_cases import evidence, gammas

from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense
from cofem.rivals.evidence_gain import EvidenceGain
from cofem.rivals.sequential import Learner


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_joint_tasks_share_one_set_and_their_evidences_add(complex_, same, seed):
    random = np.random.default_rng(seed)
    ops = [Dense(draw(random, 18, 30, complex_=complex_)) for _ in range(3)]
    if same:
        ops = [ops[0]] * 3
    support = random.choice(30, 4, replace=False)
    tasks = []
    for k, op in enumerate(ops):
        z = np.zeros(30, op.matrix.dtype)
        z[support] = draw(random, 4, complex_=complex_) + 1
        beta = 400.0 if same else 100.0 * (k + 1)
        noise = draw(random, 18, complex_=complex_) / beta**0.5
        tasks.append(Task(op, op.forward(z) + noise, beta))
    model = Model(tuple(tasks), Tie())
    learner = Learner(model, min_gain=1e-5)
    assert len(learner.states) == (1 if same else 3)
    last = -math.inf
    for _ in range(60):
        if learner.sweep(1) == 0:
            break
        gamma = gammas(learner, 30)
        exact = sum(evidence(t.operator.matrix, t.y, gamma, t.noise_precision) for t in tasks)
        assert learner.log_evidence == pytest.approx(exact, rel=1e-8)
        assert exact > last
        last = exact
    assert set(support) <= set(learner.active.members.tolist())
    S = learner.active.members
    for task, mean in zip(tasks, learner.means(), strict=True):
        phi, beta = task.operator.matrix[:, S], task.noise_precision
        A = beta * phi.conj().T @ phi + np.diag(learner.active.alphas())
        exact_mean = np.linalg.solve(A, beta * phi.conj().T @ task.y)
        np.testing.assert_allclose(mean[S], exact_mean, rtol=1e-6, atol=1e-8)
        assert (np.delete(mean, S) == 0).all()
    # A maximum: no α of the set can be improved alone.
    for j in S[:5]:
        for factor in (0.9, 1.1):
            moved = gamma.copy()
            moved[j] *= factor
            other = sum(evidence(t.operator.matrix, t.y, moved, t.noise_precision) for t in tasks)
            assert other < last + 1e-4


@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_the_gain_of_several_families_is_maximised(weight):
    random = np.random.default_rng(0)
    tasks = [1, 3, 2]
    gain = EvidenceGain(tasks, weight)
    s = [random.uniform(0.1, 5, 50) for _ in tasks]
    power = [k * 10 ** random.uniform(-1, 2, 50) for k in tasks]
    found = gain(gain.maximum(s, power, steps=200), s, power)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 4000)])
    values = sum(
        weight * (p[:, None] * grid / (1 + grid * q[:, None]) - k * np.log1p(grid * q[:, None]))
        for k, q, p in zip(tasks, s, power, strict=True)
    )
    best = values.max(axis=1)
    # Never above what the grid can see; below it only at a second, lower maximum.
    assert (np.clip(found, 0, None) <= best + 1e-3).all()
    assert np.mean(np.clip(found, 0, None) > best - 1e-3) > 0.95
    # Few steps, which rank the candidates, come close.
    quick = gain(gain.maximum(s, power), s, power)
    assert (quick <= found + 1e-12).all()


def test_a_coordinate_that_no_family_needs_is_deleted():
    # The first family alone would keep it; over both it costs more than it explains.
    gain = EvidenceGain([1, 1], 0.5)
    s, power = [np.ones(1), np.ones(1)], [np.array([1.5]), np.array([0.01])]
    new, more = gain.best_change(1.0, s, power)
    assert new == 0.0
    assert more == pytest.approx(0.5 * (2 * np.log(2) - 1.51 / 2))
