"""Sampling which coordinates are non-zero: against sums over all sets, and on coherent columns."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import cofem
from cofem.learning.supports.chain import run_chain
from cofem.model.choosing import can_sample
from cofem.model.model import Model, Task, Tie
from cofem.operators import as_operator

NONE = np.empty(0, np.int64)
# Without the law of equal magnitudes, and with two spreads of it; and the largest magnitude.
LAWS = {"normal": np.empty(0), "equal": np.array([0.05, 2.0])}
REACH = 8.0


def chain(phi, y, scales, law, beta, sweeps, seed):
    return run_chain(
        np.ascontiguousarray(phi.T), y, scales, 0.5, LAWS[law], REACH, NONE, NONE,
        np.array([1.0, 0.05]), beta, 99, np.ones(sweeps + 200), 200, np.random.default_rng(seed),
    )  # fmt: skip


def enumerated(phi, y, scales, pseudo_count, beta, spreads):
    """Return P(z_j ≠ 0), E z_j and E σ² by summing over all sets, slabs, spreads and magnitudes.

    y ~ N(Φb, σ² C), b = ±m where the slab is one of equal magnitudes, with σ² integrated out
    (1/σ² prior) where beta is 0; slab weights have a Dirichlet prior, integrated out as well.
    """
    n, d = phi.shape
    kinds = len(scales)
    grid = np.linspace(-REACH, REACH, 1601)
    logs, inside, means, noises = [], [], [], []
    for slabs in itertools.product(range(-1, kinds + 2 * (len(spreads) > 0)), repeat=d):
        slabs = np.array(slabs)
        used = np.flatnonzero(slabs >= 0)
        sign = np.select([slabs[used] == kinds, slabs[used] == kinds + 1], [1.0, -1.0], 0.0)
        magnitudes = grid if np.any(sign) else np.zeros(1)
        for spread in spreads if np.any(sign) else [1.0]:
            v = np.where(sign == 0, scales[np.minimum(slabs[used], kinds - 1)], spread)
            c = np.eye(n) + (phi[:, used] * v) @ phi[:, used].T
            left = y - magnitudes[:, None] * (phi[:, used] @ sign)
            solved = np.linalg.solve(c, left.T).T
            q = np.sum(left * solved, axis=1)
            log = -0.5 * np.linalg.slogdet(c)[1]
            log = log - (0.5 * beta * q - 0.5 * n * math.log(beta) if beta else 0.5 * n * np.log(q))
            counts = np.array([np.sum(slabs == a) for a in range(-1, kinds)], float)
            prior = np.array([1.0] + [pseudo_count] * kinds)
            log = log + np.sum(gammaln(counts + prior))  # Dirichlet-multinomial, up to a constant
            equal = np.sum(slabs >= kinds)
            log = log + gammaln(equal + 1.0) - equal * math.log(2)  # both signs alike
            log = log - math.log(len(magnitudes) * (len(spreads) if np.any(sign) else 1))
            weights = np.exp(log - logsumexp(log))
            logs.append(logsumexp(log))
            inside.append(slabs >= 0)
            mean = np.zeros(d)
            mean[used] = (weights @ magnitudes) * sign + v * (phi[:, used].T @ (weights @ solved))
            means.append(mean)
            noises.append(1 / beta if beta else weights @ q / (n - 2))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return weights @ np.array(inside), weights @ np.array(means), weights @ np.array(noises)


def coherent(seed, n=8, d=5):
    """Columns of length one, the first two nearly alike, two non-zeros and much noise."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d))
    phi[:, 1] = phi[:, 0] + 0.2 * rng.normal(size=n)
    phi /= np.linalg.norm(phi, axis=0)
    z = np.zeros(d)
    z[[0, 3]] = [3.0, -2.0]
    return phi, phi @ z + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.0, 4.0])
