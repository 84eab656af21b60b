"""When a fit is done: every coordinate beside its own error bar, and nothing else."""

import inspect
import itertools
import warnings

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.learning.sites.ard import divergence
from cofem.learning.stopping import (
    CLEAR,
    CREEPING,
    FAINT,
    SHAKEN,
    SHARE_PER_TOL,
    Movement,
    Verdict,
)


def ard(phi, y, method="em", **options):
    return cofem.fit(phi, y, method=method, prior="ard", **options)


def problem(seed=0, n=60, d=100, nonzeros=8, noise=0.05):
    random = np.random.default_rng(seed)
    phi = random.normal(size=(n, d)) / np.sqrt(n)
    z = np.zeros(d)
    z[random.choice(d, nonzeros, replace=False)] = random.choice([-1.0, 1.0], nonzeros)
    return phi, phi @ z + noise * random.normal(size=n), noise**-2, z


# -- the rule itself ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["em", "woodbury"])
@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-5])
def test_it_stops_at_the_first_iteration_that_moves_nothing(method, tol):
    phi, y, beta, _ = problem()
    states = []
    post = ard(phi, y, method, noise_precision=beta, tol=tol, max_iter=2000,
               callback=lambda s: states.append((s.mean.copy(), s.precision.copy())))  # fmt: skip
    assert post.converged
    norms = np.sum(phi**2, axis=0)
    moved = []
    for (old, _), (new, alpha) in itertools.pairwise(states):
        bar = 1 / np.sqrt(beta * norms + alpha)
        share = abs(new - old) / bar
        moved.append(np.max(np.where(abs(new) > CLEAR * bar, share, share / FAINT)))
    assert moved[-1] <= SHARE_PER_TOL * tol
    assert min(moved[:-1]) > SHARE_PER_TOL * tol
    assert f"{SHARE_PER_TOL * tol:.2g} of its error bar" in post.message


@pytest.mark.parametrize("kind", ["float64", "float32", "complex128", "torch"])
def test_movement_counts_coordinates(kind):
    random = np.random.default_rng(0)
    precision = random.uniform(0.1, 10, 50)
    before = random.choice([-1.0, 1.0], (2, 50)) * (CLEAR + 0.2) / np.sqrt(precision)
    step = np.zeros((2, 50))
    share = SHARE_PER_TOL * 1e-4
    step[0, :7], step[1, 3:5] = 1.01 * share, -1.01 * share
    step[0, 7:], step[1, 5:] = 0.99 * share, 0.99 * share
    now = before + step / np.sqrt(precision)
    if kind == "complex128":  # the size of the step counts
        before, now = 1j * before, 1j * before + (now - before) * np.exp(0.3j)
    if kind == "float32":
        before, now, precision = (x.astype(kind) for x in (before, now, precision))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        before, now, precision = (torch.from_numpy(x) for x in (before, now, precision))
    movement = Movement(1e-4)
    assert movement.count([now], [before], [precision]) == 9
    assert movement.n == 100
    assert movement.count([now, now], [before, before], [precision, precision]) == 18
    assert not movement.settled(random=False)
    assert movement.count([now], [now], [precision]) == 0
    assert movement.settled(random=False)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_coordinates_near_zero_may_move_further(library):
    """EM follows the noise with most of them: they count from FAINT times the share."""
    share = SHARE_PER_TOL * 1e-4
    bars = np.array([0.1, 2.0, 0.1, 2.0, 0.1, 2.0])
    stands = np.array([2.9, 2.9, 3.1, -3.1, 2.9, -2.9])  # in error bars
    moves = share * np.array([1.1, 3.9, 1.1, 1.1, 4.1, 4.1])
    now = (stands * bars)[None]
    before, precision = now - (moves * bars)[None], bars**-2.0
    if library == "torch":
        torch = pytest.importorskip("torch")
        now, before, precision = (torch.from_numpy(x) for x in (now, before, precision))
    assert Movement(1e-4).count([now], [before], [precision]) == 4


