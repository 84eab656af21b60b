"""One cell under the half-Cauchy prior (method "banded"), from fluorescence to posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.signal

from cofem.calcium.half_cauchy.calibration import event_odds, probability
from cofem.calcium.half_cauchy.em import TraceFit, fit_trace, rectified_row
from cofem.calcium.half_cauchy.kernel import Kernel, kernel_from_times
from cofem.calcium.half_cauchy.measured import fit_measured, measured_kernel
from cofem.calcium.indicators import GENERIC_RISE, INDICATORS, Indicator, latency
from cofem.calcium.traces import (
    downward_noise,
    log_response,
    log_response_inverse,
    maximin_baseline,
    white_noise,
)

# Fewer frames than this do not tell signal from noise.
MIN_FRAMES = 16
# Noise below this share of the largest value is rounding: the trace is constant.
LEAST_NOISE = 1e-12
# Decay times are tried at powers of √2: one step to either side of the indicator's, or, if
# it is not named, of the fastest and the slowest in the table. REACH is a step and a bit.
DECAY_STEP, REACH = math.sqrt(2), 1.5
MIDDLE_DECAY = 0.7
# A decay is this many rises at least: with nearly equal times either may be the rise.
LEAST_RISES = 1.1
FASTEST_DECAY = min(entry.tau_d for entry in INDICATORS.values()) / REACH
SLOWEST_DECAY = max(entry.tau_d for entry in INDICATORS.values()) * REACH


@dataclass(frozen=True)
class Settings:
    """What is the same for all cells; see :func:`cofem.calcium.deconvolve`."""

    framerate: float
    tau_d: float | None = None
    tau_r: float | None = None
    sn: float | None = None
    maximin: bool = True
    window: float = 60.0
    indicator: Indicator | None = None
    kernel: np.ndarray | None = None
    response: str = "auto"
    jumps: bool = True
    threshold: float | None = None
    cofem: bool = False
    max_iter: int = 50
    tol: float = 1e-2
    seed: int = 0


@dataclass(frozen=True)
class CellFit:
    """What is found for one cell; arrays (n,), in frames of the recording."""

    spikes: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    prob_active: np.ndarray
    denoised: np.ndarray
    baseline: np.ndarray
    precision: np.ndarray
    spike_counts: np.ndarray
    denoised_std: np.ndarray
    noise_std: float
    tau_d: float
    tau_r: float
    latency: float
    curvature: float
    spike_size: float
    size_spread: float
    at_limit: bool
    log_evidence: float
    iterations: int
    change: float
    converged: bool
    message: str


def fit_cell(dff: np.ndarray, settings: Settings, baseline: np.ndarray | None) -> CellFit:
    """Fit one trace (n,), NaN where a frame is missing.

    Examples
    --------
    >>> from cofem.calcium.simulation import simulate
    >>> dff, spikes = simulate(n_cells=1, n_frames=600, framerate=30.0, seed=0)
    >>> found = fit_cell(dff[0], Settings(framerate=30.0), None)
    >>> found.spikes.shape, found.converged
    ((600,), True)
    """
    seen = np.isfinite(dff)
    if np.count_nonzero(seen) < MIN_FRAMES:
        return nothing(dff, np.nan, f"{np.count_nonzero(seen)} frames are not NaN", settings)
    if baseline is None:
        baseline = silent_level(dff, settings) if settings.maximin else np.zeros(len(dff))
    x = transformed(dff, baseline, settings.response)
    noise = settings.sn if settings.sn is not None else noise_level(x, settings)
    scale = float(np.max(np.abs(x[seen]), initial=0.0))
    if not noise > LEAST_NOISE * scale:
        return nothing(dff, 0.0, "the trace is constant", settings, baseline)
    y, beta = np.where(seen, x / noise, 0.0), seen.astype(np.float64)
    kernel, fit = _choose(y, beta, settings)
    down = _fit(kernel, -y, beta, settings)
    return _assemble(kernel, fit, down, noise, baseline, settings)


def silent_level(dff: np.ndarray, settings: Settings) -> np.ndarray:
    """Return the maximin baseline, raised to the middle of the noise.

    A running minimum lies below the level of a silent cell by as much as noise and drift
    do; a cell is mostly silent, so the median of what is above it is that distance.
    """
    baseline = maximin_baseline(dff, settings.framerate, settings.window)
    return baseline + float(np.nanmedian(dff - baseline))


def transformed(dff: np.ndarray, baseline: np.ndarray, response: str) -> np.ndarray:
    """Return what the recursion explains: fluorescence above the baseline, in its response."""
    above = np.asarray(dff - baseline, dtype=np.float64)
    return above if response == "linear" else log_response(above)


def noise_level(x: np.ndarray, settings: Settings, framerate: float | None = None) -> float:
    """Return the noise's standard deviation: the larger of spectrum and downward steps."""
    rate = settings.framerate if framerate is None else framerate
    return max(white_noise(x, rate), downward_noise(x, rate, rise_time(settings)))


def rise_time(settings: Settings) -> float:
    """Return the rise time of the indicator, by all we are told."""
    if settings.tau_r is not None and settings.tau_r > 0:
        return settings.tau_r
    return settings.indicator.tau_r if settings.indicator is not None else GENERIC_RISE


# -- kernels ---------------------------------------------------------------------------


def _choose(y: np.ndarray, beta: np.ndarray, settings: Settings) -> tuple[Any, TraceFit]:
    """Return the kernel and its fit: given, or the most probable of a few."""
    if settings.kernel is not None:
        measured = measured_kernel(settings.kernel, settings.framerate)
        return measured, _fit(measured, y, beta, settings)
    tau_r = settings.tau_r or 0.0

    def at(tau_d: float) -> tuple[Kernel, TraceFit]:
        kernel = kernel_from_times(tau_d, tau_r, settings.framerate)
        return kernel, _fit(kernel, y, beta, settings)

    if settings.tau_d is not None:
        return at(settings.tau_d)
    return _climb(at, settings.indicator, tau_r)


