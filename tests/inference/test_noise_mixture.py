"""The prior of two numbers: its posterior by quadrature, its sites, and what it finds."""

import math

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.inference import noise, noise_mixture
from cofem.inference.dispatch import covariance_free_esteps, make_esteps, starting_precision
from cofem.inference.estep_cofem import CovarianceFreeEStep
from cofem.inference.methods import EM, CoFEM
from cofem.inference.model import Model, Task, Tie
from cofem.inference.noise_mixture import End, Mixture, _sites
from cofem.operators import Dense, Fourier


def density(z, variance):
    return np.exp(-0.5 * z**2 / variance) / np.sqrt(2 * np.pi * variance)


@pytest.mark.parametrize("value", [-4.0, -0.3, 0.0, 1.1])
@pytest.mark.parametrize("precision", [0.2, 30.0])
def test_the_posterior_is_that_of_quadrature(value, precision):
    share, power = 0.15, 2.5
    z, step = np.linspace(-30, 30, 600_001, retstep=True)
    slab = share * density(z, power) * density(value - z, 1 / precision)
    zero = (1 - share) * density(np.array(value), 1 / precision)
    total = zero + slab.sum() * step
    found = Mixture(share, power, 0.5, Tie()).given(np.array([value]), np.array([precision]))
    mean, variance = found.moments()
    assert found.probability[0] == pytest.approx(1 - zero / total, rel=1e-8)
    wanted = (slab * z).sum() * step / total
    assert mean[0] == pytest.approx(wanted, rel=1e-8, abs=1e-12)
    second = (slab * z**2).sum() * step / total
    assert variance[0] == pytest.approx(second - wanted**2, rel=1e-7)


def test_complex_numbers_are_two_real_ones():
    # A circular slab of power s gives each part s/2, and one indicator decides for both.
    rng = np.random.default_rng(0)
    v, q = rng.normal(size=20) + 1j * rng.normal(size=20), rng.uniform(0.5, 9, 20)
    found = Mixture(0.2, 3.0, 1.0, Tie()).given(v, q)
    parts = np.concatenate([v.real, v.imag])
    pairs = Tie(groups=np.tile(np.arange(20), 2))
    twin = Mixture(0.2, 1.5, 0.5, pairs).given(parts, np.tile(2 * q, 2))
    np.testing.assert_allclose(found.probability, twin.probability[:20], rtol=1e-12)
    np.testing.assert_allclose(found.mean.real, twin.mean[:20], rtol=1e-12)
    np.testing.assert_allclose(found.variance, 2 * twin.variance[:20], rtol=1e-12)


def test_a_site_turns_what_was_seen_into_the_posterior():
    rng = np.random.default_rng(1)
    value, cavity = rng.normal(size=200), rng.uniform(1, 5, 200)
    mean, variance = Mixture(0.3, 2.0, 0.5, Tie()).given(value, cavity).moments()
    alpha, pull = np.ones(200), np.zeros(200)
    for _ in range(60):  # half-way each time
        alpha, pull = _sites(alpha, pull, value, cavity, mean, variance)
    np.testing.assert_allclose((cavity * value + pull) / (cavity + alpha), mean, atol=1e-10)
    narrower = variance < 0.99 / cavity  # a site cannot widen
    assert narrower.sum() > 50
    np.testing.assert_allclose(1 / (cavity + alpha)[narrower], variance[narrower], rtol=1e-6)


def test_the_best_prior_is_found_by_repetition():
    rng = np.random.default_rng(2)
    z = np.where(rng.random(20_000) < 0.2, rng.normal(scale=3.0, size=20_000), 0.0)
    value, precision = z + 0.3 * rng.normal(size=20_000), np.full(20_000, 1 / 0.09)
    prior = Mixture(0.5, 1.0, 0.5, Tie())
    for _ in range(200):
        prior = prior.given(value, precision).learned(prior)
    assert prior.share == pytest.approx(0.2, abs=0.02)  # five standard errors
    assert prior.power == pytest.approx(9.0, rel=0.12)


