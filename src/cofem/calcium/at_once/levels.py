"""Baseline, noise and working frames of many traces at once, none of whose frames is missing.

What ``traces`` and ``jumps.fitting`` do with one trace; the same numbers to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.jumps.fitting import WORKING_RATE
from cofem.calcium.traces import (
    HALF_NORMAL_MEDIAN,
    NOISE_ABOVE,
    SMOOTH_FRAMES,
    SMOOTH_PER_SECOND,
    WELCH_FRAMES,
)

# scipy.ndimage cuts a Gaussian off at so many standard deviations.
TRUNCATE = 4.0


def reflected(n: int, before: int, after: int, like: Array) -> Array:
    """Return the indices of n frames with their mirror images on both sides.

    Examples
    --------
    >>> reflected(3, 2, 1, np.zeros(1)).tolist()
    [1, 0, 0, 1, 2, 2]
    """
    place = np.arange(-before, n + after) % (2 * n)
    return backend.from_numpy(np.where(place < n, place, 2 * n - 1 - place), like)


def gaussian(x: Array, sigma: Any) -> Array:
    """Smooth every row; sigma is a number, or one for each row (C,)."""
    xp = backend.namespace(x)
    sigmas = np.broadcast_to(np.asarray(sigma, dtype=np.float64), (x.shape[0],))
    radii = (TRUNCATE * sigmas + 0.5).astype(int)
    most = int(radii.max(initial=0))
    offsets = np.arange(-most, most + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(-0.5 * (offsets / sigmas[:, None]) ** 2)
    weights = np.where(np.abs(offsets) <= radii[:, None], weights, 0.0)
    weights[radii == 0, most] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    shared = backend.from_numpy(weights, x)
    padded = xp.take(x, reflected(x.shape[1], most, most, x), axis=1)
    out = 0 * x
    for k in range(2 * most + 1):
        out = out + shared[:, k : k + 1] * padded[:, k : k + x.shape[1]]
    return out


def running_minimum(x: Array, width: int) -> Array:
    """Return the minimum of ``width`` frames around each, as scipy.ndimage has it.

    Examples
    --------
    >>> running_minimum(np.array([[3.0, 1.0, 2.0, 5.0, 4.0]]), 2).tolist()
    [[3.0, 1.0, 1.0, 2.0, 4.0]]
    """
    xp = backend.namespace(x)
    before = width // 2
    found = xp.take(x, reflected(x.shape[1], before, width - before - 1, x), axis=1)
    reach = 1
    while 2 * reach <= width:
        found = xp.minimum(found[:, : found.shape[1] - reach], found[:, reach:])
        reach *= 2
    n = x.shape[1]
    return xp.minimum(found[:, :n], found[:, width - reach : width - reach + n])


def maximin_baselines(dff: Array, framerate: float, window: float) -> Array:
    """Return suite2p's baselines; see :func:`cofem.calcium.traces.maximin_baseline`."""
    width = min(max(1, int(window * framerate)), 2 * dff.shape[1] - 1)
    low = running_minimum(gaussian(dff, max(SMOOTH_FRAMES, framerate / SMOOTH_PER_SECOND)), width)
    return -running_minimum(-low, width)


def averaged(trace: Array, framerate: float, least: int) -> tuple[Array, float, int]:
    """Return traces averaged down to the working rate, that rate, and by how many frames."""
    factor = max(1, round(framerate / WORKING_RATE))
    n = trace.shape[1]
    if factor == 1 or n < factor * least:
        return trace, framerate, 1
    xp = backend.namespace(trace)
    missing = 0 * trace[:, :1] + math.nan
    padded = xp.concat([trace, *[missing] * (-n % factor)], axis=1)
    rows = xp.reshape(padded, (trace.shape[0], -1, factor))
    return mean_of_seen(rows, 2), framerate / factor, factor


def mean_of_seen(x: Array, axis: int) -> Array:
    """Return the mean of what is not NaN along an axis; NaN where nothing is."""
    xp = backend.namespace(x)
    there = xp.isfinite(x)
    number = xp.sum(xp.astype(there, x.dtype), axis=axis)
    total = xp.sum(xp.where(there, x, xp.zeros_like(x)), axis=axis)
    return total / xp.where(number > 0, number, 0 * number + math.nan)


