"""Problems that are less ordinary: odd noise, odd rows, odd matrices, by kind and seed."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.signal
import scipy.sparse
import scipy.special

from ordinary_problems import Maker, Problem, _gaussian, _observed, _sparse


def _plain(seed: int, n=100, d=250, k=10, law="normal"):
    rng = np.random.default_rng([21, seed])
    return rng, _gaussian(rng, n, d), _sparse(rng, d, k, law)


def heavy_noise(seed: int) -> Problem:
    """Student's t with 3 degrees of freedom."""
    rng, phi, z = _plain(seed)
    noise = 0.05 * rng.standard_t(3, len(phi))
    return Problem(phi, phi @ z + noise, z, 0.05 * 3**0.5)


def outliers(seed: int) -> Problem:
    """One datum in fifty is off by 20 σ."""
    rng, phi, z = _plain(seed)
    noise = 0.05 * rng.normal(size=len(phi))
    noise[rng.choice(len(phi), 2, replace=False)] *= 20
    return Problem(phi, phi @ z + noise, z, 0.05)


def missing_rows(seed: int) -> Problem:
    """Fill a third of the rows of Φ and y with zeros, as missing values often are."""
    rng, phi, z = _plain(seed, n=150)
    p = _observed(rng, phi, z, 0.05)
    gone = rng.choice(150, 50, replace=False)
    phi[gone], p.y[gone] = 0.0, 0.0
    return Problem(phi, p.y, z, 0.05)


def duplicated_rows(seed: int) -> Problem:
    """Every row is there twice, with noise of its own."""
    rng, phi, z = _plain(seed, n=80)
    return _observed(rng, np.repeat(phi, 2, axis=0), z, 0.05)


def copied_rows(seed: int) -> Problem:
    """Every row of Φ and y is there twice, noise and all: half of the data are no news."""
    rng, phi, z = _plain(seed)
    p = _observed(rng, phi, z, 0.05)
    return Problem(np.repeat(phi, 2, axis=0), np.repeat(p.y, 2), z, 0.05)


def integers(seed: int) -> Problem:
    """Return counts from 0 to 9, as int32."""
    rng, _, z = _plain(seed)
    return _observed(rng, rng.integers(0, 10, (100, 250)).astype(np.int32), z, 0.5)


def booleans(seed: int) -> Problem:
    rng, _, z = _plain(seed)
    return _observed(rng, rng.random((100, 250)) < 0.3, z, 0.1)


def single(seed: int) -> Problem:
    """Φ and y in float32."""
    rng, phi, z = _plain(seed)
    p = _observed(rng, phi.astype(np.float32), z, 0.05)
    return Problem(p.phi, p.y.astype(np.float32), z, 0.05)


def wide_units(seed: int) -> Problem:
    """Columns in units of 10^-8 to 10^8; errors are counted in those of the data."""
    rng, phi, z = _plain(seed)
    p = _observed(rng, phi, z, 0.05)
    scale = 10 ** rng.uniform(-8, 8, 250)
    return Problem(phi * scale, p.y, z / scale, 0.05, scale)


def nearly_constant(seed: int) -> Problem:
    """Half of the columns are 100 plus a little; an intercept is asked for."""
    rng, phi, z = _plain(seed)
    phi[:, ::2] += 100.0
    return _observed(rng, phi, z, 0.05)


def one_sample(seed: int) -> Problem:
    rng, phi, z = _plain(seed, n=1, d=20, k=1)
    return _observed(rng, phi, z, 0.01)


def one_unknown(seed: int) -> Problem:
    rng, phi, z = _plain(seed, n=30, d=1, k=1)
    return _observed(rng, phi, z, 0.1)


def sparse_matrix(seed: int) -> Problem:
    rng, phi, z = _plain(seed)
    phi = phi * (rng.random(phi.shape) < 0.1) * 10**0.5
    p = _observed(rng, phi, z, 0.05)
    return Problem(phi, p.y, z, 0.05, operator=scipy.sparse.csr_array(phi))


def tall(seed: int) -> Problem:
    """Twenty thousand rows for fifty unknowns."""
    rng, phi, z = _plain(seed, n=20_000, d=50, k=8)
    return _observed(rng, phi * 20_000**0.5, z, 5.0)


def lags(seed: int, n=200, d=60, k=4) -> Problem:
    """Respond to the past of an input that varies slowly (AR(1), .9)."""
    rng = np.random.default_rng([22, seed])
    x = scipy.signal.lfilter([1.0], [1.0, -0.9], rng.normal(size=n + d))
    phi = np.stack([x[d - j : d - j + n] for j in range(d)], axis=1)
    return _observed(rng, phi, _sparse(rng, d, k), 0.5)


def polynomial(seed: int, n=120) -> Problem:
    """All products of up to two of twelve variables, three terms in truth."""
    rng = np.random.default_rng([23, seed])
    x = rng.uniform(0, 2, (n, 12))
    pairs = [(i, j) for i in range(12) for j in range(i, 12)]
    phi = np.column_stack([np.ones(n), x, *(x[:, i] * x[:, j] for i, j in pairs)])
    return _observed(rng, phi, _sparse(rng, phi.shape[1], 4), 0.1)


