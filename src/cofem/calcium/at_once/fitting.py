"""Many cells under the model of jumps, from fluorescence to posterior, where the data are.

What ``jumps.fitting.fit_jumps`` does with one cell, and the same numbers to rounding: the
search of a cell's constants asks for evidence, and here all cells are answered together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once import doubting, levels
from cofem.calcium.at_once.assembly import assembled, spread_out
from cofem.calcium.at_once.passes import ManyJumps, bytes_of_posterior, log_evidence, posterior
from cofem.calcium.at_once.preparing import Prepared, chosen, prepared
from cofem.calcium.at_once.tables import Tables, build_tables
from cofem.calcium.half_cauchy.cell import LEAST_NOISE, MIN_FRAMES, Settings
from cofem.calcium.jumps import fitting as one_cell
from cofem.calcium.jumps.doubts import Signs, doubts
from cofem.calcium.jumps.search import REACHED_SHARE, Climb, Found, climbing
from cofem.calcium.jumps.states import HEIGHT, Constants, noise_at_30
from cofem.calcium.jumps.unsure import decided, quiet_views, second_view

# Cells that are answered together; while some are computed, the others ask.
TURNS = 2
# Of the device's free memory, what one batch may take.
SHARE_OF_MEMORY = 0.4
# Arrays of a batch in double precision that the work before and after the recursions holds.
ARRAYS_OVER_FRAMES = 40
# Where a device does not tell its memory.
CELLS_AT_ONCE = 256

Answer = tuple[np.ndarray, dict[str, Array], dict[str, np.ndarray]]


def fit_together(
    rows: Array, settings: Settings, given: np.ndarray | None, batch: int | None = None
) -> Iterator[Answer]:
    """Yield batches: which rows, arrays over frames, numbers of cells, as ``CellFit`` names them.

    Parameters
    ----------
    rows : array (n_cells, n_frames)
        Fluorescence on its device; NaN where a frame is missing. Rows without enough frames,
        or without noise, are in no batch.
    settings : Settings
    given : ndarray (n_cells, n_frames), optional
        Baselines.
    batch : int, optional
        Cells at once; as many as there is memory for.
    """
    xp = backend.namespace(rows)
    size = _cells_at_once(rows) if batch is None else batch
    for low in range(0, rows.shape[0], size):
        dff = xp.astype(rows[low : low + size, :], xp.float64)
        there = np.arange(low, low + dff.shape[0])
        level = None if given is None else given[low : low + size]
        lone = doubting.lone_frames(dff, settings.framerate)
        dff = xp.where(lone, 0 * dff + math.nan, dff)
        data = prepared(dff, settings, level)
        counts = backend.to_numpy(xp.sum(xp.astype(xp.isfinite(dff), xp.int64), axis=1))
        good = (counts >= MIN_FRAMES) & (data.noise > LEAST_NOISE * data.scale)
        if not good.any():
            continue
        data = chosen(data, np.flatnonzero(good)) if not good.all() else data
        numbers = backend.to_numpy(xp.sum(xp.astype(lone, xp.int64), axis=1))[good]
        found, stretch = _searched(data, settings, given is not None or not settings.maximin)
        rough = doubting.roughness(data.y, data.seen)
        found, shares = _views(found, stretch, rough, data.framerate)
        for mine, jumps, tables in _posteriors(data, found):
            own = slice(int(mine[0]), int(mine[-1]) + 1)
            frames, cells = assembled(
                jumps, tables, found[own], data.noise[own], data.framerate, data.factor,
                data.baseline[own, :], settings, shares[own, 1],
            )  # fmt: skip
            explained = levels.averaged(frames["denoised"] - data.baseline[own, :],
                                        settings.framerate, MIN_FRAMES)[0]  # fmt: skip
            above = data.y[own, :] * backend.from_numpy(data.noise[own], dff)[:, None]
            left = xp.where(data.seen[own, :], above, 0 * above + math.nan) - explained
            together = doubting.neighbours(left)
            if settings.threshold is None and shares[own, 0].any():
                frames["spikes"] = _both_views(frames["spikes"], data, found, own, shares[own, 0])
            given_level = given is not None or not settings.maximin
            cells["message"] = _messages(
                together, jumps, tables, numbers[own], cells, stretch.of(own), data.framerate,
                settings.window,
                [*_recorded(data, own, given_level), shares[own, 1]],
            )  # fmt: skip
            yield there[good][mine], frames, cells


def _views(
    found: list[Found], stretch: Stretch, rough: np.ndarray, framerate: float
) -> tuple[list[Found], np.ndarray]:
    """Return what is found, and the shares of every cell's second view (C, 2).

    See ``jumps.unsure``.
    """
    found, shares = list(found), np.zeros((len(found), 2))
    small = np.flatnonzero([one.small for one in found])
    if len(small):
        xp = backend.namespace(stretch.y)
        where = backend.from_numpy(small, stretch.y)
        y, seen = (xp.take(a, where, axis=0) for a in (stretch.y, stretch.seen))
        first = [found[i].constants for i in small]
        views = [second_view(one) for one in first], *zip(*map(quiet_views, first), strict=True)
        second, *quiet = (
            backend.to_numpy(log_evidence(build_tables(list(view), framerate, y), y, seen))
            for view in views
        )
        for k, i in enumerate(small):
            best = max(float(one[k]) for one in quiet)
            found[i], *shares[i] = decided(
                found[i], float(second[k]), best, y.shape[1], float(rough[i])
            )
    return found, shares


def _both_views(
    spikes: Array, data: Prepared, found: list[Found], own: slice, share: np.ndarray
) -> Array:
    """Return ``spikes`` (C, n) with every cell's share of the second view, in dF/F."""
    views = [second_view(one.constants) for one in found[own]]
    tables = build_tables(views, data.framerate, data.y)
    y, seen = data.y[own, :], data.seen[own, :]
    second = told(_in_pieces(tables, y, seen, _margin(data.framerate)), tables, seen)
    jitter = one_cell.JITTER * np.array([one.tau_d for one in views]) * data.framerate
    size = spread_out(levels.gaussian(second.number, jitter), data.factor, spikes.shape[1])
    height = tables.height * backend.from_numpy(data.noise[own], data.y)
    part = backend.from_numpy(share, data.y)[:, None]
    return (1 - part) * spikes + part * height[:, None] * size


