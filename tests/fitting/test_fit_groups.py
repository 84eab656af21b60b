"""Groups and coupling with every method that takes them, and where they help and hurt."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.operators import Autoregressive, FiniteDifference, Identity, Smoothing


def blocks(seed, n, size=6, count=20, active=3):
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(count), size)
    chosen = np.isin(groups, random.choice(count, active, replace=False))
    z = np.where(chosen, random.normal(size=size * count), 0.0)
    phi = random.normal(size=(n, size * count)) / np.sqrt(n)
    return phi, phi @ z + 0.01 * random.normal(size=n), z, groups


def fit(phi, y, sigma=0.01, **options):
    options = {"noise_precision": sigma**-2, "max_iter": 60, "tol": 0, "prior": "ard"} | options
    return cofem.fit(phi, y, **options)


def test_blocks_are_recovered_from_fewer_measurements():
    """28 measurements of 18 non-zeros: all with groups, none without."""
    recovered = np.zeros(2, int)
    for seed in range(8):
        phi, y, z, groups = blocks(seed, 28)
        recovered += [simulate.nrmse(fit(phi, y, groups=g).mean, z) < 10 for g in (None, groups)]
    assert recovered[0] == 0
    assert recovered[1] >= 7


@pytest.mark.parametrize("method", ["cofem", "em", "woodbury", "amp"])
def test_methods_agree_on_blocks(method):
    phi, y, z, groups = blocks(1, 40)
    exact = fit(phi, y, groups=groups, method="em")
    post = fit(phi, y, groups=groups, method=method)
    assert simulate.nrmse(post.mean, exact.mean) < 1
    assert simulate.nrmse(post.mean, z) < 5
    grouped = post.precision.reshape(20, 6)
    np.testing.assert_array_equal(grouped, grouped[:, :1] * np.ones(6))


@pytest.mark.parametrize("kind", ["groups", "coupling"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_banded_is_exact_em_with_ties(kind, nonnegative):
    random = np.random.default_rng(0)
    phi = Autoregressive((1.4, -0.45), 90)
    y = phi.forward((random.random(90) < 0.1) * 1.0) + 0.1 * random.normal(size=90)
    tie = {"groups": np.arange(90) // 3} if kind == "groups" else {"coupling": Smoothing(90, 0.7)}
    dense, banded = (
        fit(phi, y, 0.1, method=method, nonnegative=nonnegative, max_iter=20, **tie)
        for method in ("em", "banded")
    )
    np.testing.assert_allclose(banded.precision, dense.precision, rtol=1e-8)
    np.testing.assert_allclose(banded.mean, dense.mean, rtol=1e-7, atol=1e-9)


def test_groups_before_coupling_and_tasks_in_one_formula():
    """Two tasks, coupled and then grouped: α against the definition written out."""
    random = np.random.default_rng(3)
    phi, y = random.normal(size=(15, 24)) / 4, random.normal(size=(2, 15))
    groups, smooth = np.arange(24) // 4, Smoothing(24, 0.8)
    post = fit(phi, y, 0.3, method="em", groups=groups, coupling=smooth, max_iter=6)
    alpha = fit(phi, y, 0.3, method="em", groups=groups, coupling=smooth, max_iter=1).precision
    for _ in range(5):
        covariance = np.linalg.inv(phi.T @ phi / 0.09 + np.diag(alpha))
        mean = y @ phi @ covariance / 0.09
        second = smooth.to_dense() @ (np.mean(mean**2, axis=0) + np.diag(covariance))
        alpha = np.repeat(1 / second.reshape(6, 4).mean(axis=1), 4)
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-7)


def test_groups_tie_the_rows_of_a_sparsifier():
    """Both ends of a jump: the tied precision is Σ P_j / Σ E(Rx)_j² over the group."""
    n = 24
    random = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0, -1.0], 8) + 0.1 * random.normal(size=n)
    R, groups = FiniteDifference(n, 0), np.arange(n) // 2
    dense = R.to_dense()
    post = fit(Identity(n), y, 0.1, sparsifier=R, groups=groups, max_iter=4,
               method=cofem.EM(initial_precision=3.0))  # fmt: skip
    alpha = np.full(n, 3.0)
    for _ in range(3):
        covariance = np.linalg.inv(100 * np.eye(n) + dense.T @ (alpha[:, None] * dense))
        second = (dense @ covariance @ y * 100) ** 2 + np.diag(dense @ covariance @ dense.T)
        pseudo = np.linalg.pinv(dense.T @ (alpha[:, None] * dense), hermitian=True)
        count = alpha * np.diag(dense @ pseudo @ dense.T)
        pairs = count.reshape(-1, 2).sum(axis=1) / second.reshape(-1, 2).sum(axis=1)
        alpha = np.repeat(pairs, 2)
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-7)


# -- coupling: where it helps and where it hurts ---------------------------------


def patches(seed, n=90):
    random = np.random.default_rng(seed)
    image = np.zeros((20, 20))
    for _ in range(4):
        h, w = random.integers(3, 6, size=2)
        i, j = random.integers(0, 20 - h), random.integers(0, 20 - w)
        image[i : i + h, j : j + w] = random.normal(size=(h, w))
    phi = random.normal(size=(n, 400)) / np.sqrt(n)
    return phi, phi @ image.ravel() + 0.02 * random.normal(size=n), image.ravel()


def test_coupling_helps_a_block_sparse_image():
    for seed in range(4):
        phi, y, z = patches(seed)
        plain, coupled = (
            fit(phi, y, 0.02, coupling=c, max_iter=40) for c in (None, Smoothing((20, 20), 0.6))
        )
        assert simulate.nrmse(coupled.mean, z) < 0.6 * simulate.nrmse(plain.mean, z)


def test_coupling_hurts_a_spike_train():
    phi = Autoregressive((0.9,), 400)
    for seed in range(4):
        random = np.random.default_rng(seed)
        z = np.where(random.random(400) < 0.05, 1 + random.random(400), 0.0)
        y = phi.forward(z) + 0.15 * random.normal(size=400)
        alone, coupled = (
            fit(phi, y, 0.15, nonnegative=True, coupling=c) for c in (None, Smoothing(400, 0.6))
        )
        assert simulate.nrmse(coupled.mean, z) > 1.3 * simulate.nrmse(alone.mean, z)


def test_a_coupling_of_width_zero_is_none():
    phi, y, _, _ = blocks(0, 30)
    one, other = (fit(phi, y, coupling=c, max_iter=15) for c in (None, Smoothing(120, 0.0)))
    np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-12)


# -- what is refused -------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({"groups": np.arange(120) - 1}, "groups must be non-negative"),
        ({"groups": np.arange(120.0)}, "groups must be integer labels, got dtype float64"),
        ({"groups": np.arange(60)}, r"groups must have shape \(120,\), got \(60,\)"),
        ({"coupling": -np.eye(120)}, "coupling must be non-negative"),
        ({"coupling": 1j * np.eye(120)}, "coupling must be real and non-negative"),
        ({"coupling": Smoothing(60, 1.0)}, r"coupling must have shape \(120, 120\)"),
        ({"method": "sequential", "groups": np.arange(120)}, '"sequential" does not take groups'),
        ({"method": "vi", "coupling": np.eye(120)}, '"vi" does not take a coupling'),
    ],
)
def test_bad_ties_are_named(argument, text):
    phi, y, _, _ = blocks(0, 30)
    with pytest.raises((ValueError, TypeError), match=text):
        fit(phi, y, max_iter=3, **argument)
