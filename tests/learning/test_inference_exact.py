"""The exact E-steps against dense formulas, against each other, and against SciPy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cofem.learning.loop import run_em
from cofem.learning.moments.exact import CholeskyEStep, WoodburyEStep
from cofem.learning.sites.ard import update_precision
from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import DCT, Convolution, Dense, from_functions


def family(op, y, beta):
    return Model((Task(op, y, beta),), Tie()).families[0]


STEPS = {"cholesky": CholeskyEStep, "woodbury": WoodburyEStep}


def make(seed, n=25, d=40, complex_=False, beta=400.0):
    """A sparse problem with a dense Φ; returns Φ, y, β."""
    random = np.random.default_rng(seed)

    def draw(*shape):
        x = random.standard_normal(shape)
        return x + 1j * random.standard_normal(shape) if complex_ else x

    phi = draw(n, d) / n**0.5
    z = np.zeros(d, phi.dtype)
    z[random.choice(d, 4, replace=False)] = draw(4) + 2
    return phi, phi @ z + draw(n) / beta**0.5, beta


def dense_posterior(phi, y, alpha, beta):
    """Mean and covariance by numpy.linalg.inv."""
    A = beta * phi.conj().T @ phi + np.diag(alpha)
    covariance = np.linalg.inv(A)
    return beta * covariance @ phi.conj().T @ y, covariance


def dense_evidence(phi, y, alpha, beta):
    C = np.eye(len(y)) / beta + (phi / alpha) @ phi.conj().T
    if np.iscomplexobj(phi) or np.iscomplexobj(y):
        quadratic = (y.conj() @ np.linalg.solve(C, y)).real
        return -(len(y) * np.log(np.pi) + np.linalg.slogdet(C)[1] + quadratic)
    return multivariate_normal(np.zeros(len(y)), C).logpdf(y)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("shape", [(25, 40), (40, 25), (30, 30), (1, 5), (5, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_moments_and_evidence_are_the_dense_formulas(step, complex_, shape, seed):
    n, d = shape
    random = np.random.default_rng(seed)
    phi = random.standard_normal(shape) + (1j * random.standard_normal(shape) if complex_ else 0)
    y = random.standard_normal(n) + (1j * random.standard_normal(n) if complex_ else 0)
    alpha, beta = 10 ** random.uniform(-1, 2, d), 30.0
    estep = STEPS[step](family(Dense(phi), y, beta), np.empty(0, phi.dtype))
    found = estep.moments(alpha, None, 1, last=False)
    mean, covariance = dense_posterior(phi, y, alpha, beta)
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.variance, np.diag(covariance).real, rtol=1e-8)
    assert found.log_evidence == pytest.approx(dense_evidence(phi, y, alpha, beta), rel=1e-9)
    freedom = (1 - alpha * np.diag(covariance).real).sum()
    assert found.freedom == pytest.approx(freedom, rel=1e-8)
    report = estep.report(alpha, found)
    assert report.variance is found.variance
    assert (report.variance_error == 0).all()
    assert report.log_evidence_error == 0.0


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_all_agree_at_every_iteration_and_the_evidence_never_falls(complex_, seed):
    phi, y, beta = make(seed, complex_=complex_)
    model = Model((Task(Dense(phi), y, beta),), Tie())
    steps = [step(model.families[0], model.like) for step in STEPS.values()]
    alpha = np.full(40, initial_precision(model))
    evidence = []
    for iteration in range(1, 31):
        moments = [step.moments(alpha, None, iteration, last=False) for step in steps]
        mean, covariance = dense_posterior(phi, y, alpha, beta)
        for found in moments:
            np.testing.assert_allclose(found.mean[0], mean, rtol=0, atol=1e-8 * abs(mean).max())
            np.testing.assert_allclose(found.variance, np.diag(covariance).real, rtol=1e-8)
            expected = dense_evidence(phi, y, alpha, beta)
            assert found.log_evidence == pytest.approx(expected, rel=1e-8)
        evidence.append(moments[0].log_evidence)
        alpha = update_precision(model, moments[:1])
        # The M-step is 1/(|μ|² + Σ_jj), entry by entry.
        second_moment = abs(mean) ** 2 + np.diag(covariance).real
        np.testing.assert_allclose(alpha, 1 / second_moment, rtol=1e-7)
    assert (np.diff(evidence) > -1e-8 * abs(evidence[-1])).all()
    assert evidence[-1] > evidence[0] + 1  # it has moved


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_loop_raises_the_evidence(step, nonnegative):
    phi, y, beta = make(7)
    model = Model((Task(Dense(phi), y, beta),), Tie(), nonnegative)
    estep = STEPS[step](model.families[0], model.like)
    alpha = np.full(40, initial_precision(model))
    found = run_em(model, [estep], alpha, max_iter=40, tol=0.0).found
    gains = np.diff(found.history["log_evidence"])
    if not nonnegative:  # the rectified M-step climbs another function
        assert (gains > -1e-8).all()
    assert len(gains) == 39
    assert found.history["log_evidence"][-1] > found.history["log_evidence"][0]


@pytest.mark.parametrize("operator", ["dct", "convolution"])
def test_structured_operators_are_their_matrices(operator):
    random = np.random.default_rng(0)
    op = {
        "dct": lambda: DCT(48, np.sort(random.choice(48, 20, replace=False))),
        "convolution": lambda: Convolution(0.9 ** np.arange(30), 48),
    }[operator]()
    y, alpha = random.standard_normal(op.shape[0]), 10 ** random.uniform(-1, 2, 48)
    mean, covariance = dense_posterior(op.to_dense(), y, alpha, 50.0)
    for step in STEPS.values():
        found = step(family(op, y, 50.0), np.empty(0)).moments(alpha, None, 1, last=False)
        np.testing.assert_allclose(found.mean[0], mean, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.variance, np.diag(covariance), rtol=1e-8)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision(step, dtype):
    phi, y, beta = make(3, complex_=dtype == "complex64")
    alpha = (10 ** np.random.default_rng(0).uniform(-1, 2, 40)).astype(np.float32)
    task = family(Dense(phi.astype(dtype)), y.astype(dtype), beta)
    found = STEPS[step](task, np.empty(0, dtype)).moments(alpha, None, 1, last=False)
    mean, covariance = dense_posterior(phi, y, alpha.astype(float), beta)
    assert found.mean.dtype == np.dtype(dtype)
    assert found.variance.dtype == np.float32
    scale = np.linalg.cond(covariance * np.sqrt(np.outer(alpha, alpha)))
    error = 20 * np.finfo(np.float32).eps * scale
    np.testing.assert_allclose(found.mean[0], mean, rtol=0, atol=error * abs(mean).max())
    np.testing.assert_allclose(found.variance, np.diag(covariance).real, rtol=error)


def test_woodbury_does_not_lean_on_estimated_column_norms():
    # Beyond 512 rows and columns the norms of a user's operator are estimates, but the
    # dense matrix is at hand: the variances must be exact all the same.
    random = np.random.default_rng(0)
    phi = random.standard_normal((520, 530)) / 520**0.5
    op = from_functions(lambda z: z @ phi.T, lambda y: y @ phi, (520, 530), float)
    assert not op.exact_column_norms
    task = family(op, random.standard_normal(520), 1e-2)  # nearly all prior: Σ_jj ≈ 1/A_jj
    alpha = 10 ** random.uniform(-1, 1, 530)
    found = WoodburyEStep(task, np.empty(0)).moments(alpha, None, 1, last=False)
    covariance = np.linalg.inv(1e-2 * phi.T @ phi + np.diag(alpha))
    np.testing.assert_allclose(found.variance, np.diag(covariance), rtol=1e-8)
