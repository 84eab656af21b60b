"""One cell under the model of jumps, from fluorescence to posterior."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.signal
from scipy.ndimage import gaussian_filter1d

from cofem.calcium.half_cauchy.cell import (
    LEAST_NOISE,
    MIN_FRAMES,
    CellFit,
    Settings,
    noise_level,
    nothing,
)
from cofem.calcium.jumps.counting import segments, size_spread, spike_size, trust_of_frames
from cofem.calcium.jumps.doubts import Signs, doubts, lone_frames, neighbours, told, upright_gain
from cofem.calcium.jumps.passes import Jumps, log_evidence, posterior
from cofem.calcium.jumps.recording import LARGE_SHARE, course, top_noise
from cofem.calcium.jumps.search import START, Found, search
from cofem.calcium.jumps.states import HEIGHT, States, build_states, noise_at_30
from cofem.calcium.jumps.unsure import decided, quiet_views, roughness, second_view
from cofem.calcium.traces import maximin_baseline

# Faster recordings are averaged to about this rate: spikes are told no better in more frames,
# and noise between neighbouring frames is no longer white.
WORKING_RATE = 30.0
# Constants are searched in the liveliest stretch of this many working frames (a minute): whole
# recordings of three minutes tell them no better (correlation with true spikes .915 and .841
# either way), and take three times as long.
SEARCHED = 2000
# Level, rate and walk alone, where decay, rise and response are given, need no more than half.
SEARCHED_GIVEN = 1000
# The posterior is computed in pieces of five minutes, each with a margin of several decay
# times: memory and time then grow no faster than the recording.
STRETCH, MARGIN_SECONDS = 9000, 20.0
# A threshold on probabilities looks at so many seconds around a frame.
NEAR_SECONDS = 0.05
# With a decay below the first (seconds) given and no rise, the rise is at most a third of it,
# and never above where the search for one starts.
SHORT_DECAY, RISE_OF_SHORT = 0.1, 3.0
# The model takes rise and decay as exact and is too sure of a jump's frame: times are spread by
# this share of the decay time, which is as far as rises of one cell differ.
JITTER = 0.04


class Binned(NamedTuple):
    """A trace averaged over ``factor`` frames; NaN where none of them is there."""

    trace: np.ndarray
    framerate: float
    factor: int


def fit_jumps(dff: np.ndarray, settings: Settings, baseline: np.ndarray | None) -> CellFit:
    """Fit one trace (n,), NaN where a frame is missing.

    Examples
    --------
    >>> from cofem.calcium.simulation import simulate
    >>> dff, spikes = simulate(n_cells=1, n_frames=600, framerate=30.0, seed=0)
    >>> found = fit_jumps(dff[0], Settings(framerate=30.0), None)
    >>> found.spikes.shape, found.converged
    ((600,), True)
    """
    lone = lone_frames(dff, settings.framerate)
    dff = np.where(lone, np.nan, dff)
    seen = np.isfinite(dff)
    if np.count_nonzero(seen) < MIN_FRAMES:
        return nothing(dff, np.nan, f"{np.count_nonzero(seen)} frames are not NaN", settings)
    given = baseline is not None or not settings.maximin
    fixed = fixed_constants(settings, given)
    if baseline is None:
        baseline = np.zeros(len(dff))
        if settings.maximin:
            baseline = maximin_baseline(dff, settings.framerate, settings.window)
    above = binned(dff - baseline, settings.framerate)
    noise = _noise(above, settings)
    scale = float(np.max(np.abs((dff - baseline)[seen]), initial=0.0))
    if not noise > LEAST_NOISE * scale:
        return nothing(dff, 0.0, "the trace is constant", settings, baseline)
    y, there = above.trace / noise, np.isfinite(above.trace)
    if settings.response == "log":  # a jump grows with 1 + dF/F
        fixed["curvature"] = HEIGHT * noise_at_30(noise, above.framerate)
    known = {"tau_d", "tau_r", "curvature"} <= fixed.keys()
    part = liveliest(y, SEARCHED_GIVEN if known else SEARCHED)
    found = search(y[part], there[part], above.framerate, fixed, settings.indicator)
    z, share, lost = y - found.constants.level, 0.0, 0.0
    if found.small:
        found, share, lost = _views(found, z[part], there[part], above.framerate, roughness(y))
    states = build_states(found.constants, above.framerate)
    margin = math.ceil(MARGIN_SECONDS * above.framerate)
    jumps = told(_in_pieces(states, z, there, margin), states, there)
    fit = _assemble(jumps, states, found, noise, above, baseline, settings, lost)
    if share > 0 and settings.threshold is None:
        other = build_states(second_view(found.constants), above.framerate)
        second = told(_in_pieces(other, z, there, margin), other, there)
        jitter = JITTER * fit.tau_d * above.framerate
        spikes = spread_out(gaussian_filter1d(second.number, jitter), above.factor, len(dff))
        spikes *= other.height * noise
        fit = replace(fit, spikes=(1 - share) * fit.spikes + share * spikes)
    left = above.trace - binned(fit.denoised - baseline, settings.framerate).trace
    gain = upright_gain(y[part], there[part], above.framerate, settings.window, found)
    expected = float(jumps.active[part].sum())
    unit = noise_at_30(noise, above.framerate)
    reach, steady = (0.0, 0.0) if given else course(baseline)
    signs = Signs(
        int(lone.sum()), fit.tau_d, fit.at_limit, *neighbours(left), expected, gain,
        reach / unit, steady, float(np.quantile(y[there], LARGE_SHARE)) * noise / unit,
        *top_noise(y), lost,
    )  # fmt: skip
    return replace(fit, message=doubts(signs))


def _views(
    found: Found, z: np.ndarray, seen: np.ndarray, framerate: float, rough: float
) -> tuple[Found, float, float]:
    """Ask the views of a trace in much noise; see :func:`decided`."""
    second, *quiet = (
        log_evidence(build_states(view, framerate), z, seen)
        for view in (second_view(found.constants), *quiet_views(found.constants))
    )
    return decided(found, second, max(quiet), len(z), rough)


def fixed_constants(settings: Settings, given_level: bool) -> dict[str, float]:
    """Return the constants that the user gave."""
    fixed: dict[str, float] = {}
    if settings.tau_d is not None:
        fixed["tau_d"] = settings.tau_d
    if settings.tau_r is not None:
        fixed["tau_r"] = settings.tau_r
    elif settings.tau_d is not None:
        short = min(START.tau_r, settings.tau_d / RISE_OF_SHORT)
        fixed |= {"tau_r": short} if settings.tau_d < SHORT_DECAY else {}
    if settings.response == "linear":
        fixed["curvature"] = 0.0
    if given_level:
        fixed["level"] = 0.0
    return fixed


def binned(trace: np.ndarray, framerate: float) -> Binned:
    """Average neighbouring frames down to the working rate.

    Examples
    --------
    >>> found = binned(np.arange(80.0), 120.0)
    >>> found.trace[:3], found.framerate, found.factor
    (array([1.5, 5.5, 9.5]), 30.0, 4)
    """
    factor = max(1, round(framerate / WORKING_RATE))
    if factor == 1 or len(trace) < factor * MIN_FRAMES:
        return Binned(np.asarray(trace, dtype=np.float64), framerate, 1)
    n = -(-len(trace) // factor)
    padded = np.full(n * factor, np.nan)
    padded[: len(trace)] = trace
    rows = padded.reshape(n, factor)
    number = np.isfinite(rows).sum(axis=1)
    total = np.nansum(rows, axis=1)
    mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return Binned(mean, framerate / factor, factor)


def _noise(above: Binned, settings: Settings) -> float:
    if settings.sn is not None:
        return settings.sn / math.sqrt(above.factor)
    # The same window with a name and without: the name of a fast indicator would measure the
    # noise of single frames alone.
    unnamed = replace(settings, indicator=None, tau_r=None)
    return noise_level(above.trace, unnamed, above.framerate)


def liveliest(y: np.ndarray, length: int) -> slice:
    """Return the stretch of ``length`` frames with the largest variance, of half steps.

    Examples
    --------
    >>> liveliest(np.r_[np.zeros(20), 1.0, np.zeros(9)], 10)
    slice(15, 25, None)
    """
    if len(y) <= length:
        return slice(0, len(y))
    filled = np.nan_to_num(y)
    starts = [*range(0, len(y) - length, length // 2), len(y) - length]
    best = max(starts, key=lambda start: float(np.var(filled[start : start + length])))
    return slice(best, best + length)


def _in_pieces(states: States, y: np.ndarray, seen: np.ndarray, margin: int) -> Jumps:
    """Return the posterior, piece by piece with margins that are cut off again."""
    if len(y) <= STRETCH + 2 * margin:
        return posterior(states, y, seen)
    parts = []
    for start in range(0, len(y), STRETCH):
        low, high = max(0, start - margin), min(len(y), start + STRETCH + margin)
        found = posterior(states, y[low:high], seen[low:high])
        inside = slice(start - low, min(start + STRETCH, len(y)) - low)
        arrays = (found.number, found.spread, found.active, found.calcium, found.calcium_spread)
        parts.append((found.log_evidence, [a[inside] for a in arrays]))
    evidence = sum(found for found, _ in parts)
    return Jumps(evidence, *(np.concatenate(a) for a in zip(*(b for _, b in parts), strict=True)))


def _assemble(
    jumps: Jumps,
    states: States,
    found: Found,
    noise: float,
    above: Binned,
    baseline: np.ndarray,
    settings: Settings,
    lost: float,
) -> CellFit:
    n, factor, constants = len(baseline), above.factor, found.constants
    height = states.height * noise  # of a jump, in dF/F
    unit = noise_at_30(noise, above.framerate)
    per_second = float(jumps.number.sum()) * above.framerate / len(jumps.number)
    jitter = JITTER * constants.tau_d * above.framerate
    size = spread_out(gaussian_filter1d(jumps.number, jitter), factor, n)
    active = spread_out(gaussian_filter1d(jumps.active, jitter), factor, n)
    events = segments(active, height / unit * size, settings.framerate)
    one = unit * spike_size(constants.height * per_second, constants.tau_d, events, found.second)
    spikes = height * size
    if settings.threshold is not None:
        spikes = np.where(_near(active, settings) >= settings.threshold, spikes, 0.0)
    fluorescence = jumps.calcium
    if states.rise > 0:
        fluorescence = scipy.signal.lfilter(
            [1 - states.rise], [1.0, -states.rise], fluorescence,
            zi=[states.rise * fluorescence[0]],
        )[0]  # fmt: skip
    level = baseline + noise * constants.level
    return CellFit(
        spikes=spikes,
        mean=height * size,
        std=height * np.repeat(jumps.spread, factor)[:n] / math.sqrt(factor),
        prob_active=active,
        denoised=level + height * _between(fluorescence, factor, n),
        baseline=level,
        precision=np.full(n, np.nan),
        spike_counts=height / one * size * trust_of_frames(events, n, constants.height),
        denoised_std=height * _between(jumps.calcium_spread, factor, n),
        noise_std=noise * math.sqrt(factor) if settings.sn is None else settings.sn,
        tau_d=constants.tau_d,
        tau_r=constants.tau_r if states.rise > 0 else 0.0,
        latency=0.5 / above.framerate,
        curvature=constants.curvature / (HEIGHT * unit),
        spike_size=one,
        size_spread=size_spread(lost),
        at_limit=found.at_limit,
        log_evidence=jumps.log_evidence,
        iterations=found.evaluations,
        change=0.0,
        converged=True,
        message="",
    )


def spread_out(x: np.ndarray, factor: int, n: int) -> np.ndarray:
    """Give every frame its share of a working frame's sum, half a working frame earlier.

    A spike is anywhere between the frame in which it is first seen and the one before.

    Examples
    --------
    >>> spread_out(np.array([0.0, 0.0, 2.0, 0.0]), 1, 4)
    array([0., 1., 1., 0.])
    """
    total = np.concatenate([[0.0], np.cumsum(x)])
    edges = (np.arange(n + 1) + factor / 2) / factor
    return np.asarray(np.diff(np.interp(edges, np.arange(len(total)), total)))


def _near(active: np.ndarray, settings: Settings) -> np.ndarray:
    """Return the probability of a jump within 50 ms: a jump's frame is seldom certain."""
    width = 2 * round(NEAR_SECONDS * settings.framerate) + 1
    return np.asarray(np.minimum(np.convolve(active, np.ones(width), mode="same"), 1.0))


def _between(x: np.ndarray, factor: int, n: int) -> np.ndarray:
    """Return values of working frames at the recording's frames."""
    if factor == 1:
        return x[:n]
    middle = np.arange(len(x)) * factor + (factor - 1) / 2
    return np.asarray(np.interp(np.arange(n), middle, x))