def test_where_the_prior_is_at_rest_coordinates_may_creep():
    share = SHARE_PER_TOL * 1e-4
    now, precision = np.full((1, 2), 5.0), np.ones(2)
    movement = Movement(1e-4)
    for change, moves, verdict in (
        (0.99 * share, 0.99 * CREEPING, Verdict.PRIOR_SETTLED),
        (0.99 * share, 1.01 * CREEPING, None),
        (1.01 * share, 1.01, None),
        (1.01 * share, 0.99, Verdict.SETTLED),
        (np.nan, 1.01, None),
    ):
        movement.count([now], [now - [moves * share, 0]], [precision], change)
        assert movement.settled(random=False) is verdict


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_divergence_is_that_of_normal_laws(library):
    # ∫ N(z; 0, 1/a) log N(z; 0, 1/a) / N(z; 0, 1/b) by Gauss-Hermite quadrature.
    random = np.random.default_rng(0)
    new, old = random.uniform(0.2, 5, 6), random.uniform(0.2, 5, 6)
    x, weights = np.polynomial.hermite_e.hermegauss(20)
    log_ratio = -0.5 * x[:, None] ** 2 * (1 - old / new) + 0.5 * np.log(new / old)
    expected = float(np.sum(weights @ log_ratio) / np.sum(weights))
    if library == "torch":
        torch = pytest.importorskip("torch")
        new, old = torch.from_numpy(new), torch.from_numpy(old)
    assert divergence(new, old) == pytest.approx(expected, rel=1e-12)
    assert divergence(new, new) == 0


def test_random_probes_may_shake_one_in_a_thousand():
    movement = Movement(1e-4)
    before = np.zeros((1, 3 * SHAKEN))
    now = before.copy()
    now[0, :3] = 1.0
    movement.count([now], [before], [np.ones(3 * SHAKEN)])
    assert movement.settled(random=True)
    assert not movement.settled(random=False)
    now[0, 3] = 1.0
    movement.count([now], [before], [np.ones(3 * SHAKEN)])
    assert not movement.settled(random=True)


def test_nothing_settles_under_tol_zero():
    movement = Movement(0.0)
    movement.count([np.zeros((1, 5))], [np.zeros((1, 5))], [np.ones(5)])
    assert not movement.settled(random=False)
    phi, y, beta, _ = problem()
    for prior in ("ard", "mixture"):
        post = cofem.fit(phi, y, noise_precision=beta, prior=prior, max_iter=130, tol=0.0)
        assert len(post.history["iteration"]) == 130
        assert not post.converged
        assert "130 iterations asked for" in post.message


def test_every_verdict_is_a_sentence_that_can_be_written():
    facts = {"share": 0.1, "few": 0.01, "tol": 1e-4, "min_gain": 1.0, "max_iter": 3, "moving": 2,
             "sweeps": 400, "iteration": 2, "left": "", "damping": 0.1, "n": 9,
             "change": 0.1, "move": 0.2, "distance": 0.3, "ahead": 12.0}  # fmt: skip
    sentences = [verdict.value.format(**facts) for verdict in Verdict]
    assert len(set(sentences)) == len(sentences)
    assert not any("{" in sentence for sentence in sentences)
    unfinished = (Verdict.NOT_SETTLED, Verdict.NOT_AT_REST, Verdict.MEAN_NOT_SETTLED)
    assert not any(v.converged for v in (*unfinished, Verdict.HOPELESS, Verdict.STOPPED))


# -- what it is worth --------------------------------------------------------------


def leadfield(seed, sensors=60, sources=800):
    """Radial dipoles in a ball at 40 dB: neighbouring columns are nearly alike."""
    random = np.random.default_rng(seed)
    at, places = random.normal(size=(sensors, 3)), random.normal(size=(sources, 3))
    at, places = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (at, places))
    way = at[:, None] - random.uniform(0.6, 0.85, sources)[:, None] * places
    phi = np.sum(way * places, axis=2) / np.linalg.norm(way, axis=2) ** 3
    phi /= np.linalg.norm(phi, axis=0)
    z = np.zeros(sources)
    z[random.choice(sources, 3, replace=False)] = random.choice([-1.0, 1.0], 3)
    noise = 0.01 * np.sqrt(np.mean((phi @ z) ** 2))
    return phi, phi @ z + noise * random.normal(size=sensors), noise**-2, z


