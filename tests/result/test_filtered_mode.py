"""The filtered mode against scipy.optimize.nnls, and by its optimality conditions."""

import array_api_strict
import numpy as np
import pytest
import scipy.optimize

from cofem import backend
from cofem.learning.convergence import ConvergenceWarning
from cofem.learning.loop import run_em
from cofem.learning.moments.banded import BandedEStep
from cofem.learning.sites.rectified import probability_of_zero
from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import Autoregressive, Convolution, Dense
from cofem.result import filtered_mode as module
from cofem.result.filtered_mode import Face, filtered_mode, nonnegative_least_squares

ONE, TWO = (0.976,), (0.976 + 0.7, -0.976 * 0.7)


def problem(phi, seed, beta=25.0, rate=0.15):
    """Data, and a made-up posterior that keeps about half of the coordinates."""
    random = np.random.default_rng(seed)
    n, d = phi.shape
    z = (random.random(d) < rate) * (0.5 + random.random(d))
    y = phi.forward(z) + random.standard_normal(n) / np.sqrt(beta)
    alpha = 10 ** random.uniform(-3, 3, d)
    return y, {
        "precision": alpha,
        "noise_precision": beta,
        "mean": random.normal(1.0, 1.5, d),
        "variance": random.uniform(0.05, 1.0, d),
    }


def reference(phi, y, precision, noise_precision, mean, variance, q=0.05):
    """Non-negative least squares of the stacked system, on the kept columns."""
    kept = probability_of_zero(mean, variance) < q
    dense = phi.to_dense(y)[:, kept]
    ridge = np.diag(np.sqrt(precision[kept] / noise_precision))
    z = np.zeros(len(mean))
    z[kept] = scipy.optimize.nnls(
        np.concatenate([dense, ridge]), np.concatenate([y, np.zeros(kept.sum())])
    )[0]
    return z


def operators():
    random = np.random.default_rng(0)
    return {
        "order 1": Autoregressive(ONE, 90),
        "order 2": Autoregressive(TWO, 90),
        "complex poles": Autoregressive((1.6, -0.8), 90),
        "order 3": Autoregressive((1.2, -0.3, 0.02), 90),
        "convolution": Convolution(0.9 ** np.arange(20), 90),
        "dense": Dense(random.standard_normal((60, 90))),
    }