def _messages(
    together: tuple[np.ndarray, np.ndarray],
    jumps: ManyJumps,
    tables: Tables,
    lone: np.ndarray,
    cells: dict[str, np.ndarray],
    stretch: Stretch,
    framerate: float,
    window: float,
    recorded: Sequence[np.ndarray],
) -> np.ndarray:
    """Return what there is to say about every cell.

    ``together`` is how neighbouring frames correlate in what the fit leaves.
    """
    xp = backend.namespace(jumps.active)
    gains = doubting.upright_gains(tables, stretch.y, stretch.seen, framerate, window)
    active = levels.stretches(jumps.active, stretch.starts, stretch.length)
    expected = backend.to_numpy(xp.sum(active, axis=1))
    signs = zip(
        lone.tolist(), cells["tau_d"].tolist(), cells["at_limit"].tolist(),
        *(x.tolist() for x in together), expected.tolist(), gains.tolist(),
        *(x.tolist() for x in recorded), strict=True,
    )  # fmt: skip
    return np.array([doubts(Signs(*sign)) for sign in signs], dtype=object)


def _recorded(data: Prepared, own: slice, given_level: bool) -> list[np.ndarray]:
    """Return what ``jumps.recording`` sees in every cell, in the order of ``Signs``."""
    unit = noise_at_30(data.noise[own], data.framerate)
    course = [np.zeros(len(unit))] * 2
    if not given_level:
        reach, steady = doubting.courses(data.baseline[own, :])
        course = [reach / unit, steady]
    y, seen = data.y[own, :], data.seen[own, :]
    large = doubting.large_events(y, seen) * data.noise[own] / unit
    return [*course, large, *doubting.top_noises(y, seen)]


def _cells_at_once(rows: Array) -> int:
    left = backend.device_memory_left(rows)
    if left is None:
        return CELLS_AT_ONCE
    return max(1, int(SHARE_OF_MEMORY * left / (8 * ARRAYS_OVER_FRAMES * rows.shape[1])))


class Stretch(NamedTuple):
    """Where constants are searched: arrays (C, length), and where these begin (C,)."""

    y: Array
    seen: Array
    starts: Array
    length: int

    def of(self, own: slice) -> Stretch:
        """Return those of some cells."""
        return Stretch(self.y[own, :], self.seen[own, :], self.starts[own], self.length)


