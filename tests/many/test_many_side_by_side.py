"""The learned prior of many problems at once: a problem among others is what it is alone."""

from types import SimpleNamespace

import numpy as np
import pytest

import cofem
from cofem.learning.moments.mean_field import Cavities, field_factor, fields
from cofem.learning.moments.spot_check import looked_at, lowest_ratio, lowest_ratios
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.sites.shares import Seen
from cofem.many import running, together
from cofem.many.copies import Copies
from cofem.many.side_by_side import learning
from cofem.many.side_by_side.outcomes import learned_together
from cofem.many.side_by_side.systems import Systems
from cofem.model.model import Tie
from cofem.operators import DCT, Convolution, Dense, Fourier
from cofem.solvers.systems import ShiftedGram

torch = pytest.importorskip("torch")
D = 192


@pytest.fixture
def anywhere(monkeypatch):
    """Take tensors on the CPU for tensors on a device."""
    monkeypatch.setattr(running, "on_device", torch.is_tensor)


def sparse(phi, number, noise, seed=0):
    """Return data (P, N) of noise from ``noise`` to ten times it, its precisions, and the truth."""
    rng = np.random.default_rng(seed)
    shape = (number, phi.shape[1])
    Z = 2 * rng.standard_normal(shape) * (rng.random(shape) < 0.08)
    sigma = noise * 10 ** np.linspace(0, 1, number)[:, None]
    clean = phi.forward(Z)
    error = rng.standard_normal(clean.shape)
    if np.iscomplexobj(clean):
        error = (error + 1j * rng.standard_normal(clean.shape)) / np.sqrt(2)
    return torch.asarray(clean + sigma * error), sigma[:, 0] ** -2.0, Z


