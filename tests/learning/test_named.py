"""What the coefficients that a fit names explain, and the choice between fits by it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cofem
from cofem.learning.ends.named import PRECISION_COST, evidence_of_ard, evidence_of_set
from cofem.learning.loop import Outcome
from cofem.learning.moments.exact import CholeskyEStep, WoodburyEStep
from cofem.model.model import Model, Task, Tie
from cofem.operators import Autoregressive, Dense


@pytest.mark.parametrize("step", [CholeskyEStep, WoodburyEStep])
@pytest.mark.parametrize("kind", ["plain", "groups", "two tasks"])
def test_evidence_of_a_set_is_that_of_the_normal_prior_on_it(step, kind):
    rng = np.random.default_rng(3)
    phi = rng.standard_normal((12, 8))
    tie = Tie(np.array([0, 0, 1, 1, 2, 2, 3, 3]) if kind == "groups" else None)
    ys = rng.standard_normal((2 if kind == "two tasks" else 1, 12))
    beta, alpha = 7.0, rng.uniform(0.5, 2, 8)
    named = np.array([False, False, True, True, False, False, False, False])
    operator = Dense(phi)
    model = Model(tuple(Task(operator, y, beta) for y in ys), tie)
    esteps = [step(family, model.like) for family in model.families]
    found, _ = evidence_of_set(model, esteps, named, alpha)
    cov = np.eye(12) / beta + phi[:, named] / alpha[named] @ phi[:, named].T
    expected = sum(multivariate_normal(np.zeros(12), cov).logpdf(y) for y in ys)
    sets, k = (math.comb(4, 1), 1) if kind == "groups" else (math.comb(8, 2), 2)
    assert found == pytest.approx(expected - math.log(sets) - PRECISION_COST * k, abs=1e-4)


def test_a_coordinate_that_is_surely_zero_does_not_overflow():
    """Its precision is the inverse of a second moment that underflows, also in single precision."""
    rng = np.random.default_rng(4)
    phi, y = rng.standard_normal((12, 8)).astype(np.float32), rng.standard_normal(12)
    model = Model((Task(Dense(phi), y.astype(np.float32), 7.0),), Tie())
    esteps = [WoodburyEStep(family, model.like) for family in model.families]
    named = np.arange(8) < 2
    plain, tiny = (np.where(named, 1.0, p).astype(np.float32) for p in (1.0, 3e38))
    found = [evidence_of_set(model, esteps, named, alpha)[0] for alpha in (plain, tiny)]
    assert np.isfinite(found[0])
    assert found[1] == found[0]


def test_ard_pays_for_its_choice_of_coordinates_and_for_each_precision():
    """Two similar columns share a coefficient: none of them is clear, and all precisions count."""
    rng = np.random.default_rng(5)
    phi = rng.standard_normal((20, 9))
    phi[:, 1] = phi[:, 0] + 1e-3 * rng.standard_normal(20)
    y = 5 * (phi[:, 0] + phi[:, 1])
    model = Model((Task(Dense(phi), y, 100.0),), Tie())
    esteps = [WoodburyEStep(family, model.like) for family in model.families]
    alpha = np.full(9, 1e6)
    alpha[:2] = 1 / 25
    moments = esteps[0].moments(alpha, None, 1, False)
    report = esteps[0].report(alpha, moments)
    assert np.all(np.abs(moments.mean[0]) < 1.96 * np.sqrt(report.variance))
    outcome = Outcome(SimpleNamespace(alpha=alpha, moments=[moments]), [report])
    found, _ = evidence_of_ard(outcome, model, esteps)
    k = moments.freedom
    sets = math.lgamma(10) - math.lgamma(k + 1) - math.lgamma(10 - k)
    assert found == pytest.approx(report.log_evidence - sets - PRECISION_COST * k, abs=1e-9)
    # A column that is clear is one set of nine; all precisions explain no more.
    alpha = np.full(9, 1e10)
    alpha[4] = 1.0
    model = Model((Task(Dense(phi), 2 * phi[:, 4], 100.0),), Tie())
    esteps = [WoodburyEStep(family, model.like) for family in model.families]
    moments = esteps[0].moments(alpha, None, 1, False)
    report = esteps[0].report(alpha, moments)
    outcome = Outcome(SimpleNamespace(alpha=alpha, moments=[moments]), [report])
    found, _ = evidence_of_ard(outcome, model, esteps)
    assert found == pytest.approx(report.log_evidence - math.log(9) - PRECISION_COST, abs=0.05)


def spike_train(seed, pole, n=600, k=10, sigma=0.1):
    rng = np.random.default_rng(seed)
    phi = Autoregressive((pole,), n)
    z = np.zeros(n)
    z[rng.choice(n, k, replace=False)] = rng.choice([-1.0, 1.0], k) * rng.uniform(0.5, 2, k)
    return phi, phi.forward(z) + sigma * rng.standard_normal(n), z


def error(post, z):
    return np.linalg.norm(post.mean - z) / np.linalg.norm(z)


@pytest.mark.parametrize("seed", range(4))
def test_a_spike_train_is_not_given_to_another_prior(seed):
    """Not certified: neighbours are alike (.95), so that places are uncertain by one sample.

    Once all 2,000 of 2,000 coefficients were named there, or 60 false ones by "ard".
    """
    phi, y, z = spike_train(seed, 0.95)
    post = cofem.fit(phi, y)
    ard = cofem.fit(phi, y, prior="ard", noise_precision=100.0)
    assert post.prior == "mixture"
    assert error(post, z) < 0.6 * error(ard, z)
    named = post.support()
    assert np.sum(named & (z == 0)) <= 2
    assert np.sum(named & (z != 0)) >= 7


def test_the_message_says_by_how_much():
    phi, y, _ = spike_train(3, 0.99)
    post = cofem.fit(phi, y)
    assert post.prior == "mixture"
    assert "not certified" in post.message
    assert "in log evidence" in post.message
    assert post.converged


@pytest.mark.parametrize("seed", range(3))
def test_tasks_whose_noise_differs_by_much_have_one_of_their_own(seed):
    """One noise precision in common once grew to 10⁹."""
    rng = np.random.default_rng(seed)
    sigmas, n, d = np.array([0.02, 0.02, 1.0]), 40, 120
    z = np.zeros((3, d))
    z[:, rng.choice(d, 6, replace=False)] = rng.standard_normal((3, 6))
    phis = [rng.standard_normal((n, d)) for _ in sigmas]
    ys = [p @ x + s * rng.standard_normal(n) for p, x, s in zip(phis, z, sigmas, strict=True)]
    post = cofem.fit(phis, ys)
    told = cofem.fit(phis, ys, noise_std=sigmas)
    assert post.prior == "mixture"
    # A standard deviation from 34 directions is known to 12 %: a factor of 2 is six of these.
    np.testing.assert_array_less(np.abs(np.log(post.noise_precision * sigmas**2)), math.log(2.0))
    assert error(post, z) < 1.25 * error(told, z)