def dummies(seed: int, n=300) -> Problem:
    """Six factors of eight levels, one column each: the columns of a factor sum to one."""
    rng = np.random.default_rng([24, seed])
    levels = rng.integers(0, 8, (n, 6))
    phi = (levels[:, :, None] == np.arange(8)).reshape(n, 48).astype(float)
    return _observed(rng, phi, _sparse(rng, 48, 5), 0.3)


def genotypes(seed: int, n=200, d=1000, k=8) -> Problem:
    """Count an allele, 0 to 2, neighbours alike, and add a mean of 5 that no column has."""
    rng = np.random.default_rng([25, seed])
    share = rng.uniform(0.05, 0.5, d)
    latent = scipy.signal.lfilter([1.0], [1.0, -0.8], rng.normal(size=(2 * n, d)), axis=1) * 0.6
    below = scipy.special.ndtr(latent) < share
    phi = (below[:n].astype(int) + below[n:]).astype(float)
    z = _sparse(rng, d, k)
    p = _observed(rng, phi, z, 0.5)
    return Problem(phi, p.y + 5.0, z, 0.5)


def spectrum(seed: int, n=300, d=150, k=6) -> Problem:
    """Peaks of one width on a baseline that no column has, a slow cosine."""
    rng = np.random.default_rng([26, seed])
    x, centres = np.linspace(0, 1, n), np.linspace(0, 1, d)
    phi = np.exp(-((x[:, None] - centres) ** 2) / (2 * 0.008**2))
    z = np.abs(_sparse(rng, d, k, "normal"))
    p = _observed(rng, phi, z, 0.02)
    return Problem(phi, p.y + 0.2 + 0.1 * np.cos(2 * x), z, 0.02)


def laplace_noise(seed: int) -> Problem:
    rng, phi, z = _plain(seed)
    return Problem(phi, phi @ z + rng.laplace(0, 0.05, len(phi)), z, 0.05 * 2**0.5)


def growing_noise(seed: int) -> Problem:
    """Noise from .01 to .2 along the rows."""
    rng, phi, z = _plain(seed)
    noise = np.geomspace(0.01, 0.2, len(phi)) * rng.normal(size=len(phi))
    return Problem(phi, phi @ z + noise, z, 0.07)


def projected(seed: int) -> Problem:
    """Project 20 directions out of 100 data, as in signal-space projection."""
    rng, phi, z = _plain(seed)
    p = _observed(rng, phi, z, 0.05)
    axes = np.linalg.qr(rng.normal(size=(100, 20)))[0]
    return Problem(phi - axes @ (axes.T @ phi), p.y - axes @ (axes.T @ p.y), z, 0.05)


def rank_deficient(seed: int) -> Problem:
    """Mix half as many rows: they span half as many dimensions as there are data."""
    rng, phi, z = _plain(seed)
    mix = rng.normal(size=(100, 50)) @ phi[:50]
    return _observed(rng, mix / np.linalg.norm(mix, axis=0), z, 0.02)


def walsh(seed: int) -> Problem:
    """64 of 128 rows of a Hadamard matrix: entries of ±1, an exact design."""
    rng = np.random.default_rng([27, seed])
    phi = scipy.linalg.hadamard(128)[rng.choice(128, 64, replace=False)] / 8.0
    return _observed(rng, phi, _sparse(rng, 128, 6, "normal"), 0.05)


def harmonics(seed: int, n=150, d=100, k=3) -> Problem:
    """Sines and cosines at uneven times, closer than the resolution."""
    rng = np.random.default_rng([28, seed])
    t, f = np.sort(rng.uniform(0, 10, n)), np.linspace(0.05, 5, d)
    phi = np.hstack([np.cos(2 * np.pi * t[:, None] * f), np.sin(2 * np.pi * t[:, None] * f)])
    return _observed(rng, phi, _sparse(rng, 2 * d, k, "normal"), 0.1)


UNUSUAL: dict[str, Maker] = {
    "noise of Student's t, 3": heavy_noise, "Laplace noise": laplace_noise,
    "outliers": outliers, "noise that grows": growing_noise,
    "missing rows as zeros": missing_rows, "rows measured twice": duplicated_rows,
    "rows copied": copied_rows, "integers": integers, "booleans": booleans,
    "float32": single, "units of 10^±8": wide_units,
    "half of the columns nearly constant": nearly_constant, "one sample": one_sample,
    "one unknown": one_unknown, "sparse matrix": sparse_matrix, "20,000 × 50": tall,
    "lags of a slow series": lags, "polynomials of twelve variables": polynomial,
    "dummy variables": dummies, "genotypes, mean of 5": genotypes,
    "spectrum with a baseline": spectrum, "rank of half of the rows": rank_deficient,
    "data with 20 directions projected out": projected,
    "Hadamard": walsh, "harmonics at uneven times": harmonics,
}  # fmt: skip
# An intercept is asked for (and the rivals fit one).
CENTRED = ("half of", "genotypes", "spectrum")