def _climb(
    at: Callable[[float], tuple[Kernel, TraceFit]], indicator: Indicator | None, tau_r: float
) -> tuple[Kernel, TraceFit]:
    """Walk over decay times in steps of √2, uphill in the score, from the middle."""
    if indicator is not None:
        start, low, high = indicator.tau_d, indicator.tau_d / REACH, indicator.tau_d * REACH
    else:
        start, low, high = MIDDLE_DECAY, FASTEST_DECAY, SLOWEST_DECAY
    low = max(low, LEAST_RISES * tau_r)
    start = max(start, low)
    best = at(start)
    for step in (DECAY_STEP, 1 / DECAY_STEP):
        moved = False
        while low <= best[0].tau_d * step <= high:
            there = at(best[0].tau_d * step)
            if there[1].score <= best[1].score:
                break
            best, moved = there, True
        if moved:
            break
    return best


def _fit(kernel: Any, y: np.ndarray, beta: np.ndarray, settings: Settings) -> TraceFit:
    if settings.kernel is not None or settings.cofem:
        return fit_measured(kernel, y, beta, settings.max_iter, settings.tol, settings.seed)
    return fit_trace(kernel, y, beta, max_iter=settings.max_iter, tol=settings.tol)


# -- results ---------------------------------------------------------------------------


def _assemble(
    kernel: Any,
    fit: TraceFit,
    down: TraceFit,
    noise: float,
    baseline: np.ndarray,
    settings: Settings,
) -> CellFit:
    # One unit of z raises the trace by kernel.peak: amplitudes are heights of the response.
    height = noise * kernel.peak
    mean, std = np.empty_like(fit.mean), np.empty_like(fit.mean)
    rectified_row(fit.mean, fit.variance, mean, std)
    mode = np.maximum(fit.mean, 0.0)
    # An event's own standard error, 1/norm, is the unit of its odds.
    a, b = event_odds(kernel.norm * mode, kernel.norm * np.maximum(down.mean, 0.0))
    active = probability(kernel.norm * mode, a, b)
    spikes = height * mode
    if settings.threshold is not None:
        spikes = np.where(active >= settings.threshold, spikes, 0.0)
    late = event_latency(kernel, settings)
    frames = round(late * settings.framerate)
    calcium = noise * _response(kernel, fit.mean)
    fluorescence = calcium if settings.response == "linear" else log_response_inverse(calcium)
    tol = settings.tol
    converged = tol == 0 or fit.change <= tol
    return CellFit(
        spikes=advanced(spikes, frames, 0.0),
        mean=advanced(height * mean, frames, 0.0),
        std=advanced(height * std, frames, height / kernel.norm),
        prob_active=advanced(active, frames, 0.0),
        denoised=fluorescence + baseline,
        baseline=baseline,
        precision=1 / (fit.prior_variance * noise**2),
        spike_counts=np.full(len(spikes), np.nan),
        denoised_std=np.full(len(spikes), np.nan),
        noise_std=noise,
        tau_d=kernel.tau_d,
        tau_r=kernel.tau_r,
        latency=late,
        curvature=math.nan,
        spike_size=math.nan,
        size_spread=math.nan,
        at_limit=False,
        log_evidence=fit.log_evidence,
        iterations=fit.iterations,
        change=fit.change,
        converged=converged,
        message="" if converged else f"the mean still changed by {fit.change:.1e}; raise max_iter",
    )


def event_latency(kernel: Any, settings: Settings) -> float:
    """Return by how many seconds the events of a kernel without rise come late."""
    if settings.kernel is not None or settings.tau_r is not None:
        return 0.0
    return latency(kernel.tau_d, kernel.tau_r, rise_time(settings))


def _response(kernel: Any, z: np.ndarray) -> np.ndarray:
    if isinstance(kernel, Kernel):
        return np.asarray(scipy.signal.lfilter([1.0], [1.0, *-kernel.coefficients], z))
    return np.asarray(scipy.signal.fftconvolve(z, kernel.response)[: len(z)])


def advanced(x: np.ndarray, frames: int, rest: float) -> np.ndarray:
    """Move a trace to earlier frames; the last ones, of which nothing is known, are ``rest``.

    Examples
    --------
    >>> advanced(np.array([1.0, 2.0, 3.0]), 1, 0.0)
    array([2., 3., 0.])
    """
    if frames == 0:
        return x
    out = np.full_like(x, rest)
    out[: max(len(x) - frames, 0)] = x[frames:]
    return out


def nothing(
    dff: np.ndarray,
    value: float,
    why: str,
    settings: Settings,
    baseline: np.ndarray | None = None,
) -> CellFit:
    """Return the result of a cell of which nothing can be said, and why."""
    same = np.full(len(dff), value)
    level = np.full(len(dff), np.nan) if baseline is None else baseline
    return CellFit(
        spikes=same, mean=same, std=same, prob_active=same, denoised=level + same,
        baseline=level, precision=np.full(len(dff), np.inf), spike_counts=same,
        denoised_std=same, noise_std=value, curvature=math.nan, spike_size=math.nan,
        size_spread=math.nan, at_limit=False,
        tau_d=math.nan if settings.tau_d is None else settings.tau_d,
        tau_r=settings.tau_r or 0.0, latency=0.0, log_evidence=math.nan, iterations=0,
        change=math.nan, converged=value == 0.0, message=why,
    )  # fmt: skip
