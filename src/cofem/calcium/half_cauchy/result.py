"""What only the half-Cauchy model has: its Gaussian posterior, events by frames, the filtered mode.

Everything is computed again from the stored prior precision, by the same recursions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cofem.calcium.half_cauchy.cell import advanced, transformed
from cofem.calcium.half_cauchy.kernel import kernel_from_times
from cofem.learning.sites.rectified import probability_of_zero, rectified_quantile
from cofem.result.filtered_mode import Face, nonnegative_least_squares
from cofem.solvers.banded import factors as banded

if TYPE_CHECKING:
    from cofem.calcium.result import Deconvolution

# Relative change at which non-negative least squares ends: rounding.
LEAST_CHANGE = 1e-12


def model_of(result: Deconvolution, cell: int) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return kernel, trace, noise precision and prior precision of a cell."""
    if result.model == "jumps":
        raise ValueError(
            'method "jumps" has no Gaussian posterior; deconvolve with method="banded" for one'
        )
    row = result.row(cell)
    if not math.isfinite(row["tau_d"]):
        raise ValueError(
            f"cell {cell} has no posterior of z: not fitted, or fitted with a measured kernel"
        )
    kernel = kernel_from_times(row["tau_d"], row["tau_r"], result.framerate)
    x = transformed(row["dff"], row["baseline"], result.response)
    seen = np.isfinite(x)
    beta = np.where(seen, row["noise_std"] ** -2.0, 0.0)
    return kernel, np.where(seen, x, 0.0), beta, row["precision"].astype(np.float64)


def posterior_of_z(result: Deconvolution, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n,) of a cell's Gaussian posterior before rectification."""
    kernel, x, beta, alpha = model_of(result, cell)
    found = banded.moments(kernel.coefficients, x, alpha, beta)
    return kernel.peak * found.mean, kernel.peak**2 * found.variance


def fill_table(table: np.ndarray, result: Deconvolution, cell: int, frames: np.ndarray,
               level: float) -> None:  # fmt: skip
    """Write the events of single frames, or of two neighbours, into a table of their number."""
    row = result.row(cell)
    first = first_frames(frames)
    spikes = row["spikes"][frames].astype(np.float64)
    total = np.add.reduceat(spikes, first)
    table["amplitude"] = total
    table["probability"] = np.maximum.reduceat(row["prob_active"][frames], first)
    # Arrays are moved by whole frames, times by the latency itself.
    shift = round(row["latency"] * result.framerate)
    centre = np.add.reduceat(spikes * frames, first) / total
    table["time"] = (centre + shift) / result.framerate - row["latency"]
    if math.isfinite(row["tau_d"]):
        mean, variance = posterior_of_z(result, cell)
        mean = np.add.reduceat(mean[frames + shift], first)
        # Neighbours share what the data say: their sum is known no worse than this.
        variance = np.add.reduceat(variance[frames + shift], first)
        for name, p in (("low", (1 - level) / 2), ("high", (1 + level) / 2)):
            table[name] = rectified_quantile(mean, variance, p)
    else:  # a measured kernel: the moments are all that is kept
        reach = rectified_quantile(np.zeros(1), np.ones(1), level)[0]
        mean = np.add.reduceat(row["mean"][frames], first)
        spread = np.sqrt(np.add.reduceat(row["std"][frames] ** 2, first))
        table["low"] = np.maximum(mean - reach * spread, 0.0)
        table["high"] = mean + reach * spread


def first_frames(frames: np.ndarray) -> np.ndarray:
    """Return where in ``frames`` each event starts."""
    groups = neighbours(frames)
    return np.searchsorted(groups, np.arange(groups[-1] + 1))


def filtered_row(result: Deconvolution, cell: int, q: float) -> np.ndarray:
    """Return the paper's estimate of one cell, (n,)."""
    row = result.row(cell)
    if not (math.isfinite(row["noise_std"]) and row["noise_std"] > 0):
        return np.asarray(row["spikes"], dtype=np.float64)
    kernel, x, beta, alpha = model_of(result, cell)
    found = banded.moments(kernel.coefficients, x, alpha, beta)
    kept = np.asarray(probability_of_zero(found.mean, found.variance) < q)

    def face(free: np.ndarray) -> Face:
        pinned = np.where(free, alpha, np.inf)
        dual = banded.dual(kernel.coefficients, x, pinned, beta)
        return Face(np.where(free, dual / alpha, 0.0), np.where(free, 0.0, dual))

    curvature = float(beta.max()) * kernel.norm**2 + alpha
    z = nonnegative_least_squares(face, kept, curvature, LEAST_CHANGE)
    return advanced(kernel.peak * z, round(row["latency"] * result.framerate), 0.0)


def neighbours(frames: np.ndarray) -> np.ndarray:
    """Return group numbers of rising frames: two that follow each other are a group.

    Examples
    --------
    >>> neighbours(np.array([3, 4, 5, 9]))
    array([0, 0, 1, 2])
    """
    groups = np.zeros(len(frames), np.int64)
    paired = False
    for k in range(1, len(frames)):
        paired = not paired and bool(frames[k] - frames[k - 1] == 1)
        groups[k] = groups[k - 1] + (not paired)
    return groups
