"""One page for a whole field of cells: a table to sort, a trace with its events on a click.

The page holds its data and its script, and needs no network.
"""

from __future__ import annotations

import html
import json
import math
from importlib import resources
from typing import Any

import numpy as np

from cofem.calcium.result import Deconvolution

# A trace is drawn with about so many points: the extremes of equal stretches.
POINTS = 2400
# Below this ratio of signal to noise events are hardly told from noise.
LOW_SNR = 3.0
# The signal is what one frame in a hundred reaches. Events are listed from this probability on,
# and counted from the second.
PEAK_PERCENTILE, LISTED_ABOVE, SURE = 99.0, 0.3, 0.5
COLUMNS = (
    ("cell", "cell", "its row in the file"),
    ("rate", "spikes/s", "expected number of spikes per second, known to a factor of two"),
    ("events", "events", "with probability above one half"),
    ("snr", "SNR", "99th percentile of the fit above silence, in units of a frame's noise"),
    ("noise", "noise", "standard deviation of a frame"),
    ("tau_d", "decay (s)", "decay time"),
    ("tau_r", "rise (s)", "rise time"),
    (
        "curvature",
        "curvature",
        "how much more a spike adds per dF/F that is there; 0 is linear, below 0 saturates",
    ),
    ("flags", "flags", "what to look at"),
)


def report_page(result: Deconvolution, title: str, cells: np.ndarray | None = None) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    result : Deconvolution
    title : str
    cells : ndarray of int, optional
        What the cells are called: their rows in the file.

    Examples
    --------
    >>> from cofem.calcium import deconvolve, simulate
    >>> result = deconvolve(simulate(n_cells=2, n_frames=600)[0], 30.0, n_jobs=1)
    >>> page = report_page(result, "two cells")
    >>> page.startswith("<!doctype html>"), "http" in page
    (True, False)
    """
    names = np.arange(result.n_cells) if cells is None else cells
    table = result.events(LISTED_ABOVE)
    of_cell = np.split(table, np.searchsorted(table["cell"], np.arange(1, result.n_cells)))
    rows = [_row(result, i, int(names[i]), of_cell[i]) for i in range(result.n_cells)]
    data = {
        "columns": COLUMNS,
        "rows": rows,
        "seconds": result.spikes.shape[-1] / result.framerate,
    }
    # "</script>" inside the data would end the script.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = resources.files("cofem.calcium").joinpath("report.html").read_text(encoding="utf-8")
    about = (
        f"{result.n_cells} cells, {result.spikes.shape[-1]} frames at {result.framerate:g} Hz; "
        f"model {result.model}, response {result.response}"
    )
    return (
        page.replace("__TITLE__", html.escape(title))
        .replace("__ABOUT__", html.escape(about))
        .replace("__DATA__", text)
    )


def _row(result: Deconvolution, i: int, name: int, events: np.ndarray) -> dict[str, Any]:
    row = result.row(i)
    seconds = max(1, int(np.count_nonzero(np.isfinite(row["dff"])))) / result.framerate
    above = row["denoised"] - row["baseline"]
    usable = bool(np.all(np.isfinite(above))) and row["noise_std"] > 0
    snr = float(np.percentile(above, PEAK_PERCENTILE)) / row["noise_std"] if usable else math.nan
    sure = events[events["probability"] >= SURE]
    flags = [result.messages[i]] if i in result.messages else []
    if row["at_limit"] and not any("decay time" in text for text in flags):
        flags.append("decay at the end of the search")
    if usable and snr < LOW_SNR:
        flags.append("low SNR")
    step = max(1, math.ceil(2 * len(row["dff"]) / POINTS))
    return {
        "cell": name,
        "rate": _short(float(np.sum(row["spike_counts"])) / seconds),
        "events": len(sure),
        "snr": _short(snr),
        "noise": _short(row["noise_std"]),
        "tau_d": _short(row["tau_d"]),
        "tau_r": _short(row["tau_r"]),
        "curvature": _short(row["curvature"]),
        "flags": "; ".join(flags),
        "counts": result.counts_in_words(i),
        "step": step / result.framerate,
        "trace": _extremes(row["dff"], step),
        "fit": _means(row["denoised"], step),
        "level": _means(row["baseline"], step),
        "times": [_short(x, 6) for x in events["time"]],
        "heights": [_short(x) for x in events["amplitude"]],
        "chances": [_short(x) for x in events["probability"]],
    }


def _short(x: float, digits: int = 4) -> float | None:
    """Return a number with few digits, None where there is none (JSON has no NaN)."""
    return float(f"{x:.{digits}g}") if math.isfinite(x) else None


def _stretches(x: np.ndarray, step: int) -> np.ndarray:
    padded = np.full(-(-len(x) // step) * step, np.nan)
    padded[: len(x)] = x
    return padded.reshape(-1, step)


def _extremes(x: np.ndarray, step: int) -> list[list[float | None]]:
    """Return least and largest value of every stretch."""
    parts = _stretches(x, step)
    there = np.isfinite(parts).any(axis=1)
    low = np.where(there, np.where(np.isnan(parts), np.inf, parts).min(axis=1), np.nan)
    high = np.where(there, np.where(np.isnan(parts), -np.inf, parts).max(axis=1), np.nan)
    return [[_short(a) for a in low], [_short(b) for b in high]]


def _means(x: np.ndarray, step: int) -> list[float | None]:
    parts = _stretches(x, step)
    number = np.isfinite(parts).sum(axis=1)
    total = np.where(np.isfinite(parts), parts, 0.0).sum(axis=1)
    return [_short(v) for v in np.where(number > 0, total / np.maximum(number, 1), np.nan)]
