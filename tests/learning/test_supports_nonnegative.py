"""Sampling which coordinates are non-zero where none may be negative: against quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import norm

from cofem.learning.supports.gains import log_one_sided, log_twice_normal
from cofem.learning.supports.nonnegative import run_nonnegative_chain

SCALES = np.array([3.0, 60.0])
# Without the law of equal magnitudes, and with two spreads of it; and the largest magnitude.
NO_LAW, SPREADS, REACH = np.empty(0), np.array([0.2, 2.0]), 4.0


def integrated(phi, y, scales, pseudo_count, beta):
    """Return P(z_j ≠ 0), E z_j and E z_j² by quadrature over z ≥ 0 and sums over sets and slabs.

    Values have half-normal slabs of variance v σ²; where beta is 0, σ² with the prior 1/σ² is
    integrated out in closed form for every z.
    """
    n, d = phi.shape
    x, w = np.polynomial.legendre.leggauss(80)
    top = 4 * np.linalg.norm(y)
    x, w = 0.5 * top * (x + 1), 0.5 * top * w
    prior = np.array([1.0] + [pseudo_count] * len(scales))
    logs, inside, first, second = [], [], [], []
    for slabs in itertools.product(range(-1, len(scales)), repeat=d):
        slabs = np.array(slabs)
        used = np.flatnonzero(slabs >= 0)
        k, v = len(used), scales[slabs[used]]
        grid = [g.ravel() for g in np.meshgrid(*[x] * k)] if k else []
        weight = np.prod([g.ravel() for g in np.meshgrid(*[w] * k)], axis=0) if k else np.ones(1)
        z = np.array(grid).T if k else np.zeros((1, 0))
        energy = np.sum((y - z @ phi[:, used].T) ** 2, axis=1) + np.sum(z**2 / v, axis=1)
        m = 0.5 * (n + k)
        if beta:
            log = m * math.log(beta / 2 / math.pi) - 0.5 * beta * energy
        else:
            log = gammaln(m) - m * np.log(math.pi * energy)
        log = log + np.log(weight) + k * math.log(2) - 0.5 * np.sum(np.log(v))
        total = logsumexp(log)
        share = np.exp(log - total)
        counts = np.array([np.sum(slabs == a) for a in range(-1, len(scales))], float)
        logs.append(total + np.sum(gammaln(counts + prior)))
        inside.append(slabs >= 0)
        moments = np.zeros((2, d))
        moments[0, used], moments[1, used] = share @ z, share @ z**2
        first.append(moments[0])
        second.append(moments[1])
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return [weights @ np.array(a) for a in (inside, first, second)]


def coherent(seed, n=8, d=3):
    """Columns of length one, the first two nearly alike, one non-zero and much noise."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d))
    phi[:, 1] = phi[:, 0] + 0.3 * rng.normal(size=n)
    phi /= np.linalg.norm(phi, axis=0)
    z = np.zeros(d)
    z[0] = 2.0
    return phi, phi @ z + 0.5 * rng.normal(size=n)


