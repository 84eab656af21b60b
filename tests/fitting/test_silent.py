"""Data that hold neither signal nor noise in some directions: they must not count as data."""

import numpy as np
import pytest
import scipy.sparse

import cofem
from cofem.fitting.silent import audible
from cofem.model import validation
from cofem.model.methods import Banded, CoFEM, Woodbury


def problem(seed=0, n=60, d=120, k=5, sigma=0.05, dtype=float):
    random = np.random.default_rng([41, seed])
    phi = random.normal(size=(n, d)) / np.sqrt(n)
    noise = random.normal(size=n)
    z = np.zeros(d, dtype)
    z[random.choice(d, k, replace=False)] = random.choice([-1.0, 1.0], k)
    if dtype is complex:
        phi = phi * np.exp(2j * np.pi * random.random((n, d)))
        noise = (noise + 1j * random.normal(size=n)) / 2**0.5
    return phi, phi @ z + sigma * noise, z


def error(mean, z):
    return np.linalg.norm(mean - z) / np.linalg.norm(z)


def zeros_between(phi, y):
    rows, at = np.zeros((2 * len(phi), phi.shape[1]), phi.dtype), np.zeros(2 * len(y), y.dtype)
    rows[::2], at[::2] = phi, y
    return rows, at


def copied(phi, y):
    return np.concatenate([phi, phi]), np.concatenate([y, y])


