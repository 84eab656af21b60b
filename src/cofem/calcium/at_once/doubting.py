"""What makes traces doubtful, many at once: what ``jumps.doubts`` does with one."""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once import levels
from cofem.calcium.at_once.passes import log_evidence
from cofem.calcium.at_once.tables import Tables
from cofem.calcium.jumps.doubts import FASTEST_DECAY, LONE_NOISES, LONE_SHARE
from cofem.calcium.jumps.recording import (
    ERROR_OF_MEDIAN,
    FIFTH,
    LARGE_SHARE,
    LEAST_FRAMES,
    RANGE,
    line_of,
)
from cofem.calcium.traces import HALF_NORMAL_MEDIAN, maximin_baseline


def lone_frames(dff: Array, framerate: float) -> Array:
    """Return which frames stand alone, far above or below both neighbours (bool, (C, n))."""
    xp = backend.namespace(dff)
    steps = xp.abs(dff[:, 1:] - dff[:, :-1])
    there = xp.isfinite(steps)
    number = xp.sum(xp.astype(there, xp.int64), axis=1)
    known = number[:, None] > 0
    last = xp.where(known, 0 * known + math.inf, 0.0 * known) + xp.zeros_like(steps)
    noise = levels.quantile(xp.where(there, steps, last), number, 0.5)[:, None]
    noise = noise / HALF_NORMAL_MEDIAN / math.sqrt(2)
    before, after = dff[:, 1:-1] - dff[:, :-2], dff[:, 1:-1] - dff[:, 2:]
    far = xp.minimum(xp.abs(before), xp.abs(after))
    lone = (before * after > 0) & (xp.abs(before - after) < LONE_SHARE * far)
    lone = lone & (far > LONE_NOISES * noise) & (noise > 0)
    if framerate * FASTEST_DECAY < 1:
        lone = lone & (before < 0)
    edge = dff[:, :1] != dff[:, :1] + 0 * dff[:, :1]
    edge = edge & ~edge
    return xp.concat([edge, lone, edge], axis=1)


def roughness(y: Array, seen: Array) -> np.ndarray:
    """Return the steps between the frames of every trace (C, n), beside white noise."""
    xp = backend.namespace(y)
    steps, there = xp.abs(y[:, 1:] - y[:, :-1]), seen[:, 1:] & seen[:, :-1]
    middle = backend.to_numpy(_quantile_where(steps, there, 0.5))
    some = backend.to_numpy(_count(there)) > 0
    return np.where(some, middle / HALF_NORMAL_MEDIAN / math.sqrt(2), 1.0)


def upright_gains(
    tables: Tables, y: Array, seen: Array, framerate: float, window: float
) -> np.ndarray:
    """Return by how much every trace (C, n) is more probable than upside down, in log evidence."""
    xp = backend.namespace(y)
    turned = -levels.maximin_baselines(-y, framerate, window) - y
    gaps = np.flatnonzero(~backend.to_numpy(xp.all(seen, axis=1)))
    if len(gaps):  # rare: on the host
        rows = backend.to_numpy(turned).copy()
        for i in gaps:
            row = np.where(
                backend.to_numpy(seen[int(i), :]), -backend.to_numpy(y[int(i), :]), np.nan
            )
            rows[i] = np.nan_to_num(row - maximin_baseline(row, framerate, window))
        turned = backend.from_numpy(rows, y)
    up, down = (log_evidence(tables, x, seen) for x in (y, turned))
    return backend.to_numpy(up - down)


def neighbours(left: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlation of neighbouring frames of every row, and its standard error."""
    xp = backend.namespace(left)
    left = left - levels.mean_of_seen(left, 1)[:, None]
    products = left[:, 1:] * left[:, :-1]
    number = backend.to_numpy(xp.sum(xp.astype(xp.isfinite(products), xp.int64), axis=1))
    power = backend.to_numpy(levels.mean_of_seen(left**2, 1))
    mean = backend.to_numpy(levels.mean_of_seen(products, 1))
    known = (number > 0) & (power > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(known, mean / power, 0.0)
        error = np.where(known, 1 / np.sqrt(number), 1.0)
    return correlation, error


def courses(baseline: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of every baseline (C, n), and the share of its variance that is a line."""
    xp = backend.namespace(baseline)
    spread = backend.to_numpy(xp.std(baseline, axis=1))
    reach = backend.to_numpy(xp.max(baseline, axis=1) - xp.min(baseline, axis=1))
    line = backend.from_numpy(line_of(baseline.shape[1]), baseline)
    along = backend.to_numpy(xp.mean(line[None, :] * baseline, axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        steady = np.where(spread > 0, (along / spread) ** 2, 0.0)
    return np.where(spread > 0, reach, 0.0), steady.round(9)


def large_events(y: Array, seen: Array) -> np.ndarray:
    """Return the height of large events in every trace (C, n)."""
    return backend.to_numpy(_quantile_where(y, seen, LARGE_SHARE))


def top_noises(y: Array, seen: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise at the top of every trace by that at rest, and its logarithm's error."""
    xp = backend.namespace(y)
    before, at, after = y[:, :-2], y[:, 1:-1], y[:, 2:]
    there = seen[:, :-2] & seen[:, 1:-1] & seen[:, 2:]
    height, rough = (before + at + after) / 3, xp.abs(at - (before + after) / 2)
    low, high = (_quantile_where(height, there, share)[:, None] for share in RANGE)
    top = there & (height > high - FIFTH * (high - low))
    rest = there & (height <= low + FIFTH * (high - low))
    number = backend.to_numpy(_count(top))
    at_top, at_rest = (backend.to_numpy(_quantile_where(rough, x, 0.5)) for x in (top, rest))
    enough = backend.to_numpy(_count(there)) >= 2 * LEAST_FRAMES
    known = enough & (number >= LEAST_FRAMES) & (at_rest > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(known, at_top / at_rest, 1.0)
        error = np.where(known, ERROR_OF_MEDIAN / np.sqrt(number), math.inf)
    return ratio, error


def _count(mask: Array) -> Array:
    xp = backend.namespace(mask)
    return xp.sum(xp.astype(mask, xp.int64), axis=1)


def _quantile_where(x: Array, mask: Array, share: float) -> Array:
    """Return a quantile of what is in the mask, of every row; infinite where nothing is."""
    xp = backend.namespace(x)
    return levels.quantile(xp.where(mask, x, 0 * x + math.inf), _count(mask), share)
