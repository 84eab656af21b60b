"""The banded E-step is the dense one, at every iteration, in every kind of array."""

import array_api_strict
import numpy as np
import pytest

import cofem
from cofem import backend
from cofem.learning.loop import run_em
from cofem.learning.moments.banded import BandedEStep, banded_coefficients, banded_deviations
from cofem.learning.moments.exact import CholeskyEStep
from cofem.learning.sites.ard import update_precision
from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import DCT, Autoregressive, Convolution

KERNELS = [(0.95,), (0.95 + 0.5, -0.95 * 0.5), (2 * 0.9 * np.cos(0.3), -0.81)]


def spikes(kernel, seed, n=80, tasks=1, complex_=False, beta=400.0):
    """Non-negative events (or complex ones), and noise."""
    random = np.random.default_rng(seed)
    phi = Autoregressive(kernel, n)
    z = (random.random(n) < 0.08) * (1 + random.random((tasks, n)))
    noise = random.standard_normal((tasks, n))
    if complex_:
        z = z * np.exp(2j * np.pi * random.random((tasks, n)))
        noise = (noise + 1j * random.standard_normal((tasks, n))) / np.sqrt(2)
    y = phi.forward(z) + noise / np.sqrt(beta)
    return phi, y, beta


def model_of(phi, y, beta, nonnegative=False):
    return Model(tuple(Task(phi, row, beta) for row in y), Tie(), nonnegative)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "nonnegative", "complex", "three tasks"])
def test_equals_dense_em_at_every_iteration(kernel, seed, kind):
    phi, y, beta = spikes(
        kernel, seed, tasks=3 if kind == "three tasks" else 1, complex_=kind == "complex"
    )
    model = model_of(phi, y, beta, kind == "nonnegative")
    (family,) = model.families
    dense, banded = CholeskyEStep(family, model.like), BandedEStep(family, model.like)
    alphas = [np.full(80, initial_precision(model))] * 2
    for iteration in range(1, 31):
        expected, found = (
            step.moments(alpha, None, iteration, last=False)
            for step, alpha in zip((dense, banded), alphas, strict=True)
        )
        size = np.max(np.abs(expected.mean))
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8, atol=1e-8 * size)
        np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-8)
        assert found.freedom == pytest.approx(expected.freedom, rel=1e-8)
        assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)
        alphas = [update_precision(model, [m]) for m in (expected, found)]
        np.testing.assert_allclose(alphas[1], alphas[0], rtol=1e-8)
    report = banded.report(alphas[1], found)
    assert not report.variance_error.any()
    assert report.log_evidence == found.log_evidence
    assert found.products == 0


