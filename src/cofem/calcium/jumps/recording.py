"""What a recording does to a trace, seen in the trace: a level that moves, a top that is cut.

Both lower what can be found, and neither is told by the fit: a baseline follows drift and
bleaching, and large events that are cut look like small ones. (A response of the indicator that
saturates is not told: it makes large events smaller, as if they were fewer spikes, and leaves
the noise as it is.)
"""

from __future__ import annotations

import math

import numpy as np

# Large events are those that one frame in a hundred reaches.
LARGE_SHARE = 0.99
# The level of silence of 98 in 104 recordings with known spikes moves by less than half of a
# large event, and that of the other six may well drift; by less than four noises nobody cares.
MOVED, MOVED_STEADILY, MOVED_NOISES = 0.6, 0.25, 4.0
# A level that rises or falls along a line (share of its variance) is bleaching or focus, not
# activity. No recording of the 104 does so by a quarter of a large event.
STEADY = 0.9
# Noise is compared between frames in the lowest and in the highest fifth of the trace's range,
# as far as not more than a fifth and a hundredth of the frames lie beyond its ends.
RANGE, FIFTH = (0.2, 0.99), 0.2
# More light has more noise: the top of 104 recordings has .89 to 3 times the noise of rest.
CALM_TOP, LEAST_FRAMES = 0.7, 10
# It must also be this many standard errors below.
SURE = 4.0
# Cells of one field correlate with the mean of the others by .02 to .23 (74 cells of mouse V1,
# neuropil subtracted). Of fewer cells than this a pair that fires together would be most.
SHARED, ENOUGH_CELLS = 0.5, 6
# Standard error of the logarithm of a median of |x|, x ~ N(0, 1), times the root of its number.
ERROR_OF_MEDIAN = 1.2
# Against a division by zero: a line of one frame.
TINY = 1e-300


def course(baseline: np.ndarray) -> tuple[float, float]:
    """Return the range of a baseline, and the share of its variance that is a line.

    Examples
    --------
    >>> course(np.linspace(0.0, 2.0, 100))
    (2.0, 1.0)
    """
    spread = float(np.std(baseline))
    if not spread > 0:
        return 0.0, 0.0
    steady = float(np.mean(line_of(len(baseline)) * baseline)) / spread
    return float(np.ptp(baseline)), round(steady**2, 9)


def line_of(n: int) -> np.ndarray:
    """Return a line of n frames with mean 0 and variance 1."""
    line = np.arange(n) - (n - 1) / 2
    return np.asarray(line / max(float(np.std(line)), TINY))


def top_noise(y: np.ndarray) -> tuple[float, float]:
    """Return the noise at the top of a trace, by that at rest, and the error of its logarithm.

    A frame's noise is its distance from the mean of both neighbours, its height the mean of all
    three: of white noise the two are independent, so that choosing frames by one does not change
    the other.

    Parameters
    ----------
    y : ndarray (n,)
        NaN where a frame is missing.

    Examples
    --------
    >>> trace = np.random.default_rng(0).standard_normal(4000)
    >>> trace[1000:2000] += 20.0
    >>> round(top_noise(trace)[0], 1), top_noise(np.minimum(trace, 19.0))[0]
    (1.0, 0.0)
    """
    height = (y[:-2] + y[1:-1] + y[2:]) / 3
    there = np.isfinite(height)
    height = height[there]
    if len(height) < 2 * LEAST_FRAMES:
        return 1.0, math.inf
    rough = np.abs(y[1:-1] - (y[:-2] + y[2:]) / 2)[there]
    low, high = np.quantile(height, RANGE)
    rest = height <= low + FIFTH * (high - low)
    top = height > high - FIFTH * (high - low)
    number = int(np.count_nonzero(top))
    at_rest = float(np.median(rough[rest]))
    if number < LEAST_FRAMES or not at_rest > 0:
        return 1.0, math.inf
    return float(np.median(rough[top])) / at_rest, ERROR_OF_MEDIAN / math.sqrt(number)


def drifts(reach: float, steady: float, large: float) -> bool:
    """Return whether a level moves so far, beside a large event, that it should be looked at.

    Parameters
    ----------
    reach, steady : float
        The range of the baseline in units of the noise at 30 Hz, and see :func:`course`.
    large : float
        The height of a large event, in the same units.

    Examples
    --------
    >>> drifts(reach=12.0, steady=0.1, large=10.0), drifts(12.0, 0.1, 30.0)
    (True, False)
    >>> drifts(reach=12.0, steady=0.97, large=30.0)
    True
    """
    share = MOVED_STEADILY if steady > STEADY else MOVED
    return reach > max(MOVED_NOISES, share * large)


def shared(rows: np.ndarray) -> np.ndarray:
    """Return the correlation of every trace (C, n) with the mean of the others; NaN is missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> own, common = rng.standard_normal((9, 400)), rng.standard_normal(400)
    >>> bool(shared(own).max() < 0.3), bool(shared(own + 2 * common).min() > 0.7)
    (True, True)
    """
    if len(rows) < ENOUGH_CELLS:
        return np.zeros(len(rows))
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += _standard(row)
    own = (_standard(row) for row in rows)  # again, for many cells must not take more memory
    return np.array([float(np.mean(x * _standard(total - x))) for x in own])


def _standard(row: np.ndarray) -> np.ndarray:
    """Return a row with mean 0 and variance 1, where there is any; 0 where it is missing."""
    x = np.asarray(row, dtype=np.float64)
    seen = np.isfinite(x)
    x = np.where(seen, x - (x[seen].mean() if seen.any() else 0.0), 0.0)
    power = float(np.mean(x**2))
    return x / math.sqrt(power) if power > 0 else x


def cut(noise: float, error: float) -> bool:
    """Return whether the top of a trace has so little noise that something cuts it.

    Examples
    --------
    >>> cut(0.3, 0.1), cut(0.3, 0.5), cut(1.0, 0.1)
    (True, False, False)
    """
    return noise < CALM_TOP and (noise == 0 or math.log(noise) < -SURE * error)
