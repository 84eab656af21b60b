"""One coordinate at a time among the rest of the library: posteriors, real unknowns, arrays."""

import numpy as np
import pytest
from rival_cases import LIBRARIES, draw
from sequential_cases import CASES, case, run

import cofem
from cofem import backend, simulate
from cofem.model.model import Model, Task, Tie
from cofem.model.validation import tasks_from
from cofem.operators import Dense
from cofem.result.posterior import Posterior
from cofem.rivals import sequential
from cofem.rivals.sequential import Sequential


def test_the_posterior_draws_and_predicts_with_the_precisions_returned():
    problem = simulate.dct(D=128, seed=1, sparsity=0.05)
    task = Task(problem.phi, problem.y, problem.noise_precision)
    outcome = run(Model((task,), Tie()))
    found, report = outcome.found, outcome.reports[0]
    post = Posterior(
        gaussian_mean=found.means[0],
        gaussian_variance=report.variance,
        variance_error=report.variance_error,
        precision=found.alpha,
        noise_precision=task.noise_precision,
        log_evidence=report.log_evidence,
        log_evidence_error=0.0,
        history=found.history,
        converged=found.converged,
        message=found.message,
        method="sequential",
        options=Sequential(),
        tasks=(task,),
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


CONVERSIONS = {"readonly": read_only, **LIBRARIES}


@pytest.mark.parametrize("library", CONVERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_other_libraries_give_the_same(library, name):
    convert = CONVERSIONS[library]
    model, phi = case(name, 0)
    task, op = model.tasks[0], model.tasks[0].operator
    if isinstance(op, Dense):
        op = Dense(convert(op.matrix))
    other = Model((Task(op, convert(task.y), task.noise_precision),), Tie())
    expected = run(model, Sequential(min_gain=1e-3))
    like = convert(np.zeros(phi.shape[1]))
    found = sequential.run(other, Sequential(min_gain=1e-3), like, seed=0, max_iter=200, tol=1e-9)
    assert type(found.found.means[0]) is type(like)
    for mine, theirs in (
        (found.found.means[0], expected.found.means[0]),
        (found.found.alpha, expected.found.alpha),
        (found.reports[0].variance, expected.reports[0].variance),
    ):
        np.testing.assert_allclose(backend.to_numpy(mine), theirs, rtol=1e-6, atol=1e-9)