def integrated_with_equals(phi, y, beta):
    """Return the same for two columns, with a slab N(m, v σ²) cut off at zero besides.

    By quadrature over z, m and, where beta is 0, log σ²; m is uniform on [0, REACH] and v one of
    SPREADS. The law has a count of one.
    """
    x, w = np.polynomial.legendre.leggauss(150)
    z, dz = 2.5 * (x + 1), 2.5 * w
    x, w = np.polynomial.legendre.leggauss(40)
    middles, dm = 0.5 * REACH * (x + 1), 0.5 * w
    betas = np.exp(np.linspace(-2.5, 4.0, 50)) if beta == 0 else [beta]
    points = np.append(0.0, z)  # the spike is the first point
    at = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1)
    energy = np.sum((y - at @ phi.T) ** 2, axis=-1)
    prior = np.empty((4, 4))
    for a, c in itertools.product(range(4), repeat=2):
        held = np.array([1.0, 0.5, 0.5, 1.0]) + np.bincount([a, c], minlength=4)
        prior[a, c] = math.exp(np.sum(gammaln(held)))
    powers = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2)]
    sums, inside = np.zeros((5, 4, 4)), np.arange(4) > 0
    for b in betas:
        likelihood = b ** (len(y) / 2) * np.exp(-0.5 * b * energy)
        laws = np.zeros((4, len(points)))
        laws[0, 0] = 1.0
        laws[1:3, 1:] = [2 * norm.pdf(z, scale=math.sqrt(v / b)) * dz for v in SCALES]
        for v, (m, weight) in itertools.product(SPREADS, zip(middles, dm, strict=True)):
            spread = math.sqrt(v / b)
            laws[3, 1:] = norm.pdf(z, m, spread) / norm.cdf(m / spread) * dz
            for i, (one, other) in enumerate(powers):
                joint = (laws * points**one) @ likelihood @ (laws * points**other).T
                sums[i] += weight * prior * joint
    total = sums[0].sum()
    probability = [sums[0][inside].sum() / total, sums[0][:, inside].sum() / total]
    return np.array([probability, *(sums[i : i + 2].sum(axis=(1, 2)) / total for i in (1, 3))])


def chain(phi, y, beta, sweeps, seed, spreads=NO_LAW):
    none = np.empty(0, np.int64)
    return run_nonnegative_chain(
        np.ascontiguousarray(phi.T), y, SCALES, 0.5, spreads, REACH, none, none,
        np.array([1.0, 2.0]), np.empty(0), 1.0, beta, 99,
        np.ones(sweeps + 200), 200, np.random.default_rng(seed),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.0, 4.0])
def test_the_chain_visits_sets_as_often_as_they_are_probable(seed, beta):
    phi, y = coherent(seed)
    exact = integrated(phi, y, SCALES, 0.5, beta)
    chains = [chain(phi, y, beta, 4000, 100 * seed + i) for i in range(8)]
    for part, truth in zip((7, 5, 6), exact, strict=True):
        found = np.array([c[part] for c in chains])
        error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        # As in test_supports.py: t with 7 degrees of freedom, 9 numbers in each of 8 cases.
        assert np.max(np.abs(found.mean(axis=0) - truth) / (error + 1e-4)) < 6.5


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beta", [0.0, 4.0])
def test_values_of_equal_magnitude_are_as_probable_as_they_should_be(seed, beta):
    phi, y = coherent(seed, d=2)
    y = y + phi[:, 1]  # two values, so that they can be equal
    exact = integrated_with_equals(phi, y, beta)
    chains = [chain(phi, y, beta, 4000, 100 * seed + i, SPREADS) for i in range(8)]
    for part, truth in zip((7, 5, 6), exact, strict=True):
        found = np.array([c[part] for c in chains])
        error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        # As above, with 6 numbers in each of 4 cases; the quadrature is known to 1e-3.
        assert np.max(np.abs(found.mean(axis=0) - truth) / (error + 3e-4)) < 6.5


def test_the_draws_have_the_moments_that_are_reported():
    phi, y = coherent(1)
    sizes, places, values, _, _, first, second, inside, *_ = chain(phi, y, 0.0, 20000, 0)
    drawn = np.zeros((len(sizes), phi.shape[1]))
    for row, (k, where, what) in enumerate(zip(sizes, places, values, strict=True)):
        drawn[row, where[:k]] = what[:k]
    assert np.all(drawn >= 0)
    np.testing.assert_allclose(drawn.mean(axis=0), first, atol=0.03 * np.sqrt(second).max())
    np.testing.assert_allclose(np.sqrt((drawn**2).mean(axis=0)), np.sqrt(second), rtol=0.1)
    np.testing.assert_allclose((drawn != 0).mean(axis=0), inside, atol=1e-12)


def test_the_normal_distribution_far_out():
    for t in (-40.0, -4.1, -3.9, 0.0, 3.0, 30.0):
        exact = math.log(2) + log_ndtr(t)
        assert log_twice_normal(t) == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert log_one_sided(t) == pytest.approx(exact + t * t / 2, rel=1e-8, abs=1e-9)