def test_a_pull_moves_the_mean_as_a_prior_that_is_not_centred():
    rng = np.random.default_rng(3)
    phi, y = rng.normal(size=(15, 25)), rng.normal(size=15)
    alpha, pull = rng.uniform(0.5, 2, 25), rng.normal(size=25)
    model = Model((Task(Dense(phi), y, 3.0),), Tie())
    (estep,) = covariance_free_esteps(model, CoFEM(mean_rtol=1e-12), 0)
    assert isinstance(estep, CovarianceFreeEStep)
    found = estep.moments(alpha, None, 1, False, pull).mean[0]
    wanted = np.linalg.solve(3 * phi.T @ phi + np.diag(alpha), 3 * phi.T @ y + pull)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def alone(phi, y):
    model = Model((Task(phi, y, 1.0),), Tie())
    return noise_mixture.from_noise_alone(
        model, lambda m: covariance_free_esteps(m, CoFEM(), 0)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_noise_by_itself(seed, dtype):
    problem = simulate.dct(1024, seed, noise_std=0.05)
    end = alone(problem.phi, problem.y.astype(dtype))
    assert end.settled
    assert 0.5 < end.noise_precision / problem.noise_precision < 2.5


@pytest.mark.parametrize("seed", range(3))
def test_dense_coefficients_are_no_noise(seed):
    # N = 2 D, nothing is sparse: the climb ran to ten thousand times the precision here.
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(300, 150)) / math.sqrt(300)
    y = phi @ rng.normal(size=150) + 0.1 * rng.normal(size=300)
    end = alone(Dense(phi), y)
    assert end.settled
    assert 0.5 < end.noise_precision / 100 < 2


@pytest.mark.parametrize("method", ["cofem", "em"])
@pytest.mark.parametrize("shape", [(60, 100), (150, 50)])
def test_columns_of_zeros_are_no_trouble(shape, method):
    rng = np.random.default_rng(0)
    phi, z = rng.normal(size=shape) / math.sqrt(shape[0]), np.zeros(shape[1])
    phi[:, [3, 17]], z[[5, 9, 30]] = 0.0, 3.0
    y = phi @ z + 0.1 * rng.normal(size=shape[0])
    post = cofem.fit(phi, y, method=method, max_iter=1000)
    assert 1 / 3 < post.noise_precision / 100 < 3
    np.testing.assert_array_equal(post.mean[[3, 17]], 0.0)
    assert np.isfinite(post.variance).all()


def test_complex_data():
    rng = np.random.default_rng(5)
    mask = rng.random(600) < 0.4
    z = np.zeros(600, complex)
    z[rng.choice(600, 40, replace=False)] = rng.normal(size=40) + 1j * rng.normal(size=40)
    phi = Fourier((600,), mask=mask)
    n = int(mask.sum())
    y = phi.forward(z) + 0.1 / math.sqrt(2) * (rng.normal(size=n) + 1j * rng.normal(size=n))
    end = alone(phi, y)
    assert 0.5 < end.noise_precision / 100 < 2


def test_the_hardest_of_the_dictionaries():
    # The phase transition at 20 dB: the climb alone ends at 0.1 to 0.2 times the truth.
    for seed in (0, 6):
        problem = simulate.dct(1024, seed, sparsity=0.14, noise_std=0.1)
        model = Model((Task(problem.phi, problem.y, 1.0),), Tie())
        found = noise.estimate_noise_precision(
            model,
            lambda m: make_esteps(m, CoFEM(), 0),
            lambda m: covariance_free_esteps(m, CoFEM(), 0),
            starting_precision(model, EM()),
        )
        assert 1 / 3 < found.noise_precisions[0] / problem.noise_precision < 3


def test_who_is_believed():
    settled, higher = End(5.0, True, 1), End(9.0, True, 1)
    assert noise._believed([settled, higher], 4.0) == 9.0  # the other one missed signal
    assert noise._believed([settled, End(90.0, False, 1)], 4.0) == 5.0
    assert noise._believed([End(6.0, False, 1)], 4.0) == 6.0
    assert noise._believed([End(6e9, False, 1)], 4.0) == 4.0 * noise.LOST
    assert noise._believed([settled], 500.0) == 500.0  # it has lost the signal