def test_coherent_columns_do_not_warn():
    """Plain EM takes 110 to 240 iterations here."""
    errors, after_100 = [], []
    for seed in range(5):
        phi, y, beta, z = leadfield(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            post = ard(phi, y, "woodbury", noise_precision=beta)
        plain = ard(phi, y, "woodbury", noise_precision=beta, tol=0)
        assert post.converged
        assert len(plain.history["iteration"]) == 100
        errors.append(np.linalg.norm(post.mean - z))
        after_100.append(np.linalg.norm(plain.mean - z))
    assert np.median(np.divide(errors, after_100)) <= 1


def test_max_iter_is_100_by_default():
    phi, y, beta, _ = problem()
    assert inspect.signature(cofem.fit).parameters["max_iter"].default == 100
    for prior in ("ard", "mixture"):
        post = cofem.fit(phi, y, noise_precision=beta, prior=prior, tol=0)
        assert len(post.history["iteration"]) == 100
    with pytest.warns(cofem.ConvergenceWarning, match="after max_iter=5:"):
        ard(phi, y, noise_precision=beta, max_iter=5)


@pytest.mark.parametrize("size", [1e3, 1e5])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_a_giant_does_not_end_it_for_the_others(method, size):
    # Relative to it all others have settled at once.
    phi, y, beta, z = problem(1)
    giant = np.flatnonzero(z == 0)[0]
    plain = ard(phi, y, method, noise_precision=beta)
    post = ard(phi, y + size * phi[:, giant], method, noise_precision=beta)
    assert post.converged
    others = np.arange(100) != giant
    error = np.linalg.norm((post.mean - z)[others])
    assert error < 1.2 * np.linalg.norm(plain.mean - z)
    assert error < 0.3 * np.linalg.norm(z)
    assert len(post.history["iteration"]) >= 0.5 * len(plain.history["iteration"])


@pytest.mark.parametrize("seed", range(3))
def test_coherent_columns_are_not_stopped_early(seed):
    # Neighbours exchange their weight in many small steps.
    random = np.random.default_rng(seed)
    d = 60
    grid = np.arange(d)
    phi = np.exp(-0.5 * ((grid[:, None] - grid) / 1.5) ** 2)
    z = np.zeros(d)
    z[[15, 30, 45]] = [1.0, -1.0, 1.5]
    y = phi @ z + 0.01 * random.normal(size=d)
    post = ard(phi, y, noise_precision=1e4, max_iter=3000)
    longer = ard(phi, y, noise_precision=1e4, max_iter=3000, tol=0.0)
    assert post.converged
    assert simulate.nrmse(post.mean, z) < 1.2 * simulate.nrmse(longer.mean, z) + 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise_std", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_ordinary_noise_ends_without_a_warning(method, noise_std, seed):
    made = simulate.dct(256, seed, noise_std=noise_std)
    options = {"noise_precision": made.noise_precision}
    post = ard(made.phi, made.y, method, **options)  # a warning would be an error here
    assert post.converged
    assert len(post.history["iteration"]) < 100
    # EM follows the noise when it goes on: stopping has lost nothing.
    longer = ard(made.phi, made.y, method, max_iter=200, tol=0.0, **options)
    error, later = (simulate.nrmse(p.mean, made.z) for p in (post, longer))
    assert error < 1.05 * later + 0.1


def test_not_settled_is_told_with_numbers():
    phi, y, beta, _ = problem()
    with pytest.warns(cofem.ConvergenceWarning, match=r"\d+ of 100 coordinates still move"):
        post = ard(phi, y, noise_precision=beta, max_iter=3)
    assert not post.converged
    assert "raise max_iter" in post.message


# -- resumed fits ------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["ard", "mixture"])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_a_resumed_fit_stops_where_the_unbroken_one_does(tmp_path, method, prior):
    made = simulate.dct(256, 0, noise_std=0.1)
    options = {"method": method, "prior": prior, "noise_precision": made.noise_precision}
    whole = cofem.fit(made.phi, made.y, **options)
    assert whole.converged
    end = len(whole.history["iteration"])
    assert end > 11
    path = tmp_path / "c.npz"
    cofem.fit(made.phi, made.y, checkpoint=path, callback=lambda s: s.iteration == end - 1,
              **options)  # fmt: skip
    seen = []
    resumed = cofem.fit(made.phi, made.y, checkpoint=path,
                        callback=lambda s: seen.append(s.iteration), **options)  # fmt: skip
    assert seen[0] > 10  # it did go on, not begin again
    assert len(resumed.history["iteration"]) == end
    assert resumed.message == whole.message
    np.testing.assert_array_equal(resumed.mean, whole.mean)
    np.testing.assert_array_equal(resumed.precision, whole.precision)


def test_a_stopped_fit_is_not_run_again_with_more_probes():
    grid = np.arange(80)
    phi = np.exp(-0.5 * ((grid[:, None] - grid) / 4) ** 2)
    y = phi[:, 20] - phi[:, 60] + 0.01 * np.random.default_rng(0).normal(size=80)
    seen = []

    def stop(state):
        seen.append(state)
        return len(seen) == 3

    post = cofem.fit(phi, y, noise_precision=1e4, prior="ard", method="cofem", callback=stop)
    assert len(seen) == 3
    assert not post.converged
