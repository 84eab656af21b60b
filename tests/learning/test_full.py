"""Where z is not sparse enough for the data, a sparse answer is wrong all over, and says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cofem
from cofem import operators

SAYS = "about as many coefficients as the data can tell apart"


def image(seed, n):
    """Six ellipses."""
    rng = np.random.default_rng([seed, 4])
    x, y = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n))
    total = np.zeros((n, n))
    for _ in range(6):
        (a, b), (s, t) = rng.uniform(0.15, 0.6, 2), rng.uniform(-0.5, 0.5, 2)
        total += rng.normal() * (((x - s) / a) ** 2 + ((y - t) / b) ** 2 < 1)
    return total, rng


def fitted(wavelet, seed, share, n=16):
    """Fit an image of which this share of the Fourier coefficients was measured, noise of 2 %."""
    original, rng = image(seed, n)
    mask = np.zeros(n * n, bool)
    mask[rng.choice(n * n, int(share * n * n), replace=False)] = mask[0] = True
    basis = operators.Wavelet((n, n), wavelet)
    phi, z = operators.Fourier((n, n), mask=mask) @ basis, basis.adjoint(original.ravel())
    clean = phi.forward(z.astype(complex))
    noise = rng.normal(size=(2, len(clean))) * 0.02 * np.sqrt(np.mean(abs(clean) ** 2) / 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(phi, clean + noise[0] + 1j * noise[1], real=True)
    low, high = post.interval()
    inside, named = (low <= z) & (z <= high), post.support()
    return " ".join(str(w.message) for w in caught), post, np.mean(inside[named])


def test_an_image_that_is_not_sparse_in_its_basis():
    """Where most of what is named has an interval without the truth that is said, or "ard" ran."""
    fits = [fitted("db4", seed, 0.4) for seed in range(6)]
    wrong = [(words, post) for words, post, covered in fits if covered < 0.5]
    assert len(wrong) >= 4
    for words, post in wrong:
        if post.prior == "mixture":
            assert SAYS in words
            assert not post.converged
        else:
            assert "not certified" in post.message


@pytest.mark.parametrize("seed", range(6))
def test_with_enough_data_nothing_is_said(seed):
    words, post, covered = fitted("haar", seed, 0.8)
    assert words == ""
    assert post.prior == "mixture"
    assert covered > 0.8
