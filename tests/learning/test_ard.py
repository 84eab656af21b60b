"""Sparse Bayesian learning as a rule: when it prunes, how strictly, and where its limits are."""

import math

import numpy as np
import pytest

import cofem
from cofem.learning.moments.gaussian import Moments
from cofem.learning.noise import LearnedNoise
from cofem.learning.sites.ard import (
    ALL_USED,
    LARGEST,
    LATEST_PRUNING,
    NEARLY_SETTLED,
    SPAN,
    Ard,
    strictness,
    update_precision,
)
from cofem.learning.stopping import CLEAR, FAINT, Verdict
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense, FiniteDifference, Identity

D, N = 200, 120
TOL = 1e-4


def model_of(n_tasks=1, n=N, d=D, **options):
    random = np.random.default_rng(0)
    phi = Dense(random.normal(size=(n, d)) / np.sqrt(n))
    tasks = tuple(Task(phi, row, 100.0) for row in random.normal(size=(n_tasks, n)))
    return Model(tasks, Tie(), **options)


def moments_of(n_tasks=1, mean=1.0, variance=0.0, freedom=10.0, d=D, **others):
    means = np.full((n_tasks, d), mean) if np.ndim(mean) == 0 else mean
    spread = np.broadcast_to(np.asarray(variance, float), (d,))
    return Moments(means, spread, means, freedom=freedom, **others)


def iterate(rule, times, moving=D, **options):
    """Iterations in which so many coordinates move by far; return the iteration of the last."""
    for _ in range(times):
        moments = moments_of(**options)
        before = moments.mean - np.where(np.arange(D) < moving, 1e3, 0.0)
        rule.absorb([moments], [before], random=False)
        rule.advance()
    return rule


@pytest.mark.parametrize("n_relevant", [1, 5, 100, 900, 10_000])
def test_a_coordinate_stays_at_the_universal_threshold(n_relevant):
    """With κ, a coordinate stays if it stands √κ + √(1 + κ) error bars out: √(2 log(D/k))."""
    kappa, t = strictness(10_000, n_relevant), math.sqrt(2 * math.log(1e4 / n_relevant))
    if t <= 1:
        assert kappa == 0
    else:
        assert math.sqrt(kappa) + math.sqrt(1 + kappa) == pytest.approx(t)


