"""fast-oopsi, the paper's rival: non-negative deconvolution by an interior point.

Vogelstein et al. 2010: calcium c decays by γ a frame, jumps n_t = c_t − γ c_{t−1} ≥ 0 are
exponential with rate λ, fluorescence is c plus Gaussian noise. The most probable jumps
minimise

    ‖y − c‖²/(2σ²) + λ Σ n_t    over n ≥ 0.

Newton's method on this with the barrier −z Σ log n_t, z falling to zero; the Hessian is
tridiagonal, so a step is linear in the number of frames. The parameters are set once, as
the original does: σ from the median absolute deviation of the trace, λ from its mean.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solveh_banded
from scipy.signal import lfilter

from cofem.calcium.traces import HALF_NORMAL_MEDIAN

# A silent trace has jumps of at least this many noises.
LEAST_JUMP = 1e-3
# The barrier falls by this factor, as in Boyd & Vandenberghe 2004, § 11.3.1; at each weight so
# many of Newton's steps, until the next would gain this share of the barrier's duality gap.
BARRIER_FALL, NEWTON_STEPS, GAP_SHARE = 10.0, 50, 1e-3
# Armijo's rule (ibid., § 9.2): the share of the slope that a step must gain, and a step so
# small that rounding ends it.
ARMIJO, LEAST_STEP = 0.01, 1e-10
# A step keeps this share of the way to the nearest bound (the usual fraction to the boundary).
TO_BOUNDARY = 0.99


def fast_oopsi(
    y: np.ndarray, gamma: float, noise_std: float | None = None, tol: float = 1e-5
) -> np.ndarray:
    """Return the most probable jumps (n,) of one trace without missing frames.

    Parameters
    ----------
    y : ndarray (n,)
        Fluorescence above its baseline.
    gamma : float
        Decay per frame, between 0 and 1.
    noise_std : float, optional
        σ; None: from the median absolute deviation.
    tol : float
        Weight of the barrier, relative to where it starts, at which to end.

    Examples
    --------
    >>> y = 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> y[50:] += 0.9 ** np.arange(150)
    >>> int(np.argmax(fast_oopsi(y, 0.9)))
    50
    """
    if not 0 < gamma < 1:
        raise ValueError(f"gamma must be between 0 and 1, got {gamma!r}")
    y = np.asarray(y, dtype=np.float64)
    if noise_std is None:
        noise_std = float(np.median(np.abs(y - np.median(y)))) / HALF_NORMAL_MEDIAN
    if not noise_std > 0:
        raise ValueError(f"noise_std must be positive, got {noise_std!r}")
    # The mean trace is the mean jump/(1 − γ); a silent trace has jumps of one noise.
    mean_jump = max(float(np.mean(y)) * (1 - gamma), LEAST_JUMP * noise_std * (1 - gamma))
    return noise_std * _interior_point(y / noise_std, gamma, noise_std / mean_jump, tol)


def _interior_point(y: np.ndarray, gamma: float, rate: float, tol: float) -> np.ndarray:
    n = np.full(len(y), 1 / rate)
    c = _calcium(n, gamma)
    # λ Σ n = λ (c_last + (1 − γ) Σ_{t<last} c_t), so the penalty is linear in c.
    slope = np.full(len(y), rate * (1 - gamma))
    slope[-1] = rate
    weight = 1.0
    while weight > tol:
        for _ in range(NEWTON_STEPS):
            pull = weight / n
            gradient = c - y + slope - _transposed(pull, gamma)
            bands = _hessian(weight / n**2, gamma)
            step = -solveh_banded(bands, gradient)
            falling = float(gradient @ step)
            size = _longest(n, _jumps(step, gamma))
            before = _objective(y, c, n, slope, weight)
            while True:
                there = c + size * step
                n_there = _jumps(there, gamma)
                if np.all(n_there > 0) and (
                    _objective(y, there, n_there, slope, weight) <= before + ARMIJO * size * falling
                ):
                    break
                size /= 2
                if size < LEAST_STEP:
                    n_there, there = n, c
                    break
            n, c = n_there, there
            if -falling < GAP_SHARE * weight * len(y) or size < LEAST_STEP:
                break
        weight /= BARRIER_FALL
    return n


def _objective(
    y: np.ndarray, c: np.ndarray, n: np.ndarray, slope: np.ndarray, weight: float
) -> float:
    return float(0.5 * np.sum((y - c) ** 2) + slope @ c - weight * np.sum(np.log(n)))


def _jumps(c: np.ndarray, gamma: float) -> np.ndarray:
    n = c.copy()
    n[1:] -= gamma * c[:-1]
    return n


def _calcium(n: np.ndarray, gamma: float) -> np.ndarray:
    return np.asarray(lfilter([1.0], [1.0, -gamma], n))


def _transposed(v: np.ndarray, gamma: float) -> np.ndarray:
    out = v.copy()
    out[:-1] -= gamma * v[1:]
    return out


def _hessian(curvature: np.ndarray, gamma: float) -> np.ndarray:
    """I + Mᵀ diag(curvature) M in upper banded form, M the map from c to jumps."""
    bands = np.zeros((2, len(curvature)))
    bands[1] = 1 + curvature
    bands[1, :-1] += gamma * gamma * curvature[1:]
    bands[0, 1:] = -gamma * curvature[1:]
    return bands


def _longest(n: np.ndarray, change: np.ndarray) -> float:
    """Return the step, at most 1, that keeps a hundredth of every jump."""
    shrinking = change < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, TO_BOUNDARY * np.min(-n[shrinking] / change[shrinking])))
