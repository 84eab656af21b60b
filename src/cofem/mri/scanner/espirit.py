"""Sensitivities of coils from the fully sampled middle of k-space: ESPIRiT (Uecker et al. 2014).

Every patch of k-space of all coils lies in a small space, because the coils see one image. At a
pixel, the projection on that space is a matrix coils × coils; what the coils can see there are
its eigenvectors with eigenvalue one: one of them, or two where the object, wider than the field
of view, lies over itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

KERNEL = 6  # samples along each axis that are looked at together, of a block of 24; the paper's
THINNER = 3  # a kernel is this many times smaller than the block, and one sample more
LEAST_SIGNAL = 0.002  # beside the largest singular value, where there is no noise
AT_ONCE = 2_000_000  # numbers of matrices that are made at once


def espirit(
    block: np.ndarray, noise_std: np.ndarray, shape: tuple[int, ...], sets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sensitivities (sets, C, *shape) and their eigenvalues (sets, *shape), centred.

    Parameters
    ----------
    block : array (L, C, *sides)
        The middle of centred k-space, fully sampled, of every contrast.
    noise_std : array (L,)
        √E|ε|² of its noise.
    shape : tuple of int
        Of the images.
    sets : int
        How many eigenvectors to take at every pixel.
    """
    n_coils = block.shape[1]
    lags = _lags(block, noise_std)
    # The first axis is transformed for a few rows at a time, for the memory.
    wave = np.exp(2j * np.pi / shape[0] * np.outer(_centred(shape[0]), _centred(lags.shape[2])))
    images = _low_resolution(block[0], shape)
    maps = np.zeros((sets, n_coils, *shape), dtype=complex)
    values = np.zeros((sets, *shape))
    step = max(1, AT_ONCE // (n_coils**2 * math.prod(shape[1:])))
    for first in range(0, shape[0], step):
        rows = slice(first, first + step)
        part = np.einsum("rl,abl...->rab...", wave[rows], lags)
        matrices = _transformed(part, shape[1:], 3)
        found, vectors = np.linalg.eigh(np.moveaxis(matrices, (1, 2), (-2, -1)))
        for index in range(sets):
            vector = np.moveaxis(vectors[..., -1 - index], -1, 0)
            values[index, rows] = found[..., -1 - index]
            maps[index][:, rows] = vector * _phase(vector, images[:, rows])
    return maps, values


def _lags(block: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Return the projection on the patches' space as a convolution between coils, (C, C, *lags)."""
    n_coils, sides = block.shape[1], block.shape[2:]
    kernel = tuple(min(KERNEL, n // THINNER + 1) for n in sides)
    axes = tuple(range(2, block.ndim))
    scale = np.where(noise_std > 0, noise_std, 1.0).reshape(-1, *[1] * (block.ndim - 1))
    windows = sliding_window_view(block / scale, kernel, axis=axes)
    patches = np.moveaxis(windows, 1, len(sides) + 1).reshape(-1, n_coils * math.prod(kernel))
    # Rows of patches are combinations of the conjugates of AᴴA's eigenvectors.
    powers, vectors = np.linalg.eigh(patches.conj().T @ patches)
    # The largest singular value that noise alone has (Marchenko and Pastur).
    edge = math.sqrt(patches.shape[0]) + math.sqrt(patches.shape[1])
    least = edge if np.any(noise_std > 0) else 0.0
    kept = vectors[:, powers > max(least, LEAST_SIGNAL * math.sqrt(powers[-1])) ** 2].conj()
    inner = tuple(range(2, 2 + len(kernel)))
    spectra = np.fft.fftn(
        kept.T.reshape(-1, n_coils, *kernel), s=tuple(2 * k - 1 for k in kernel), axes=inner
    )
    both = np.einsum("ja...,jb...->ab...", spectra, spectra.conj())
    return np.asarray(np.fft.fftshift(np.fft.ifftn(both, axes=inner), inner) / math.prod(kernel))


def _low_resolution(block: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return images (C, *shape) of the coils from the block (C, *sides) alone."""
    for axis, n in enumerate(block.shape[1:]):
        wave = np.hanning(n + 2)[1:-1]
        block = block * wave.reshape([-1 if i == axis else 1 for i in range(block.ndim - 1)])
    return _transformed(block, shape, 1)


def _transformed(x: np.ndarray, shape: tuple[int, ...], n_ahead: int) -> np.ndarray:
    """Return the inverse transform, not scaled, of x (…, *sides) padded to (…, *shape)."""
    axes = tuple(range(n_ahead, x.ndim))
    middle: Any = tuple(
        slice(n // 2 - m // 2, n // 2 - m // 2 + m)
        for n, m in zip(shape, x.shape[n_ahead:], strict=True)
    )
    wide = np.zeros((*x.shape[:n_ahead], *shape), dtype=complex)
    wide[(..., *middle)] = x
    out = np.fft.ifftn(np.fft.ifftshift(wide, axes), axes=axes, norm="forward")
    return np.asarray(np.fft.fftshift(out, axes))


def _centred(n: int) -> np.ndarray:
    return np.arange(n) - n // 2


def _phase(vector: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return what turns eigenvectors (C, …), whose phase is free, such that images are real."""
    seen = np.sum(vector.conj() * image, axis=0)
    size = np.abs(seen)
    return np.where(size > 0, seen / np.where(size > 0, size, 1), 1.0)
