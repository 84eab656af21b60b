"""The compiled second moment against mpmath and against the formulas in closed form."""

import mpmath
import numpy as np
import pytest

from cofem.learning.sites.rectified import rectified_second_moment
from cofem.learning.sites.rectified_table import FAR, HALF, PIECES, compiled_second_moment


def exact(t):
    with mpmath.workdps(60):
        t = mpmath.mpf(float(t))
        tail = mpmath.erfc(-t / mpmath.sqrt(2))
        return float(1 + t * t + t * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-t * t / 2) / tail)


EDGES_BELOW = HALF * (1 - PIECES / np.arange(1, PIECES + 1))


@pytest.mark.parametrize(
    "t",
    [
        np.linspace(-40, 40, 401),
        np.linspace(-3, 9, 241),
        EDGES_BELOW[EDGES_BELOW > -60],
        np.nextafter(EDGES_BELOW[EDGES_BELOW > -60], -100),
        np.arange(PIECES + 1) * FAR / PIECES,
        np.array([0.0, -0.0, 1e-300, -1e-300, FAR, np.nextafter(FAR, 0)]),
    ],
    ids=["wide", "near", "edges", "other side of edges", "edges above", "special"],
)
def test_right_to_rounding(t):
    found = compiled_second_moment(t, np.ones_like(t))
    expected = np.array([exact(x) for x in t])
    np.testing.assert_allclose(found, expected, rtol=5e-14)


def test_far_below_zero_the_series_is_exact():
    t = -np.logspace(2, 7, 50)
    found = compiled_second_moment(t, np.ones_like(t))
    a = 1 / t**2
    np.testing.assert_allclose(found, 2 * a * (1 - 5 * a + 37 * a**2), rtol=1e-9)
    np.testing.assert_allclose(found[20:], (2 * a * (1 - 5 * a + 37 * a**2))[20:], rtol=1e-13)


def test_scales_as_a_variance_does():
    random = np.random.default_rng(0)
    mean, variance = random.normal(0, 3, (4, 50)), 10 ** random.uniform(-8, 3, (4, 50))
    np.testing.assert_allclose(
        compiled_second_moment(mean, variance), rectified_second_moment(mean, variance), rtol=1e-11
    )
    single = compiled_second_moment(mean.astype(np.float32), variance.astype(np.float32))
    assert single.dtype == np.float32
    assert single.shape == (4, 50)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_array_libraries_get_the_same_moments(dtype):
    """Around the limits of the series too, and far below zero."""
    xp = pytest.importorskip("array_api_strict")
    t = np.concatenate([np.linspace(-14, 9, 93), [-1e3, -12.001, -11.999, -7.001, -6.999, 30.0]])
    mean = xp.asarray(t.astype(dtype))
    second = rectified_second_moment(mean, xp.ones_like(mean))
    expected = np.array([exact(x) for x in t.astype(dtype)])
    rtol = 5e-3 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(np.asarray(second), expected, rtol=rtol)


def test_a_pinned_coordinate_stays():
    assert compiled_second_moment(np.zeros(1), np.zeros(1)) == [0.0]


def test_nan_is_not_hidden():
    nan = np.array([np.nan])
    assert np.isnan(compiled_second_moment(nan, np.ones(1))).all()
    assert np.isnan(compiled_second_moment(np.ones(1), nan)).all()


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="one shape"):
        compiled_second_moment(np.ones(3), np.ones(2))