def projected(phi, y):
    random = np.random.default_rng(0)
    axes = np.linalg.qr(random.normal(size=(len(y), len(y) // 4)))[0]
    return phi - axes @ (axes.T @ phi), y - axes @ (axes.T @ y)


def mixed(phi, y):
    """The same data in another basis of more dimensions."""
    random = np.random.default_rng(0)
    axes = np.linalg.qr(random.normal(size=(2 * len(y), len(y))))[0]
    return axes @ phi, axes @ y


WAYS = {f.__name__: f for f in (zeros_between, copied, projected, mixed)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_the_answer_is_that_of_the_other_data(way, dtype):
    for seed in range(3):
        phi, y, z = problem(seed, dtype=dtype)
        plain = cofem.fit(phi, y)
        odd = cofem.fit(*WAYS[way](phi, y))
        assert odd.converged
        assert "directions of the data were left out" in odd.message
        assert error(odd.mean, z) < 1.5 * error(plain.mean, z) + 0.02
        if way != "projected":
            np.testing.assert_allclose(odd.mean, plain.mean, atol=0.01)
            beta = plain.noise_precision * (0.5 if way == "copied" else 1.0)
            assert odd.noise_precision == pytest.approx(beta, rel=0.1)


@pytest.mark.parametrize(
    "kind", ["float32", "sparse", "operator", "torch", "strict", "joint", "prior ard"]
)
def test_every_kind_of_data(kind):
    phi, y, z = problem()
    phi, y = zeros_between(phi, y)
    options = {}
    if kind == "float32":
        phi, y = phi.astype(np.float32), y.astype(np.float32)
    if kind == "sparse":
        phi = scipy.sparse.csr_array(phi)
    if kind == "operator":  # a mask that multiplies, as is often written for missing samples
        whole = cofem.operators.DCT(256)
        random = np.random.default_rng(3)
        mask = (random.random(256) < 0.5).astype(float)
        phi = cofem.operators.Diagonal(mask) @ whole
        z = np.zeros(256)
        z[[20, 90, 200]] = [3.0, -2.0, 2.5]
        y = mask * (whole.forward(z) + 0.05 * random.normal(size=256))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        phi, y = torch.from_numpy(phi), torch.from_numpy(y)
    if kind == "strict":
        xp = pytest.importorskip("array_api_strict")
        phi, y = xp.asarray(phi), xp.asarray(y)
    if kind == "joint":
        random = np.random.default_rng(4)
        y = np.stack([y, y + np.where(y == 0, 0.0, 0.05 * random.normal(size=len(y)))])
        z = np.stack([z, z])
    if kind == "prior ard":
        options = {"prior": "ard"}
    post = cofem.fit(phi, y, **options)
    assert "were left out" in post.message
    assert error(np.asarray(post.mean), z) < (0.2 if kind == "prior ard" else 0.1)
    assert np.all(np.asarray(post.noise_precision) < 4 * 0.05**-2)


def test_the_posterior_has_all_data(tmp_path):
    phi, y, _ = problem()
    phi, y = zeros_between(phi, y)
    post = cofem.fit(phi, y)
    assert len(post.tasks[0].y) == len(y)
    assert post.tasks[0].operator.shape == phi.shape
    post.save(tmp_path / "p.npz")
    np.testing.assert_array_equal(cofem.load(tmp_path / "p.npz").mean, post.mean)


@pytest.mark.parametrize("method", [CoFEM(), Woodbury()])
def test_what_is_data_stays(method):
    phi, y, _ = problem()
    random = np.random.default_rng(5)
    wide, tall = zeros_between(phi, y), (random.normal(size=(80, 20)), random.normal(size=80))
    silent_rows = np.arange(len(wide[1])) % 2 == 1
    noisy = wide[1] + 1e-6 * silent_rows  # Φ is zero there, y is not: this is the noise
    signs = random.permuted(np.tile([1.0, -1.0], (120, 60)), axis=1)  # every row sums to zero
    cancels = np.where(silent_rows[:, None], signs, wide[0])
    for data in (
        (phi, y), tall, (wide[0], noisy), (cancels, wide[1]),
        (np.repeat(phi, 2, 0), np.append(y, y)),
        (tall[0], np.round(tall[1])), (np.repeat(tall[0], 2, 0), np.repeat(tall[1], 2)),
    ):  # fmt: skip
        tasks, _ = validation.tasks_from(*data, None)
        model = validation.model_from(tasks, False, None)
        assert audible(model, method) == (model, 0)


def test_a_band_stays_one():
    random = np.random.default_rng(6)
    mask = np.repeat([1.0, 0.0], 100)
    phi = cofem.operators.Diagonal(mask)
    y = mask * random.normal(size=200)
    tasks, _ = validation.tasks_from(phi, y, None)
    model = validation.model_from(tasks, False, None)
    assert audible(model, Banded()) == (model, 0)
    assert audible(model, CoFEM())[1] == 100


def test_known_noise_needs_nothing_of_it():
    phi, y, _ = problem()
    plain = cofem.fit(phi, y, noise_std=0.05)
    odd = cofem.fit(*zeros_between(phi, y), noise_std=0.05)
    assert "left out" not in odd.message
    np.testing.assert_allclose(odd.mean, plain.mean, atol=1e-3)


@pytest.mark.parametrize("prior", ["auto", "ard"])
def test_columns_of_zeros_are_named(prior):
    phi, y, _ = problem()
    noise = {} if prior == "auto" else {"noise_std": 0.05}
    assert "zero in" not in cofem.fit(phi, y, prior=prior, **noise).message
    phi[:, [3, 77]] = 0.0
    post = cofem.fit(phi, y, prior=prior, **noise)
    assert "phi is zero in 2 of 120 columns (3, 77): the data say nothing" in post.message
    assert post.converged
    assert (post.mean[[3, 77]] == 0).all()
    low, high = post.interval(0.99)
    assert (low[[3, 77]] <= 0).all()
    assert (high[[3, 77]] >= 0).all()


def test_a_column_that_only_some_tasks_see_is_not_named():
    phi, y, _ = problem()
    other = phi.copy()
    other[:, 3] = 0.0
    assert "phi is zero" not in cofem.fit([phi, other], [y, y[::-1].copy()]).message
    both = cofem.fit([other, other.copy()], [y, y[::-1].copy()]).message
    assert "phi is zero in 1 of 120 columns (3)" in both
