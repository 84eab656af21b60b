"""The noise rule by itself: the step it wants, its limits, and what it takes for settled."""

import math

import numpy as np
import pytest

from cofem.learning import noise as rule
from cofem.learning.moments.gaussian import Moments
from cofem.learning.noise import LearnedNoise, asked_of, shared_noises
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense

N, D = 100, 5
START_SNR = 10.0


def families_of(n_tasks=1, dtype=float, precisions=(4.0,), y=None):
    random = np.random.default_rng(0)
    phi = Dense(random.normal(size=(N, D)).astype(dtype))
    rows = random.normal(size=(n_tasks, N)).astype(dtype) if y is None else y
    tasks = tuple(Task(phi, row, precisions[i % len(precisions)]) for i, row in enumerate(rows))
    return Model(tasks, Tie()).families


def moments_at(family, freedom, residual=1.0):
    """A mean that leaves so much of the energy of y, and a freedom."""
    y, phi = family.y, family.operator.to_dense(family.y[:0])
    mean = np.linalg.lstsq(phi, y.T, rcond=None)[0].T
    return Moments(residual * mean, None, residual * mean, freedom=freedom)


def energy_left(family, moments):
    left = family.y - family.operator.forward(moments.mean)
    return family.noise_precision * float(np.sum(abs(left) ** 2))


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("n_tasks", [1, 3])
def test_the_step_leads_to_unused_data_over_their_residual(dtype, n_tasks):
    families = families_of(n_tasks, dtype)
    noise, moments = LearnedNoise(families, START_SNR), moments_at(families[0], 7.0)
    n = N * n_tasks
    reals = n * (2 if dtype is complex else 1)  # log β has a standard deviation of √(2/reals)
    target = n - 7.0 - rule.PENALTY * n / math.sqrt(reals)
    target /= energy_left(families[0], moments)
    noise.ratio = target * math.exp(-0.25)
    assert noise.wanted([moments]) == pytest.approx(0.25, rel=1e-9)
    assert noise.used == pytest.approx(7.0 / n)


def test_it_begins_at_the_signal_to_noise_ratio_asked_for():
    families = families_of()
    noise = LearnedNoise(families, START_SNR)
    energy = families[0].noise_precision * float(np.sum(families[0].y ** 2))
    assert noise.energy == pytest.approx(energy)
    assert noise.ratio == pytest.approx((1 + START_SNR) * N / energy)
    nothing = LearnedNoise(families_of(y=np.zeros((1, N))), START_SNR)
    assert nothing.ratio == 1 + START_SNR


@pytest.mark.parametrize(
    ("used", "given", "largest"),
    [
        (0.99 * rule.MUCH_USED, False, rule.LARGEST_MOVE),
        (1.01 * rule.MUCH_USED, False, rule.LARGEST_RISE_IF_USED),
        (1.01 * rule.MUCH_USED, True, rule.LARGEST_MOVE),
    ],
)
def test_a_step_is_no_longer_than_allowed(used, given, largest):
    families = families_of()
    noise, moments = LearnedNoise(families, START_SNR), moments_at(families[0], used * N)
    noise.ratio = 1e-9
    assert noise.wanted([moments], given) == largest
    noise.ratio = 1e9
    assert noise.wanted([moments], given) == -rule.LARGEST_MOVE


@pytest.mark.parametrize(
    ("freedom", "counted"), [(-3.0, rule.LEAST_USED), (2.0 * N, rule.LARGEST_SHARE * N)]
)
def test_impossible_numbers_of_used_data_are_clipped(freedom, counted):
    families = families_of()
    noise = LearnedNoise(families, START_SNR)
    noise.wanted([moments_at(families[0], freedom)])
    assert noise.used == pytest.approx(counted / N)
    # All used: what is left still counts as something.
    moments = moments_at(families[0], 2.0 * N)
    noise.ratio = (1 - rule.LARGEST_SHARE) * N / energy_left(families[0], moments)
    assert noise.wanted([moments]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("dtype", "least"),
    [(np.float64, rule.LEAST_RESIDUAL), (np.float32, rule.LEAST_RESIDUAL_SINGLE)],
)
def test_a_residual_of_rounding_is_not_believed(dtype, least):
    random = np.random.default_rng(1)
    phi = Dense(np.eye(N, dtype=dtype))
    y = random.normal(size=(1, N)).astype(dtype)
    families = Model((Task(phi, y[0], 1.0),), Tie()).families
    noise = LearnedNoise(families, START_SNR)
    explained = Moments(y, None, y, freedom=5.0)
    unused = N - 5.0 - rule.PENALTY * math.sqrt(N)
    noise.ratio = unused / (least * noise.energy) * math.exp(-0.1)
    assert noise.wanted([explained]) == pytest.approx(0.1, abs=1e-5)


def test_the_first_iterations_change_nothing_and_unpruned_ones_little():
    families = families_of()
    moments = moments_at(families[0], 7.0)
    for pruned, most in [(True, rule.LARGEST_MOVE), (False, rule.LARGEST_RISE_IF_USED)]:
        for far in (1e6, 1e-6):
            noise = LearnedNoise(families, START_SNR)
            before = noise.ratio = noise.ratio * far
            for _ in range(rule.FIRST_LEARNED - 1):
                noise.follow([moments], pruned)
            assert noise.ratio == before
            assert not noise.at_rest
            noise.follow([moments], pruned)
            step = -most if far > 1 else most
            assert noise.log_move == step
            assert noise.ratio == pytest.approx(before * math.exp(step))


@pytest.mark.parametrize(("move", "rests"), [(0.99, True), (-0.99, True), (1.01, False)])
def test_when_it_is_at_rest(move, rests):
    noise = LearnedNoise(families_of(), START_SNR)
    noise.log_move = move * rule.AT_REST
    assert noise.at_rest is rests


def test_tasks_of_one_noise_precision_share_its_ratio():
    families = families_of(4, precisions=(4.0, 9.0))
    model = Model(tuple(Task(f.operator, row, f.noise_precision) for f in families for row in f.y),
                  Tie())  # fmt: skip
    other = Task(Dense(np.eye(N)), np.ones(N), 9.0)
    model = Model((*model.tasks, other), Tie())
    noises = shared_noises(model, START_SNR)
    found = [f.noise_precision for f in model.families]
    for i, a in enumerate(found):
        for k, b in enumerate(found):
            assert (noises[i] is noises[k]) is (a == b)
    moments = [Moments(np.zeros((len(f.members), f.operator.shape[1])), None, None) for f in
               model.families]  # fmt: skip
    asked = asked_of(noises, moments)
    assert set(asked) == set(noises)
    for noise, (own, later) in asked.items():
        assert own == [m for n, m in zip(noises, moments, strict=True) if n is noise]
        energy = sum(f.noise_precision * np.sum(x.numpy()) for f, x in
                     zip(noise.families, later, strict=True))  # fmt: skip
        assert energy == pytest.approx(noise.energy)


def test_a_kept_state_is_restored():
    noise, other = (LearnedNoise(families_of(), START_SNR) for _ in range(2))
    noise.ratio, noise.iteration, noise.log_move = 3.5, 17, -0.2
    other.restore(noise.state("a"), "a")
    assert (other.ratio, other.iteration, other.log_move) == (3.5, 17, -0.2)
