"""The rule of the learned prior by itself: where it begins, its units, and when it is at rest."""

from dataclasses import replace

import numpy as np
import pytest
from site_rule_cases import sparse_model

from cofem.learning.moments.registry import make_esteps
from cofem.learning.sites.matching import Look
from cofem.learning.sites.mixture import FAINTEST, MixturePrior
from cofem.learning.sites.propagation import IN_A_ROW, NEARLY_IN_A_ROW, Propagation
from cofem.model.methods import EM
from cofem.model.model import Tie

TOL = 1e-4


def moments_of(rule):
    esteps = make_esteps(rule.model, EM(), 0)
    return [e.moments(a, None, 1, False, b) for e, (a, b) in zip(esteps, rule.sites(), strict=True)]


def after(iterations, model, given=False):
    rule = Propagation(model, 10.0, given, TOL)
    for _ in range(iterations):
        rule.learn(moments_of(rule))
        rule.advance()
    rule.see(moments_of(rule))
    return rule


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_at_its_first_sites_the_prior_has_the_power_of_the_data(n_tasks):
    model, _ = sparse_model(n_tasks)
    rule = Propagation(model, 10.0, given=False, tol=TOL)
    lengths = model.tasks[0].operator.column_norms_squared(np.zeros(0))
    power = n_tasks * np.sum(lengths / rule.alpha)  # E‖Φz‖² over all tasks
    assert power == pytest.approx(sum(np.sum(task.y**2) for task in model.tasks))


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_in_units_of_the_noise_that_it_found_it_says_the_same(n_tasks):
    model, _ = sparse_model(n_tasks)
    rule = after(8, model)
    found = rule.noise_precisions
    assert found[0] != pytest.approx(model.tasks[0].noise_precision, rel=0.01)
    other = rule.at(model.with_noise(found))
    other.see(moments_of(other))
    assert other.noise_precisions == pytest.approx(found)
    np.testing.assert_allclose(other.alpha, rule.alpha)
    for one, two in zip(rule.shares.mean + rule.shares.variance,
                        other.shares.mean + other.shares.variance, strict=True):  # fmt: skip
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(other.shares.spike, rule.shares.spike, rtol=1e-6, atol=1e-12)
    scales = [r.prior.components(r.visible)[0] / r.units[0][0] for r in (rule, other)]
    np.testing.assert_allclose(scales[1], scales[0])  # variances in the units of z


def test_with_a_noise_of_each_task_it_goes_on_from_the_same_prior():
    """Where the noise of each is what all of them had, nothing changes."""
    model, _ = sparse_model(3)
    rule = after(8, model)
    other = rule.with_noise_of_each(model.with_noise(rule.noise_precisions))
    other.see(moments_of(other))
    np.testing.assert_allclose(other.alpha, rule.alpha)
    np.testing.assert_allclose(other.shares.mean[0], rule.shares.mean[0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(other.shares.spike, rule.shares.spike, rtol=1e-6, atol=1e-12)
    # And with proportions of their own, every task is at its own.
    own = [b * factor for b, factor in zip(rule.noise_precisions, (1.0, 4.0, 0.5), strict=True)]
    apart = rule.with_noise_of_each(model.with_noise(own))
    assert apart.noise_precisions == pytest.approx(own)
    assert len(apart.precisions) == 3


def resting(**changes):
    return Look(**{"apart": 0.0, "distance": 0.0, "log_move": 0.0, "weight_move": 0.0, **changes})


def rested(looks):
    """Return a rule that has had these looks."""
    rule = Propagation(sparse_model()[0], 10.0, False, TOL)
    rule.iteration = 10
    for look in looks:
        rule._count_rest(look)
    return rule


@pytest.mark.parametrize("moving", [{"log_move": 1.0}, {"weight_move": 1.0}, {"distance": 1.0}])
def test_it_is_at_rest_only_after_iterations_in_a_row(moving):
    rests, moves = [resting()], [resting(**moving)]
    assert not rested(rests * (IN_A_ROW - 1)).at_rest
    assert rested(rests * IN_A_ROW).at_rest
    assert not rested(rests * (IN_A_ROW - 1) + moves + rests * (IN_A_ROW - 1)).at_rest


def test_it_is_nearly_at_rest_where_few_coordinates_oscillate_for_long():
    few, many = [resting(distance=1.0)], [resting(distance=1.0, apart=0.5)]
    assert not rested(few * (NEARLY_IN_A_ROW - 1)).nearly_at_rest
    assert rested(few * NEARLY_IN_A_ROW).nearly_at_rest
    again = few * (NEARLY_IN_A_ROW - 1)
    assert not rested(again + many + again).nearly_at_rest
    assert not rested(few * NEARLY_IN_A_ROW).at_rest


def test_the_weight_of_the_slabs_and_which_of_them_stand_out():
    prior = MixturePrior.beginning(100.0, 30, 50, Tie(), 0.5)
    assert prior.slabs == pytest.approx(1 - prior.weights[0])
    visible = 2 * FAINTEST / prior.scales[5]
    used = prior.in_use(visible)
    assert used.tolist() == [True] * 6 + [False] * (len(prior.scales) - 6)
    assert prior.in_use(0.0).tolist() == [True] * 2 + [False] * (len(prior.scales) - 2)
    all_zero = replace(prior, weights=np.eye(len(prior.scales))[0])
    assert 0 < all_zero.slabs < 1e-6  # its logarithm is finite


def test_data_below_a_noise_that_is_given_do_not_raise_it():
    model, _ = sparse_model(noise_std=0.1)
    faint = model.with_noise([1e-3])  # noise of thirty times the power of the data
    for start in (0.0, 10.0):
        rule = Propagation(faint, start, given=True, tol=TOL)
        assert [noise.ratio for noise in rule.noises] == [1.0]


def test_the_weights_of_the_components_in_use_sum_to_one():
    prior = MixturePrior.beginning(1e4, 30, 50, Tie(), 0.5)
    for visible, some in ((1e15, False), (1e-3, True)):
        scales, weights = prior.components(visible)
        assert weights.sum() == pytest.approx(1.0)
        assert (len(scales) < len(prior.scales)) is some
        kept = np.isin(prior.scales, scales)
        np.testing.assert_allclose(weights / weights[0], prior.weights[kept] / prior.weights[0])
