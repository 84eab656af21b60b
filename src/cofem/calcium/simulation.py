"""Fluorescence of simulated neurons, for examples and tests where no recording is."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.signal import fftconvolve

# Bouts: the standard deviation of the logarithm of the rate (by guess: three times the mean or a
# third of it), and the seconds over which it is smooth. Drift is smooth over more.
BOUTS, BOUT_SECONDS, DRIFT_SECONDS = 1.2, 1.0, 15.0
# The response is followed for so many decay times: exp(−8) of it is left.
DECAYS = 8


def simulate(
    n_cells: int = 10,
    n_frames: int = 6000,
    framerate: float = 30.0,
    *,
    tau_d: float = 0.7,
    tau_r: float = 0.05,
    rate: float = 0.7,
    amplitude: float = 0.2,
    noise_std: float = 0.05,
    hill: float = 2.0,
    drift: float = 0.05,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw spike trains with bouts of activity and the dF/F that they would give.

    Parameters
    ----------
    n_cells, n_frames : int
        Shape of the result.
    framerate : float
        Frames per second.
    tau_d, tau_r : float
        Decay and rise time of calcium, in seconds.
    rate : float
        Mean spikes per second.
    amplitude : float
        Peak dF/F of one spike from rest, as a fraction.
    noise_std : float
        Standard deviation of the noise at rest, dF/F; its variance grows with F.
    hill : float
        Exponent of fluorescence in calcium: 1 is linear, 2 to 3 are GCaMPs.
    drift : float
        Standard deviation of the slow drift of the baseline.
    seed : int
        Decides every random number.

    Returns
    -------
    dff : ndarray (n_cells, n_frames)
    spikes : ndarray of int (n_cells, n_frames)
        Spikes in every frame.

    Examples
    --------
    >>> dff, spikes = simulate(n_cells=3, n_frames=900, seed=1)
    >>> dff.shape, spikes.dtype.kind
    ((3, 900), 'i')
    """
    for name, value in (
        ("framerate", framerate), ("tau_d", tau_d), ("rate", rate),
        ("amplitude", amplitude), ("noise_std", noise_std), ("hill", hill),
    ):  # fmt: skip
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive, got {value!r}")
    if n_cells < 1 or n_frames < 1:
        raise ValueError(f"n_cells and n_frames must be at least 1, got {n_cells}, {n_frames}")
    rng = np.random.default_rng(seed)
    shape = (n_cells, n_frames)
    bouts = np.exp(BOUTS * _slow(rng, shape, BOUT_SECONDS * framerate))
    bouts *= rate / bouts.mean(axis=1, keepdims=True)
    spikes = rng.poisson(bouts / framerate)
    t = np.arange(math.ceil(DECAYS * tau_d * framerate) + 1) / framerate
    response = np.exp(-t / tau_d) * (1 - np.exp(-t / tau_r) if tau_r > 0 else 1.0)
    response /= response.max()
    calcium = fftconvolve(spikes.astype(np.float64), response[None, :], axes=1)[:, :n_frames]
    step = (1 + amplitude) ** (1 / hill) - 1
    fluorescence = np.maximum(1 + step * calcium, 0.0) ** hill
    noise = noise_std * np.sqrt(fluorescence) * rng.standard_normal(shape)
    return fluorescence - 1 + drift * _slow(rng, shape, DRIFT_SECONDS * framerate) + noise, spikes


def _slow(rng: np.random.Generator, shape: tuple[int, int], frames: float) -> np.ndarray:
    """Smooth noise of variance 1 in every row."""
    smooth = gaussian_filter1d(rng.standard_normal(shape), frames, axis=1)
    spread = smooth.std(axis=1, keepdims=True)
    return np.asarray((smooth - smooth.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-12))