@pytest.mark.parametrize("law", LAWS)
def test_the_chain_visits_sets_as_often_as_they_are_probable(seed, beta, law):
    phi, y = coherent(seed, d=5 if law == "normal" else 4)
    scales = np.array([3.0, 60.0])
    inside, mean, noise = enumerated(phi, y, scales, 0.5, beta, LAWS[law])
    chains = [chain(phi, y, scales, law, beta, 4000, 100 * seed + i) for i in range(8)]

    def departure(found, exact):
        """In standard errors of the eight independent chains."""
        error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        return (found.mean(axis=0) - exact) / (error + 1e-4)

    # Eight chains give a t distribution with 7 degrees of freedom: beyond 6.5 lies 1 in 3000,
    # and 9 or 11 numbers are looked at in each of 16 cases: a false alarm in 1 of 18 runs of other
    # seeds; the seeds here are fixed.
    assert np.max(np.abs(departure(np.array([c[7] for c in chains]), inside))) < 6.5
    assert np.max(np.abs(departure(np.array([c[5] for c in chains]), mean))) < 6.5
    if not beta:
        assert abs(departure(np.array([c[3].mean() for c in chains]), noise)) < 6.5


@pytest.mark.parametrize("law", LAWS)
def test_a_column_of_zeros_is_as_probable_as_before_the_data(law):
    phi, y = coherent(2, d=4)
    phi[:, 2] = 0.0
    scales = np.array([3.0, 60.0])
    inside, _, _ = enumerated(phi, y, scales, 0.5, 0.0, LAWS[law])
    found = np.array([chain(phi, y, scales, law, 0.0, 4000, i)[7] for i in range(8)])
    error = found.std(axis=0, ddof=1) / math.sqrt(8)
    assert np.max(np.abs(found.mean(axis=0) - inside) / (error + 1e-4)) < 6.5


@pytest.mark.parametrize("law", LAWS)
def test_the_draws_have_the_moments_that_are_reported(law):
    phi, y = coherent(1)
    sizes, places, values, _, _, first, second, inside, *_ = chain(
        phi, y, np.array([3.0, 60.0]), law, 0.0, 20_000, 0
    )
    drawn = np.zeros((len(sizes), phi.shape[1]))
    for row, (k, where, what) in enumerate(zip(sizes, places, values, strict=True)):
        drawn[row, where[:k]] = what[:k]
    spread = np.sqrt(second - first**2)
    np.testing.assert_allclose(drawn.mean(axis=0), first, atol=0.1 * spread.max())
    np.testing.assert_allclose(np.sqrt((drawn**2).mean(axis=0)), np.sqrt(second), rtol=0.1)
    np.testing.assert_allclose((drawn != 0).mean(axis=0), inside, atol=1e-12)


def blur(width, n=120):
    x = np.arange(n)
    return np.exp(-0.5 * ((x[:, None] - x) / width) ** 2)


def blurred(seed, width=2.5, sigma=0.01):
    rng = np.random.default_rng(seed)
    phi = blur(width)
    z = np.zeros(phi.shape[1])
    z[rng.choice(len(z), 5, replace=False)] = rng.choice([-1.0, 1.0], 5) * rng.uniform(1, 2, 5)
    return phi, z, phi @ z + sigma * rng.normal(size=len(phi))


@pytest.fixture(scope="module")
def sampled():
    """A posterior that was sampled, with its problem."""
    for seed in range(10):
        phi, z, y = blurred(seed)
        post = cofem.fit(phi, y)
        if "chains" in post.message and post.converged:
            return phi, z, y, post
    pytest.fail("none of the blurred problems was sampled")


def test_coherent_columns_reach_least_squares_on_the_true_support():
    far = 0
    for seed in range(6):
        phi, z, y = blurred(seed, width=2.0)
        post = cofem.fit(phi, y)
        used = z != 0
        oracle = np.zeros_like(z)
        oracle[used] = np.linalg.lstsq(phi[:, used], y)[0]
        error, best = (np.linalg.norm(x - z) / np.linalg.norm(z) for x in (post.mean, oracle))
        far += error > 1.5 * best + 0.03
        assert post.prior == "mixture"
        assert 1 / 3 < post.noise_precision / 1e4 < 3
    assert far == 0


