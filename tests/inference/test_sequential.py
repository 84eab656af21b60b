"""One coordinate at a time: numbers against dense formulas, and an evidence that never falls."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

import cofem
from cofem import backend, simulate
from cofem.inference import sequential
from cofem.inference.evidence_gain import EvidenceGain
from cofem.inference.model import Model, Task, Tie
from cofem.inference.sequential import Learner, Sequential
from cofem.operators import DCT, Convolution, Dense, Fourier, Identity, from_functions
from cofem.posterior import Posterior
from cofem.validation import tasks_from


def draw(random, *shape, complex_=False):
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if complex_ else x


def sparse_task(op, random, beta=400.0, nonzeros=5, complex_=False):
    z = np.zeros(op.shape[1], complex if complex_ else float)
    chosen = random.choice(op.shape[1], nonzeros, replace=False)
    z[chosen] = draw(random, nonzeros, complex_=complex_) + 1
    noise = draw(random, op.shape[0], complex_=complex_ or op.is_complex)
    return Task(op, op.forward(z) + noise / beta**0.5, beta)


def dense(op, complex_):
    return op.to_dense(np.empty(0, complex if complex_ else float))


def evidence(phi, y, gamma, beta):
    """log p(y) by Cholesky of the data's covariance."""
    root = np.linalg.cholesky(np.eye(len(y)) / beta + (phi * gamma) @ phi.conj().T)
    log_det = 2 * np.sum(np.log(np.diag(root).real))
    quadratic = np.linalg.norm(np.linalg.solve(root, y)) ** 2
    if np.iscomplexobj(phi) or np.iscomplexobj(y):
        return -(len(y) * np.log(np.pi) + log_det + quadratic)
    return -0.5 * (len(y) * np.log(2 * np.pi) + log_det + quadratic)


CASES = {
    "dense": (lambda random: Dense(random.standard_normal((20, 35))), False),
    "complex": (lambda random: Dense(draw(random, 20, 35, complex_=True)), True),
    "real phi, complex y": (lambda random: Dense(random.standard_normal((20, 35))), True),
    "dct": (lambda random: DCT(40, np.sort(random.choice(40, 18, replace=False))), False),
    "fourier": (lambda random: Fourier((36,), random.random(36) < 0.5), True),
    "convolution": (lambda random: Convolution(0.9 ** np.arange(30), 30), False),
}


def case(name, seed, n_tasks=1):
    random = np.random.default_rng(seed)
    make, complex_ = CASES[name]
    op = make(random)
    tasks = tuple(sparse_task(op, random, complex_=complex_) for _ in range(n_tasks))
    return Model(tasks, Tie()), dense(op, complex_)


def gammas(learner, n_unknowns):
    out = np.zeros(n_unknowns)
    out[learner.active.members] = 1 / learner.active.alphas()
    return out


def run(model, options=None, *, max_iter=200, tol=1e-9, **keywords):
    options = options or Sequential()
    like = np.zeros(model.n_unknowns, np.float32 if model.like.dtype in (np.float32, np.complex64)
                    else np.float64)
    return sequential.run(model, options, like, seed=0, max_iter=max_iter, tol=tol, **keywords)


# -- the state after any number of moves ---------------------------------------------


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
                lambda t, j=j: -rise(t, j), bounds=(-12, 5), method="bounded",
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


# -- joint tasks -----------------------------------------------------------------------


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


# -- the method ------------------------------------------------------------------------


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
        model, Sequential(moves_per_iteration=3), max_iter=4, tol=0.0,
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
    assert stopped.stopped
    assert stopped.history["iteration"] == [1]
    assert stopped.history["products"][0] > 0


def test_single_precision_is_computed_in_double():
    random = np.random.default_rng(0)
    for dtype in (np.float32, np.complex64):
        task = sparse_task(Dense(draw(random, 20, 35, complex_=dtype == np.complex64)), random,
                           complex_=dtype == np.complex64)
        single = Task(Dense(task.operator.matrix.astype(dtype)), task.y.astype(dtype), 400.0)
        outcome, double = run(Model((single,), Tie())), run(Model((task,), Tie()))
        assert outcome.found.means[0].dtype == dtype
        assert outcome.found.alpha.dtype == np.float32
        assert outcome.reports[0].variance.dtype == np.float32
        assert np.isfinite(outcome.found.alpha).all()
        np.testing.assert_allclose(
            outcome.found.means[0], double.found.means[0], rtol=0, atol=1e-4
        )


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