@pytest.mark.parametrize("kind", ["plain", "complex", "three tasks"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_pulls_give_the_moments_and_the_evidence_of_the_dense_step(kernel, kind):
    phi, y, beta = spikes(
        kernel, 1, tasks=3 if kind == "three tasks" else 1, complex_=kind == "complex"
    )
    model = model_of(phi, y, beta)
    (family,) = model.families
    rng = np.random.default_rng(2)
    alpha = 10 ** rng.uniform(-3, 6, 80)
    pull = np.sqrt(alpha) * rng.standard_normal((len(y), 80))
    if kind == "complex":
        pull = pull * np.exp(2j * np.pi * rng.random(80))
    dense = CholeskyEStep(family, model.like).moments(alpha, None, 1, False, pull)
    found = BandedEStep(family, model.like).moments(alpha, None, 1, False, pull)
    np.testing.assert_allclose(found.mean, dense.mean, atol=1e-8 * np.abs(dense.mean).max())
    np.testing.assert_allclose(found.variance, dense.variance, rtol=1e-8)
    assert found.log_evidence == pytest.approx(dense.log_evidence, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_learned_prior_is_that_of_the_dense_step(seed):
    """A wrong evidence once gave a spike train to a prior without zeros: 71 % error, not 8."""
    rng = np.random.default_rng(seed)
    phi = Autoregressive((0.5,), 300)
    z = np.zeros(300)
    z[rng.choice(300, 8, replace=False)] = rng.choice([-1.0, 1.0], 8)
    y = phi.forward(z) + 0.1 * rng.standard_normal(300)
    banded, dense = (cofem.fit(phi, y, method=method) for method in ("banded", "em"))
    assert banded.log_evidence == pytest.approx(dense.log_evidence, rel=1e-6)
    np.testing.assert_allclose(banded.mean, dense.mean, atol=1e-3)
    assert banded.support().sum() <= 9


def test_volume_of_scaled_data_enters_the_evidence_of_every_task():
    phi, y, beta = spikes((0.9,), 0, tasks=2)
    tasks = tuple(Task(phi, row, beta, log_volume=3.0) for row in y)
    model = Model(tasks, Tie())
    (family,) = model.families
    alpha = np.ones(80)
    dense = CholeskyEStep(family, model.like).moments(alpha, None, 1, last=True)
    banded = BandedEStep(family, model.like).moments(alpha, None, 1, last=True)
    assert banded.log_evidence == pytest.approx(dense.log_evidence, rel=1e-11)


@pytest.mark.parametrize("kernel", KERNELS)
def test_evidence_never_falls(kernel):
    phi, y, beta = spikes(kernel, 5, n=3000)
    model = model_of(phi, y, beta)
    step = BandedEStep(model.families[0], model.like)
    outcome = run_em(model, [step], np.full(3000, initial_precision(model)), max_iter=40, tol=0.0)
    evidence = np.array(outcome.found.history["log_evidence"])
    assert np.all(np.diff(evidence) > -1e-9 * np.abs(evidence[0]))


def to_torch(x):
    torch = pytest.importorskip("torch")
    return torch.asarray(x)


@pytest.mark.parametrize("convert", [array_api_strict.asarray, to_torch])
@pytest.mark.parametrize("complex_", [False, True])
def test_arrays_of_other_libraries_come_back_as_their_own(convert, complex_):
    phi, y, beta = spikes(KERNELS[1], 0, complex_=complex_)
    here, there = model_of(phi, y, beta), model_of(phi, [convert(y[0])], beta)
    alpha = np.linspace(1, 100, 80)
    mine = BandedEStep(here.families[0], here.like).moments(alpha, None, 1, last=True)
    theirs = BandedEStep(there.families[0], there.like).moments(convert(alpha), None, 1, last=True)
    for name in ("mean", "variance"):
        value = getattr(theirs, name)
        assert type(value) is type(convert(y))
        np.testing.assert_array_equal(backend.to_numpy(value), getattr(mine, name))
    drawn = banded_deviations(there.tasks[0], convert(alpha), 3, seed=0, like=there.like)
    assert type(drawn) is type(convert(y))
    assert drawn.dtype == there.like.dtype


@pytest.mark.parametrize("complex_", [False, True])
def test_single_precision_is_widened_inside(complex_):
    phi, y, beta = spikes(KERNELS[1], 0, complex_=complex_)
    single = y.astype(np.complex64 if complex_ else np.float32)
    model = model_of(phi, single, beta)
    alpha = np.logspace(-2, 12, 80).astype(np.float32)
    found = BandedEStep(model.families[0], model.like).moments(alpha, None, 1, last=True)
    assert found.mean.dtype == single.dtype
    assert found.variance.dtype == np.float32
    wide = model_of(phi, single.astype(np.complex128 if complex_ else float), beta)
    double = BandedEStep(wide.families[0], wide.like).moments(
        alpha.astype(float), None, 1, last=True
    )
    np.testing.assert_allclose(found.mean, double.mean, rtol=2e-7, atol=1e-30)
    np.testing.assert_allclose(found.variance, double.variance, rtol=2e-7)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_draws_scatter_as_the_dense_covariance_says(kernel, complex_):
    phi, y, beta = spikes(kernel, 1, n=12, complex_=complex_)
    model = model_of(phi, y, beta)
    alpha = np.logspace(0, 4, 12)
    draws = banded_deviations(model.tasks[0], alpha, 20_000, seed=4, like=model.like)
    dense = phi.to_dense(y.real)
    covariance = np.linalg.inv(beta * dense.T @ dense + np.diag(alpha))
    # Whitened, the draws' covariance is the identity: 144 entries, each within five
    # standard errors of 1/√20000 (√2 of that on a real diagonal): one seed in 10⁴ fails.
    white = draws @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    scatter = white.conj().T @ white / len(draws)
    assert np.max(np.abs(scatter - np.eye(12))) < 5 * np.sqrt(2 / len(draws))
    again = banded_deviations(model.tasks[0], alpha, 20_000, seed=4, like=model.like)
    np.testing.assert_array_equal(draws, again)
    other = banded_deviations(model.tasks[0], alpha, 1, seed=4, like=model.like, stream=1)
    assert not np.allclose(other, draws[:1])


def test_other_operators_are_refused_by_name():
    y = np.zeros((1, 6))
    for phi, text in (
        (DCT(6), "got DCT"),
        (Convolution([1.0, 0.5], 6), "got Convolution"),
        (Autoregressive((0.5, 0.1, 0.1), 6), "order 3"),
    ):
        assert banded_coefficients(phi) is None
        model = model_of(phi, y, 1.0)
        with pytest.raises(ValueError, match=text):
            BandedEStep(model.families[0], model.like)
        with pytest.raises(ValueError, match=text):
            banded_deviations(model.tasks[0], np.ones(6), 2, seed=0, like=y)


@pytest.mark.parametrize("tasks", [1, 3])
def test_under_a_pull_it_is_the_dense_step(tasks):
    model = model_of(*spikes((0.9,), 2, tasks=tasks))
    [family] = model.families
    random = np.random.default_rng(0)
    alpha, pull = 10 ** random.uniform(-1, 2, 80), random.normal(size=(tasks, 80))
    like = model.like
    banded = BandedEStep(family, like).moments(alpha, None, 1, False, pull)
    dense = CholeskyEStep(family, like).moments(alpha, None, 1, False, pull)
    for name in ("mean", "variance", "cavity"):
        np.testing.assert_allclose(getattr(banded, name), getattr(dense, name), rtol=1e-6)
    assert banded.freedom == pytest.approx(dense.freedom)