def test_everything_a_posterior_can_do_works_on_draws(sampled, tmp_path):
    phi, z, _, post = sampled
    low, high = post.interval(0.95)
    assert np.mean((low <= z) & (z <= high)) > 0.95
    assert np.all((low <= post.mean + 1e-9) | (post.probability < 0.95))
    draws = post.sample(400, seed=0)
    assert draws.shape == (400, len(z))
    mean, std = post.predict(phi[:7], noise=False)
    np.testing.assert_allclose(mean, (phi @ post.mean)[:7], atol=1e-12)
    np.testing.assert_allclose(std, (draws @ phi[:7].T).std(axis=0), rtol=0.2, atol=1e-6)
    np.testing.assert_allclose(post.variance_of(phi[:7]), std**2)
    assert np.isnan(post.log_evidence)  # a chain does not give it
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi)
    for name in ("mean", "variance", "probability"):
        np.testing.assert_array_equal(getattr(again, name), getattr(post, name))
    np.testing.assert_array_equal(again.sample(50, seed=1), post.sample(50, seed=1))
    np.testing.assert_array_equal(again.interval()[0], low)


def test_the_same_seed_gives_the_same_answer_and_units_do_not_matter(sampled):
    phi, _, y, post = sampled
    np.testing.assert_array_equal(cofem.fit(phi, y).mean, post.mean)
    scale = 10.0 ** np.random.default_rng(0).uniform(-3, 3, phi.shape[1])
    other = cofem.fit(phi * scale, 1e4 * y)
    np.testing.assert_allclose(other.mean * scale / 1e4, post.mean, rtol=1e-5, atol=1e-8)


def test_a_known_noise_precision_is_kept(sampled):
    phi, _, y, _ = sampled
    assert cofem.fit(phi, y, noise_precision=1e4).noise_precision == 1e4


def test_a_callback_sees_the_chains_and_can_stop_them(sampled):
    phi, _, y, post = sampled
    states = []
    cofem.fit(phi, y, callback=states.append)
    # The chains come after the last iteration of the last start, and show where learning ended.
    last = post.history["iteration"][-1]
    sweeps = next(i for i, state in enumerate(reversed(states)) if state.iteration != last)
    seen = len(states) - sweeps
    assert sweeps > 1
    assert seen >= len(post.history["iteration"]) - 1
    count = []

    def stop(state):
        count.append(state)
        return len(count) > seen

    cofem.fit(phi, y, callback=stop)
    assert seen < len(count) <= seen + 4


def test_other_arrays_come_back_in_kind(sampled):
    torch = pytest.importorskip("torch")
    phi, _, y, post = sampled
    other = cofem.fit(torch.as_tensor(phi), torch.as_tensor(y))
    assert isinstance(other.mean, torch.Tensor)
    assert isinstance(other.interval()[0], torch.Tensor)
    assert isinstance(other.sample(3, seed=0), torch.Tensor)
    np.testing.assert_allclose(other.mean.numpy(), post.mean, atol=0.05)


@pytest.mark.parametrize(
    ("change", "fine"),
    [({}, True), ({"nonnegative": True}, True), ({"tie": Tie(np.arange(4))}, False)],
)
def test_which_models_are_sampled(change, fine):
    task = Task(as_operator(np.eye(4)), np.ones(4), 1.0)
    options = {"tie": Tie(None), "nonnegative": False, **change}
    assert can_sample(Model((task,), options["tie"], options["nonnegative"])) is fine


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("draw_places", lambda x: x + 10_000),
        ("draw_ends", lambda x: x[::-1].copy()),
        ("draw_values", lambda x: np.full_like(x, np.nan)),
        ("probability", lambda x: x + 1.0),
        ("draw_places", lambda x: x.astype(float)),
    ],
)
def test_crafted_files_are_refused(sampled, tmp_path, name, change):
    post = sampled[-1]
    post.save(tmp_path / "p.npz")
    arrays = dict(np.load(tmp_path / "p.npz"))
    arrays[name] = change(arrays[name])
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=r"bad\.npz"):
        cofem.load(tmp_path / "bad.npz")


def test_without_a_compiler_nothing_is_sampled(sampled, monkeypatch):
    phi, _, y, _ = sampled
    monkeypatch.setattr("cofem.model.choosing.compiled_here", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        post = cofem.fit(phi, y)
    assert "chains" not in post.message
