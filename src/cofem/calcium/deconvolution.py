"""``deconvolve``: from dF/F to spikes with probabilities."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from cofem.calcium.cell import MIN_FRAMES, Settings, fit_cell
from cofem.calcium.indicators import indicator_named
from cofem.calcium.measured import measured_kernel
from cofem.calcium.result import Deconvolution

METHODS = ("auto", "banded", "cofem")
RESPONSES = ("log", "linear")
# Noise of dF/F as a fraction is a few hundredths; above this it is in per cent, or raw.
PLAUSIBLE_NOISE = 1.0
_OVER_FRAMES = ("spikes", "mean", "std", "prob_active", "denoised", "baseline", "precision")
_PER_CELL = ("noise_std", "tau_d", "tau_r", "latency", "converged")


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
    response: str = "log",
    window: float = 60.0,
    max_iter: int = 50,
    tol: float = 1e-2,
    seed: int = 0,
    callback: Callable[[int], object] | None = None,
) -> Deconvolution:
    """Find the spikes of cells from their fluorescence, and how sure they are.

    Parameters
    ----------
    dff : array (n_frames,) or (n_cells, n_frames)
        dF/F as a fraction (not per cent). NaN: the frame is missing.
    framerate : float
        Frames per second.
    tau_d : float, optional
        Decay time in seconds. None: the most probable one for each cell, near that of
        the indicator if it is named.
    tau_r : float, optional
        Rise time in seconds, for a kernel of order 2. None or 0: a kernel without rise;
        with None the events are moved to where the indicator's rise began.
    sn : float, optional
        Standard deviation of the noise, as a fraction. None: measured on every cell, from
        the spectrum above framerate/4 and from steps downward.
    baseline : "maximin", None or array of dff's shape
        The slow level under the events; "maximin" is suite2p's, None is zero.
    indicator : str, optional
        A name from :data:`cofem.calcium.INDICATORS`.
    threshold : float, optional
        Set ``spikes`` to zero where ``prob_active`` is below this.
    method : {"auto", "banded", "cofem"}
        "banded" is exact, for kernels of order 1 and 2; "cofem" uses FFT products and
        serves any ``kernel``.
    n_jobs : int
        Cells beside each other, in threads; −1: as many as there are processors.
    kernel : array (m,), optional
        A measured response, frame by frame, instead of time constants.
    response : {"log", "linear"}
        Model log(1 + dF/F), which evens out the indicator's nonlinearity, or dF/F.
    window : float
        Of the maximin baseline, in seconds.
    max_iter, tol
        The most EM iterations, and the relative change of the mean at which to stop.
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
    traces = _traces(dff)
    settings = _settings(
        framerate, tau_d, tau_r, sn, baseline, indicator, threshold, method, kernel, response,
        window, max_iter, tol, seed,
    )  # fmt: skip
    levels = _levels(baseline, traces)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, got {type(callback).__name__}")
    if traces.shape[-1] < MIN_FRAMES:
        raise ValueError(
            f"dff has {traces.shape[-1]} frames; at least {MIN_FRAMES} are needed to tell "
            "events from noise"
        )
    rows = traces.reshape(-1, traces.shape[-1])
    dtype = traces.dtype if traces.dtype == np.float32 else np.float64
    over = {name: np.empty(rows.shape, dtype) for name in _OVER_FRAMES}
    cells: dict[str, list[Any]] = {
        name: [None] * len(rows)
        for name in (*_PER_CELL, "iterations", "change", "log_evidence", "message")
    }

    def one(i: int) -> None:
        level = None if levels is None else levels[i]
        found = fit_cell(np.asarray(rows[i], dtype=np.float64), settings, level)
        for name, array in over.items():
            array[i] = getattr(found, name)
        for name, values in cells.items():
            values[i] = getattr(found, name)

    for done, _ in enumerate(_in_threads(one, len(rows), _threads(n_jobs)), start=1):
        if callback is not None:
            callback(done)
    return _result(traces, over, cells, settings)


def _threads(n_jobs: Any) -> int:
    """Return the number of threads; as in joblib, −1 is all processors, −2 all but one."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, got {n_jobs!r}")
    jobs = int(n_jobs)
    if jobs > 0:
        return jobs
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (here or 1) + 1 + jobs)


def _in_threads(one: Callable[[int], None], n: int, jobs: int) -> Any:
    """Yield as cells are done; compiled loops leave the interpreter's lock."""
    if jobs == 1 or n == 1:
        for i in range(n):
            one(i)
            yield
        return
    with ThreadPoolExecutor(min(jobs, n)) as pool:
        try:
            yield from pool.map(one, range(n))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _result(
    traces: np.ndarray,
    over: dict[str, np.ndarray],
    cells: dict[str, list[Any]],
    settings: Settings,
) -> Deconvolution:
    messages = {i: text for i, text in enumerate(cells["message"]) if text}
    _warn(messages, cells, settings)
    single = traces.ndim == 1
    arrays: dict[str, Any] = {name: a[0] if single else a for name, a in over.items()}
    for name in _PER_CELL:
        values = np.array(cells[name])
        arrays[name] = values[0].item() if single else values
    return Deconvolution(
        **arrays,
        history={name: cells[name] for name in ("iterations", "change", "log_evidence")},
        messages=messages,
        framerate=settings.framerate,
        response=settings.response,
        dff=traces,
    )


