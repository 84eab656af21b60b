"""Message passing: against its formulas written out, exact posteriors, and where it fails."""

import numpy as np
import pytest
from rival_cases import RIVALS

import cofem
from cofem import simulate
from cofem.learning.convergence import DivergenceWarning
from cofem.learning.stopping import Verdict
from cofem.model.model import Task, Tie
from cofem.operators import Convolution, Dense
from cofem.rivals.amp import AMP

make, fit = RIVALS["amp"].task, RIVALS["amp"].fit


def written_out(phi, y, beta, alpha, steps, damping):
    """GAMP with matrices of squares, in the textbook's order of messages."""
    n, d = phi.shape
    squares = abs(phi) ** 2
    # The rank-one stand-in of |Φ|²: the same sums over rows and columns.
    squares = np.outer(squares.sum(1), squares.sum(0)) / squares.sum()
    x, tau_x, s = np.zeros(d, phi.dtype), 1 / alpha, np.zeros(n, phi.dtype)
    for _ in range(steps):
        tau_p = squares @ tau_x
        p = phi @ x - tau_p * s
        tau_s = 1 / (tau_p + 1 / beta)
        s = damping * s + (1 - damping) * tau_s * (y - p)
        tau_r = 1 / (squares.T @ tau_s)
        r = x + tau_r * (phi.conj().T @ s)
        x = damping * x + (1 - damping) * r / (1 + alpha * tau_r)
        tau_x = tau_r / (1 + alpha * tau_r)
    return x, tau_x


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_the_textbooks(complex_, damping, seed):
    task = make(seed, complex_=complex_)
    alpha = 10 ** np.random.default_rng(seed).uniform(-1, 2, 120)
    phi = task.operator.matrix
    for steps in (1, 2, 7):
        found = fit(task, AMP(inner_steps=steps, damping=damping), alpha=alpha, max_iter=1)
        mean, variance = written_out(phi, task.y, 400.0, alpha, steps, damping)
        np.testing.assert_allclose(found.found.means[0], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.reports[0].variance, variance, rtol=1e-9)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_where_it_settles_the_mean_is_exact(complex_, seed):
    # Also for columns and rows of unequal size, where |Φ|² has no exact stand-in.
    task = make(seed, n=300, d=200, complex_=complex_, beta=50.0)
    random = np.random.default_rng(seed)
    phi = task.operator.matrix * random.uniform(0.5, 2, 200) * random.uniform(0.5, 2, (300, 1))
    task = Task(Dense(phi), task.y, 50.0)
    alpha = 10 ** random.uniform(0, 2, 200)
    found = fit(task, AMP(inner_steps=400, damping=0.3), alpha=alpha, max_iter=1)
    A = 50.0 * phi.conj().T @ phi + np.diag(alpha)
    exact = np.linalg.solve(A, 50.0 * phi.conj().T @ task.y)
    np.testing.assert_allclose(found.found.means[0], exact, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(300, 600), (600, 300)])
def test_the_variances_of_a_large_random_matrix(shape):
    random = np.random.default_rng(0)
    n, d = shape
    phi = random.standard_normal(shape) / n**0.5
    alpha = 10 ** random.uniform(-1, 2, d)
    z = random.standard_normal(d) / np.sqrt(alpha)
    task = Task(Dense(phi), phi @ z + 0.1 * random.standard_normal(n), 100.0)
    found = fit(task, AMP(inner_steps=200), alpha=alpha, max_iter=1)
    exact = np.diag(np.linalg.inv(100 * phi.T @ phi + np.diag(alpha)))
    # Their error falls as 1/√n: 5 % in the mean square is 1.2/√600.
    error = found.reports[0].variance / exact - 1
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert abs(error.mean()) < 0.02


@pytest.mark.parametrize("make_problem", [simulate.gaussian, simulate.dct])
@pytest.mark.parametrize("seed", range(3))
def test_it_recovers_where_it_should(make_problem, seed):
    problem = make_problem(D=512, seed=seed)
    task = Task(problem.phi, problem.y, problem.noise_precision)
    outcome = fit(task, max_iter=200, tol=1e-4)
    assert outcome.found.converged
    assert simulate.nrmse(outcome.found.means[0], problem.z) < 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_says_that_it_diverged_on_a_convolution(seed, dtype):
    problem = simulate.convolution(D=512, seed=seed)
    task = Task(problem.phi, problem.y.astype(dtype), problem.noise_precision)
    # At once, after some iterations, and with every step looked at.
    for options in (AMP(), AMP(damping=0.7), AMP(inner_steps=1, damping=0.4)):
        outcome = fit(task, options, max_iter=50)
        found = outcome.found
        assert not found.converged
        assert "diverged" in found.message
        assert "correlated" in found.message
        assert '"cofem"' in found.message
        assert found.verdict is Verdict.DIVERGED
        assert np.isfinite(found.means[0]).all()
        assert np.isfinite(found.alpha).all()
        assert (found.alpha > 0).all()
        assert np.isfinite(outcome.reports[0].variance).all()
        assert np.isfinite(found.history["products"]).all()
        # What is kept fits the data better than nothing does, or is nothing.
        misfit = np.linalg.norm(problem.y - problem.phi.forward(found.means[0].astype(float)))
        assert misfit <= np.linalg.norm(problem.y)


