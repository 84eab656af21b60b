"""``deconvolve``: from dF/F to spikes with probabilities."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend
from cofem.calcium.arguments import levels_of, settings_of, traces_of
from cofem.calcium.at_once.fitting import fit_together
from cofem.calcium.half_cauchy.cell import MIN_FRAMES, Settings, fit_cell
from cofem.calcium.jumps.doubts import in_a_field
from cofem.calcium.jumps.fitting import fit_jumps
from cofem.calcium.jumps.recording import SHARED, shared
from cofem.calcium.result import OVER_FRAMES, PER_CELL, Deconvolution
from cofem.calcium.traces import white_noise
from cofem.solvers.threads import as_done

# Of dF/F as a fraction the noise is a few hundredths, and peaks are seldom above five. The
# median cell beyond one of these is in per cent, or raw.
PLAUSIBLE_NOISE, PLAUSIBLE_PEAK, PEAK_PERCENTILE = 0.5, 15.0, 99.9
GOES_WITH_OTHERS = (
    "the trace goes with the mean of the other cells (neuropil was left in, or the field moved, "
    "or all fire together): many events may be no spikes of this cell"
)
# So many cells, spread over all, tell the unit.
CELLS_LOOKED_AT = 50


def deconvolve(
    dff: Any,
    framerate: float,
    tau_d: float | None = None,
    tau_r: float | None = None,
    sn: float | None = None,
    baseline: Any = "maximin",
    indicator: str | None = None,
    threshold: float | None = None,
    method: str = "auto",
    n_jobs: int = -1,
    *,
    kernel: Any = None,
    response: str = "auto",
    window: float = 60.0,
    max_iter: int = 50,
    tol: float = 1e-2,
    seed: int = 0,
    callback: Callable[[int], object] | None = None,
) -> Deconvolution:
    """Find the spikes of cells in their fluorescence, with probabilities.

    Parameters
    ----------
    dff : array (n_frames,) or (n_cells, n_frames)
        dF/F, as a fraction if ``response="log"`` or the method is another than "jumps";
        otherwise in any unit, also raw fluorescence: times and probabilities are the same,
        and heights have its unit. NaN: the frame is missing. Tensors are accepted, and under
        "jumps" those on an NVIDIA GPU are worked on there, all cells together; the result is
        made of NumPy's arrays all the same.
    framerate : float
        Frames per second.
    tau_d, tau_r : float, optional
        Decay and rise time in seconds; 0 is no rise. None: the most probable ones of each
        cell. (Under "banded" without ``tau_r`` the kernel has no rise, and events are moved
        to where the indicator's began.)
    sn : float, optional
        Standard deviation of the noise, as a fraction. None: measured on every cell, from
        the spectrum above framerate/4 and from steps downward.
    baseline : "maximin", None or array of dff's shape
        The slow level under the events: suite2p's "maximin", raised to the level of silence
        that is most probable; None is zero. What is given is taken as it is.
    indicator : str, optional
        A name from :data:`cofem.calcium.INDICATORS`: where the search starts, and a prior.
    threshold : float, optional
        Set ``spikes`` to zero where a jump within 50 ms is less probable than this.
    method : {"auto", "jumps", "banded", "cofem"}
        A method is a model: the prior changes with it. "jumps" (the default): calcium jumps
        now and then, by a hidden Markov model. "banded": every frame has a half-Cauchy
        event; exact Gaussian recursions. "cofem": sparse Bayesian learning with one
        precision per frame, by FFT products, for any ``kernel``.
    n_jobs : int
        Cells beside each other, in threads; −1: as many as there are processors.
    kernel : array (m,), optional
        A measured response, frame by frame, instead of time constants.
    response : {"auto", "log", "linear"}
        How the response to a spike grows with the fluorescence: "auto" estimates it for each cell,
        "log" is in proportion to 1 + dF/F, "linear" not at all. "banded" and "cofem" choose none
        ("auto" is "log") and model log(1 + dF/F).
    window : float
        Of the maximin baseline, in seconds.
    max_iter, tol
        For "banded" and "cofem": the most EM iterations, and the relative change of the mean
        at which to stop.
    seed : int
        For "cofem".
    callback : function, optional
        Called with the number of cells done.

    Returns
    -------
    Deconvolution

    Examples
    --------
    >>> from cofem.calcium import deconvolve, simulate
    >>> dff, spikes = simulate(n_cells=2, n_frames=3000, framerate=30.0, seed=0)
    >>> result = deconvolve(dff, framerate=30.0, n_jobs=1)
    >>> result.spikes.shape
    (2, 3000)
    >>> per_second = lambda x: x.reshape(2, -1, 30).sum(axis=2)
    >>> bool(np.corrcoef(per_second(result.spikes)[0], per_second(spikes)[0])[0, 1] > 0.85)
    True
    """
    traces = traces_of(dff)
    settings = settings_of(
        framerate, tau_d, tau_r, sn, baseline, indicator, threshold, method, kernel, response,
        window, max_iter, tol, seed,
    )  # fmt: skip
    levels = levels_of(baseline, traces)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, got {type(callback).__name__}")
    rows = traces.reshape(-1, traces.shape[-1])
    dtype = traces.dtype if traces.dtype == np.float32 else np.float64
    over = {name: np.empty(rows.shape, dtype) for name in OVER_FRAMES}
    cells: dict[str, list[Any]] = {
        name: [None] * len(rows)
        for name in (*PER_CELL, "iterations", "change", "log_evidence", "message")
    }

    fit = fit_jumps if settings.jumps else fit_cell
    rest = list(range(len(rows)))
    if settings.jumps and backend.is_array(dff) and backend.has_engine(dff):
        rest = _fit_there(dff.reshape(rows.shape), settings, levels, over, cells, callback)

    def one(i: int) -> None:
        level = None if levels is None else levels[i]
        found = fit(np.asarray(rows[i], dtype=np.float64), settings, level)
        for name, array in over.items():
            array[i] = getattr(found, name)
        for name, values in cells.items():
            values[i] = getattr(found, name)

    for done, _ in enumerate(as_done(one, rest, _threads(n_jobs)), start=len(rows) - len(rest) + 1):
        if callback is not None:
            callback(done)
    return _result(traces, over, cells, settings)


def _fit_there(
    there: Any,
    settings: Settings,
    levels: np.ndarray | None,
    over: dict[str, np.ndarray],
    cells: dict[str, list[Any]],
    callback: Callable[[int], object] | None,
) -> list[int]:
    """Fit rows on their device, fill ``over`` and ``cells``; return those that are left over."""
    rest = set(range(there.shape[0]))
    batches = fit_together(there, settings, levels)
    work = f"{there.shape[0]:,} cells of {there.shape[1]:,} frames"
    while True:
        with backend.named_if_full(work, "pass fewer cells at a time, or move dff to the host"):
            batch = next(batches, None)
        if batch is None:
            return sorted(rest)
        which, frames, numbers = batch
        for name, array in over.items():
            _write(array, which, frames[name])
        for name, values in cells.items():
            for i, value in zip(which, numbers[name].tolist(), strict=True):
                values[i] = value
        rest -= {*which.tolist()}
        if callback is not None:
            callback(there.shape[0] - len(rest))


def _write(out: np.ndarray, which: np.ndarray, rows: Any) -> None:
    """Write rows of an array on a device; most often they lie together."""
    first, last = int(which[0]), int(which[-1]) + 1
    if last - first == len(which):
        backend.copy_into(out[first:last], rows)
    else:
        out[which] = backend.to_numpy(rows)


def _threads(n_jobs: Any) -> int:
    """Return the number of threads; as in joblib, −1 is all processors, −2 all but one."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, got {n_jobs!r}")
    jobs = int(n_jobs)
    if jobs > 0:
        return jobs
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (here or 1) + 1 + jobs)


