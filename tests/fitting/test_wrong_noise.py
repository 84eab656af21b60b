"""A noise that is given and far from right is doubted; one that is about right is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cofem

SAYS = "the noise given, of standard deviation"
N, D, SIGMA = 100, 250, 0.05


def problem(seed, kind="normal", sigma=SIGMA, k=10):
    rng = np.random.default_rng([seed, 31])
    phi = rng.normal(size=(N, D)) / np.sqrt(N)
    if kind == "complex":
        phi = phi + 1j * rng.normal(size=(N, D)) / np.sqrt(N)
    if kind == "coherent":
        phi = np.cumsum(phi, axis=1) / np.sqrt(D)
    z = np.zeros(D)
    z[rng.choice(D, k, replace=False)] = rng.choice([-1.0, 1.0], k)
    noise = rng.normal(size=N)
    if kind == "complex":
        noise = (noise + 1j * rng.normal(size=N)) / np.sqrt(2)
    return phi, phi @ z + sigma * noise, z


def said(*data, **options):
    """Return what a fit warns of, and the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(*data, **options)
    return " ".join(str(w.message) for w in caught), post


@pytest.mark.parametrize("kind", ["normal", "complex"])
@pytest.mark.parametrize("factor", [0.01, 0.1, 20.0])
def test_a_noise_that_is_far_from_right_is_said(kind, factor):
    """Too small: half of what is named is false. Too large: nothing is found."""
    for seed in range(2):
        phi, y, z = problem(seed, kind)
        words, post = said(phi, y, noise_std=factor * SIGMA)
        assert SAYS in words
        assert not post.converged
        told = float(words.split("learned, it is ")[1].split(",")[0])
        assert 0.7 * SIGMA < told < 1.4 * SIGMA
        named = post.support()
        assert np.mean(z[named] == 0) > 0.3 if factor < 1 else not np.all(named[z != 0])
        assert said(phi, y)[0] == ""


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25, 2.0])
@pytest.mark.parametrize(("kind", "seeds"), [("normal", 8), ("complex", 8), ("coherent", 1)])
def test_a_noise_that_is_about_right_is_believed(kind, seeds, factor):
    for seed in range(seeds):
        phi, y, _ = problem(seed, kind)
        words, post = said(phi, y, noise_std=factor * SIGMA)
        assert SAYS not in words + post.message


def test_data_without_noise_may_be_given_one():
    """It is a tolerance there, and the answer is right within it."""
    for seed in range(5):
        phi, y, z = problem(seed, sigma=0.0)
        words, post = said(phi, y, noise_std=0.01)
        assert words == ""
        assert np.linalg.norm(post.mean - z) < 0.1 * np.linalg.norm(z)


def test_missing_data_filled_in_with_zeros_do_not_contradict_it():
    """With the noise learned these rows would have none."""
    phi, y, _ = problem(3)
    phi, y = np.concatenate([phi, np.zeros((60, D))]), np.concatenate([y, np.zeros(60)])
    assert said(phi, y, noise_std=SIGMA)[0] == ""
