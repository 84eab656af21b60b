"""What :func:`cofem.calcium.deconvolve` is given: checked, and named when it is wrong."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from cofem import backend
from cofem.calcium.half_cauchy.cell import MIN_FRAMES, Settings
from cofem.calcium.half_cauchy.measured import measured_kernel
from cofem.calcium.indicators import indicator_named

METHODS = ("auto", "jumps", "banded", "cofem")
RESPONSES = ("auto", "log", "linear")


def traces_of(dff: Any) -> np.ndarray:
    """Return fluorescence as NumPy's array, float32 or float64, or refuse it."""
    if isinstance(dff, np.ma.MaskedArray):  # a masked frame is a missing one
        dff = np.ma.filled(dff.astype(np.float64), np.nan)
    given = backend.to_numpy(dff) if backend.is_array(dff) else np.asarray(dff)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"dff must hold real numbers, got dtype {given.dtype}")
    if given.ndim not in (1, 2) or 0 in given.shape:
        raise ValueError(
            f"dff must have shape (n_frames,) or (n_cells, n_frames), got {given.shape}"
        )
    if given.shape[-1] < MIN_FRAMES:
        raise ValueError(
            f"dff has {given.shape[-1]} frames; at least {MIN_FRAMES} are needed to tell "
            "events from noise"
            + ("; are cells in columns?" if given.ndim == 2 and len(given) >= MIN_FRAMES else "")
        )
    if given.dtype.kind in "biu":
        given = given.astype(np.float64)
    if np.any(np.isinf(given)):
        raise ValueError("dff contains infinite values (NaN marks a missing frame)")
    return given


def levels_of(baseline: Any, traces: np.ndarray) -> np.ndarray | None:
    """Return given baselines as rows; None if they are to be found."""
    if baseline is None or isinstance(baseline, str):
        if isinstance(baseline, str) and baseline != "maximin":
            raise ValueError(f'baseline must be "maximin", None or an array, got {baseline!r}')
        return None
    given = backend.to_numpy(baseline) if backend.is_array(baseline) else np.asarray(baseline)
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


def settings_of(
    framerate: Any, tau_d: Any = None, tau_r: Any = None, sn: Any = None,
    baseline: Any = "maximin", indicator: Any = None, threshold: Any = None,
    method: Any = "auto", kernel: Any = None, response: Any = "auto", window: Any = 60.0,
    max_iter: Any = 50, tol: Any = 1e-2, seed: Any = 0,
) -> Settings:  # fmt: skip
    """Check everything that is not an array, and put it together."""
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
        if method in ("banded", "jumps"):
            raise ValueError(f'method "{method}" is for time constants; a kernel needs "cofem"')
        kernel = measured_kernel(kernel, rate).response
    cofem = method == "cofem"
    jumps = method == "jumps" or (method == "auto" and kernel is None)
    if response == "auto" and not jumps:
        response = "log"  # these models choose none
    if cofem and kernel is None and tau_d is None:
        raise ValueError('method "cofem" cannot find the decay time itself: give tau_d or kernel')
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
        jumps=jumps,
        threshold=None if threshold is None else float(threshold),
        cofem=cofem,
        max_iter=int(max_iter),
        tol=_positive("tol", tol, zero=True),
        seed=seed,
    )
