"""From fluorescence of many cells to traces in units of their noise."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once import levels
from cofem.calcium.half_cauchy.cell import MIN_FRAMES, Settings, noise_level, rise_time
from cofem.calcium.jumps import fitting as one_cell
from cofem.calcium.traces import maximin_baseline


class Prepared(NamedTuple):
    """Traces above their baselines in units of their noise; arrays (C, n) and (C,)."""

    y: Array
    seen: Array
    baseline: Array
    noise: np.ndarray
    scale: np.ndarray
    framerate: float
    factor: int


def prepared(dff: Array, settings: Settings, given: np.ndarray | None) -> Prepared:
    """Return rows (C, n) above their baselines, in units of their noise."""
    xp = backend.namespace(dff)
    whole = backend.to_numpy(xp.all(xp.isfinite(dff), axis=1))
    if whole.all():
        return _prepared_there(dff, settings, given)
    if not whole.any():
        return _prepared_on_host(dff, settings, given)
    # Rows with a gap: their baseline and noise come from the host.
    places = [np.flatnonzero(whole), np.flatnonzero(~whole)]
    parts = [
        prepare(xp.take(dff, backend.from_numpy(where, dff), axis=0), settings,
                None if given is None else given[where])
        for prepare, where in zip((_prepared_there, _prepared_on_host), places, strict=True)
    ]  # fmt: skip
    a, b = parts
    joined = a._replace(
        y=xp.concat([a.y, b.y]), seen=xp.concat([a.seen, b.seen]),
        baseline=xp.concat([a.baseline, b.baseline]), noise=np.concatenate([a.noise, b.noise]),
        scale=np.concatenate([a.scale, b.scale]),
    )  # fmt: skip
    return chosen(joined, np.argsort(np.concatenate(places)))


def _prepared_there(dff: Array, settings: Settings, given: np.ndarray | None) -> Prepared:
    xp = backend.namespace(dff)
    if given is not None:
        baseline = backend.from_numpy(given, dff)
    elif settings.maximin:
        baseline = levels.maximin_baselines(dff, settings.framerate, settings.window)
    else:
        baseline = 0 * dff
    above, framerate, factor = levels.averaged(dff - baseline, settings.framerate, MIN_FRAMES)
    if settings.sn is not None:
        noise = np.full(dff.shape[0], settings.sn / math.sqrt(factor))
    else:
        unnamed = dataclasses.replace(settings, indicator=None, tau_r=None)
        noise = backend.to_numpy(levels.noise_levels(above, framerate, rise_time(unnamed)))
    scale = backend.to_numpy(xp.max(xp.abs(dff - baseline), axis=1))
    safe = backend.from_numpy(np.where(noise > 0, noise, 1.0), dff)
    y = above / safe[:, None]
    return Prepared(y, xp.isfinite(y), baseline, noise, scale, framerate, factor)


def _prepared_on_host(dff: Array, settings: Settings, given: np.ndarray | None) -> Prepared:
    rows = backend.to_numpy(dff)
    unnamed = dataclasses.replace(settings, indicator=None, tau_r=None)
    baselines, traces, noises, scales = [], [], [], []
    framerate, factor = settings.framerate, 1
    for i, row in enumerate(rows):
        baseline = np.zeros(len(row)) if given is None else given[i]
        if given is None and settings.maximin:
            baseline = np.nan_to_num(
                maximin_baseline(row, settings.framerate, settings.window), nan=0.0
            )
        above = one_cell.binned(row - baseline, settings.framerate)
        framerate, factor = above.framerate, above.factor
        if settings.sn is not None:
            noise = settings.sn / math.sqrt(factor)
        else:
            noise = noise_level(above.trace, unnamed, framerate)
        baselines.append(baseline)
        traces.append(above.trace / (noise if noise > 0 else 1.0))
        noises.append(noise)
        scales.append(np.max(np.abs(row - baseline)[np.isfinite(row)], initial=0.0))
    y = np.array(traces)
    return Prepared(
        backend.from_numpy(np.nan_to_num(y), dff), backend.from_numpy(np.isfinite(y), dff),
        backend.from_numpy(np.array(baselines), dff), np.array(noises), np.array(scales),
        framerate, factor,
    )  # fmt: skip


def chosen(data: Prepared, places: np.ndarray) -> Prepared:
    """Return some of the rows."""
    xp = backend.namespace(data.y)
    where = backend.from_numpy(places, data.y)
    y, seen, baseline = (xp.take(a, where, axis=0) for a in (data.y, data.seen, data.baseline))
    return data._replace(
        y=y, seen=seen, baseline=baseline, noise=data.noise[places], scale=data.scale[places]
    )
