"""Fourier and cosine transforms in any library."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.fft

from cofem.backend.arrays import (
    Array,
    complex_dtype,
    device_of,
    from_numpy,
    is_complex,
    is_numpy,
    library,
    namespace,
)


def fft_module(x: Array) -> Any:
    """Return the module with ``fft``, ``rfft``, … for arrays like ``x``."""
    # SciPy's transforms keep float32 and beat NumPy's.
    return scipy.fft if is_numpy(x) else namespace(x).fft


def dct(x: Array, overwrite: bool = False) -> Array:
    """Orthonormal DCT-II along the last axis; ``overwrite`` lets it use x as scratch."""
    if is_numpy(x):
        return scipy.fft.dct(x, norm="ortho", overwrite_x=overwrite)
    return _dct_by_fft(x)


def idct(x: Array, overwrite: bool = False) -> Array:
    """Orthonormal inverse DCT (DCT-III) along the last axis, inverse of :func:`dct`."""
    if is_numpy(x):
        return scipy.fft.idct(x, norm="ortho", overwrite_x=overwrite)
    return _idct_by_fft(x)


def dctn(x: Array, n_axes: int) -> Array:
    """Orthonormal DCT-II along each of the last ``n_axes`` axes."""
    if is_numpy(x):
        return scipy.fft.dctn(x, norm="ortho", axes=tuple(range(-n_axes, 0)))
    return _along_axes(dct, x, n_axes)


def idctn(x: Array, n_axes: int) -> Array:
    """Inverse of :func:`dctn`."""
    if is_numpy(x):
        return scipy.fft.idctn(x, norm="ortho", axes=tuple(range(-n_axes, 0)))
    return _along_axes(idct, x, n_axes)


def _along_axes(transform: Any, x: Array, n_axes: int) -> Array:
    xp = namespace(x)
    for axis in range(-n_axes, 0):
        x = xp.moveaxis(transform(xp.moveaxis(x, axis, -1)), -1, axis)
    return x


_twiddles: dict[tuple[Any, ...], Array] = {}


def _dct_twiddle(n: int, x: Array) -> Array:
    """exp(−iπk/2n) √(2/n) for k ≤ n/2, for the DCT by one real FFT (Makhoul 1980)."""
    xp = namespace(x)
    dtype = complex_dtype(x.dtype, xp)
    key = (n, library(x), str(device_of(x)), str(dtype))
    twiddle = _twiddles.get(key)
    if twiddle is None:
        twiddle = xp.astype(_half_turn(n, x), dtype)
        while len(_twiddles) >= 4:  # large n make large tables; few lengths are in use at once
            _twiddles.pop(next(iter(_twiddles)), None)
        _twiddles[key] = twiddle
    return twiddle


def _half_turn(n: int, x: Array) -> Array:
    if not compat.is_torch_array(x):
        angle = np.arange(n // 2 + 1) * (-0.5 * np.pi / n)
        factor = np.exp(1j * angle) * math.sqrt(2.0 / n)
        factor[0] *= math.sqrt(0.5)
        return from_numpy(factor, x)
    # Made where it is used: for long transforms the transfer would take seconds.
    import torch

    angle = torch.arange(n // 2 + 1, dtype=torch.float64, device=x.device) * (-0.5 * np.pi / n)
    turned = torch.polar(torch.full_like(angle, math.sqrt(2.0 / n)), angle)
    turned[0] *= math.sqrt(0.5)
    return turned


def _dct_by_fft(x: Array) -> Array:
    xp = namespace(x)
    if is_complex(x):
        return _dct_by_fft(xp.real(x)) + 1j * _dct_by_fft(xp.imag(x))
    n = x.shape[-1]
    shuffled = xp.concat([x[..., ::2], xp.flip(x[..., 1::2], axis=-1)], axis=-1)
    # Entry k of the product is X[k] − i X[n−k]: half a spectrum holds all of X.
    spectrum = xp.fft.rfft(shuffled, axis=-1) * _dct_twiddle(n, x)
    upper = -xp.flip(xp.imag(spectrum)[..., 1 : (n + 1) // 2], axis=-1)
    return xp.concat([xp.real(spectrum), upper], axis=-1)


def _idct_by_fft(x: Array) -> Array:
    xp = namespace(x)
    if is_complex(x):
        return _idct_by_fft(xp.real(x)) + 1j * _idct_by_fft(xp.imag(x))
    n = x.shape[-1]
    half = (n + 1) // 2
    # Undo _dct_by_fft: rebuild X[k] − i X[n−k] for k ≤ n/2, with X[n] = 0.
    mirrored = xp.concat([xp.zeros_like(x[..., :1]), xp.flip(x[..., half:], axis=-1)], axis=-1)[
        ..., : n // 2 + 1
    ]
    spectrum = (x[..., : n // 2 + 1] - 1j * mirrored) / _dct_twiddle(n, x)
    shuffled = xp.fft.irfft(spectrum, n=n, axis=-1)
    even, odd = shuffled[..., :half], xp.flip(shuffled[..., half:], axis=-1)
    if n % 2:  # odd has one element fewer: pad, interleave, cut
        odd = xp.concat([odd, xp.zeros_like(even[..., :1])], axis=-1)
    woven = xp.stack([even, odd], axis=-1)
    return xp.reshape(woven, (*woven.shape[:-2], 2 * half))[..., :n]