@pytest.mark.parametrize("name", operators())
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("q", [0.01, 0.05, 0.5, 0.999])
def test_equals_nnls(name, seed, q):
    phi = operators()[name]
    y, posterior = problem(phi, seed)
    found = filtered_mode(phi, y, **posterior, q=q)
    expected = reference(phi, y, **posterior, q=q)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * expected.max())
    assert np.all(found >= 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", [(0.9999,), (2 * 0.999, -(0.999**2)), (1.99, -0.9999)])
def test_hardly_any_ridge_and_data_that_fit_nothing(kernel, seed):
    """Neighbouring columns are nearly equal and most of them must go."""
    phi = Autoregressive(kernel, 150)
    y = np.random.default_rng(seed).standard_normal(150)
    keep_all = {"mean": np.full(150, 9.0), "variance": np.ones(150)}
    z = filtered_mode(phi, y, precision=np.full(150, 1e-6), noise_precision=1.0, **keep_all)
    expected = reference(phi, y, np.full(150, 1e-6), 1.0, **keep_all)
    np.testing.assert_allclose(phi.forward(z), phi.forward(expected), atol=1e-6)
    np.testing.assert_array_equal(z > 0, expected > 1e-12)


@pytest.mark.parametrize("kernel", [ONE, TWO])
@pytest.mark.parametrize("q", [0.05, 0.9])
def test_optimal_for_a_whole_recording(kernel, q):
    """14,400 samples and about 2,000 kept coordinates: the conditions of Karush, Kuhn, Tucker."""
    n, beta = 14_400, 400.0
    random = np.random.default_rng(1)
    phi = Autoregressive(kernel, n)
    spikes = (random.random(n) < 0.15) * (0.5 + random.random(n))
    y = phi.forward(spikes) + random.standard_normal(n) / np.sqrt(beta)
    model = Model((Task(phi, y, beta),), Tie(), nonnegative=True)
    step = BandedEStep(model.families[0], model.like)
    start = np.full(n, initial_precision(model))
    outcome = run_em(model, [step], start, max_iter=10, tol=0.0)
    mean, variance = outcome.found.means[0], outcome.reports[0].variance
    alpha = outcome.found.alpha
    z = filtered_mode(
        phi, y, precision=alpha, noise_precision=beta, mean=mean, variance=variance, q=q
    )
    kept = probability_of_zero(mean, variance) < q
    assert kept.sum() > 1500
    assert np.all(z >= 0)
    assert not z[~kept].any()
    slope = beta * phi.adjoint(y - phi.forward(z)) - alpha * z
    moved = slope / (beta * phi.column_norms_squared(y) + alpha)  # in units of z
    assert np.max(np.abs(moved[z > 0])) < 1e-11 * z.max()
    assert np.max(moved[kept & (z == 0)], initial=0.0) < 1e-11 * z.max()


@pytest.mark.parametrize("name", ["order 1", "order 2"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_of_every_sample_and_missing_samples(name, seed):
    phi = operators()[name]
    y, posterior = problem(phi, seed)
    random = np.random.default_rng(seed)
    beta = random.uniform(5.0, 50.0, 90) * (random.random(90) < 0.8)
    posterior["noise_precision"] = beta
    found = filtered_mode(phi, np.where(beta > 0, y, np.nan), **posterior, q=0.5)
    weighted = Dense(np.sqrt(beta)[:, None] * phi.to_dense(y))
    posterior["noise_precision"] = 1.0
    expected = reference(weighted, np.sqrt(beta) * y, **posterior, q=0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * expected.max())


def test_noise_of_every_sample_needs_a_recursion():
    phi = operators()["convolution"]
    y, posterior = problem(phi, 0)
    posterior["noise_precision"] = np.ones(90)
    with pytest.raises(ValueError, match="noise_precision must be one number"):
        filtered_mode(phi, y, **posterior)


def test_recovers_the_spikes_of_a_clean_trace():
    phi = Autoregressive(ONE, 400)
    z = np.zeros(400)
    z[[50, 120, 121, 300]] = [1.0, 2.0, 0.5, 1.5]
    mean = np.where(z > 0, 1.0, 0.01)
    found = filtered_mode(
        phi, phi.forward(z), precision=np.full(400, 1e-8), noise_precision=1e4,
        mean=mean, variance=np.full(400, 0.01),
    )  # fmt: skip
    np.testing.assert_allclose(found, z, atol=1e-9)


@pytest.mark.parametrize("name", ["order 1", "convolution"])
def test_single_precision(name):
    phi = operators()[name]
    y, posterior = problem(phi, 0)
    narrow = {
        k: v.astype(np.float32) if isinstance(v, np.ndarray) else v for k, v in posterior.items()
    }
    found = filtered_mode(phi, y.astype(np.float32), **narrow)
    assert found.dtype == np.float32
    expected = reference(phi, y, **posterior)
    np.testing.assert_allclose(found, expected, atol=2e-3 * expected.max())


@pytest.mark.parametrize("name", ["order 2", "convolution"])
def test_arrays_of_other_libraries(name):
    phi = operators()[name]
    y, posterior = problem(phi, 0)
    strict = {
        k: array_api_strict.asarray(v) if isinstance(v, np.ndarray) else v
        for k, v in posterior.items()
    }
    found = filtered_mode(phi, array_api_strict.asarray(y), **strict)
    assert backend.library(found) == "array_api_strict"
    np.testing.assert_allclose(
        backend.to_numpy(found), filtered_mode(phi, y, **posterior), rtol=1e-6, atol=1e-8
    )


def test_nothing_kept_is_zero():
    phi = Autoregressive(ONE, 90)
    y, posterior = problem(phi, 0)
    posterior["mean"] = np.full(90, -1.0)
    assert not filtered_mode(phi, y, **posterior).any()


def test_single_exchanges_take_over_when_blocks_run_in_circles(monkeypatch):
    """With no patience every exchange is Murty's; the answer is the same."""
    monkeypatch.setattr(module, "PATIENCE", 0)
    phi = Autoregressive(TWO, 90)
    y, posterior = problem(phi, 3)
    posterior["precision"] = np.full(90, 1e-6)
    found = filtered_mode(phi, y, **posterior, q=0.9)
    expected = reference(phi, y, **posterior, q=0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_giving_up_warns(monkeypatch):
    monkeypatch.setattr(module, "MAX_EXCHANGES", 3)

    def never(free):  # whatever is free is negative, whatever is not wants to be
        return Face(np.where(free, -1.0, 0.0), np.where(free, 0.0, 1e9))

    with pytest.warns(ConvergenceWarning, match="wrong sign"):
        z = nonnegative_least_squares(never, np.ones(4, bool), np.ones(4), 1e-12)
    assert np.all(z >= 0)


@pytest.mark.parametrize("q", [0.0, 1.0, -1, np.nan])
def test_q_is_a_probability(q):
    phi = Autoregressive(ONE, 90)
    y, posterior = problem(phi, 0)
    with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
        filtered_mode(phi, y, **posterior, q=q)


def test_complex_data_are_refused():
    phi = Autoregressive(ONE, 90)
    y, posterior = problem(phi, 0)
    with pytest.raises(ValueError, match="must be real"):
        filtered_mode(phi, y + 1j, **posterior)
