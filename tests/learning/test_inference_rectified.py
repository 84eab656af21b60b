"""Moments and quantiles of the truncated normal against mpmath."""

import mpmath
import numpy as np
import pytest

from cofem.learning.sites.rectified import (
    SERIES_BELOW,
    probability_of_zero,
    rectified_moments,
    rectified_quantile,
    rectified_second_moment,
)

POINTS = np.unique(
    np.concatenate(
        [np.linspace(-40, 40, 161), SERIES_BELOW + np.array([-1e-9, 0, 1e-9]), [-1e-8, 1e-8]]
    )
)
FAR = np.array([-1e6, -1e4, -300.0, 300.0, 1e4, 1e6, 1e8])


def exact(t):
    """Mean, second moment and variance of N(t, 1) truncated to z > 0, to 60 digits."""
    with mpmath.workdps(60 + 2 * int(np.log10(1 + abs(t)))):
        t = mpmath.mpf(float(t))
        mass = mpmath.erfc(-t / mpmath.sqrt(2)) / 2
        hazard = mpmath.exp(-t * t / 2) / mpmath.sqrt(2 * mpmath.pi) / mass
        mean = t + hazard
        return mean, 1 + t * mean, 1 - hazard * mean


def relative_error(values, references):
    pairs = zip(values, references, strict=True)
    return np.array([float(abs((mpmath.mpf(float(v)) - r) / r)) for v, r in pairs])


@pytest.fixture(scope="module")
def references():
    return [exact(t) for t in POINTS]


@pytest.mark.parametrize("sigma", [1.0, 1e-6, 1e5])
def test_mean_and_second_moment(references, sigma):
    mean, variance = POINTS * sigma, np.full(POINTS.shape, sigma**2)
    first, _ = rectified_moments(mean, variance)
    second = rectified_second_moment(mean, variance)
    assert relative_error(first / sigma, [r[0] for r in references]).max() < 1e-10
    assert relative_error(second / sigma**2, [r[1] for r in references]).max() < 1e-10


def test_variance(references):
    _, variance = rectified_moments(POINTS, np.ones(POINTS.shape))
    assert relative_error(variance, [r[2] for r in references]).max() < 1e-10


def test_far_out():
    # Where zero is a thousand standard deviations away, on either side.
    first, variance = rectified_moments(FAR, np.ones(FAR.shape))
    second = rectified_second_moment(FAR, np.ones(FAR.shape))
    with mpmath.workdps(60):
        for j, t in enumerate(FAR):
            x = mpmath.mpf(float(t))
            if t > 0:  # the truncation is not felt: e^(−t²/2) is nothing
                expected = x, x * x + 1, mpmath.mpf(1)
            else:  # an exponential law of rate |t|, with its first corrections
                expected = (
                    -1 / x * (1 - 2 / x**2 + 10 / x**4),
                    2 / x**2 * (1 - 5 / x**2 + 37 / x**4),
                    1 / x**2 * (1 - 6 / x**2 + 50 / x**4),
                )
            for got, wanted in zip((first[j], second[j], variance[j]), expected, strict=True):
                assert float(abs((mpmath.mpf(float(got)) - wanted) / wanted)) < 1e-9, t


def test_single_precision(references):
    t = POINTS.astype(np.float32)
    first, variance = rectified_moments(t, np.ones_like(t))
    second = rectified_second_moment(t, np.ones_like(t))
    assert first.dtype == second.dtype == variance.dtype == np.float32
    at = [exact(v) for v in t.astype(float)]
    # 1 + t(t + λ) loses a factor t⁴/2 ≈ 1200 at the switch to the series.
    assert relative_error(first, [r[0] for r in at]).max() < 2e-5
    assert relative_error(second, [r[1] for r in at]).max() < 1e-3
    assert (first > 0).all()
    assert (second > 0).all()
    assert (variance > 0).all()


def test_the_paper_as_printed_is_not_what_we_compute():
    # MATH.md, errors 3: sqrt(Σ/π) in print, sqrt(2Σ/π) in truth: at μ = σ they differ.
    from scipy.special import erfcx

    mu, var = 1.0, 1.0
    xi = mu / np.sqrt(2 * var)
    right = mu**2 + var + mu * np.sqrt(2 * var / np.pi) / erfcx(-xi)
    found = rectified_second_moment(np.array([mu]), np.array([var]))
    np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize("t", [-40.0, -20.0, -7.5, -3.0, 0.0, 2.0, 10.0, 40.0])
def test_quantiles(t):
    levels = np.array([1e-6, 0.025, 0.3, 0.5, 0.9, 0.975, 1 - 1e-9])
    sigma = 0.3
    found = rectified_quantile(np.full(7, t * sigma), np.full(7, sigma**2), levels)
    with mpmath.workdps(50):
        for p, q in zip(levels, found / sigma, strict=True):
            # P(z > q) = Φ(t − q)/Φ(t) at the quantile that came out.
            q, x = mpmath.mpf(float(q)), mpmath.mpf(t)
            upper = mpmath.erfc((q - x) / mpmath.sqrt(2)) / mpmath.erfc(-x / mpmath.sqrt(2))
            below = 1 - upper
            smaller = min(below, upper)  # the tail probability is what must be right
            wanted = mpmath.mpf(float(p)) if below < upper else 1 - mpmath.mpf(float(p))
            assert float(abs(smaller - wanted) / wanted) < 1e-6


def test_quantiles_rise_and_end_at_zero():
    p = np.linspace(0, 0.999, 50)
    for t in (-30.0, -1.0, 0.0, 5.0):
        q = rectified_quantile(np.full(50, t), np.ones(50), p)
        assert (np.diff(q) > 0).all()
        assert q[0] == 0
        assert (q >= 0).all()


def test_probability_of_zero(references):
    t = POINTS[abs(POINTS) <= 37]
    found = probability_of_zero(t, np.ones(t.shape))
    with mpmath.workdps(40):
        expected = [mpmath.erfc(mpmath.mpf(float(v)) / mpmath.sqrt(2)) / 2 for v in t]
    assert relative_error(found, expected).max() < 1e-10