def test_a_run_that_ends_before_it_has_blown_up_is_not_believed_either():
    problem = simulate.convolution(D=512, seed=0)
    task = Task(problem.phi, problem.y, problem.noise_precision)
    seen = []
    found = fit(task, AMP(inner_steps=1, damping=0.4), max_iter=1, callback=seen.append).found
    misfit = np.linalg.norm(problem.y - problem.phi.forward(seen[0].mean))
    assert 1 < misfit / np.linalg.norm(problem.y) < 10
    assert "diverged" in found.message
    assert (found.means[0] == 0).all()


def test_damping_can_save_a_convolution():
    problem = simulate.convolution(D=512, seed=0)
    task = Task(problem.phi, problem.y, problem.noise_precision)
    outcome = fit(task, AMP(damping=0.8), max_iter=100, tol=1e-4)
    assert outcome.found.converged
    assert simulate.nrmse(outcome.found.means[0], problem.z) < 2


def test_the_history_and_the_callback():
    seen = []
    outcome = fit(make(0), AMP(inner_steps=4), max_iter=9, callback=seen.append)
    assert outcome.found.history["iteration"] == list(range(1, 10))
    assert outcome.found.history["products"] == [8 * k for k in range(1, 10)]
    assert [state.products for state in seen] == outcome.found.history["products"]
    stopped = fit(make(0), max_iter=9, callback=lambda state: state.iteration == 3).found
    assert stopped.verdict is Verdict.STOPPED
    assert stopped.history["iteration"] == [1, 2, 3]
    # The mean belongs to the precision returned: it is the third state's.
    assert np.array_equal(stopped.means[0], seen_at(3).mean)
    assert np.array_equal(stopped.alpha, seen_at(3).precision)


def seen_at(iteration):
    seen = []
    fit(make(0), max_iter=iteration, callback=seen.append)
    return seen[-1]


def test_groups_share_their_precision():
    labels = np.arange(120) // 3
    found = fit(make(1), tie=Tie(labels), max_iter=5).found
    assert (np.ptp(found.alpha.reshape(-1, 3), axis=1) == 0).all()
    assert len(np.unique(found.alpha)) == 40


@pytest.mark.parametrize("phi", [np.zeros((5, 4)), np.eye(5, 4), np.ones((1, 1))])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_degenerate_problems_stay_finite(phi, scale):
    y = scale * np.arange(1.0, len(phi) + 1)
    outcome = fit(Task(Dense(phi), y, 10.0), max_iter=20)
    mean, variance = outcome.found.means[0], outcome.reports[0].variance
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert (variance > 0).all()
    # Without data the answer is zero, and with them no worse than zero.
    assert np.linalg.norm(y - phi @ mean) <= np.linalg.norm(y)
    if scale == 0 or not phi.any():
        np.testing.assert_array_equal(mean, 0)


def test_units_are_only_units():
    task = make(2)
    scaled = Task(task.operator, 1e3 * task.y, task.noise_precision * 1e-6)
    one, other = (fit(t, max_iter=10).found for t in (task, scaled))
    np.testing.assert_allclose(other.means[0], 1e3 * one.means[0], rtol=1e-8, atol=1e-12)


def test_a_fast_decay_does_not_diverge():
    # The columns of this one are nearly orthogonal: divergence is found, not presumed.
    kernel = 0.2 ** np.arange(64)
    random = np.random.default_rng(0)
    z = np.where(random.random(256) < 0.1, random.exponential(1.5, 256), 0.0)
    op = Convolution(kernel, 256)
    task = Task(op, op.forward(z) + 0.01 * random.standard_normal(256), 1e4)
    outcome = fit(task, max_iter=50)
    assert outcome.found.verdict is not Verdict.DIVERGED
    assert simulate.nrmse(outcome.found.means[0], z) < 2


def test_the_kind_of_the_warning_says_that_it_diverged():
    problem = simulate.convolution(D=512, seed=0)
    with pytest.warns(DivergenceWarning, match="diverged"):
        cofem.fit(
            problem.phi, problem.y, noise_precision=problem.noise_precision, method="amp",
            max_iter=20, tol=0.0,
        )  # fmt: skip
