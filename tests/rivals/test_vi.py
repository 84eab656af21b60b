"""The relaxed bound: against integrals, the exact evidence, and its own promise to rise."""

import math

import numpy as np
import pytest
from rival_cases import RIVALS, draw
from scipy.stats import multivariate_normal

from cofem import simulate
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import DCT, Convolution, Dense, Diagonal, Identity
from cofem.rivals.vi import VI, RelaxedPosterior

make, fit = RIVALS["vi"].task, RIVALS["vi"].fit


def evidence(phi, y, alpha, beta):
    C = np.eye(len(y)) / beta + (phi / alpha) @ phi.conj().T
    if np.iscomplexobj(phi):
        quadratic = (y.conj() @ np.linalg.solve(C, y)).real
        return -(len(y) * np.log(np.pi) + np.linalg.slogdet(C)[1] + quadratic)
    return multivariate_normal(np.zeros(len(y)), C).logpdf(y)


def relaxed_misfit(phi, y, z, w, steepest):
    gradient = phi.conj().T @ (phi @ w - y)
    away = z - w
    return (
        np.linalg.norm(y - phi @ w) ** 2
        + 2 * (away.conj() @ gradient).real
        + steepest * np.linalg.norm(away) ** 2
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_an_integral(seed):
    # Two unknowns: the relaxed likelihood times the prior, integrated numerically.
    random = np.random.default_rng(seed)
    phi, y, beta = random.standard_normal((3, 2)), random.standard_normal(3), 2.0
    alpha, w = random.uniform(0.5, 3, 2), random.standard_normal(2)
    steepest = 1.2 * np.linalg.norm(phi, 2) ** 2

    relaxed = RelaxedPosterior(Task(Dense(phi), y, beta), np.empty(0), steepest)
    point = relaxed.move_to(w, relaxed.origin())
    assert relaxed.steepest == steepest
    step = relaxed.at(point, alpha)
    # The trapezoidal rule is exact to rounding for a Gaussian that it resolves.
    axis = np.linspace(-12, 12, 1201)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    gradient = phi.T @ (phi @ w - y)
    misfit = np.sum((y - phi @ w) ** 2) + 2 * (z - w) @ gradient
    misfit += steepest * np.sum((z - w) ** 2, axis=1)
    density = (beta / (2 * np.pi)) ** 1.5 * np.exp(-0.5 * beta * misfit)
    density *= np.prod(np.sqrt(alpha / (2 * np.pi))) * np.exp(-0.5 * z**2 @ alpha)
    cell = (axis[1] - axis[0]) ** 2
    total = density.sum() * cell
    assert step.bound == pytest.approx(math.log(total), rel=1e-8)
    mean = density @ z * cell / total
    np.testing.assert_allclose(step.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(step.variance, density @ z**2 * cell / total - mean**2, rtol=1e-7)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_relaxed_moments_and_the_bound_are_the_dense_formulas(complex_, seed):
    random = np.random.default_rng(seed)
    task = make(seed, complex_=complex_)
    phi, y, beta = task.operator.matrix, task.y, task.noise_precision
    alpha, w = 10 ** random.uniform(-1, 1, 40), draw(random, 40, complex_=complex_)
    steepest = 1.1 * np.linalg.norm(phi, 2) ** 2
    relaxed = RelaxedPosterior(task, np.empty(0, phi.dtype), steepest)
    step = relaxed.at(relaxed.move_to(w, relaxed.origin()), alpha)
    # With any λ the relaxed likelihood is that of data Ψz where ΨᴴΨ = λI: a Gaussian
    # model of its own, N(ỹ; z, I/βλ), up to a factor that does not depend on z.
    pseudo = w - phi.conj().T @ (phi @ w - y) / steepest
    mean = beta * steepest * pseudo / (beta * steepest + alpha)
    np.testing.assert_allclose(step.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(step.variance, 1 / (beta * steepest + alpha), rtol=1e-12)
    noise = 1 / (beta * steepest)
    rest = relaxed_misfit(phi, y, pseudo, w, steepest)  # the misfit at its minimum
    if complex_:
        spread = noise + 1 / alpha
        log_pseudo = -np.sum(np.log(np.pi * spread) + abs(pseudo) ** 2 / spread)
        expected = 25 * np.log(beta / np.pi) + 40 * np.log(np.pi * noise) - beta * rest
    else:
        log_pseudo = multivariate_normal(np.zeros(40), np.diag(noise + 1 / alpha)).logpdf(pseudo)
        expected = 12.5 * np.log(beta / (2 * np.pi)) + 20 * np.log(2 * np.pi * noise)
        expected -= 0.5 * beta * rest
    assert step.bound == pytest.approx(expected + log_pseudo, rel=1e-9)
    assert step.bound < evidence(phi, y, alpha, beta)


OPERATORS = {
    "dense": lambda random: Dense(random.standard_normal((30, 60)) / 30**0.5),
    "tall": lambda random: Dense(random.standard_normal((60, 30))),
    "complex": lambda random: Dense(draw(random, 30, 60, complex_=True)),
    "dct": lambda random: DCT(60, np.sort(random.choice(60, 25, replace=False))),
    "convolution": lambda random: Convolution(0.96 ** np.arange(60), 60),
}


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_rises_at_every_step_and_stays_below_the_evidence(kind, seed):
    random = np.random.default_rng(seed)
    op = OPERATORS[kind](random)
    z = np.where(random.random(op.shape[1]) < 0.1, 2.0, 0.0)
    y = op.forward(z) + draw(random, op.shape[0], complex_=kind == "complex") / 30
    trace = []
    outcome = fit(
        Task(op, y, 900.0), max_iter=300, callback=lambda state: trace.append(state.precision)
    )
    bound = np.array(outcome.found.history["log_evidence"])
    assert (np.diff(bound) > -1e-10 * abs(bound[1:])).all()
    assert bound[-1] > bound[0] + 1  # it has moved
    phi = op.to_dense(np.empty(0, complex if kind == "complex" else float))
    for k in (0, 1, 10, 299):
        assert bound[k] < evidence(phi, y, trace[k], 900.0)
    assert outcome.reports[0].log_evidence == bound[-1]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision_climbs_the_same_way(dtype):
    task = make(3, complex_=dtype == "complex64")
    single = Task(Dense(task.operator.matrix.astype(dtype)), task.y.astype(dtype), 100.0)
    one, other = fit(task, max_iter=40), fit(single, max_iter=40)
    assert other.found.means[0].dtype == np.dtype(dtype)
    assert other.found.alpha.dtype == np.float32
    np.testing.assert_allclose(
        other.found.history["log_evidence"], one.found.history["log_evidence"], rtol=1e-4
    )


@pytest.mark.parametrize("complex_", [False, True])
def test_with_fixed_precisions_the_mean_becomes_exact(complex_):
    # The point of the bound goes to the posterior mean, whatever λ is.
    task = make(5, complex_=complex_)
    alpha = np.full(40, 20.0)
    phi = task.operator.matrix
    relaxed = RelaxedPosterior(task, np.empty(0, phi.dtype), 1.1 * np.linalg.norm(phi, 2) ** 2)
    point = relaxed.origin()
    for _ in range(600):
        point = relaxed.move_to(relaxed.at(point, alpha).mean, point)
    A = 100.0 * phi.conj().T @ phi + np.diag(alpha)
    exact = np.linalg.solve(A, 100.0 * phi.conj().T @ task.y)
    np.testing.assert_allclose(point.w, exact, rtol=1e-7, atol=1e-9)


def test_a_slope_that_is_too_small_is_raised():
    task = Task(Diagonal(np.array([1.0, 10.0])), np.array([1.0, 1.0]), 1.0)
    relaxed = RelaxedPosterior(task, np.empty(0), 2.0)  # ‖Φ‖² is 100
    relaxed.move_to(np.array([0.0, 1.0]), relaxed.origin())
    assert relaxed.steepest == pytest.approx(101.0)


@pytest.mark.parametrize("seed", range(5))
def test_power_iteration_with_the_safety_factor_bounds_the_norm(seed):
    for kind in OPERATORS:
        random = np.random.default_rng(seed)
        op = OPERATORS[kind](random)
        y = np.ones(op.shape[0], complex if kind == "complex" else float)
        options, task = VI(), Task(op, y, 1.0)
        captured = []
        original = RelaxedPosterior.__init__

        def spy(self, task, like, steepest, original=original, captured=captured):
            captured.append(steepest)
            original(self, task, like, steepest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RelaxedPosterior, "__init__", spy)
            fit(task, options, max_iter=1, seed=seed)
        dense = op.to_dense(np.empty(0, y.dtype))
        exact = np.linalg.norm(dense, 2) ** 2
        assert exact <= captured[0] <= 1.1000001 * exact


def test_its_errors_are_large_where_measurements_are_few():
    # The bias that makes it a rival and not a recommendation.
    problem = simulate.dct(D=512, seed=0)
    outcome = fit(Task(problem.phi, problem.y, problem.noise_precision), max_iter=50)
    assert simulate.nrmse(outcome.found.means[0], problem.z) > 30


def test_denoising_is_exact_em():
    # Φ = I: the bound is tight at its maximum, and the answer is that of EM.
    random = np.random.default_rng(0)
    y = np.where(random.random(50) < 0.2, 3.0, 0.0) + 0.1 * random.standard_normal(50)
    outcome = fit(Task(Identity(50), y, 100.0), VI(safety=1.0), max_iter=60)
    alpha = np.full(50, initial_precision(Model((Task(Identity(50), y, 100.0),), Tie())))
    for _ in range(59):
        variance = 1 / (100 + alpha)
        alpha = 1 / ((100 * variance * y) ** 2 + variance)
    np.testing.assert_allclose(outcome.found.alpha, alpha, rtol=1e-8)


def test_the_history_counts_the_power_iteration():
    seen = []
    found = fit(make(0), VI(power_steps=7), max_iter=5, callback=seen.append).found
    assert found.history["products"] == [14 + 1 + 2 * k for k in range(5)]
    assert [state.iteration for state in seen] == [1, 2, 3, 4, 5]
    stopped = fit(make(0), max_iter=9, callback=lambda state: state.iteration == 2).found
    assert stopped.verdict is Verdict.STOPPED
    assert len(stopped.history["change"]) == 2
    settled = fit(make(0), max_iter=5000, tol=1e-3).found
    assert settled.converged


def test_groups_share_their_precision_and_the_bound_still_rises():
    found = fit(make(1), tie=Tie(np.arange(40) // 4), max_iter=50).found
    assert len(np.unique(found.alpha)) == 10
    assert (np.diff(found.history["log_evidence"]) > -1e-8).all()


@pytest.mark.parametrize("phi", [np.zeros((5, 4)), np.eye(5, 4)])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_degenerate_problems_stay_finite(phi, scale):
    y = scale * np.arange(1.0, 6)
    outcome = fit(Task(Dense(phi), y, 10.0), max_iter=20)
    mean, bounds = outcome.found.means[0], outcome.found.history["log_evidence"]
    assert np.isfinite(bounds).all()
    # Each bound is at least the one before, but for rounding; without data the answer is zero.
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert np.linalg.norm(y - phi @ mean) <= np.linalg.norm(y)
    if scale == 0 or not phi.any():
        np.testing.assert_array_equal(mean, 0)
