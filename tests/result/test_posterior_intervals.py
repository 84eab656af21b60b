"""Intervals, the support and the words of a posterior."""

import numpy as np
import pytest
from posterior_cases import BETA, D, exact, problem, rectified
from scipy.stats import norm

import cofem

# -- intervals -----------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_interval_and_support(level):
    post, covariance, mean = exact()
    low, high = post.interval(level)
    std = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(norm.cdf((high - mean) / std), (1 + level) / 2, rtol=1e-8)
    np.testing.assert_allclose(norm.cdf((low - mean) / std), (1 - level) / 2, rtol=1e-6)
    np.testing.assert_array_equal(post.support(level), (low > 0) | (high < 0))
    assert post.support(level).dtype == bool


def test_the_support_shrinks_with_the_level():
    post, _, _ = exact()
    sizes = [int(post.support(level).sum()) for level in (0.1, 0.5, 0.95, 0.999999)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_default_level_is_95():
    post, _, _ = exact()
    np.testing.assert_array_equal(post.interval()[0], post.interval(0.95)[0])
    np.testing.assert_array_equal(post.support(), post.support(0.95))


def test_nonnegative_interval_and_support():
    phi, y, alpha, _, _ = problem()
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, nonnegative=True)
    draws = post.sample(20_000, seed=0)
    low, high = post.interval(0.9)
    share = ((draws >= low) & (draws <= high)).mean(axis=0)
    # A standard error of √(.09/20000) = 0.002, and what the approximation adds.
    np.testing.assert_allclose(share, 0.9, atol=0.03)
    support = post.support(0.9)
    np.testing.assert_array_equal(support, low > 0)
    assert 0 < support.sum() < D


def test_interval_and_support_of_the_papers_nonnegative_posterior():
    post = rectified()
    draws = post.sample(20_000, seed=0)
    low, high = post.interval(0.9)
    share = ((draws >= low) & (draws <= high)).mean(axis=0)
    # Zero has a mass of its own: where it holds a whole tail, that tail is inside, and where it
    # holds all but one tail, the interval is zero.
    zero = post.probability_of_zero
    expected = np.where(zero >= 0.95, zero, np.where(zero >= 0.05, 0.95, 0.9))
    assert len(set(expected)) > 1
    # Each share has a standard error of √(.09/20000) = 0.002: five of them.
    np.testing.assert_allclose(share, expected, atol=0.011)
    support = post.support(0.9)
    np.testing.assert_array_equal(support, post.probability_of_zero < 0.05)
    assert 0 < support.sum() < D


def test_complex_has_no_interval_but_a_support():
    post, covariance, mean = exact(complex_=True)
    with pytest.raises(ValueError, match="complex"):
        post.interval()
    # |z − μ|²/Σ is exponential: zero is outside when |μ|² > Σ log 20.
    expected = abs(mean) ** 2 > np.diag(covariance).real * np.log(20)
    np.testing.assert_array_equal(post.support(), expected)


@pytest.mark.parametrize("kind", ["real", "complex", "nonnegative"])
@pytest.mark.parametrize("bad", [0, 1, -0.5, 1.5, np.nan, "wide", None])
def test_a_bad_level_is_named(kind, bad):
    phi, y, alpha, _, _ = problem(complex_=kind == "complex")
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA,
                           nonnegative=kind == "nonnegative")  # fmt: skip
    with pytest.raises(ValueError, match="level"):
        post.support(bad)
    if kind != "complex":
        with pytest.raises(ValueError, match="level"):
            post.interval(bad)


def test_probability_of_zero_needs_a_nonnegative_model():
    post, _, _ = exact()
    with pytest.raises(ValueError, match="nonnegative"):
        _ = post.probability_of_zero


# -- display -------------------------------------------------------------------


def test_repr_is_short_and_says_what_matters():
    for post in (exact()[0], exact(complex_=True)[0], exact(method="cofem")[0]):
        text = repr(post)
        assert len(text) < 200
        assert "\n" not in text
        assert post.method in text
        assert "16 unknowns" in text
        assert "converged" in text
    phi, y, alpha, _, _ = problem()
    joint = cofem.posterior(phi, np.stack([y, y]), precision=alpha, noise_precision=[1.0, 2.0])
    assert "2×16" in repr(joint)


def test_posterior_is_frozen():
    import dataclasses

    post, _, _ = exact()
    with pytest.raises(dataclasses.FrozenInstanceError):
        post.converged = False
