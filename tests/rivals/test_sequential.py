"""One coordinate at a time, the whole fit: what it finds, reports and holds in memory."""

import numpy as np
import pytest
from rival_cases import draw
from sequential_cases import case, evidence, gammas, run, sparse_task

import cofem
from cofem import simulate
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense, from_functions
from cofem.rivals.sequential import Learner, Sequential
from cofem.rivals.sequential_record import level_rounding


@pytest.mark.parametrize("make_problem", [simulate.gaussian, simulate.dct, simulate.convolution])
def test_it_recovers_and_its_evidence_never_falls(make_problem):
    problem = make_problem(D=256, seed=0, sparsity=0.03)
    model = Model((Task(problem.phi, problem.y, problem.noise_precision),), Tie())
    outcome = run(model, Sequential(moves_per_iteration=1), max_iter=2000)
    found, report = outcome.found, outcome.reports[0]
    assert found.converged
    assert "min_gain=0.01" in found.message
    assert simulate.nrmse(found.means[0], problem.z) < 3
    trace = np.array(found.history["log_evidence"])
    assert (np.diff(trace) > 0)[:-1].all()
    phi = problem.phi.to_dense()
    # Reported is the exact posterior at the precisions returned, the finite ones of
    # inactive coordinates included.
    A = problem.noise_precision * phi.T @ phi + np.diag(found.alpha)
    covariance = np.linalg.inv(A)
    mean = problem.noise_precision * covariance @ phi.T @ problem.y
    np.testing.assert_allclose(found.means[0], mean, rtol=0, atol=1e-7 * abs(mean).max())
    np.testing.assert_allclose(report.variance, np.diag(covariance), rtol=1e-6)
    exact = evidence(phi, problem.y, 1 / found.alpha, problem.noise_precision)
    assert report.log_evidence == pytest.approx(exact, rel=1e-9, abs=1e-6)
    assert (report.variance_error == 0).all()
    assert report.log_evidence_error == 0.0


def test_iterations_are_batches_of_moves():
    model, _ = case("dct", 0)
    sizes = []
    outcome = run(
        model,
        Sequential(moves_per_iteration=3),
        max_iter=4,
        tol=0.0,
        callback=lambda state: sizes.append(int((state.mean != 0).sum())),
    )
    assert outcome.found.history["iteration"] == [1, 2, 3, 4]
    assert sizes[0] == 3
    assert not outcome.found.converged
    # tol=0 runs as many as asked for, also when there is nothing left to do.
    long = run(model, max_iter=150, tol=0.0).found
    assert len(long.history["iteration"]) == 150
    assert long.history["change"][-1] == 0.0
    stopped = run(model, callback=lambda state: True).found
    assert stopped.verdict is Verdict.STOPPED
    assert stopped.history["iteration"] == [1]
    assert stopped.history["products"][0] > 0


def test_single_precision_is_computed_in_double():
    random = np.random.default_rng(0)
    for dtype in (np.float32, np.complex64):
        task = sparse_task(
            Dense(draw(random, 20, 35, complex_=dtype == np.complex64)),
            random,
            complex_=dtype == np.complex64,
        )
        single = Task(Dense(task.operator.matrix.astype(dtype)), task.y.astype(dtype), 400.0)
        outcome, double = run(Model((single,), Tie())), run(Model((task,), Tie()))
        assert outcome.found.means[0].dtype == dtype
        assert outcome.found.alpha.dtype == np.float32
        assert outcome.reports[0].variance.dtype == np.float32
        assert np.isfinite(outcome.found.alpha).all()
        np.testing.assert_allclose(outcome.found.means[0], double.found.means[0], rtol=0, atol=1e-4)


def test_functions_without_column_norms_get_exact_ones():
    random = np.random.default_rng(0)
    phi = random.standard_normal((520, 530)) / 520**0.5
    op = from_functions(lambda z: z @ phi.T, lambda y: y @ phi, (520, 530), float)
    assert not op.exact_column_norms
    task = sparse_task(op, random)
    learner = Learner(Model((task,), Tie()), 1e-2)
    np.testing.assert_allclose(learner.states[0].norms, np.sum(phi**2, axis=0), rtol=1e-10)
    assert learner.products >= 530  # they are paid for
    learner.sweep(20)
    exact = evidence(phi, task.y, gammas(learner, 530), 400.0)
    assert learner.log_evidence == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", ["dense", "dct"])
def test_memory_holds_no_matrix_of_all_columns(name):
    model, phi = case(name, 0)
    learner = Learner(model, 1e-3)
    learner.sweep(30)
    n, d = phi.shape
    buffer = 64  # of the active set's matrices
    for value in vars(learner.states[0]).values():
        if isinstance(value, np.ndarray):
            assert value.size <= max(buffer**2, n, d)
            assert value.shape in {(d,), (1, d), (1, n), (0,), (buffer, buffer), (1, buffer)}


@pytest.mark.parametrize("phi", [np.zeros((5, 4)), np.eye(5, 4), np.ones((4, 3))])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_degenerate_problems_stay_finite(phi, scale):
    y = scale * np.arange(1.0, len(phi) + 1)
    outcome = run(Model((Task(Dense(phi), y, 10.0),), Tie()), max_iter=10)
    assert np.isfinite(outcome.found.means[0]).all()
    assert np.isfinite(outcome.found.alpha).all()
    exact = evidence(phi, y, 1 / outcome.found.alpha, 10.0)
    assert outcome.reports[0].log_evidence == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_are_only_units(scale):
    model, _ = case("dct", 3)
    task = model.tasks[0]
    scaled = Task(task.operator, scale * task.y, task.noise_precision / scale**2)
    one, other = run(model).found, run(Model((scaled,), Tie())).found
    np.testing.assert_allclose(other.means[0], scale * one.means[0], rtol=1e-6, atol=1e-12 * scale)


def test_a_very_high_noise_precision_keeps_the_state_sound():
    random = np.random.default_rng(4)
    phi = random.standard_normal((40, 60))
    task = sparse_task(Dense(phi), random, beta=1e10, nonzeros=6)
    outcome = run(Model((task,), Tie()), max_iter=300)
    assert outcome.found.converged
    exact = evidence(phi, task.y, 1 / outcome.found.alpha, 1e10)
    assert outcome.reports[0].log_evidence == pytest.approx(exact, rel=1e-6)


def test_the_recorded_evidence_never_falls_not_even_by_rounding():
    fallen = []
    for seed in range(12):
        problem = simulate.gaussian(128, seed, sparsity=0.08)
        post = cofem.fit(
            problem.phi, problem.y, noise_precision=problem.noise_precision,
            method=cofem.Sequential(moves_per_iteration=1), tol=1e-12, max_iter=500,
        )  # fmt: skip
        trace = post.history["log_evidence"]
        assert trace[-1] == post.log_evidence
        fallen.append(min(np.diff(trace)))
    assert min(fallen) >= 0.0


def test_a_fall_that_is_no_rounding_stays_to_be_seen():
    trace = [-3.0, -1.0, -2.0, -2.0 + 1e-13]
    level_rounding(trace, -2.0)
    assert trace == [-3.0, -1.0, -2.0, -2.0]
