"""From fluorescence to what the model explains: baseline, response, noise.

All of these let frames be missing (NaN).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import gaussian_filter1d, maximum_filter1d, minimum_filter1d

# suite2p's own weight of the neuropil.
NEUROPIL_COEFFICIENT = 0.7
# suite2p smooths by so many frames before the running minimum; at high frame rates at least by
# a part of a second, or the minimum falls into the noise.
SMOOTH_FRAMES, SMOOTH_PER_SECOND = 10.0, 6.0
# Where less than this of the smoothing window is there, a level is not told.
NEAR_ENOUGH = 1e-3
# Noise is measured above this share of the frame rate, where no indicator responds (as in CaImAn
# and OASIS), in windows of so many frames (SciPy's default of Welch's method).
NOISE_ABOVE, WELCH_FRAMES = 0.25, 256
# A spectrum needs a run of at least so many frames without a gap.
LEAST_RUN = 16
# The median of |x| for x ~ N(0, 1).
HALF_NORMAL_MEDIAN = 0.6744897501960817


def maximin_baseline(dff: np.ndarray, framerate: float, window: float = 60.0) -> np.ndarray:
    """Return suite2p's baseline: smooth, then the running minimum, then its maximum.

    Parameters
    ----------
    dff : ndarray (n,)
        A trace; NaN where a frame is missing.
    framerate : float
        Frames per second.
    window : float
        Of the minimum and the maximum, in seconds.

    Notes
    -----
    The smoothing has a standard deviation of 10 frames, as in suite2p, and of at least
    a sixth of a second, so that at high frame rates the minimum does not fall into the
    noise.

    Examples
    --------
    >>> drift = np.linspace(1.0, 2.0, 600)
    >>> trace = drift.copy()
    >>> trace[300:330] += 5.0
    >>> bool(np.abs(maximin_baseline(trace, 10.0, window=10.0) - drift).max() < 0.2)
    True
    """
    seen = np.isfinite(dff)
    if not seen.any():
        return np.full(len(dff), np.nan)
    sigma = max(SMOOTH_FRAMES, framerate / SMOOTH_PER_SECOND)
    weight = gaussian_filter1d(seen.astype(np.float64), sigma)
    total = gaussian_filter1d(np.where(seen, dff, 0.0), sigma)
    # Where no frame is near there is no level: infinite for the minimum, which skips it.
    near = weight > NEAR_ENOUGH
    smooth = np.where(near, total / np.where(near, weight, 1.0), np.inf)
    width = min(max(1, int(window * framerate)), 2 * len(dff) - 1)
    low = minimum_filter1d(smooth, width)
    baseline = maximum_filter1d(np.where(np.isfinite(low), low, -np.inf), width)
    gaps = ~np.isfinite(baseline)
    if gaps.any():
        there = np.flatnonzero(~gaps)
        baseline[gaps] = np.interp(np.flatnonzero(gaps), there, baseline[there])
    return np.asarray(baseline)


def to_dff(
    fluorescence: np.ndarray,
    framerate: float,
    neuropil: np.ndarray | None = None,
    coefficient: float = NEUROPIL_COEFFICIENT,
    window: float = 60.0,
) -> tuple[np.ndarray, bool]:
    """Turn raw fluorescence into dF/F.

    Parameters
    ----------
    fluorescence, neuropil : ndarray (n,)
        Of a region, and around it.
    framerate : float
        Frames per second.
    coefficient : float
        The weight of the neuropil.
    window : float
        Of the maximin baseline, in seconds.

    Returns
    -------
    dff : ndarray (n,)
        (F − w Fneu − F₀)/F₀, with F₀ the baseline of F − w Fneu.
    whole : bool
        False if that baseline is not positive everywhere: neuropil takes more than there is.
        Then the baseline of F alone divides, so that events keep their place and sign.

    Examples
    --------
    >>> dff, whole = to_dff(np.full(50, 100.0), 10.0, neuropil=np.full(50, 20.0))
    >>> bool(np.all(dff == 0)), whole
    (True, True)
    >>> to_dff(np.full(50, 100.0), 10.0, neuropil=np.full(50, 200.0))[1]
    False
    """
    given = np.asarray(fluorescence, dtype=np.float64)
    corrected = given if neuropil is None else given - coefficient * np.asarray(neuropil)
    baseline = maximin_baseline(corrected, framerate, window)
    whole = bool(np.all(baseline > 0))
    below = baseline if whole else maximin_baseline(given, framerate, window)
    below = np.where(below > 0, below, np.nan)
    with np.errstate(over="ignore"):  # what is infinite is refused by name later
        return np.asarray((corrected - baseline) / below), whole


def log_response(above: np.ndarray) -> np.ndarray:
    """Return log(1 + dF/F) where fluorescence is above the baseline, dF/F below it.

    Calcium sensors bind several ions together, so that fluorescence grows faster than
    calcium, and shot noise grows with it. In the logarithm spikes of a burst weigh
    nearly alike, and the noise is nearly even.

    Examples
    --------
    >>> log_response(np.array([-0.1, 0.0, 1.0])).round(4)
    array([-0.1   ,  0.    ,  0.6931])
    """
    return np.where(above > 0, np.log1p(np.maximum(above, 0.0)), above)


def log_response_inverse(x: np.ndarray) -> np.ndarray:
    """Return dF/F above the baseline for what :func:`log_response` gives.

    Examples
    --------
    >>> log_response_inverse(log_response(np.array([-0.1, 0.0, 1.0])))
    array([-0.1,  0. ,  1. ])
    """
    return np.where(x > 0, np.expm1(np.maximum(x, 0.0)), x)


def white_noise(trace: np.ndarray, framerate: float) -> float:
    """Return the noise's standard deviation from the spectrum above framerate/4.

    The mean power density there (Welch's method, 256 frames), as if it were the same at
    all frequencies. With gaps, the runs of frames without a gap are averaged.

    Examples
    --------
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(20_000)
    >>> round(white_noise(noise, 30.0), 2)
    0.1
    """
    runs = [run for run in _runs(trace) if len(run) >= LEAST_RUN]
    if not runs:
        steps = np.diff(trace[np.isfinite(trace)])
        if len(steps) == 0:
            return 0.0
        return float(np.median(np.abs(steps)) / HALF_NORMAL_MEDIAN / math.sqrt(2))
    power = weight = 0.0
    for run in runs:
        power += len(run) * _upper_power(run)
        weight += len(run)
    return math.sqrt(power / weight)


def _upper_power(run: np.ndarray) -> float:
    """Return the variance of white noise with the run's mean power above a quarter of the rate.

    Welch's method as in SciPy (Hann's window, half overlap, the mean of a window removed), in
    one transform of all windows.
    """
    width = min(WELCH_FRAMES, len(run))
    windows = np.lib.stride_tricks.sliding_window_view(run, width)[:: width - width // 2]
    taper = np.hanning(width + 1)[:-1]
    spectrum = np.fft.rfft((windows - windows.mean(axis=1, keepdims=True)) * taper, axis=1)
    power = np.mean(np.abs(spectrum) ** 2, axis=0) / np.sum(taper**2)
    if width % 2 == 0:
        power[-1] /= 2  # the one frequency that stands once in a two-sided spectrum
    return float(np.mean(power[np.arange(len(power)) / width > NOISE_ABOVE]))


def downward_noise(trace: np.ndarray, framerate: float, rise: float) -> float:
    """Return the noise's standard deviation from steps downward, at the scale of a rise.

    Events only go up at once, so the steps down between the means of neighbouring
    windows, each as long as the rise, are the noise's own. Noise that is not white
    (heartbeat, motion, neuropil) counts here as much as it can be mistaken for an
    event; in the spectrum above framerate/4 it is absent. The median of the steps is
    little moved by decays.

    Parameters
    ----------
    trace : ndarray (n,)
        NaN where a frame is missing; windows with a gap are left out.
    framerate : float
        Frames per second.
    rise : float
        The indicator's rise time, in seconds.

    Returns
    -------
    float
        The standard deviation of the white noise with steps of that size.

    Examples
    --------
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(20_000)
    >>> round(downward_noise(noise, 60.0, rise=0.05), 2)
    0.1
    """
    width = min(max(1, round(rise * framerate)), len(trace) // 2)
    if width == 0:
        return 0.0
    totals = np.concatenate([[0.0], np.cumsum(trace)])
    if np.isnan(totals[-1]):  # a sum of sums would carry a gap to the end
        windows = np.lib.stride_tricks.sliding_window_view(trace, width).mean(axis=1)
    else:
        windows = (totals[width:] - totals[:-width]) / width
    steps = windows[width:] - windows[:-width]
    down = -steps[steps < 0]
    if len(down) == 0:
        return 0.0
    return float(np.median(down) / HALF_NORMAL_MEDIAN * math.sqrt(width / 2))


def _runs(trace: np.ndarray) -> list[np.ndarray]:
    """Return the stretches without a missing frame."""
    seen = np.isfinite(trace)
    edges = np.flatnonzero(np.diff(seen.astype(np.int8), prepend=0, append=0))
    return [trace[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
