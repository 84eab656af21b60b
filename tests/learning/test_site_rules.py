"""What the loop asks of every site rule, whatever its prior."""

import numpy as np
import pytest
from site_rule_cases import RULES, TOL, sparse_model

from cofem.learning.loop import iterate
from cofem.learning.moments.registry import make_esteps
from cofem.learning.noise import LearnedNoise
from cofem.learning.sites.ard import Ard
from cofem.learning.sites.half_normal import HalfNormal
from cofem.learning.stopping import Verdict
from cofem.model.methods import EM, Woodbury

every_rule = pytest.mark.parametrize("name", RULES)
both_numbers = pytest.mark.parametrize("n_tasks", [1, 3])


class Kept:
    """Keeps every state of the loop, and resumes from one."""

    def __init__(self, state=None):
        self.states, self.state = [], state

    def resume(self):
        return self.state

    def keep(self, state):
        columns = {name: list(column) for name, column in state.history.items()}
        self.states.append(type(state)(**{**vars(state), "history": columns}))


def run(name, n_tasks=1, method=None, tol=0.0, max_iter=12, kept=None):
    model, z = sparse_model(n_tasks)
    rule = RULES[name](model)
    esteps = make_esteps(model, method or EM(), 0)
    return rule, iterate(model, esteps, rule, max_iter=max_iter, tol=tol, keeper=kept), z


@every_rule
@both_numbers
def test_sites_are_one_pair_for_every_family(name, n_tasks):
    rule, found, _ = run(name, n_tasks)
    families = rule.model.families
    assert len(rule.sites()) == len(families)
    for family, (a, b) in zip(families, rule.sites(), strict=True):
        assert a.shape == (rule.model.n_precisions,)
        assert np.all(np.isfinite(a))
        assert np.all(a > 0)
        assert b is None or b.shape == (len(family.members), rule.model.n_precisions)
    assert found.alpha.shape == (rule.model.n_precisions,)


def test_a_rule_that_keeps_no_state_takes_no_checkpoint():
    model, _ = sparse_model()
    rule, kept = HalfNormal(model, np.ones(50)), Kept()
    with pytest.raises(TypeError, match="HalfNormal has no state"):
        iterate(model, make_esteps(model, EM(), 0), rule, max_iter=3, tol=0.0, keeper=kept)
    assert kept.states == []


@every_rule
@both_numbers
def test_a_kept_state_goes_on_bit_for_bit(name, n_tasks):
    kept = Kept()
    _, whole, _ = run(name, n_tasks, kept=kept)
    _, again, _ = run(name, n_tasks, kept=Kept(kept.states[4]))
    np.testing.assert_array_equal(again.alpha, whole.alpha)
    for one, other in zip(again.means, whole.means, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.history["change"] == whole.history["change"]


@every_rule
def test_two_exact_e_steps_move_it_alike(name):
    first, _, _ = run(name, method=EM())
    second, _, _ = run(name, method=Woodbury())
    np.testing.assert_allclose(second.alpha, first.alpha, rtol=1e-6)


@every_rule
@both_numbers
def test_it_ends_by_itself_where_the_truth_is(name, n_tasks):
    _, found, z = run(name, n_tasks, tol=TOL, max_iter=300)
    assert found.converged, found.message
    for mean, truth in zip(found.means, z, strict=True):
        largest = np.argsort(np.abs(mean))[-3:]
        assert sorted(largest) == np.flatnonzero(truth).tolist()


@every_rule
def test_its_verdicts_have_their_facts(name):
    rule, found, _ = run(name, tol=TOL, max_iter=3)
    assert found.verdict is rule.unfinished
    assert "max_iter=3" in found.message
    _, asked, _ = run(name, tol=0.0, max_iter=3)
    assert asked.verdict is Verdict.AS_ASKED


def test_learned_noise_scales_the_variances_of_sparse_bayesian_learning():
    """An iteration from an E-step in other units of noise is that of dense algebra."""
    model, _ = sparse_model()
    task, alpha = model.tasks[0], np.linspace(0.1, 3.0, model.n_precisions)
    noise = LearnedNoise(model.families, 10.0)
    rule = Ard(model, alpha, TOL, noise=noise)
    [estep], [(a, _)] = make_esteps(model, EM(), 0), rule.sites()
    beta = noise.ratio * task.noise_precision
    rule.absorb([estep.moments(a, None, 1, False)], None, random=False)
    rule.advance()
    phi = task.operator.to_dense()
    covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
    mean = beta * covariance @ phi.T @ task.y
    np.testing.assert_allclose(rule.alpha, 1 / (mean**2 + np.diag(covariance)), rtol=1e-9)


@both_numbers
def test_the_share_of_the_data_that_is_used(n_tasks):
    model, _ = sparse_model(n_tasks)
    rule = RULES["mixture, noise learned"](model)
    moments = [
        estep.moments(a, None, 1, False, b)
        for estep, (a, b) in zip(make_esteps(model, EM(), 0), rule.sites(), strict=True)
    ]
    rule.absorb(moments, None, random=False)
    n_data = sum(task.operator.shape[0] for task in model.tasks)
    assert rule.look.used == pytest.approx(sum(m.freedom for m in moments) / n_data, rel=1e-12)


@every_rule
def test_products_made_before_and_by_the_rule_itself_count(name):
    model, _ = sparse_model()
    found = []
    for own, spent in ((0, {}), (0, {"spent": 100}), (5, {})):
        rule = RULES[name](model)
        rule.products += own
        ended = iterate(model, make_esteps(model, EM(), 0), rule, max_iter=3, tol=0.0, **spent)
        found.append(np.array(ended.history["products"]))
    np.testing.assert_array_equal(found[1] - found[0], 100)
    np.testing.assert_array_equal(found[2] - found[0], [5, 10, 15])
    # An exact E-step of a matrix counts no product: what is left is the rule's.
    assert found[0].tolist() == [(i + 1) * RULES[name](model).products for i in range(3)]
