"""The response to one event, as a recursion."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

# A kernel is followed for so many time constants: exp(−8) of it is left. Poles nearer than this
# are one, for their difference would lose half of the digits.
REACH, ALIKE = 8, 1e-6


class Kernel(NamedTuple):
    """An autoregressive response of order 1 or 2 and the numbers that scale with it.

    Attributes
    ----------
    tau_d, tau_r : float
        Decay and rise time in seconds; a rise of 0 is a recursion of order 1.
    coefficients : ndarray (1,) or (2,)
        Of the recursion.
    peak : float
        The largest value of the response to z = 1.
    norm : float
        The root of the sum of squares of that response: one isolated event is known
        to noise_std/norm.
    """

    tau_d: float
    tau_r: float
    coefficients: np.ndarray
    peak: float
    norm: float


def kernel_from_times(tau_d: float, tau_r: float, framerate: float) -> Kernel:
    """Build the kernel exp(−t/tau_d) − exp(−t/tau_r), or exp(−t/tau_d) if tau_r is 0.

    Examples
    --------
    >>> kernel = kernel_from_times(tau_d=1.0, tau_r=0.0, framerate=20.0)
    >>> kernel.coefficients.round(4), kernel.peak
    (array([0.9512]), 1.0)
    """
    d = math.exp(-1 / (tau_d * framerate))
    if tau_r == 0:
        power = -math.expm1(-2 / (tau_d * framerate))
        return Kernel(tau_d, 0.0, np.array([d]), 1.0, 1 / math.sqrt(power))
    r = math.exp(-1 / (tau_r * framerate))
    # The kernel is Σ_{k≤t} d^k r^(t−k); its power is a rational function of the poles.
    norm = math.sqrt((1 + d * r) / ((1 - d * r) * (1 - d * d) * (1 - r * r)))
    frames = np.arange(math.ceil(REACH * max(tau_d, tau_r) * framerate) + 2)
    if abs(d - r) > ALIKE:
        response = (d ** (frames + 1) - r ** (frames + 1)) / (d - r)
    else:
        response = (frames + 1) * d**frames
    coefficients = np.array([d + r, -d * r])
    return Kernel(tau_d, tau_r, coefficients, float(response.max()), norm)