def _warn(messages: dict[int, str], cells: dict[str, list[Any]], settings: Settings) -> None:
    noise = np.array(cells["noise_std"], dtype=np.float64)
    noise = noise[np.isfinite(noise) & (noise > 0)]
    if len(noise) and settings.sn is None and np.median(noise) > PLAUSIBLE_NOISE:
        warnings.warn(
            f"the noise of dff has a standard deviation of {np.median(noise):.3g}: dff must be a "
            "fraction; divide per cent by 100, and raw fluorescence by its baseline first",
            stacklevel=4,
        )
    if messages:
        first = ", ".join(f"{i} ({text})" for i, text in list(messages.items())[:3])
        rest = f" and {len(messages) - 3} more" if len(messages) > 3 else ""
        warnings.warn(f"cells with problems: {first}{rest}; see .messages", stacklevel=4)


# -- arguments -------------------------------------------------------------------------


def _traces(dff: Any) -> np.ndarray:
    if isinstance(dff, np.ma.MaskedArray):  # a masked frame is a missing one
        dff = np.ma.filled(dff.astype(np.float64), np.nan)
    given = np.asarray(dff)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"dff must hold real numbers, got dtype {given.dtype}")
    if given.ndim not in (1, 2) or 0 in given.shape:
        raise ValueError(
            f"dff must have shape (n_frames,) or (n_cells, n_frames), got {given.shape}"
        )
    if given.dtype.kind in "biu":
        given = given.astype(np.float64)
    if np.any(np.isinf(given)):
        raise ValueError("dff contains infinite values (NaN marks a missing frame)")
    return given


def _levels(baseline: Any, traces: np.ndarray) -> np.ndarray | None:
    """Return given baselines as rows; None if they are to be found."""
    if baseline is None or isinstance(baseline, str):
        if isinstance(baseline, str) and baseline != "maximin":
            raise ValueError(f'baseline must be "maximin", None or an array, got {baseline!r}')
        return None
    given = np.asarray(baseline)
    if given.dtype.kind not in "biuf" or given.shape != traces.shape:
        raise ValueError(
            f"baseline must be real and of dff's shape {traces.shape}, got {given.dtype} of "
            f"shape {given.shape}"
        )
    if not np.all(np.isfinite(given) | np.isnan(traces)):
        raise ValueError("baseline contains NaN or Inf at frames that are not missing")
    return np.nan_to_num(given.astype(np.float64)).reshape(-1, traces.shape[-1])


def _positive(name: str, value: Any, zero: bool = False) -> float:
    kind = "zero or positive" if zero else "positive"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a {kind} number, got {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name} must be {kind}, got {value!r}")
    return number


def _settings(
    framerate: Any, tau_d: Any, tau_r: Any, sn: Any, baseline: Any, indicator: Any,
    threshold: Any, method: Any, kernel: Any, response: Any, window: Any, max_iter: Any,
    tol: Any, seed: Any,
) -> Settings:  # fmt: skip
    rate = _positive("framerate", framerate)
    tau_d = None if tau_d is None else _positive("tau_d", tau_d)
    tau_r = None if tau_r is None else _positive("tau_r", tau_r, zero=True)
    if tau_d is not None and tau_r is not None and tau_r >= tau_d:
        raise ValueError(f"tau_r ({tau_r:g} s) must be shorter than tau_d ({tau_d:g} s)")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if response not in RESPONSES:
        raise ValueError(f"response must be one of {', '.join(RESPONSES)}, got {response!r}")
    if threshold is not None and not 0 <= _positive("threshold", threshold, zero=True) <= 1:
        raise ValueError(f"threshold must be a probability, got {threshold!r}")
    if isinstance(max_iter, bool) or not isinstance(max_iter, numbers.Integral) or max_iter < 1:
        raise ValueError(f"max_iter must be a whole number above 0, got {max_iter!r}")
    if kernel is not None:
        if tau_d is not None or tau_r is not None:
            raise ValueError("give kernel or time constants, not both")
        if method == "banded":
            raise ValueError('method "banded" is for time constants; a kernel needs "cofem"')
        kernel = measured_kernel(kernel, rate).response
    cofem = method == "cofem"
    if cofem and kernel is None and tau_d is None:
        raise ValueError('method "cofem" needs tau_d or kernel: its evidence is not exact')
    return Settings(
        framerate=rate,
        tau_d=tau_d,
        tau_r=tau_r,
        sn=None if sn is None else _positive("sn", sn),
        maximin=baseline is not None,
        window=_positive("window", window),
        indicator=None if indicator is None else indicator_named(indicator),
        kernel=kernel,
        response=response,
        threshold=None if threshold is None else float(threshold),
        cofem=cofem,
        max_iter=int(max_iter),
        tol=_positive("tol", tol, zero=True),
        seed=seed,
    )
