"""What the user gave, checked, and brought to FFT order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.mri.scanner import doubts
from cofem.mri.scanner.coils import (
    coils_enough,
    compress_coils,
    mixed,
    own_noise,
    whitening,
)
from cofem.mri.scanner.measured import KSpace

# Of the largest sample: fourth powers of these are still numbers, whatever the side of the image.
LEAST_SIZE, MOST_SIZE = 1e-60, 1e60


def checked_data(
    kspace: Any,
    mask: Any,
    sensitivities: Any,
    *,
    real: bool,
    centered: bool,
    coil_covariance: Any = None,
) -> KSpace:
    """Check everything, and move the zero frequency to the front."""
    y = _numbers(kspace, "kspace", finite=mask is None).astype(np.complex128)
    coils = None
    if sensitivities is None:
        if y.ndim not in (3, 4):
            raise ValueError(
                f"kspace has shape {y.shape}; expected (L, H, W) or (L, D, H, W), contrasts "
                "first. For a single contrast use kspace[None]; several coils need "
                "sensitivities="
            )
        shape = y.shape[1:]
        doubts.check_coils_are_not_depth(y, centered)
    else:
        s = _numbers(sensitivities, "sensitivities").astype(np.complex128)
        if y.ndim not in (4, 5):
            raise ValueError(
                f"kspace has shape {y.shape}; with sensitivities it is (L, coils, H, W) or "
                "(L, coils, D, H, W)"
            )
        coils = _maps(s, y.shape)
        shape = y.shape[2:]
    if min(y.shape) < 1:
        raise ValueError(f"kspace has shape {y.shape}: it is empty")
    if math.prod(shape) < 2:
        raise ValueError(f"kspace has shape {y.shape}: images of one pixel have no edges")
    sampled = _mask(mask, y, shape)
    axes = tuple(range(-len(shape), 0))
    if centered:
        y, sampled = np.fft.ifftshift(y, axes), np.fft.ifftshift(sampled, axes)
        # ifftshift of the image too: centred transforms have the image's centre at n // 2
        coils = None if coils is None else np.fft.ifftshift(coils, axes)
    for index, part in enumerate(sampled):
        if not part.any():
            raise ValueError(f"mask: contrast {index} has no samples")
    with_coils = sampled if coils is None else sampled[:, None]
    if not np.isfinite(y[np.broadcast_to(with_coils, y.shape)]).all():
        raise ValueError("kspace contains NaN or Inf at samples of the mask")
    doubts.doubt_mask(y, sampled, mask is not None)
    y = np.where(with_coils, y, 0)
    if not y.any():
        raise ValueError("kspace is zero at every sample: there is nothing to reconstruct")
    largest = float(np.abs(y).max())
    if not LEAST_SIZE <= largest <= MOST_SIZE:
        raise ValueError(
            f"the largest number of kspace is {largest:.3g}, whose powers cannot be computed "
            "with: give it in other units"
        )
    doubts.doubt_numbers(y)
    doubts.doubt_order(y, sampled, centered)
    if centered:
        doubts.doubt_place(y, sampled)
    if coils is not None:
        doubts.doubt_maps(y, sampled, coils)
    elif real:
        doubts.doubt_real(y, sampled, axes)
    data = KSpace(y, sampled, coils, centered, y)
    if coils is not None:
        data = _compressed(_whitened(data, coil_covariance))
    elif coil_covariance is not None:
        raise ValueError("coil_covariance needs several coils, with sensitivities=")
    like = kspace if backend.is_array(kspace) else y
    return replace(data, like=like)


def _whitened(data: KSpace, covariance: Any) -> KSpace:
    """Return the data of coils that err independently and by the same amount."""
    assert data.sensitivities is not None
    if covariance is None:
        covariance = own_noise(data.kspace, data.mask, data.radius())
    if covariance is None:
        return data
    matrix = whitening(covariance, data.n_coils)
    return replace(
        data,
        kspace=mixed(data.kspace, matrix, len(data.shape)),
        sensitivities=mixed(data.sensitivities, matrix, len(data.shape)),
    )


def _compressed(data: KSpace) -> KSpace:
    """Return the data of as many combinations of coils as carry the signal."""
    number = coils_enough(data.kspace)
    if number == data.kspace.shape[1]:
        return data
    kspace, maps = compress_coils(data.kspace, number, data.sensitivities)
    return replace(data, kspace=kspace, sensitivities=maps)


def _maps(s: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return sensitivities (L, C, *axes), of several sets (L, M, C, *axes)."""
    n_contrasts, *rest = shape
    if s.shape in (shape, tuple(rest)):
        return np.ascontiguousarray(np.broadcast_to(s, shape))
    if s.ndim == len(shape) + 1 and s.shape[2:] == tuple(rest) and s.shape[0] in (1, n_contrasts):
        return np.ascontiguousarray(np.broadcast_to(s, (n_contrasts, *s.shape[1:])))
    raise ValueError(
        f"sensitivities has shape {s.shape}; expected {tuple(rest)}, the coils and the image axes "
        f"of kspace, or {shape}, or (1, sets, {', '.join(map(str, rest))})"
    )


def _mask(mask: Any, y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    full = (y.shape[0], *shape)
    if mask is None:
        measured = y != 0
        return np.asarray(measured if y.shape == full else measured.any(axis=1))
    m = _numbers(mask, "mask")
    if m.dtype != bool:
        if not np.isin(m, (0, 1)).all():
            raise ValueError("mask must be boolean, or 0 and 1 only")
        m = m.astype(bool)
    if m.ndim == len(full) + 1 and m.shape[1] == 1:  # (L, 1, H, W) beside coils
        m = m[:, 0]
    try:
        return np.ascontiguousarray(np.broadcast_to(m, full))
    except ValueError:
        raise ValueError(
            f"mask has shape {m.shape}, which does not broadcast to {full}, the contrasts "
            "and image axes of kspace"
        ) from None


def _numbers(x: Any, name: str, finite: bool = True) -> np.ndarray:
    array = backend.to_numpy(x) if backend.is_array(x) else np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name} must be an array of numbers, got dtype {array.dtype}")
    if finite and not np.isfinite(array).all():
        hint = "; where that means not measured, give a mask" if name == "kspace" else ""
        raise ValueError(f"{name} contains NaN or Inf{hint}")
    return array