def _result(
    traces: np.ndarray,
    over: dict[str, np.ndarray],
    cells: dict[str, list[Any]],
    settings: Settings,
) -> Deconvolution:
    messages = {i: text for i, text in enumerate(cells["message"]) if text}
    if settings.jumps:
        for i, much in enumerate(shared(np.atleast_2d(traces))):
            if much > SHARED:
                told = (messages[i], GOES_WITH_OTHERS) if i in messages else (GOES_WITH_OTHERS,)
                messages[i] = "; ".join(told)
    _warn(traces, messages, settings)
    single = traces.ndim == 1
    arrays: dict[str, Any] = {name: a[0] if single else a for name, a in over.items()}
    for name in PER_CELL:
        values = np.array(cells[name])
        arrays[name] = values[0].item() if single else values
    return Deconvolution(
        **arrays,
        history={name: cells[name] for name in ("iterations", "change", "log_evidence")},
        messages=messages,
        framerate=settings.framerate,
        response=settings.response,
        model=_model(settings),
        dff=traces,
    )


def _model(settings: Settings) -> str:
    if settings.jumps:
        return "jumps"
    return "cofem" if settings.cofem or settings.kernel is not None else "banded"


def _warn(traces: np.ndarray, messages: dict[int, str], settings: Settings) -> None:
    # The model of jumps is the same in every unit; only the logarithm needs a fraction.
    needs = settings.sn is None and settings.response == "log"
    doubt = _doubt_about_units(np.atleast_2d(traces), settings) if needs else ""
    if doubt:
        warnings.warn(
            f"{doubt}: dff must be a fraction; divide per cent by 100, and raw fluorescence by "
            "its baseline first (sn=, the standard deviation of the noise, silences this)",
            stacklevel=4,
        )
    if messages:
        told = in_a_field(messages, range(len(np.atleast_2d(traces))))
        warnings.warn(f"{told}; see .messages", stacklevel=4)


def _doubt_about_units(rows: np.ndarray, settings: Settings) -> str:
    """Say what makes it improbable that dF/F is a fraction; nothing, if nothing does."""
    step = -(-len(rows) // CELLS_LOOKED_AT)
    noise, peak = [], []
    for row in np.asarray(rows[::step], dtype=np.float64):
        seen = row[np.isfinite(row)]
        if len(seen) >= MIN_FRAMES and np.ptp(seen) > 0:
            noise.append(white_noise(row, settings.framerate))
            peak.append(float(np.percentile(seen, PEAK_PERCENTILE) - np.median(seen)))
    if noise and np.median(noise) > PLAUSIBLE_NOISE:
        return f"the noise of dff has a standard deviation of {np.median(noise):.3g}"
    if peak and np.median(peak) > PLAUSIBLE_PEAK:
        return f"dff rises by {np.median(peak):.3g} above its median"
    return ""
