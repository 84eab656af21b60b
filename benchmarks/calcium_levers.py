"""What every part of method "banded" adds by itself, and which of its estimates is best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.signal import lfilter

from calcium_scores import COLUMNS, correlations, mean_table
from cofem.calcium import deconvolve
from cofem.calcium.contest import above_baseline, has_oasis
from cofem.calcium.half_cauchy.cell import (
    Settings,
    advanced,
    noise_level,
    silent_level,
    transformed,
)
from cofem.calcium.half_cauchy.em import fit_trace
from cofem.calcium.half_cauchy.kernel import kernel_from_times
from cofem.calcium.indicators import GENERIC_RISE, latency
from cofem.calcium.recordings import Recording
from cofem.calcium.traces import log_response, maximin_baseline, white_noise
from cofem.learning.banded_traces import fit_traces
from common import Table, note

DECAYS = 0.7 * np.sqrt(2.0) ** np.arange(-4, 4)


def variant(
    dff: np.ndarray,
    rate: float,
    *,
    log: bool = False,
    level: bool = False,
    downward: bool = False,
    prior: bool = False,
    late: bool = False,
    evidence: bool = False,
    rise: float = 0.0,
    drift: float = 0.0,
) -> np.ndarray:
    """Return the positive mode of a model with some of the default's parts."""
    settings = Settings(rate, response="log" if log else "linear")
    base = silent_level(dff, settings) if level else maximin_baseline(dff, rate)
    x = transformed(dff, base, settings.response)
    noise = noise_level(x, settings) if downward else white_noise(x, rate)
    fits = [
        _fit(kernel_from_times(tau, rise, rate), x / noise, prior, drift * rate)
        for tau in (DECAYS if evidence else (0.7,))
    ]
    kernel, mean, _ = max(fits, key=lambda found: found[2])
    shift = round(latency(kernel.tau_d, kernel.tau_r, GENERIC_RISE) * rate) if late else 0
    return advanced(np.maximum(mean, 0.0), shift, 0.0)


def _fit(kernel: Any, y: np.ndarray, prior: bool, drift: float) -> tuple[Any, np.ndarray, float]:
    """Fit with the Cauchy prior or without; with drift, alternate with a smooth baseline."""
    smooth = np.zeros(len(y))
    for _ in range(3 if drift else 1):
        if prior:
            found = fit_trace(kernel, y - smooth, np.ones(len(y)))
            mean, score = found.mean, found.score
        else:
            traces = fit_traces(kernel.coefficients, y - smooth, 1.0, max_iter=20, tol=0)
            mean, score = traces.mean, float(traces.log_evidence)
        if drift:
            calcium = lfilter([1.0], [1.0, *-kernel.coefficients], mean)
            smooth = gaussian_filter1d(y - calcium, drift, mode="nearest")
    return kernel, mean, score


# What the default is made of; everything off is plain sparse Bayesian learning, exact.
DEFAULT = dict.fromkeys(("log", "level", "downward", "prior", "late", "evidence"), True)


def levers(recordings: Sequence[Recording], quick: bool) -> Table:
    on: dict[str, dict[str, Any]] = {
        "plain: exact SBL, order 1, τ = 0.7 s": {},
        "plain + order 2 (rise 0.05 s)": {"rise": 0.05},
        "plain + latency": {"late": True},
        "plain + logarithm": {"log": True},
        "plain + Cauchy prior": {"prior": True},
        "plain + noise from downward steps": {"downward": True},
        "plain + baseline at the median": {"level": True},
        "plain + decay time by evidence": {"evidence": True},
        "plain + smooth drift (10 s) fitted jointly": {"drift": 10.0},
        "all: the default": DEFAULT,
        "default, smooth drift (10 s) fitted jointly": DEFAULT | {"drift": 10.0},
        "default, order 2 (rise 0.05 s)": DEFAULT | {"rise": 0.05},
    }
    off = {
        "log": "dF/F itself",
        "level": "baseline at the maximin",
        "downward": "noise from the spectrum",
        "prior": "no Cauchy prior",
        "late": "no latency",
        "evidence": "τ = 0.7 s",
    }
    on |= {f"default, {text}": DEFAULT | {name: False} for name, text in off.items()}
    if quick:
        on = {name: on[name] for name in list(on)[::3]}
    rows = []
    for name, parts in on.items():
        note(f"calcium: {name}")
        made = [variant(r.dff, r.framerate, **parts) for r in recordings]
        means = correlations(recordings, made).mean(axis=0)
        rows.append([name, *(float(x) for x in means.round(3))])
    if has_oasis():
        made = [_oasis_on_logarithm(r) for r in recordings]
        means = correlations(recordings, made).mean(axis=0)
        rows.append(["OASIS AR(2) on the logarithm", *(float(x) for x in means.round(3))])
    title = 'Every lever of method "banded" by itself (positive mode)'
    return Table(title, ["model", *COLUMNS], rows)


def _oasis_on_logarithm(r: Recording) -> np.ndarray:
    from oasis.functions import deconvolve as oasis

    y, _ = above_baseline(r.dff, r.framerate)
    x = log_response(y)
    found = oasis(
        x, tau_d=0.7, tau_r=0.05, framerate=r.framerate, sn=white_noise(x, r.framerate),
        penalty=1, b_nonneg=False,
    )  # fmt: skip
    return np.asarray(found.s)


def point_estimates(recordings: Sequence[Recording]) -> Table:
    estimates: dict[str, Callable[[Any], np.ndarray]] = {
        "positive part of the mode (spikes)": lambda found: found.spikes,
        "mean of the rectified posterior": lambda found: found.mean,
        "spikes × probability": lambda found: found.spikes * found.prob_active,
        "spikes with probability above ½": lambda found: found.spikes * (found.prob_active > 0.5),
        "filtered mode, q = 0.05": lambda found: found.filtered_mode(0.05),
    }
    posteriors = [deconvolve(r.dff, r.framerate, method="banded", n_jobs=1) for r in recordings]
    named = [
        deconvolve(r.dff, r.framerate, indicator=r.indicator or None, n_jobs=1) for r in recordings
    ]
    given = [deconvolve(r.dff, r.framerate, tau_d=0.7, tau_r=0.05, n_jobs=1) for r in recordings]
    scores = {
        name: correlations(recordings, [f(p) for p in posteriors]) for name, f in estimates.items()
    }
    scores["default, indicator named"] = correlations(recordings, [p.spikes for p in named])
    scores["default, tau_d = 0.7, tau_r = 0.05 given"] = correlations(
        recordings, [p.spikes for p in given]
    )
    title = 'Point estimates from the posterior of method "banded"'
    return mean_table(title, scores, len(recordings))
