"""Estimates of spikes to compare: the paper's, its exact form, ours, and the rivals'.

Every function takes dF/F (n,) and the frame rate and returns an estimate per frame. All
but ours see the trace above its maximin baseline of 60 s and the noise from the spectrum
above framerate/4.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from cofem.calcium.deconvolution import deconvolve
from cofem.calcium.foopsi import fast_oopsi
from cofem.calcium.traces import maximin_baseline, white_noise
from cofem.fitting.calls import ConvergenceWarning, fit
from cofem.learning.banded_traces import fit_traces
from cofem.model.methods import CoFEM
from cofem.operators import Autoregressive, Convolution
from cofem.result.filtered_mode import filtered_mode

# The paper's setting.
TAU, ITERATIONS, Q = 0.7, 20, 0.05
TAU_RISE = 0.05

Estimate = Callable[[np.ndarray, float], np.ndarray]


def above_baseline(dff: np.ndarray, framerate: float) -> tuple[np.ndarray, float]:
    """Return the trace that all rivals see, and its noise."""
    y = dff - maximin_baseline(dff, framerate)
    return y, white_noise(y, framerate)


def paper_setting(dff: np.ndarray, framerate: float) -> np.ndarray:
    """CoFEM with FFT products, K = 20, U = 400, T = 20, τ = 0.7 s, q = 0.05."""
    y, noise = above_baseline(dff, framerate)
    n, decay = len(y), 1 - 1 / (framerate * TAU)
    phi = Convolution(decay ** np.arange(n), n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the paper stops after T
        post = fit(
            phi, y, noise_precision=noise**-2, nonnegative=True, method=CoFEM.paper(),
            max_iter=ITERATIONS, tol=0,
        )  # fmt: skip
    return _filtered(y, noise, post.precision, post.gaussian_mean, post.gaussian_variance, decay)


def exact_setting(dff: np.ndarray, framerate: float) -> np.ndarray:
    """Return the same with the exact E-step."""
    y, noise = above_baseline(dff, framerate)
    decay = 1 - 1 / (framerate * TAU)
    found = fit_traces((decay,), y, noise**-2, max_iter=ITERATIONS, tol=0, initial_precision=1.0)
    return _filtered(y, noise, found.precision, found.mean, found.variance, decay)


def _filtered(
    y: np.ndarray, noise: float, alpha: Any, mean: Any, variance: Any, decay: float
) -> np.ndarray:
    return np.asarray(
        filtered_mode(
            Autoregressive((decay,), len(y)), y, precision=alpha, noise_precision=noise**-2,
            mean=mean, variance=variance, q=Q,
        )
    )  # fmt: skip


def ours(dff: np.ndarray, framerate: float) -> np.ndarray:
    """Return ``deconvolve`` as it comes."""
    return deconvolve(dff, framerate, n_jobs=1).spikes


def foopsi(dff: np.ndarray, framerate: float) -> np.ndarray:
    """fast-oopsi with the paper's kernel."""
    y, _ = above_baseline(dff, framerate)
    return fast_oopsi(y, 1 - 1 / (framerate * TAU))


def oasis_ar1(dff: np.ndarray, framerate: float) -> np.ndarray:
    """OASIS, order 1, ℓ1 penalty under the noise constraint."""
    y, noise = above_baseline(dff, framerate)
    found = _oasis().deconvolve(
        y, tau_d=TAU, framerate=framerate, sn=noise, penalty=1, b_nonneg=False
    )
    return np.asarray(found.s)


def oasis_ar2(dff: np.ndarray, framerate: float) -> np.ndarray:
    """OASIS, order 2 (0.7 and 0.05 s), ℓ1 penalty under the noise constraint."""
    y, noise = above_baseline(dff, framerate)
    found = _oasis().deconvolve(
        y, tau_d=TAU, tau_r=TAU_RISE, framerate=framerate, sn=noise, penalty=1, b_nonneg=False
    )
    return np.asarray(found.s)


def oasis_threshold(dff: np.ndarray, framerate: float) -> np.ndarray:
    """OASIS, order 1, smallest event twice the noise."""
    y, noise = above_baseline(dff, framerate)
    decay = math.exp(-1 / (framerate * TAU))
    return np.asarray(_oasis().oasisAR1(y, decay, s_min=2 * noise)[1])


def _oasis() -> Any:
    try:
        import oasis.functions as functions
    except ImportError:
        raise ImportError("this comparison needs OASIS: pip install oasis-deconv") from None
    return functions


def has_oasis() -> bool:
    """Return whether oasis-deconv is installed."""
    try:
        _oasis()
    except ImportError:
        return False
    return True


CONTESTANTS: Mapping[str, Estimate] = MappingProxyType(
    {
        "cofem default": ours,
        "CoFEM, the paper's setting": paper_setting,
        "exact E-step, the paper's setting": exact_setting,
        "fast-oopsi": foopsi,
        "OASIS AR(1), penalty 1": oasis_ar1,
        "OASIS AR(2), penalty 1": oasis_ar2,
        "OASIS AR(1), s_min = 2 sn": oasis_threshold,
    }
)
