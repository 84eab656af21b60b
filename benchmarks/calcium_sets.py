"""Recordings of many indicators with true spikes: reading, resampling, rivals, scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d

from cofem.calcium import INDICATORS, detection, maximin_baseline
from cofem.calcium.traces import white_noise

# Frames at either end that CASCADE's network does not see.
EDGE = 32
SIGMAS = (0.2, 0.05)
# The indicator of every set, as its file name has it; interneurons are of two.
NAMES = {
    "OGB1": "OGB-1", "GCaMP6f": "GCaMP6f", "GCaMP6s": "GCaMP6s", "GCaMP5k": "GCaMP5K",
    "jGECO1a": "jRGECO1a", "XCaMPgf": "XCaMP", "GCaMP8f": "jGCaMP8f", "GCaMP8s": "jGCaMP8s",
    "GCaMP8m": "jGCaMP8m", "GCaMP7f": "jGCaMP7f", "Cal520": "Cal-520", "R": "R-CaMP1.07",
    "jRCaMP1a": "jRCaMP1a",
}  # fmt: skip
# CASCADE, trained on the other sets, at 30 Hz, as the README of the recordings gives it.
CASCADE = {
    "DS02": (0.80, 0.73), "DS06": (0.91, 0.81), "DS08": (0.91, 0.80), "DS10": (0.90, 0.82),
    "DS13": (0.92, 0.86), "DS16": (0.87, 0.69), "DS17": (0.94, 0.87), "DS21": (0.85, 0.80),
    "DS25": (0.88, 0.82), "DS28": (0.97, 0.94), "DS30": (0.95, 0.90), "DS32": (0.96, 0.94),
    "DS33": (0.91, 0.82),
}  # fmt: skip


class Cell(NamedTuple):
    """One recording: dF/F, frames per second, times of spikes in seconds of frame 0."""

    dataset: str
    number: int
    indicator: str | None
    dff: np.ndarray
    rate: float
    spike_times: np.ndarray


def cells(folder: Path, numbers: range, rate: float | None, nu: float | None) -> Iterator[Cell]:
    """Yield recordings, at the native rate or resampled, with noise added up to ν."""
    for path in sorted(folder.glob("*.npz")):
        label = path.stem.split("-")
        with np.load(path, allow_pickle=False) as file:
            for i in numbers:
                if i >= int(file["n"]):
                    continue
                dff, native = file[f"dff_{i}"].astype(np.float64), float(file[f"rate_{i}"])
                times = file[f"spike_times_{i}"].astype(np.float64)
                if rate is not None:
                    dff, times, native = resampled(dff, times, native, rate)
                if nu is not None:
                    dff = noisier(dff, native, nu, seed=1000 * int(label[0][2:]) + i)
                yield Cell(label[0], i, NAMES.get(label[1]), dff, native, times)


def resampled(
    dff: np.ndarray, times: np.ndarray, rate: float, to: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Average to a lower rate, interpolate to a higher one; within 2 % leave as it is."""
    if abs(rate - to) < 0.02 * to:
        return dff, times, rate
    n = int(len(dff) / rate * to)
    if rate < to:
        return np.interp(np.arange(n) / to * rate, np.arange(len(dff)), dff), times, to
    total = np.concatenate([[0.0], np.cumsum(dff)])
    edges = np.clip(np.arange(n + 1) / to * rate, 0, len(dff))
    mean = np.diff(np.interp(edges, np.arange(len(dff) + 1), total)) / np.diff(edges)
    return mean, times + 0.5 / rate - 0.5 / to, to  # a frame's time is its middle


def noise_nu(dff: np.ndarray, rate: float) -> float:
    """Return CASCADE's standardised noise: median step in per cent, by the root of the rate."""
    return float(100 * np.median(np.abs(np.diff(dff))) / math.sqrt(rate))


def noisier(dff: np.ndarray, rate: float, nu: float, seed: int) -> np.ndarray:
    missing = nu**2 - noise_nu(dff, rate) ** 2
    if missing <= 0:
        return dff
    std = math.sqrt(missing * rate) / 100 / (0.6745 * math.sqrt(2))
    return dff + std * np.random.default_rng(seed).standard_normal(len(dff))


def correlation(estimate: np.ndarray, cell: Cell, sigma: float) -> float:
    """Pearson's correlation with the spike counts, both smoothed by a Gaussian."""
    n = len(cell.dff)
    counts = np.histogram(cell.spike_times * cell.rate, np.arange(n + 1) - 0.5)[0]
    a, b = (
        gaussian_filter1d(x.astype(np.float64), sigma * cell.rate)[EDGE : n - EDGE]
        for x in (estimate, counts)
    )
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def rivals(cell: Cell) -> dict[str, np.ndarray]:
    """suite2p's OASIS, AR(2) and OASIS with a threshold, with the table's time constants."""
    from oasis.functions import deconvolve as oasis
    from oasis.functions import oasisAR1

    known = INDICATORS[cell.indicator or "GCaMP6f"]
    y = cell.dff - maximin_baseline(cell.dff, cell.rate)
    noise = white_noise(y, cell.rate)
    decay = math.exp(-1 / (known.tau_d * cell.rate))
    second = oasis(
        y, tau_d=known.tau_d, tau_r=known.tau_r, framerate=cell.rate, sn=noise, penalty=1,
        b_nonneg=False,
    )  # fmt: skip
    return {
        "suite2p": np.asarray(oasisAR1(y, decay)[1]),
        "AR2": np.asarray(second.s),
        "threshold": np.asarray(oasisAR1(y, decay, s_min=2 * noise)[1]),
    }


def f1_of_frames(estimate: np.ndarray, cell: Cell) -> float:
    return detection(cell.spike_times, np.flatnonzero(estimate > 0) / cell.rate).f1
