"""From jumps of many cells to what a user is given: ``jumps.fitting`` for one cell."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once.levels import gaussian
from cofem.calcium.at_once.passes import ManyJumps
from cofem.calcium.at_once.tables import Tables
from cofem.calcium.half_cauchy.cell import Settings
from cofem.calcium.jumps.counting import (
    FLOOR,
    LEAST_PROBABILITY,
    TRUST_HEIGHT,
    Segments,
    size_spread,
    spike_size,
)
from cofem.calcium.jumps.fitting import JITTER, NEAR_SECONDS
from cofem.calcium.jumps.search import Found
from cofem.calcium.jumps.states import HEIGHT, HEIGHT_RATE


def assembled(
    jumps: ManyJumps,
    tables: Tables,
    found: list[Found],
    noise: np.ndarray,
    framerate: float,
    factor: int,
    baseline: Array,
    settings: Settings,
    lost: np.ndarray,
) -> tuple[dict[str, Array], dict[str, np.ndarray]]:
    """Return arrays over frames (C, n), and numbers (C,), by the names of ``CellFit``.

    ``framerate`` is that of the working frames, of ``factor`` frames each; ``lost`` (C,) is
    the share of the second view in the interval of counts.
    """
    xp = backend.namespace(baseline)
    n = baseline.shape[1]

    def column(values: np.ndarray) -> Array:
        return backend.from_numpy(np.ascontiguousarray(values, dtype=np.float64), baseline)[:, None]

    tau_d, own, walked = (
        np.array([getattr(one.constants, name) for one in found])
        for name in ("tau_d", "height", "level")
    )
    height = tables.height[:, None] * column(noise)
    unit = noise * math.sqrt(HEIGHT_RATE / framerate)
    sums = backend.to_numpy(xp.sum(jumps.number, axis=1))
    per_second = sums * framerate / jumps.number.shape[1]
    jitter = JITTER * tau_d * framerate
    size = spread_out(gaussian(jumps.number, jitter), factor, n)
    active = spread_out(gaussian(jumps.active, jitter), factor, n)
    tall = height / column(unit) * size
    in_noise = [one.second for one in found]
    sizes, trust = _counted(active, tall, own, per_second, tau_d, in_noise, settings.framerate)
    one_spike = unit * sizes
    spikes = height * size
    if settings.threshold is not None:
        enough = _near(active, settings.framerate) >= settings.threshold
        spikes = xp.where(enough, spikes, 0 * spikes)
    level = baseline + column(noise * walked)
    place = backend.from_numpy(np.arange(n) // factor, baseline)
    frames = {
        "spikes": spikes,
        "mean": height * size,
        "std": height * xp.take(jumps.spread, place, axis=1) / math.sqrt(factor),
        "prob_active": active,
        "denoised": level + height * between(risen(jumps.calcium, tables.rise), factor, n),
        "baseline": level,
        "precision": 0 * level + math.nan,
        "spike_counts": height / column(one_spike) * size * trust,
        "denoised_std": height * between(jumps.calcium_spread, factor, n),
    }
    given, rise = settings.sn, backend.to_numpy(tables.rise)
    cells = {
        "noise_std": noise * math.sqrt(factor) if given is None else np.full(len(noise), given),
        "tau_d": tau_d,
        "tau_r": np.where(rise > 0, [one.constants.tau_r for one in found], 0.0),
        "latency": np.full(len(noise), 0.5 / framerate),
        "curvature": np.array([one.constants.curvature for one in found]) / (HEIGHT * unit),
        "spike_size": one_spike,
        "size_spread": np.array([size_spread(float(x)) for x in lost]),
        "at_limit": np.array([one.at_limit for one in found]),
        "log_evidence": backend.to_numpy(jumps.log_evidence),
        "iterations": np.array([one.evaluations for one in found]),
        "change": np.zeros(len(noise)),
        "converged": np.ones(len(noise), bool),
        "message": np.full(len(noise), "", dtype=object),
    }
    return frames, cells


def spread_out(x: Array, factor: int, n: int) -> Array:
    """Give every frame its share of a working frame's sum, half a working frame earlier.

    Examples
    --------
    >>> spread_out(np.array([[0.0, 0.0, 2.0, 0.0]]), 1, 4).tolist()
    [[0.0, 1.0, 1.0, 0.0]]
    """
    xp = backend.namespace(x)
    total = xp.cumulative_sum(x, axis=1)
    total = xp.concat([0 * total[:, :1], total], axis=1)
    at = _interpolated(total, (np.arange(n + 1) + factor / 2) / factor)
    return at[:, 1:] - at[:, :-1]


def between(x: Array, factor: int, n: int) -> Array:
    """Return values of working frames at the recording's frames."""
    if factor == 1:
        return x[:, :n]
    return _interpolated(x, (np.arange(n) - (factor - 1) / 2) / factor)