def test_what_it_cannot_fit_is_refused_by_name():
    task = case("dense", 0)[0].tasks[0]
    cases = {
        "a sparsifier": Model((task,), Tie(), sparsifier=Identity(35)),
        "groups": Model((task,), Tie(np.arange(35) // 5)),
        "a coupling": Model((task,), Tie(coupling=Identity(35))),
        "nonnegative": Model((task,), Tie(), nonnegative=True),
    }
    for what, model in cases.items():
        with pytest.raises(ValueError, match=f'method "sequential" does not fit {what}'):
            run(model)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"moves_per_iteration": 0}, ValueError),
        ({"moves_per_iteration": 2.5}, TypeError),
        ({"min_gain": 0.0}, ValueError),
        ({"min_gain": math.nan}, ValueError),
    ],
)
def test_options_are_checked_by_name(options, error):
    with pytest.raises(error, match=next(iter(options))):
        Sequential(**options)


# -- among the rest of the library -------------------------------------------------------


def test_the_posterior_draws_and_predicts_with_the_precisions_returned():
    problem = simulate.dct(D=128, seed=1, sparsity=0.05)
    task = Task(problem.phi, problem.y, problem.noise_precision)
    outcome = run(Model((task,), Tie()))
    found, report = outcome.found, outcome.reports[0]
    post = Posterior(
        gaussian_mean=found.means[0], gaussian_variance=report.variance,
        variance_error=report.variance_error, precision=found.alpha,
        noise_precision=task.noise_precision, log_evidence=report.log_evidence,
        log_evidence_error=0.0, history=found.history, converged=found.converged,
        message=found.message, method="sequential", options=Sequential(), tasks=(task,),
    )
    draws = post.sample(4000, seed=0)
    # The variance of 4000 draws has a relative standard error of 2.2 %; six of them on
    # 128 coordinates fail by chance once in 10⁷.
    np.testing.assert_allclose(draws.var(axis=0), post.variance, rtol=6 * (2 / 4000) ** 0.5)
    active = problem.z != 0
    assert not post.support(0.9999)[found.means[0] == 0].any()
    assert post.support(0.9999)[active].mean() > 0.8
    low, high = post.interval(0.9999)
    assert np.mean((low <= problem.z) & (problem.z <= high)) > 0.98
    mean, std = post.predict(problem.phi, noise=False)
    phi = problem.phi.to_dense()
    covariance = np.linalg.inv(task.noise_precision * phi.T @ phi + np.diag(found.alpha))
    np.testing.assert_allclose(mean, phi @ found.means[0], atol=1e-10)
    np.testing.assert_allclose(std**2, np.diag(phi @ covariance @ phi.T), rtol=1e-4)


def test_real_unknowns_behind_complex_data():
    random = np.random.default_rng(2)
    phi = draw(random, 15, 30, complex_=True)
    z = np.zeros(30)
    z[[2, 9, 20]] = [1.0, -2.0, 1.5]
    y = phi @ z + draw(random, 15, complex_=True) / 20
    tasks, _ = tasks_from(phi, y, 200.0, real=True)
    outcome = run(Model(tasks, Tie()))
    assert outcome.found.means[0].dtype == np.float64
    exact = cofem.posterior(
        phi, y, precision=outcome.found.alpha, noise_precision=200.0, real=True, method="em"
    )
    np.testing.assert_allclose(outcome.found.means[0], exact.mean, atol=1e-8)
    np.testing.assert_allclose(outcome.reports[0].variance, exact.variance, rtol=1e-6)
    assert outcome.reports[0].log_evidence == pytest.approx(exact.log_evidence, rel=1e-8)


def read_only(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


LIBRARIES = {
    "readonly": read_only,
    "torch": lambda x: torch.from_numpy(np.array(x)),
    "strict": lambda x: array_api_strict.asarray(np.array(x)),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_other_libraries_give_the_same(library, name):
    convert = LIBRARIES[library]
    model, phi = case(name, 0)
    task, op = model.tasks[0], model.tasks[0].operator
    if isinstance(op, Dense):
        op = Dense(convert(op.matrix))
    other = Model((Task(op, convert(task.y), task.noise_precision),), Tie())
    expected = run(model, Sequential(min_gain=1e-3))
    like = convert(np.zeros(phi.shape[1]))
    found = sequential.run(
        other, Sequential(min_gain=1e-3), like, seed=0, max_iter=200, tol=1e-9
    )
    assert type(found.found.means[0]) is type(like)
    for mine, theirs in (
        (found.found.means[0], expected.found.means[0]),
        (found.found.alpha, expected.found.alpha),
        (found.reports[0].variance, expected.reports[0].variance),
    ):
        np.testing.assert_allclose(backend.to_numpy(mine), theirs, rtol=1e-6, atol=1e-9)
