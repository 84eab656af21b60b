"""From uncertified ends to a sampled posterior: when, from where, and what the user is told."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cofem.learning.certificate import Certificate
from cofem.learning.learned import Settings
from cofem.learning.stopping import Verdict
from cofem.learning.supports import fit as supports_fit
from cofem.learning.supports.fit import reason_to_sample, sampled
from cofem.learning.supports.sampler import AGREE, sample_supports
from cofem.model.choosing import can_sample
from cofem.model.methods import CoFEM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Identity, as_operator

N, D, SIGMA = 16, 12, 0.1
BETA = SIGMA**-2


def made(alike=False):
    random = np.random.default_rng(0)
    phi = random.normal(size=(N, D))
    if alike:
        phi[:, 2] = phi[:, 1] + 0.1 * random.normal(size=N)
    z = np.zeros(D)
    z[[1, 4]] = 3.0, -2.0
    y = phi @ z + SIGMA * random.normal(size=N)
    return Model((Task(as_operator(phi), y, BETA),), Tie())


def end(certificate=Certificate.APART, credible=True, likely=(1, 4), products=100, noise=80.0,
        verdict=Verdict.NOT_AT_REST):  # fmt: skip
    spike = np.ones(D)
    spike[list(likely)] = 0.2
    history = {"iteration": [0, 7], "products": [1, products], "seconds": [0.1, 2.0]}
    return SimpleNamespace(
        certificate=certificate,
        credible_noise=credible,
        found=SimpleNamespace(verdict=verdict, history=history),
        rule=SimpleNamespace(shares=SimpleNamespace(spike=spike), noise_precisions=[noise]),
    )


def settings(callback=None):
    return Settings(CoFEM(), seed=3, max_iter=50, tol=1e-4, callback=callback)


# -- when ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "fine"), [((3, 3), True), ((2, 9), False), ((9, 2), False), ((20, 100_001), False)]
)
def test_matrices_that_are_too_small_or_too_large_are_not_sampled(shape, fine):
    operator = SimpleNamespace(shape=shape, splits_rows=False, is_complex=False)
    assert can_sample(Model((Task(operator, np.empty(0), 1.0),), Tie())) is fine


def test_which_models_are_not_sampled():
    task = Task(as_operator(np.eye(3)), np.ones(3), 1.0)
    model = Model((task,), Tie())
    assert can_sample(model)
    assert not can_sample(replace(model, tasks=(task, task)))
    assert not can_sample(replace(model, sparsifier=Identity(3)))
    assert not can_sample(replace(model, tie=Tie(coupling=Identity(3))))
    assert not can_sample(replace(model, tasks=(replace(task, y=np.ones(3, complex)),)))
    split = SimpleNamespace(shape=(3, 3), splits_rows=True, is_complex=False)
    assert not can_sample(replace(model, tasks=(replace(task, operator=split),)))


def test_an_end_that_is_not_believed_says_why():
    ends = [end(Certificate.COHERENT), end(Certificate.APART)]
    assert reason_to_sample(made(), ends, believed=False) == Certificate.COHERENT.value
    # The first whose noise can be believed is the one that counts, a certified one before it.
    ends = [end(Certificate.COHERENT, credible=False), end(Certificate.APART)]
    assert reason_to_sample(made(), ends, believed=False) == Certificate.APART.value
    ends = [end(Certificate.APART), end(Certificate.GIVEN)]
    assert reason_to_sample(made(), ends, believed=False) == Certificate.GIVEN.value


def test_a_certified_end_is_sampled_only_where_columns_are_alike():
    certified = [end(Certificate.GIVEN)]
    assert reason_to_sample(made(), certified, believed=True) == ""
    assert "alike" in reason_to_sample(made(alike=True), certified, believed=True)
    elsewhere = [end(Certificate.GIVEN, likely=(5, 6))]
    assert reason_to_sample(made(alike=True), elsewhere, believed=True) == ""


def test_so_many_non_zeros_that_it_would_take_too_long(monkeypatch):
    monkeypatch.setattr(supports_fit, "LARGEST_COST", 1.0)
    certified = [end(Certificate.GIVEN)]
    assert reason_to_sample(made(alike=True), certified, believed=True) == ""


def test_a_fit_that_was_stopped_is_not_sampled():
    ends = [end(), end(verdict=Verdict.STOPPED)]
    assert reason_to_sample(made(), ends, believed=False) == ""


# -- what comes out ------------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True])
def test_the_posterior_is_that_of_the_chains_begun_at_the_end(given):
    model = made()
    found = sampled(model, [end(products=100), end(products=700)], given, settings(), "a reason")
    beta = BETA if given else 0.0
    chains = sample_supports(model, beta, beta or 80.0, np.array([1, 4]), 3)
    draws = chains.draws.like(model.like)
    np.testing.assert_array_equal(found.marginals.mean, draws.mean)
    result = found.outcome.found
    assert result.verdict is Verdict.SAMPLED
    assert result.converged
    assert "because a reason" in result.message
    assert result.history["products"] == [1, 700]
    assert found.prior == "mixture"
    noise = found.model.tasks[0].noise_precision
    assert noise == (BETA if given else chains.noise_precision)
    # Precisions are 1/E z², finite where a coordinate was never non-zero.
    power = draws.variance + draws.mean**2
    seen = power > 1e-6 * power.max()
    np.testing.assert_allclose(result.alpha[seen], 1 / power[seen], rtol=1e-5)
    assert np.isfinite(result.alpha).all()
    assert result.alpha.max() <= 1.01 / (supports_fit.LEAST_VARIANCE * draws.variance.max())
    [report] = found.outcome.reports
    np.testing.assert_array_equal(report.variance, draws.variance)
    assert (report.variance_error == 0).all()
    assert np.isnan(report.log_evidence)
    assert np.isnan(report.log_evidence_error)


@pytest.mark.parametrize(
    ("distance", "ahead", "stopped", "verdict"),
    [
        (0.99 * AGREE, 0.0, False, Verdict.SAMPLED),
        (1.01 * AGREE, 0.0, False, Verdict.CHAINS_APART),
        (1.01 * AGREE, 5.0, False, Verdict.BETTER_MODE),
        (0.99 * AGREE, 0.0, True, Verdict.STOPPED),
    ],
)
def test_the_verdict_says_how_the_chains_ended(monkeypatch, distance, ahead, stopped, verdict):
    model = made()
    chains = sample_supports(model, BETA, BETA, np.array([1, 4]), 3)
    told = {**vars(chains), "distance": distance, "ahead": ahead, "stopped": stopped}
    told = SimpleNamespace(**told)
    monkeypatch.setattr(supports_fit, "sample_supports", lambda *arguments: told)
    found = sampled(model, [end()], True, settings(), "it is a test").outcome.found
    assert found.verdict is verdict
    assert found.facts == {"sweeps": chains.sweeps, "distance": distance, "ahead": ahead}


def test_too_many_non_zeros_give_no_posterior(monkeypatch):
    monkeypatch.setattr(supports_fit, "sample_supports", lambda *arguments: None)
    assert sampled(made(), [end()], True, settings(), "") is None


def test_the_callback_sees_the_chains_as_iterations():
    states = []
    model = made()
    sampled(model, [end(products=100)], True, settings(states.append), "")
    assert len(states) > 1
    for state in states:
        assert (state.iteration, state.max_iter) == (7, 50)
        assert (state.cg_steps, state.products) == (0, 100)
        assert np.isnan(state.change)
        assert state.mean.shape == state.precision.shape == (D,)
        assert (state.precision == 1).all()
    # The clock goes on from where learning ended.
    seconds = [state.seconds for state in states]
    assert seconds == sorted(seconds)
    assert 2.0 < seconds[0] < 100
    stopped = sampled(model, [end()], True, settings(lambda state: True), "").outcome.found
    assert stopped.verdict is Verdict.STOPPED
    # Only True stops: what print returns, for example, does not.
    goes_on = sampled(model, [end()], True, settings(lambda state: 1), "").outcome.found
    assert goes_on.verdict is not Verdict.STOPPED