def _searched(data: Prepared, settings: Settings, given_level: bool) -> tuple[list[Found], Stretch]:
    """Find every cell's constants in its liveliest stretch."""
    xp = backend.namespace(data.y)
    fixed = one_cell.fixed_constants(settings, given_level)
    fixes = [dict(fixed) for _ in data.noise]
    if settings.response == "log":  # a jump grows with 1 + dF/F
        for mine, noise in zip(fixes, data.noise, strict=True):
            mine["curvature"] = HEIGHT * noise_at_30(noise, data.framerate)
    known = {"tau_d", "tau_r", "curvature"} <= fixes[0].keys()
    length = one_cell.SEARCHED_GIVEN if known else one_cell.SEARCHED
    starts = levels.liveliest_starts(data.y, length)
    y, seen = (levels.stretches(a, starts, length) for a in (data.y, data.seen))
    number = xp.sum(xp.astype(seen, xp.int64), axis=1)
    high = levels.quantile(xp.where(seen, y, 0 * y + math.inf), number, REACHED_SHARE)
    reached = backend.to_numpy(high)
    asking = [
        climbing(float(top), data.framerate, mine, settings.indicator)
        for top, mine in zip(reached, fixes, strict=True)
    ]

    def ask(cells: Sequence[int], constants: Sequence[Constants]) -> Array:
        where = backend.from_numpy(np.asarray(cells, dtype=np.int64), y)
        tables = build_tables(constants, data.framerate, y)
        return log_evidence(tables, xp.take(y, where, axis=0), xp.take(seen, where, axis=0))

    return answered(asking, ask), Stretch(y, seen, starts, length)


def answered(
    asking: Sequence[Climb], ask: Callable[[Sequence[int], Sequence[Constants]], Array]
) -> list[Found]:
    """Answer what searches ask until all have ended; ``ask`` may return before it is done."""
    found: list[Any] = [None] * len(asking)
    turns = []
    for first in range(TURNS):
        at = {i: next(asking[i]) for i in range(first, len(asking), TURNS)}
        if at:
            turns.append((at, ask([*at], [*at.values()])))
    while turns:
        at, answer = turns.pop(0)
        following = {}
        for i, evidence in zip(at, backend.to_numpy(answer), strict=True):
            try:
                following[i] = asking[i].send(float(evidence))
            except StopIteration as end:
                found[i] = end.value
        if following:
            turns.append((following, ask([*following], [*following.values()])))
    return found


def _posteriors(
    data: Prepared, found: list[Found]
) -> Iterator[tuple[np.ndarray, ManyJumps, Tables]]:
    """Yield which cells, their posterior, and their tables."""
    frames = min(data.y.shape[1], one_cell.STRETCH + 2 * _margin(data.framerate))
    left, n = backend.device_memory_left(data.y), data.baseline.shape[1]
    size = CELLS_AT_ONCE
    if left is not None:
        sample = build_tables([found[0].constants], data.framerate, data.y)
        size = max(1, int(SHARE_OF_MEMORY * left / (bytes_of_posterior(sample, frames) + 64 * n)))
    for low in range(0, len(found), size):
        mine = np.arange(low, min(low + size, len(found)))
        tables = build_tables([found[i].constants for i in mine], data.framerate, data.y)
        y, seen = (a[low : low + size, :] for a in (data.y, data.seen))
        jumps = told(_in_pieces(tables, y, seen, _margin(data.framerate)), tables, seen)
        yield mine, jumps, tables


def told(jumps: ManyJumps, tables: Tables, seen: Array) -> ManyJumps:
    """Return the jumps, in missing frames only as far as the others tell more than the prior."""
    xp = backend.namespace(seen)
    number = xp.sum(tables.weight * tables.number, axis=1)[:, None]
    active = xp.sum(xp.where(tables.number > 0, tables.weight, 0 * tables.weight), axis=1)[:, None]
    nothing = xp.zeros_like(jumps.number)
    return jumps._replace(
        number=xp.where(seen, jumps.number, xp.maximum(jumps.number - number, nothing)),
        active=xp.where(seen, jumps.active, xp.maximum(jumps.active - active, nothing)),
    )


def _margin(framerate: float) -> int:
    return math.ceil(one_cell.MARGIN_SECONDS * framerate)


def _in_pieces(tables: Tables, y: Array, seen: Array, margin: int) -> ManyJumps:
    """Return the posterior, piece by piece with margins that are cut off again."""
    n, stretch = y.shape[1], one_cell.STRETCH
    if n <= stretch + 2 * margin:
        return posterior(tables, y, seen)
    xp = backend.namespace(y)
    parts = []
    for start in range(0, n, stretch):
        low, high = max(0, start - margin), min(n, start + stretch + margin)
        # Rows that lie together: the kernels count on it.
        found = posterior(tables, y[:, low:high] + 0, seen[:, low:high] & seen[:, low:high])
        inside = slice(start - low, min(start + stretch, n) - low)
        parts.append([found.log_evidence, *(a[:, inside] for a in found[1:])])
    evidence = xp.sum(xp.stack([part[0] for part in parts]), axis=0)
    arrays = zip(*(part[1:] for part in parts), strict=True)
    return ManyJumps(evidence, *(xp.concat(a, axis=1) for a in arrays))