def risen(calcium: Array, rise: Array) -> Array:
    """Return the fluorescence that follows calcium with every cell's ρ (C,), from rest on.

    f_t = ρ f_{t−1} + (1 − ρ) c_t as a product of spectra, with f and c equal before the start.
    """
    xp = backend.namespace(calcium)
    n = calcium.shape[1]
    lag = xp.arange(n, dtype=calcium.dtype, device=backend.device_of(calcium))[None, :]
    rho = rise[:, None]
    safe = xp.where(rho > 0, rho, 0 * rho + 1)
    kernel = xp.where((rho > 0) | (lag == 0), xp.exp(lag * xp.log(safe)), 0 * lag)
    first = calcium[:, :1]
    spectrum = xp.fft.rfft(calcium - first, n=2 * n, axis=1)
    spectrum = spectrum * xp.fft.rfft((1 - rho) * kernel, n=2 * n, axis=1)
    return first + xp.fft.irfft(spectrum, n=2 * n, axis=1)[:, :n]


def _interpolated(x: Array, place: np.ndarray) -> Array:
    """Return rows between their entries, at places that are the same in all."""
    xp = backend.namespace(x)
    place = np.clip(place, 0, x.shape[1] - 1)
    low = np.minimum(place.astype(np.int64), max(x.shape[1] - 2, 0))
    high = np.minimum(low + 1, x.shape[1] - 1)
    part = backend.from_numpy(place - low, x)
    below = xp.take(x, backend.from_numpy(low, x), axis=1)
    return below + part * (xp.take(x, backend.from_numpy(high, x), axis=1) - below)


def _near(active: Array, framerate: float) -> Array:
    """Return the probability of a jump within 50 ms: a jump's frame is seldom certain."""
    xp = backend.namespace(active)
    half, n = round(NEAR_SECONDS * framerate), active.shape[1]
    total = xp.cumulative_sum(active, axis=1)
    total = xp.concat([0 * total[:, :1], total], axis=1)
    last = backend.from_numpy(np.minimum(np.arange(n) + half + 1, n), active)
    first = backend.from_numpy(np.maximum(np.arange(n) - half, 0), active)
    sums = xp.take(total, last, axis=1) - xp.take(total, first, axis=1)
    return xp.minimum(sums, 0 * sums + 1)


def _counted(
    active: Array,
    tall: Array,
    own: np.ndarray,
    per_second: np.ndarray,
    tau_d: np.ndarray,
    in_noise: list[bool],
    framerate: float,
) -> tuple[np.ndarray, Array]:
    """Return the size of a spike (C,), and the trust in a frame's jumps (C, n).

    Segments as in ``counting.segments``, of all rows in one list: a column that is never on
    ends each.
    """
    xp = backend.namespace(active)
    rows, n = active.shape
    on = xp.concat([active > FLOOR / framerate, active[:, :1] < -1], axis=1)
    flat = xp.reshape(on, (-1,))
    before = xp.concat([flat[-1:], flat[:-1]])
    starts = xp.nonzero(flat & ~before)[0]
    stops = xp.nonzero(before & ~flat)[0]
    chance, total = (_between_sums(x, starts, stops) for x in (active, tall))
    kept = (chance >= LEAST_PROBABILITY) & (total > 0)
    chance = xp.minimum(chance, 0 * chance + 1)
    heights = total / xp.where(kept, chance, 0 * chance + 1)
    counted = [backend.to_numpy(x) for x in (starts, stops, chance, heights, kept)]
    lengths = backend.from_numpy(TRUST_HEIGHT * own, active)
    usual = -xp.expm1(-1 / lengths)[:, None] + 0 * active
    trust = usual
    if starts.shape[0]:
        row = xp.floor_divide(starts, 0 * starts + (n + 1))
        shares = -xp.expm1(-heights / xp.take(lengths, row))
        shares = xp.where(kept, shares, xp.take(usual[:, 0], row))
        begins = xp.astype(flat & ~before, xp.int64)
        which = xp.reshape(xp.cumulative_sum(begins), (rows, n + 1))[:, :n] - 1
        which = xp.maximum(which, 0 * which)
        named = xp.reshape(xp.take(shares, xp.reshape(which, (-1,))), (rows, n))
        trust = xp.where(on[:, :n], named, usual)
    return _sizes(counted, n, per_second * own, tau_d, in_noise), trust


def _between_sums(x: Array, starts: Array, stops: Array) -> Array:
    xp = backend.namespace(x)
    total = xp.cumulative_sum(x, axis=1)
    total = xp.reshape(xp.concat([0 * total[:, :1], total], axis=1), (-1,))
    return xp.take(total, stops) - xp.take(total, starts)


def _sizes(
    counted: list[Any],
    n: int,
    heights_per_second: np.ndarray,
    tau_d: np.ndarray,
    in_noise: list[bool],
) -> np.ndarray:
    kept = counted.pop()
    start, stop, chance, height = (x[kept] for x in counted)
    edges = np.searchsorted(start // (n + 1), np.arange(len(tau_d) + 1))
    out = np.empty(len(tau_d))
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        mine = Segments(start[a:b], stop[a:b], chance[a:b], height[a:b])
        out[i] = spike_size(float(heights_per_second[i]), float(tau_d[i]), mine, in_noise[i])
    return out