def noise_levels(trace: Array, framerate: float, rise: float) -> Array:
    """Return the larger of what the spectrum and the steps downward say of the noise, (C,)."""
    xp = backend.namespace(trace)
    return xp.maximum(_white(trace), _downward(trace, framerate, rise))


def _white(trace: Array) -> Array:
    xp = backend.namespace(trace)
    n = trace.shape[1]
    width = min(WELCH_FRAMES, n)
    starts = np.arange(0, n - width + 1, width - width // 2)
    taper = np.hanning(width + 1)[:-1]
    shared = backend.from_numpy(taper, trace)
    power: Array = 0.0  # type: ignore[assignment]
    for start in starts:
        piece = trace[:, int(start) : int(start) + width]
        piece = (piece - xp.mean(piece, axis=1, keepdims=True)) * shared
        power = power + backend.abs_squared(xp.fft.rfft(piece, axis=1))
    power = power / (len(starts) * float(np.sum(taper**2)))
    frequency = np.arange(width // 2 + 1) / width
    high = frequency > NOISE_ABOVE
    share = np.where(high, 1.0, 0.0) / np.count_nonzero(high)
    if width % 2 == 0:
        share[-1] /= 2  # the one frequency that stands once in a two-sided spectrum
    return xp.sqrt(xp.sum(power * backend.from_numpy(share, trace), axis=1))


def _downward(trace: Array, framerate: float, rise: float) -> Array:
    xp = backend.namespace(trace)
    width = min(max(1, round(rise * framerate)), trace.shape[1] // 2)
    totals = xp.cumulative_sum(trace, axis=1)
    totals = xp.concat([0 * totals[:, :1], totals], axis=1)
    windows = (totals[:, width:] - totals[:, :-width]) / width
    down = windows[:, :-width] - windows[:, width:]
    number = xp.sum(xp.astype(down > 0, xp.int64), axis=1)
    # Behind all others, but in a row without any step downward.
    last = xp.where(number > 0, math.inf, 0.0)[:, None] + 0 * down
    found = quantile(xp.where(down > 0, down, last), number, 0.5)
    return found / HALF_NORMAL_MEDIAN * math.sqrt(width / 2)


def quantile(x: Array, number: Array, share: float) -> Array:
    """Return a quantile of every row, of its ``number`` (C,) smallest values, as NumPy does.

    Examples
    --------
    >>> quantile(np.array([[3.0, 1.0, 2.0, np.inf]]), np.array([3]), 0.5).tolist()
    [2.0]
    """
    xp = backend.namespace(x)
    rows, n = x.shape
    ordered = xp.reshape(xp.sort(x, axis=1), (-1,))
    first = xp.arange(rows, device=backend.device_of(x)) * n
    last = xp.maximum(number - 1, 0 * number)
    place = share * xp.astype(last, x.dtype)
    low = xp.astype(xp.floor(place), number.dtype)
    below = xp.take(ordered, first + low)
    above = xp.take(ordered, first + xp.minimum(low + 1, last))
    part = place - xp.astype(low, x.dtype)
    return below + xp.where(part > 0, part * (above - below), 0 * part)


def liveliest_starts(y: Array, length: int) -> Array:
    """Return where every row's stretch of the largest variance begins, of half steps."""
    xp = backend.namespace(y)
    n = y.shape[1]
    starts = [0] if n <= length else [*range(0, n - length, length // 2), n - length]
    spreads = xp.stack([xp.var(y[:, s : s + length], axis=1) for s in starts], axis=1)
    where = backend.from_numpy(np.array(starts), y)
    return xp.take(where, xp.argmax(spreads, axis=1))


def stretches(x: Array, starts: Array, length: int) -> Array:
    """Return ``length`` frames of every row, from its own start on."""
    xp = backend.namespace(x)
    rows, n = x.shape
    if n <= length:
        return x
    device = backend.device_of(x)
    place = xp.arange(rows, device=device) * n + starts
    place = place[:, None] + xp.arange(length, device=device)[None, :]
    return xp.reshape(xp.take(xp.reshape(x, (-1,)), xp.reshape(place, (-1,))), (rows, length))
