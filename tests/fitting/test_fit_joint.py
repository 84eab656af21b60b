"""Joint tasks: one covariance for tasks that share it, and what several tasks bring."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.operators import DCT, Autoregressive, Dense, from_functions

SIGMA = 0.02
BETA = SIGMA**-2


def common_support(seed, tasks, shared=False, n=40, d=128):
    """Return operators, data and truth of tasks with their 16 non-zeros in common."""
    random = np.random.default_rng(seed)
    z = np.zeros((8, d))
    z[:, random.choice(d, 16, replace=False)] = random.normal(size=(8, 16))
    phis = [DCT(d, rows=np.sort(random.choice(d, n, replace=False))) for _ in range(8)]
    phis = phis[:1] * 8 if shared else phis
    ys = [p.forward(x) + SIGMA * random.normal(size=n) for p, x in zip(phis, z, strict=True)]
    return phis[:tasks], ys[:tasks], z[:tasks]


def fit(phi, y, method="auto", **options):
    options = {"noise_precision": BETA, "max_iter": 30, "tol": 0, "prior": "ard"} | options
    return cofem.fit(phi, y, method=method, **options)


# -- what tasks bring ------------------------------------------------------------


def test_the_error_falls_with_the_number_of_tasks():
    # Medians of five problems. With four tasks the support is found: eight can only equal it.
    errors = {}
    for tasks in (1, 2, 4, 8):
        errors[tasks] = np.median([
            simulate.nrmse(fit(phis, ys).mean, z)
            for phis, ys, z in (common_support(seed, tasks) for seed in range(5))
        ])  # fmt: skip
    assert errors[1] > 1.2 * errors[2] > 1.2 * errors[4]
    assert errors[8] < 1.02 * errors[4]


# Some of the single tasks are beyond what can be recovered, and that is said of them.
@pytest.mark.filterwarnings("ignore:the noise given", "ignore:z needs about as many")
def test_two_tasks_are_enough_for_the_learned_prior():
    # Where sparse Bayesian learning needs four. Medians of five problems.
    errors = {}
    for tasks, prior in ((1, "auto"), (2, "auto"), (8, "auto"), (2, "ard")):
        errors[tasks, prior] = np.median([
            simulate.nrmse(fit(phis, ys, prior=prior, tol=1e-4, max_iter=200).mean, z)
            for phis, ys, z in (common_support(seed, tasks) for seed in range(5))
        ])  # fmt: skip
    assert errors[1, "auto"] > 1.2 * errors[2, "auto"]
    assert errors[2, "auto"] < errors[2, "ard"]
    assert errors[8, "auto"] < 1.1 * errors[2, "auto"]


@pytest.mark.parametrize("method", ["cofem", "em", "woodbury", "sequential"])
def test_joint_beats_separate_fits(method):
    for seed in range(2):
        phis, ys, z = common_support(seed, 4)
        joint = fit(phis, ys, method, max_iter=20)
        alone = [fit(p, y, method, max_iter=20).mean for p, y in zip(phis, ys, strict=True)]
        assert simulate.nrmse(joint.mean, z) < 0.8 * simulate.nrmse(np.stack(alone), z)


def test_joint_banded_traces_find_common_events():
    random = np.random.default_rng(0)
    phi = Autoregressive((0.9,), 200)
    events = random.random(200) < 0.05
    z = events * (0.5 + random.random((6, 200)))
    y = phi.forward(z) + 0.5 * random.normal(size=(6, 200))
    options = {"noise_precision": 4.0, "nonnegative": True}
    joint = fit(phi, y, **options)
    assert joint.method == "banded"
    alone = np.stack([fit(phi, row, **options).mean for row in y])
    assert simulate.nrmse(joint.mean, z) < 0.8 * simulate.nrmse(alone, z)


# -- identical tasks -------------------------------------------------------------


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("method", ["cofem", "em", "woodbury", "banded"])
def test_identical_tasks_are_one(method, copies):
    for seed in range(3):
        (phi,), (y,), _ = common_support(seed, 1)
        if method == "banded":
            phi, y = Autoregressive((0.9,), 40), y
        one, many = fit(phi, y, method), fit([phi] * copies, [y] * copies, method)
        np.testing.assert_allclose(many.mean, [one.mean] * copies, rtol=0, atol=1e-9)
        np.testing.assert_allclose(many.precision, one.precision, rtol=1e-7)
        np.testing.assert_allclose(many.variance, [one.variance] * copies, rtol=1e-7)
        assert many.log_evidence == pytest.approx(copies * one.log_evidence, rel=1e-9)


def test_identical_tasks_make_the_same_moves():
    # One batch of moves, before the question when to stop arises.
    (phi,), (y,), _ = common_support(0, 1)
    method = cofem.Sequential(moves_per_iteration=12)
    one = fit(phi, y, method, max_iter=1)
    many = fit(phi, np.stack([y] * 4), method, max_iter=1)
    assert np.count_nonzero(one.mean) > 6
    np.testing.assert_allclose(many.mean, [one.mean] * 4, rtol=0, atol=1e-9)
    assert many.log_evidence == pytest.approx(4 * one.log_evidence, rel=1e-9)


# -- one covariance --------------------------------------------------------------


def test_tasks_that_share_a_covariance_share_the_probes():
    """L tasks multiply K + L rows at a time, not L(K + 1)."""
    (phi,), (y,), _ = common_support(0, 1)
    matrix = phi.to_dense()
    for tasks in (1, 3, 8):
        rows = []

        def forward(x, rows=rows):
            rows.append(1 if x.ndim == 1 else len(x))
            return x @ matrix.T

        counted = from_functions(forward, lambda v: v @ matrix, phi.shape, float)
        fit(counted, np.stack([y] * tasks), cofem.CoFEM(n_probes=6), max_iter=1)
        learning = []

        def stop(state, rows=rows, learning=learning):
            learning.append(rows[:])
            rows.clear()

        rows.clear()
        fit(counted, np.stack([y] * tasks), cofem.CoFEM(n_probes=6), max_iter=3, callback=stop)
        # The second iteration is nothing but the E-step's solves.
        assert max(learning[1]) == 6 + tasks


@pytest.mark.parametrize("seed", range(3))
def test_every_further_task_costs_its_mean_alone(seed):
    (phi,), (y,), _ = common_support(seed, 1)
    cost = [
        fit(phi, np.stack([y] * n), "cofem", max_iter=10).history["products"][-1]
        for n in (1, 2, 3, 6)
    ]
    mean = cost[1] - cost[0]
    assert cost[2] == cost[0] + 2 * mean
    assert cost[3] == cost[0] + 5 * mean
    separate = [
        fit([Dense(phi.to_dense()) for _ in range(n)], [y] * n, "cofem", max_iter=10).history[
            "products"
        ][-1]
        for n in (1, 6)
    ]
    assert cost[3] < 0.7 * separate[1]


def test_tasks_of_unlike_noise_do_not_share():
    phis, ys, _ = common_support(0, 2, shared=True)
    post = fit(phis, ys, "em", noise_precision=[BETA, BETA / 25])
    alpha, matrix = post.precision, phis[0].to_dense()
    for row, beta in enumerate((BETA, BETA / 25)):
        covariance = np.linalg.inv(beta * matrix.T @ matrix + np.diag(alpha))
        np.testing.assert_allclose(post.variance[row], np.diag(covariance), rtol=1e-6)
        mean = beta * covariance @ matrix.T @ ys[row]
        np.testing.assert_allclose(post.mean[row], mean, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(post.noise_precision, [BETA, BETA / 25])


def test_a_noisy_task_does_not_spoil_a_clean_one():
    phis, ys, z = common_support(1, 2, n=60)
    noise = np.random.default_rng(0).normal(size=60)
    told = fit(phis, [ys[0], ys[1] + noise], noise_precision=[BETA, 1 / (SIGMA**2 + 1)])
    untold = fit(phis, [ys[0], ys[1] + noise])
    assert simulate.nrmse(told.mean[0], z[0]) < 0.5 * simulate.nrmse(untold.mean[0], z[0])


@pytest.mark.parametrize("method", ["cofem", "em", "woodbury"])
def test_complex_and_real_tasks_go_together(method):
    """A real task among complex ones is complex with a zero imaginary part of its data."""
    random = np.random.default_rng(0)
    phi, y = random.normal(size=(15, 24)), random.normal(size=15)
    other, data = phi + 1j * random.normal(size=(15, 24)), y + 1j * random.normal(size=15)
    mixed = fit([phi, other], [y, data], method, noise_precision=10.0, max_iter=5)
    whole = fit([phi + 0j, other], [y + 0j, data], method, noise_precision=10.0, max_iter=5)
    off = np.abs(mixed.mean - whole.mean).max()
    assert off < (1e-6 if method == "cofem" else 1e-9)  # the mean's systems are solved to 1e-6


# -- what is refused -------------------------------------------------------------


@pytest.mark.parametrize("method", ["amp", "vi"])
def test_methods_for_one_task_say_so(method):
    phis, ys, _ = common_support(0, 2)
    with pytest.raises(ValueError, match=f'method "{method}" does not take joint tasks'):
        fit(phis, ys, method)


def test_unequal_tasks_are_named():
    phis, ys, _ = common_support(0, 2)
    with pytest.raises(ValueError, match=r"y\[1\] has 30 entries and phi\[1\] has 40 rows"):
        fit(phis, [ys[0], ys[1][:30]])
    with pytest.raises(ValueError, match=r"y\[1\] has 30 entries and phi\[1\] has 40 rows"):
        fit(phis[0], [ys[0], ys[1][:30]])
    with pytest.raises(ValueError, match="phi has 2 tasks and y has 1"):
        fit(phis, ys[:1])
    with pytest.raises(ValueError, match=r"phi\[1\] has 64 columns and phi\[0\] has 128"):
        fit([phis[0], DCT(64, rows=np.arange(40))], ys)
    with pytest.raises(ValueError, match='method "banded" needs phi'):
        fit([Autoregressive((0.9,), 40), DCT(40)], ys, "banded")


def test_noise_that_is_given_is_kept_however_unlike_the_tasks_are():
    rng = np.random.default_rng(0)
    phi, z = rng.normal(size=(60, 90)) / 8, np.zeros(90)
    z[[3, 40, 77]] = 3.0, -4.0, 5.0
    rows = [phi @ z + sigma * rng.normal(size=60) for sigma in (0.01, 0.3)]
    given = [0.01**-2, 0.3**-2]
    post = cofem.fit([phi, phi], rows, noise_precision=given, method="cofem")
    assert post.prior == "mixture"
    np.testing.assert_allclose(post.noise_precision, given, rtol=1e-12)
