"""Coordinates that share their prior precision: coupling and groups against dense EM."""

import numpy as np
import pytest

import cofem
from cofem.operators import Smoothing, from_functions


def block_problem(seed):
    """20 measurements of 60 unknowns in 15 blocks of four, two of them active."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(20, 60)) / np.sqrt(20)
    groups = np.repeat(np.arange(15), 4)
    z = np.where(np.isin(groups, rng.choice(15, 2, replace=False)), rng.normal(size=60), 0.0)
    return phi, phi @ z + 0.01 * rng.normal(size=20), z, groups


def dense_em(phi, y, beta, iterations, average):
    """EM by the book, with the second moments averaged before each M-step."""
    # The start explains the data's power, the same for every coordinate in its column's units.
    signal = np.sum(y**2) - 20 / beta
    alpha = 60 / signal / average(1 / np.sum(phi**2, axis=0))
    for i in range(iterations):
        covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
        mean = beta * covariance @ phi.T @ y
        if i < iterations - 1:
            alpha = 1 / average(mean**2 + np.diag(covariance))
    return mean, alpha


@pytest.mark.parametrize("method", ["em", "woodbury"])
@pytest.mark.parametrize("seed", range(3))
def test_groups_are_the_mean_over_the_group(method, seed):
    phi, y, _, groups = block_problem(seed)
    post = cofem.fit(
        phi,
        y,
        noise_precision=1e4,
        method=method,
        groups=groups,
        max_iter=10,
        tol=0,
        prior="ard",
    )
    mean, alpha = dense_em(phi, y, 1e4, 10, lambda m: np.repeat(m.reshape(15, 4).mean(1), 4))
    np.testing.assert_allclose(post.mean, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)


def test_groups_recover_from_fewer_measurements():
    better = 0
    for seed in range(6):
        phi, y, z, groups = block_problem(seed)
        tied = cofem.fit(phi, y, noise_precision=1e4, groups=groups, max_iter=50, tol=0)
        free = cofem.fit(phi, y, noise_precision=1e4, max_iter=50, tol=0)
        better += cofem.simulate.nrmse(tied.mean, z) < cofem.simulate.nrmse(free.mean, z)
    assert better >= 5


@pytest.mark.parametrize("seed", range(3))
def test_coupling_averages_the_second_moments(seed):
    phi, y, _, _ = block_problem(seed)
    smooth = Smoothing((60,), 0.7)
    post = cofem.fit(
        phi,
        y,
        noise_precision=1e4,
        method="em",
        coupling=smooth,
        max_iter=10,
        tol=0,
    )
    matrix = smooth.to_dense()
    mean, alpha = dense_em(phi, y, 1e4, 10, lambda m: matrix @ m)
    np.testing.assert_allclose(post.mean, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)


def test_coupling_of_another_size_is_named():
    phi, y, _, _ = block_problem(0)
    with pytest.raises(ValueError, match="coupling"):
        cofem.fit(phi, y, noise_precision=1e4, coupling=Smoothing((59,), 1.0))


def test_progress_does_not_change_the_answer(capsys):
    phi, y, _, _ = block_problem(0)
    op = from_functions(lambda x: x @ phi.T, lambda v: v @ phi, phi.shape, float)
    quiet = cofem.fit(op, y, noise_precision=1e4, method="cofem", max_iter=5, tol=0)
    shown = cofem.fit(op, y, noise_precision=1e4, method="cofem", max_iter=5, tol=0, progress=True)
    np.testing.assert_array_equal(quiet.mean, shown.mean)