def some_rows(n):
    return np.sort(np.random.default_rng(5).choice(n, n // 2, replace=False))


OPERATORS = {
    "dct": lambda: DCT(D, some_rows(D)),
    "dense": lambda: Dense(np.random.default_rng(2).standard_normal((80, D)) / 9),
    "complex": lambda: Fourier((12, 16), np.random.default_rng(3).random((12, 16)) < 0.5),
}


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("given", [False, True])
def test_a_problem_by_itself_is_the_same_to_the_last_digits(kind, given):
    phi = OPERATORS[kind]()
    Y, betas, _ = sparse(phi, 1, 0.01)
    if kind == "dense":
        phi = Dense(torch.asarray(phi.matrix))
    noise = float(betas[0]) if given else None
    found = learned_together(phi, Y, noise, cofem.CoFEM(), 0, 100, 1e-4)[0]
    alone = cofem.fit(phi, Y[0], noise_precision=noise, method="cofem")
    known = alone.marginals
    pairs = [
        (found.mean, alone.mean), (found.variance, alone.variance),
        (found.precision, alone.precision), (found.noise_precision, alone.noise_precision),
        (found.kept["probability"], known.probability), (found.kept["seen_value"], known.value),
        (found.kept["seen_precision"], known.precision), (found.kept["seen_unit"], known.unit),
        (found.kept["prior_scales"], known.scales), (found.kept["prior_weights"], known.weights),
    ]  # fmt: skip
    for one, other in pairs:
        other = np.asarray(other)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())
    assert found.message == alone.message
    assert found.converged == alone.converged


@pytest.mark.parametrize("given", [False, True])
def test_problems_together_have_the_answers_of_each_alone(anywhere, monkeypatch, given):
    left = []
    monkeypatch.setattr(
        together, "fit_rows", lambda *a: left.append(len(a[1])) or running.fit_rows(*a)
    )
    phi = OPERATORS["dct"]()
    Y, betas, Z = sparse(phi, 7, 0.01)
    noise = {"noise_precision": betas} if given else {}
    many = cofem.fit_many(phi, Y, **noise)
    assert many.prior == ["mixture"] * 7
    assert sum(left) <= 2  # the rest went together
    for p, beta in enumerate(betas):
        # Exact moments, where the others have four probes.
        alone = cofem.fit(phi, Y[p], method="em", **({"noise_precision": beta} if given else {}))
        error = np.linalg.norm(alone.mean.numpy() - Z[p])
        assert np.linalg.norm(many.mean[p] - alone.mean.numpy()) < 0.2 * error
        assert abs(np.log(many.noise_precision[p] / alone.noise_precision)) < 0.1
        inside = many[p].interval(0.95)[0] <= Z[p]
        inside &= many[p].interval(0.95)[1] >= Z[p]
        assert inside.mean() > 0.9


def test_problems_leave_when_they_are_done_and_keep_their_places(anywhere, monkeypatch):
    phi = OPERATORS["dct"]()
    Y, _, _ = sparse(phi, 5, 0.01)
    Y = Y[[4, 0, 3, 1, 2]]
    sizes = []
    only = Systems.only
    monkeypatch.setattr(Systems, "only", lambda s, kept: sizes.append(len(kept)) or only(s, kept))
    apart = cofem.fit_many(phi, Y)
    assert sizes  # some left before the others
    monkeypatch.setattr(learning, "LEAVING", -1.0)
    whole = cofem.fit_many(phi, Y)
    for p in range(5):
        gap = np.linalg.norm(apart.mean[p] - whole.mean[p]) / np.linalg.norm(whole.mean[p])
        assert gap < 0.05


def test_what_is_not_believed_is_fitted_alone(anywhere):
    rng = np.random.default_rng(0)
    phi = Dense(torch.asarray(rng.standard_normal((30, 60)) / 5.5))
    Y = torch.asarray(rng.standard_normal((3, 30)))  # noise, and no signal
    Y[1] = 0
    options = {"method": "cofem", "max_iter": 25}
    many = cofem.fit_many(phi, Y, **options)
    for p in range(3):
        alone = cofem.fit(phi, Y[p], **options)
        np.testing.assert_array_equal(many.mean[p], alone.mean.numpy())
        assert many.prior[p] == alone.prior


def test_ard_learns_the_noise_of_each(anywhere):
    phi = OPERATORS["dct"]()
    Y, betas, Z = sparse(phi, 4, 0.01)
    many = cofem.fit_many(phi, Y, prior="ard", method="cofem")
    assert many.probability is None
    assert np.all(np.abs(np.log(many.noise_precision / betas)) < 0.7)  # 96 data: six errors bars
    error = np.linalg.norm(many.mean - Z, axis=1) / np.linalg.norm(Z, axis=1)
    assert np.all(error < [0.05, 0.1, 0.15, 0.3])


def test_iterations_asked_for_are_all_run(anywhere):
    phi = OPERATORS["dct"]()
    Y, _, _ = sparse(phi, 3, 0.01)
    many = cofem.fit_many(phi, Y, tol=0.0, max_iter=6)
    assert many.message == ["ran the 6 iterations asked for (tol=0)"] * 3


def test_the_fields_are_those_of_each_problem():
    rng = np.random.default_rng(0)
    a, theta = 10 ** rng.uniform(-3, 3, (6, 40)), rng.random(40) + 0.1
    traces = np.array([39.9, 30.0, 20.0, 5.0, 1e-3, 41.0])
    found = fields(a, theta, traces)
    for p, trace in enumerate(traces):
        assert found[p] == pytest.approx(field_factor(a[p], theta, 1.0, trace), rel=1e-5)


def test_what_priors_say_is_what_each_of_them_says(monkeypatch):
    rng = np.random.default_rng(0)
    n, known, ratio = 50, np.array([0.2, 0.9, 0.05]), np.array([3.0, 20.0, 700.0])
    theta = rng.random(n) + 0.5
    value = rng.standard_normal((3, n)) * 3
    power = np.array([10.0, 40.0, 3.0])
    priors = MixturePrior.beginning(power, 25, n, Tie(None), 0.5)
    visible = ratio * known
    seen = Seen(value[None], known[:, None] * theta, theta)
    monkeypatch.setattr("cofem.learning.sites.shares.AT_ONCE", 3 * 25 * 20)  # 20 columns at a time
    told = priors.given([seen], [ratio], visible)
    after = priors.learned(told, visible)
    np.testing.assert_allclose(priors.slabs, 1 - after.first[:, 0])
    for p in range(3):
        alone = MixturePrior.beginning(power[p], 25, n, Tie(None), 0.5)
        seen = Seen(value[p][None], known[p] * theta, theta)
        one = alone.given([seen], [ratio[p]], visible[p])
        close = {"rtol": 1e-9, "atol": 1e-12}
        np.testing.assert_allclose(told.mean[0][0, p], one.mean[0][0], **close)
        np.testing.assert_allclose(told.variance[0][0, p], one.variance[0][0], **close)
        np.testing.assert_allclose(told.weights[p], one.weights, **close)
        np.testing.assert_allclose(told.spike[p], one.spike, **close)
        assert told.log_evidence[p] == pytest.approx(one.log_evidence, rel=1e-9)
        np.testing.assert_allclose(after.weights[p], alone.learned(one, visible[p]).weights)


def test_cavities_of_many_are_those_of_each():
    rng = np.random.default_rng(0)
    alpha, unit, number = rng.uniform(1, 3, (3, 40)), rng.uniform(0.5, 2, 40), 4
    together, alone = Cavities(unit, 1.0), [Cavities(unit, 1.0) for _ in range(3)]
    for iteration in (1, 2, 3):
        h = alpha / (alpha + 0.3 * unit) + rng.normal(0, 0.02, (3, 40))
        spread = rng.uniform(0, 1e-3, (3, 40))
        cavity, sums = together.update(SimpleNamespace(diagonal=h, variance=spread,
                                                       n_probes=number), alpha)  # fmt: skip
        departs = together.departed(sums, iteration)
        for p in range(3):
            found = SimpleNamespace(diagonal=h[p], variance=spread[p], n_probes=number)
            own, pair = alone[p].update(found, alpha[p])
            np.testing.assert_allclose(cavity[p], own, rtol=1e-3)
            assert departs[p] == pytest.approx(alone[p].departed(pair, iteration), rel=1e-2)
    kept = together.of_problems(np.array([2, 0]))
    left = kept.departed(np.stack([sums[:, 2], sums[:, 0]], axis=1), 4)
    assert left[0] == pytest.approx(together.departed(sums, 4)[2])


def test_coherent_columns_are_found_out(anywhere):
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((40, 60)) / 6
    phi[:, 1::2] = phi[:, ::2] + 0.02 * rng.standard_normal((40, 30)) / 6  # pairs of twins
    systems = Systems(Dense(torch.asarray(phi)), torch.asarray(rng.standard_normal((2, 40))),
                      cofem.CoFEM(), 0)  # fmt: skip
    a = torch.ones((2, 60), dtype=torch.float64)
    a[1] = 10.0
    probability = torch.zeros((2, 60), dtype=torch.float64)
    probability[:, 4] = 1.0
    lowest, _ = systems.lowest_ratios(a, torch.tensor([0.3, 0.3]).double(), probability)
    for p in range(2):
        exact = 1 / np.diag(np.linalg.inv(phi.T @ phi + np.diag(a[p].numpy()))) - a[p].numpy()
        wanted = (exact / (0.3 * (phi**2).sum(axis=0)))[[4, 5]].min()
        assert float(lowest[p]) == pytest.approx(wanted, rel=1e-3)


def test_problems_are_looked_at_where_each_would_be_alone():
    rng = np.random.default_rng(3)
    n, beta = 40, 1.0
    operator = Convolution(0.9 ** np.arange(8), n)  # two neighbours of a column are equally close
    alpha, field = np.exp(2 * rng.normal(size=(4, n))), rng.uniform(0.5, 2, (4, n))
    probability = rng.random((4, n)) ** 6
    probability[1], probability[2, 5:] = 0.1, 0.2  # with nothing, and with little to look at
    probability[2, 2], probability[3, 7:9] = 0.9, 0.9  # one, and neighbours of each other
    chosen = looked_at(probability)

    def whole(a):
        return ShiftedGram(Copies(operator, 4), beta, a), None

    def alone(a):
        return ShiftedGram(operator, beta, a), None

    found, _ = lowest_ratios(operator, whole, alpha, field, chosen, np.empty(n))
    for p in range(4):
        own = looked_at(probability[p])
        assert set(own) == set(chosen[:, p]) - {-1}
        wanted, _ = lowest_ratio(operator, alone, alpha[p], field[p], own, np.empty(n))
        assert found[p] == pytest.approx(wanted, rel=1e-3)
    assert found[1] == 1.0
    assert len(set(found)) == 4


@pytest.mark.parametrize("given", [False, True])
def test_another_array_library_has_the_same_answers(monkeypatch, given):
    xp = pytest.importorskip("array_api_strict")
    rng, left = np.random.default_rng(2), []
    monkeypatch.setattr(running, "on_device", lambda Y: True)
    monkeypatch.setattr(
        together, "fit_rows", lambda *a: left.append(a[1].shape[0]) or running.fit_rows(*a)
    )
    matrix = rng.standard_normal((80, D)) / 9
    Y, betas, _ = sparse(Dense(matrix), 3, 0.01)
    Y, noise = Y.numpy(), {"noise_precision": betas} if given else {}
    Y[1] = 0  # this one is fitted alone
    one = cofem.fit_many(Dense(matrix), Y, **noise)
    other = cofem.fit_many(Dense(xp.asarray(matrix)), xp.asarray(Y), **noise)
    assert left == [1, 1]  # the rest went together, twice
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-6 * np.abs(one.mean).max())
    np.testing.assert_allclose(other.noise_precision, one.noise_precision, rtol=1e-6)
