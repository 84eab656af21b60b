"""Moments of the truncated normal law, against mpmath in sixty digits."""

import mpmath
import pytest

from cofem.learning.sites.truncated_normal import FRACTION_BELOW, standard_moments

FAR = [-1e6, -1e3, -50.0, -12.0, -7.0, -5.0]
SWITCH = [FRACTION_BELOW - 1e-6, FRACTION_BELOW, FRACTION_BELOW + 1e-6]
NEAR = [-3.0, -1.0, 0.0, 1.0, 3.0, 8.0, 20.0]


@pytest.mark.parametrize("t", FAR + SWITCH + NEAR)
def test_moments_are_exact(t):
    with mpmath.workdps(60):
        x = mpmath.mpf(t)
        hazard = mpmath.npdf(x) / mpmath.ncdf(x)
        exact = [float(v) for v in (hazard, x + hazard, 1 - hazard * (x + hazard))]
    assert list(standard_moments(t)) == pytest.approx(exact, rel=1e-12, abs=0)
