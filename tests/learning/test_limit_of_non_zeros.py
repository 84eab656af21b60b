"""How many non-zeros the slabs may hold: the line beside state evolution, real and complex."""

import numpy as np
import pytest

import cofem
from cofem.learning.sites.mixture import MOST_PER_DATUM, most_per_datum

# What the slabs may hold beyond the line.
MORE = 1.1
NOISE_PRECISION = 1e6


def remaining(precision, share, is_complex):
    """E var(x | x + noise) for x zero or standard normal, by quadrature over |x + noise|²."""
    if is_complex:  # exponential
        square = (np.arange(4000) + 0.5) / 100
        density = np.exp(-square)
    else:
        root = (np.arange(2000) + 0.5) * 9 / 2000
        square, density = root**2, np.exp(-(root**2) / 2)
    density = density / density.sum()
    kept = precision / (1 + precision)
    half = 1.0 if is_complex else 0.5
    total = 0.0
    for weight, variance in ((1 - share, 1 / precision), (share, 1 + 1 / precision)):
        seen = variance * square
        odds = np.log(share / (1 - share)) + half * (seen * precision * kept - np.log1p(precision))
        there = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        mean = kept**2 * seen
        total += weight * (density @ (there * (1 / (1 + precision) + mean) - there**2 * mean))
    return total


def is_recovered(per_datum, ratio, is_complex):
    """Whether vector approximate message passing with the true prior ends near the truth."""
    share, precision = per_datum * ratio, 1e-3
    for _ in range(3000):
        error = remaining(precision, share, is_complex)
        other = max(1 / error - precision, 1e-12)  # of orthonormal rows
        mean = ratio / (other + NOISE_PRECISION) + (1 - ratio) / other
        new = max(1 / mean - other, 1e-12)
        if abs(np.log(new / precision)) < 1e-7:
            break
        precision = new
    return error < 0.05**2 * share


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("ratio", [0.1, 1 / 3, 0.65])
def test_the_line_is_that_of_state_evolution(ratio, is_complex):
    line = most_per_datum(ratio, 1.0 if is_complex else 0.5) / MORE
    assert is_recovered(line - 0.035, ratio, is_complex)
    assert not is_recovered(line + 0.035, ratio, is_complex)


@pytest.mark.parametrize("seed", [1000, 1001, 1002])
def test_complex_values_are_found_beyond_what_real_ones_could(seed):
    """30 of 256 in 60 data, where half of the real and imaginary parts are known to be zero."""
    n, d, k = 60, 256, 30
    assert k / n > (MOST_PER_DATUM[0.5][0] + MOST_PER_DATUM[0.5][1] * n / d) / MORE
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)

    z = np.zeros(d, complex)
    z[rng.choice(d, k, replace=False)] = normal(k)
    phi = normal(n, d) / np.sqrt(n)
    clean = phi @ z
    y = clean + 0.01 * np.linalg.norm(clean) / np.sqrt(n) * normal(n)
    post = cofem.fit(phi, y)
    assert post.prior == "mixture"
    assert post.converged
    assert np.linalg.norm(post.mean - z) < 0.03 * np.linalg.norm(z)
