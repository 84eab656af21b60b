"""The picture of one cell: trace, fit with its band, events by how sure they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from cofem.calcium.half_cauchy.result import model_of
from cofem.calcium.result import Deconvolution
from cofem.calcium.traces import log_response_inverse
from cofem.solvers.banded import factors as banded

BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#999999", "#000000"
# More seconds than this run into each other at the width of a page.
READABLE_SECONDS = 60.0
# So many standard deviations to either side hold 95 % of a normal law.
WITHIN_95 = 1.96
_BAND_DRAWS = 48


def draw_cell(
    result: Deconvolution,
    cell: int,
    axes: Any,
    truth: np.ndarray | None = None,
    window: tuple[float, float] | None = None,
) -> None:
    """Draw a cell on two axes, trace above, events below.

    Parameters
    ----------
    result : Deconvolution
    cell : int
    axes : two matplotlib axes
    truth : ndarray, optional
        Times of true spikes, in seconds from the first frame.
    window : (float, float), optional
        The seconds to show; without it the minute with most events.
    """
    if not 0 <= cell < result.n_cells:
        raise ValueError(f"cell must be from 0 to {result.n_cells - 1}, got {cell}")
    table = result.events(0.05)
    table = table[table["cell"] == cell]
    start, stop = window or busiest(table["time"], table["amplitude"], _seconds(result))
    frames = slice(int(start * result.framerate), int(stop * result.framerate) + 1)
    t = np.arange(result.spikes.shape[-1])[frames] / result.framerate
    rows = {name: np.atleast_2d(getattr(result, name))[cell] for name in ("dff", "denoised")}
    above, below = axes
    above.plot(t, rows["dff"][frames], color=GREY, linewidth=0.6, label="dF/F")
    low, high = fluorescence_band(result, cell)
    above.fill_between(t, low[frames], high[frames], color=BLUE, alpha=0.3, linewidth=0)
    above.plot(t, rows["denoised"][frames], color=BLUE, linewidth=1.0, label="fit, 95 % band")
    above.set_ylabel("dF/F")
    # Above the axes, where no data are.
    above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, frameon=False)
    _draw_events(below, table, (start, stop), truth)
    above.figure.colorbar(_probability_scale(), ax=[above, below], label="probability", pad=0.01)
    above.sharex(below)
    below.set_xlim(start, stop)


def _draw_events(
    ax: Any, table: np.ndarray, window: tuple[float, float], truth: np.ndarray | None
) -> None:
    shown = table[(table["time"] >= window[0]) & (table["time"] <= window[1])]
    colors = _probability_scale().to_rgba(shown["probability"])
    ax.vlines(shown["time"], 0, shown["amplitude"], colors=colors, linewidth=1.6)
    ax.vlines(shown["time"], shown["low"], shown["high"], colors=colors, linewidth=4, alpha=0.3)
    top = float(np.max(shown["high"], initial=0.0)) or 1.0
    if truth is not None:
        seen = truth[(truth >= window[0]) & (truth <= window[1])]
        ax.plot(seen, np.full(len(seen), -0.08 * top), "|", color=BLACK, markersize=7)
        ax.text(window[0], -0.08 * top, "true ", ha="right", va="center", fontsize=8)
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set_ylim(-0.16 * top if truth is not None else 0.0, 1.05 * top)
    ax.set_xlabel("seconds")
    ax.set_ylabel("event")


def _probability_scale() -> Any:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0, 1), "viridis_r")


def fluorescence_band(result: Deconvolution, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the band that holds the fluorescence without noise in 95 of 100 draws, (n,) each.

    Under "banded" from exact draws of the posterior; a measured kernel has none, and no band.
    """
    row = np.atleast_2d(result.denoised)[cell].astype(np.float64)
    if result.model == "jumps":
        reach = WITHIN_95 * np.atleast_2d(result.denoised_std)[cell].astype(np.float64)
        return row - reach, row + reach
    try:
        kernel, x, beta, alpha = model_of(result, cell)
    except ValueError:
        return row, row
    normal = np.random.default_rng(0).standard_normal((_BAND_DRAWS, len(x)))
    draws = banded.deviations(kernel.coefficients, alpha, beta, normal)
    centre = banded.moments(kernel.coefficients, x, alpha, beta).mean
    recursion = [1.0, *-kernel.coefficients]
    spread = scipy.signal.lfilter([1.0], recursion, draws, axis=1).std(axis=0)
    mean = scipy.signal.lfilter([1.0], recursion, centre)
    level = np.atleast_2d(result.baseline)[cell]

    def back(c: np.ndarray) -> np.ndarray:
        above = c if result.response == "linear" else log_response_inverse(c)
        return np.asarray(above + level)

    return back(mean - WITHIN_95 * spread), back(mean + WITHIN_95 * spread)


def busiest(
    times: np.ndarray, weights: np.ndarray, seconds: float, width: float = READABLE_SECONDS
) -> tuple[float, float]:
    """Return the window of ``width`` seconds with the largest events, or all.

    Examples
    --------
    >>> busiest(np.array([100.0, 101.0]), np.ones(2), seconds=240.0)
    (60.0, 120.0)
    """
    if seconds <= width:
        return 0.0, seconds
    starts = np.arange(0.0, seconds - width + 1e-9, width)
    shares = [float(np.sum(weights[(times >= s) & (times < s + width)])) for s in starts]
    best = float(starts[int(np.argmax(shares))])
    return best, best + width


def _seconds(result: Deconvolution) -> float:
    return float(result.spikes.shape[-1] / result.framerate)