@pytest.mark.parametrize("moving", [D // NEARLY_SETTLED, D // NEARLY_SETTLED + 1])
def test_pruning_begins_when_nearly_all_have_settled(moving):
    rule = iterate(Ard(model_of(), np.ones(D), TOL, pruning=True), 3, moving)
    assert rule.began == (1 if moving <= D / NEARLY_SETTLED else 0)


def test_pruning_begins_at_the_latest_in_its_iteration():
    rule = Ard(model_of(), np.ones(D), TOL, pruning=True)
    assert iterate(rule, LATEST_PRUNING - 1).began == 0
    assert iterate(rule, 1).began == LATEST_PRUNING
    assert iterate(rule, 2).began == LATEST_PRUNING


def test_with_the_noise_learned_it_begins_in_just_that_iteration():
    model = model_of()
    rule = Ard(model, np.ones(D), TOL, pruning=True, noise=LearnedNoise(model.families, 10.0))
    assert iterate(rule, LATEST_PRUNING - 1, moving=0).began == 0
    assert iterate(rule, 1, moving=0).began == LATEST_PRUNING


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_a_pruned_step_is_stricter_by_kappa_over_the_tasks(n_tasks):
    model = model_of(n_tasks)
    rule = Ard(model, np.ones(D), TOL, pruning=True)
    iterate(rule, 1, moving=0, n_tasks=n_tasks, mean=2.0, variance=0.5, freedom=4.0 * n_tasks)
    kappa = strictness(D, 4.0) / n_tasks
    np.testing.assert_allclose(rule.alpha, (1 + kappa) / 4.5)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_what_is_pruned_has_the_largest_precision(size):
    mean = np.full((1, D), size)
    mean[0, 3] = 0.0
    rule = iterate(Ard(model_of(), np.ones(D), TOL, pruning=True), 1, moving=0, mean=mean,
                   variance=1e-30)  # fmt: skip
    assert rule.alpha[3] == pytest.approx(LARGEST / size**2)  # beside what E u² gives the others


@pytest.mark.parametrize("pruning", [False, True])
def test_it_does_not_end_before_it_has_pruned(pruning):
    rule = Ard(model_of(), np.ones(D), TOL, pruning=pruning)
    still = moments_of()
    first = rule.absorb([still], [still.mean], random=False)
    assert first is (None if pruning else Verdict.SETTLED)
    rule.advance()
    assert rule.absorb([still], [still.mean], random=False) is Verdict.SETTLED


@pytest.mark.parametrize(
    ("used", "growing", "n", "ends"),
    [(1.001, 0.81, N, False), (0.999, 0.81, N, True), (1.001, 0.79, N, True),
     (1.001, 0.81, D, True)],
)  # fmt: skip
@pytest.mark.parametrize("n_tasks", [1, 2])
def test_it_goes_on_while_all_data_are_used_and_most_precisions_grow(
    used, growing, n, ends, n_tasks
):
    rule = Ard(model_of(n_tasks, n), np.full(D, 2.0), TOL)
    used_of_all = {"n_tasks": n_tasks, "freedom": used * ALL_USED * n * n_tasks}
    still = moments_of(**used_of_all)
    # 1/E u² was 2 everywhere; it grows where u is small.
    mean = np.where(np.arange(D) < growing * D, 0.65, 0.75)[None, :].repeat(n_tasks, axis=0)
    rule.absorb([moments_of(n_tasks, mean, freedom=1.0)], None, random=False)
    rule.advance()
    verdict = rule.absorb([still], [still.mean], random=False)
    assert verdict is (Verdict.SETTLED if ends else None)


def test_only_learned_noise_needs_residuals():
    model = model_of(3)
    assert Ard(model, np.ones(D), TOL).products == 0
    assert Ard(model, np.ones(D), TOL, noise=LearnedNoise(model.families, 10.0)).products == 3


def test_without_a_tolerance_it_never_ends():
    rule = Ard(model_of(), np.ones(D), 0.0)
    assert rule.absorb([moments_of()], [moments_of().mean], random=False) is None


def test_with_a_sparsifier_the_error_bars_are_those_of_rx():
    sparsifier = FiniteDifference((D,), axis=0)
    model = model_of(sparsifier=sparsifier)
    rule = Ard(model, np.ones(model.n_precisions), TOL)
    share = rule.movement.share
    for size, farther in [(CLEAR * 2.0 + 1, 1.0), (CLEAR * 2.0 - 1, FAINT)]:
        mean = np.full((1, model.n_precisions), size)
        still = moments_of(mean=mean, variance=4.0, d=model.n_precisions)
        for step, ends in [(0.99, True), (1.01, False)]:
            before = mean - step * farther * share * 2.0
            verdict = rule.absorb([still], [before], random=False)
            assert verdict is (Verdict.SETTLED if ends else None)


def test_precisions_count_directions_over_all_tasks_and_families():
    model = model_of(3)
    random = np.random.default_rng(1)
    means, variances = random.normal(size=(2, 2, 4)), random.uniform(1, 2, (2, 4))
    count = np.array([0.5, 1.0, 0.2, 1.0])
    plain = Moments(means[0], variances[0], means[0])
    counted = Moments(means[1][:1], variances[1], means[1][:1], count=count)
    total = np.sum(means[0] ** 2 + variances[0], axis=0) + means[1][0] ** 2 + variances[1]
    np.testing.assert_allclose(update_precision(model, [plain, counted]), (2 + count) / total)
    once = Moments(means[1][:1], variances[1], means[1][:1])
    np.testing.assert_allclose(update_precision(model, [plain, once]), 3 / total)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_rows_of_r_stay_within_their_span(unit):
    task = Task(Identity(3), np.ones(3), 1.0)
    model = Model((task,), Tie(), sparsifier=Identity(3))
    mean = unit * np.array([[1.0, 1e-3, 1e-9]])
    alpha = update_precision(model, [Moments(mean, np.zeros(3), mean)])
    np.testing.assert_allclose(alpha * unit**2, [1.0, 1e6, SPAN])


def test_an_m_step_needs_variances():
    mean = np.ones((1, 3))
    with pytest.raises(ValueError, match="needs variances"):
        update_precision(model_of(), [Moments(mean, None, mean)])


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_a_single_unknown_learns_from_every_task(n_tasks):
    mean = np.arange(1.0, n_tasks + 1)[:, None]
    found = update_precision(model_of(n_tasks, d=1), [moments_of(n_tasks, mean, 0.5, d=1)])
    np.testing.assert_allclose(found, n_tasks / np.sum(mean**2 + 0.5))


def test_after_one_iteration_every_coordinate_still_moves():
    """Nothing is compared in the first iteration: "0 of 0 coordinates" would be nonsense."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(20, 30))
    with pytest.warns(cofem.ConvergenceWarning, match="30 of 30 coordinates still move"):
        cofem.fit(phi, phi[:, 0], noise_precision=1e4, prior="ard", max_iter=1)
