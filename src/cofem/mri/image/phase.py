"""The phase of complex images: found, and turned away.

Any phase may be turned away, for the images that are left stay complex. But one that varies
makes gradients everywhere, and without it the imaginary parts are nearly zero, which the prior
of the model ``image`` learns.
"""

from __future__ import annotations

import numpy as np
import scipy.fft

from cofem import backend
from cofem.backend import Array
from cofem.operators import Smoothing

FREE_ITERATIONS = 6  # before the phase is taken from the images
HELD_ITERATIONS = 3  # after that, for which the imaginary parts are held small
HELD = 0.03  # beside what they are
PHASE_WIDTH = 3.5  # pixels over which that phase is smoothed
# Of the window on the middle of k-space: its Gaussian is two standard deviations from the end of
# what is fully sampled, and keeps waves down to a sixteenth of a side, below which phases vary
# little (docs/notes/mri.md: the phases of the benchmark have 2 to 4 waves).
WINDOW_ENDS, FINEST_WAVE = 2.0, 16


def centre_phase(
    kspace: np.ndarray, mask: np.ndarray, sensitivities: np.ndarray | None
) -> np.ndarray:
    """Return exp(iφ) of every contrast from the centre of its k-space, (L, *shape).

    A first guess, from the frequencies that alias with nothing;
    :mod:`cofem.mri.image.phase_field` improves on it. Arrays in FFT order.
    """
    axes, threads = tuple(range(1 - mask.ndim, 0)), backend.n_threads()
    windows = np.stack([_window(part) for part in mask])
    if sensitivities is None:
        image = scipy.fft.ifftn(kspace * windows, workers=threads, axes=axes, norm="ortho")
    else:
        images = scipy.fft.ifftn(
            kspace * windows[:, None], workers=threads, axes=axes, norm="ortho"
        )
        image = np.sum(sensitivities.conj() * images, axis=1)
    size = np.abs(image)
    return np.where(size > 0, image / np.where(size > 0, size, 1), 1.0)


def _window(mask: np.ndarray) -> np.ndarray:
    """Return a Gaussian that fades where the fully sampled centre of ``mask`` ends."""
    half = 0
    centred = np.fft.fftshift(mask)
    while 2 * half + 3 <= max(mask.shape):
        box = tuple(slice(max(n // 2 - half - 1, 0), min(n // 2 + half + 2, n)) for n in mask.shape)
        if not centred[box].all():
            break
        half += 1
    window = np.ones(mask.shape)
    for axis, side in enumerate(mask.shape):
        width = min(max(half / WINDOW_ENDS, 1.0), side / FINEST_WAVE)
        wave = np.exp(-0.5 * (np.fft.fftfreq(side, 1 / side) / width) ** 2)
        window = window * wave.reshape([-1 if i == axis else 1 for i in range(mask.ndim)])
    return window


def unit_phase(parts: Array) -> Array:
    """Return exp(iφ), (L, P), of complex images given as real and imaginary parts (2L, P).

    Examples
    --------
    >>> unit_phase(np.array([[3.0, 0.0], [4.0, 0.0]]))
    array([[0.6+0.8j, 1. +0.j ]])
    """
    xp = backend.namespace(parts)
    half = parts.shape[0] // 2
    x = parts[:half, :] + 1j * parts[half:, :]
    size = xp.abs(x)
    one = xp.ones_like(size)
    return xp.where(size > 0, x / xp.where(size > 0, size, one), xp.ones_like(x))


def smoothed_phase(parts: Array, shape: tuple[int, ...]) -> Array:
    """Return exp(iφ), (L, P), of stacked complex images (2L, P) after smoothing."""
    return unit_phase(Smoothing(shape, PHASE_WIDTH).forward(parts))


def held_small(x: Array, smooth: np.ndarray) -> Array:
    """Return stacked images (S, 2L, P) with small imaginary parts where ``smooth``, (L,).

    A prior that is learned from them expects so, and a phase that is still wrong is then
    put down to the phase, not to the images.
    """
    xp, half = backend.namespace(x), x.shape[1] // 2
    factor = backend.from_numpy(np.where(smooth, HELD, 1.0)[:, None], x)
    imaginary = xp.astype(factor, x.dtype) * x[:, half:, :]
    return xp.concat([x[:, :half, :], imaginary], axis=1)


def turned_back(x: Array, turn: Array) -> Array:
    """Divide stacked complex images (S, 2L, P) by ``turn`` (L, P), in the precision of x."""
    xp = backend.namespace(x)
    half = x.shape[1] // 2
    cosine = xp.astype(xp.real(turn), x.dtype)
    sine = xp.astype(xp.imag(turn), x.dtype)
    re, im = x[:, :half, :], x[:, half:, :]
    return xp.concat([re * cosine + im * sine, im * cosine - re * sine], axis=1)
