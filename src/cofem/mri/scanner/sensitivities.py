"""Sensitivities of the coils from k-space itself, where its middle is fully sampled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cofem.mri.scanner.coils import mixed, own_noise, whitening
from cofem.mri.scanner.espirit import espirit
from cofem.mri.scanner.noise import farthest_power

LEAST_LINES = 8  # below this kernels see hardly anything
WIDTH, LONG = 24, 48  # of the block: as wide as measured up to this, longer where it is narrow
# Eigenvalues from which something is seen. A second image is more than what noise lets through.
CROP, CROP_MORE = 0.8, 0.9
PEAKED = 4  # times the power of the first plane: that of a volume's middle; coils are about alike


def coil_sensitivities(
    kspace: Any,
    calibration: int | None = None,
    *,
    sets: int = 1,
    crop: float | None = None,
    coil_covariance: Any = None,
    n_axes: int | None = None,
) -> np.ndarray:
    """Estimate sensitivities by ESPIRiT (Uecker et al. 2014).

    Parameters
    ----------
    kspace : array (coils, H, W) or (L, coils, H, W), centred; (coils, D, H, W) is a volume
        where its middle is fully sampled in three dimensions. Several contrasts are taken
        together: the coils are the same.
    calibration : int, optional
        Side of the fully sampled middle. None: as large as it is, at most 24, or 48 along axes
        that are fully sampled. A warning says so where there is no such block.
    sets : int
        How many images may lie over each other at a pixel: 2 where the object is wider than the
        field of view, so that its ends alias onto it.
    crop : float, optional
        Eigenvalue, from 0 to 1, below which nothing is seen at a pixel.
    coil_covariance : array (coils, coils), optional
        Of the coils' noise, as :func:`cofem.mri.noise_covariance` gives it. Without it they are
        taken to be equally noisy, unless one stands out.
    n_axes : int, optional
        2 or 3, how many axes an image has. None: four axes of ``kspace`` are those of a volume
        where the middle of the second is by far the loudest, which a coil may be too.

    Returns
    -------
    array (coils, H, W) or (coils, D, H, W); with several sets (1, sets, coils, H, W)
        Complex; of each set the squares sum to one where something is seen, and are zero
        elsewhere. Their phase is such that the images of the first contrast are nearly real.

    Examples
    --------
    >>> from cofem import mri
    >>> near, far = np.mgrid[0.2:1:48j, 0:1:48j]
    >>> maps = np.stack([near, 1j * (1 - near)]) / np.hypot(near, 1 - near)
    >>> found = coil_sensitivities(mri.to_kspace(maps * mri.phantom((48, 48))[0]))
    >>> inside = mri.phantom((48, 48))[0] > 0.1
    >>> bool(np.quantile(np.abs(np.abs(found) - np.abs(maps))[:, inside], 0.95) < 0.05)
    True
    """
    y = np.asarray(kspace)
    if n_axes not in (None, 2, 3):
        raise ValueError(f"n_axes must be 2 or 3, got {n_axes}")
    if y.ndim == 3 or (y.ndim == 4 and (_is_volume(y) if n_axes is None else n_axes == 3)):
        y = y[None]
    if y.ndim not in (4, 5) or n_axes not in (None, y.ndim - 2):
        raise ValueError(f"kspace has shape {y.shape}; expected (coils, H, W)")
    if not 1 <= sets <= y.shape[1]:
        raise ValueError(f"sets must be from 1 to {y.shape[1]}, the coils, got {sets}")
    sampled = np.any(y != 0, axis=1)
    empty = [i for i, part in enumerate(sampled) if not part.any()]
    if empty or not np.isfinite(y).all():
        cause = f"contrast {empty[0]} is zero" if empty else "it contains NaN or Inf"
        raise ValueError(f"kspace: {cause}; sensitivities cannot be estimated from it")
    radius = _radius(y.shape[2:])
    if coil_covariance is None:
        coil_covariance = own_noise(y, sampled, np.broadcast_to(radius, sampled.shape))
    white = None if coil_covariance is None else whitening(coil_covariance, y.shape[1])
    if white is not None:
        y = mixed(y, white, y.ndim - 2)
    if calibration is None:
        sides = calibration_sides(sampled.all(axis=0))
        if min(sides) < min(LEAST_LINES, *sampled.shape[1:]):
            warnings.warn(
                f"the fully sampled middle of k-space has {' × '.join(map(str, sides))} samples; "
                "ESPIRiT needs about 24 along every axis to tell the coils' sensitivities. Give a "
                "separate calibration scan.",
                UserWarning,
                stacklevel=2,
            )
            least = [min(LEAST_LINES, n) for n in y.shape[2:]]
            sides = tuple(max(n, m) for n, m in zip(sides, least, strict=True))
    else:
        if calibration < 2:
            raise ValueError(f"calibration must be at least 2, got {calibration}")
        sides = tuple(min(calibration, n) for n in y.shape[2:])
    block = y[(..., *_middle(y.shape[2:], sides))]
    power = [np.mean(farthest_power(a, b, radius)) for a, b in zip(y, sampled, strict=True)]
    crops = [CROP if crop is None else crop] + [CROP_MORE if crop is None else crop] * (sets - 1)
    maps, values = espirit(block, np.sqrt(power), y.shape[2:], sets)
    maps *= (values > np.reshape(crops, (-1, *[1] * (values.ndim - 1))))[:, None]
    if white is not None:
        maps = mixed(maps, np.linalg.inv(white), y.ndim - 2)
        size = np.linalg.norm(maps, axis=1, keepdims=True)
        maps = np.divide(maps, size, out=np.zeros_like(maps), where=size > 0)
    return maps[0] if sets == 1 else maps[None]


def calibration_sides(sampled: np.ndarray) -> tuple[int, ...]:
    """Return the sides of a fully sampled box around the centre of a centred mask.

    Examples
    --------
    >>> lines = np.zeros((64, 64), dtype=bool)
    >>> lines[:, 27:37] = True
    >>> calibration_sides(lines)
    (48, 10)
    """
    sides, most = [1] * sampled.ndim, [WIDTH] * sampled.ndim
    growing = list(range(sampled.ndim))
    while growing:
        for axis in tuple(growing):
            wider = sides.copy()
            wider[axis] += 1
            fits = wider[axis] <= min(most[axis], sampled.shape[axis])
            if fits and sampled[_middle(sampled.shape, wider)].all():
                sides = wider
                continue
            growing.remove(axis)
            if sides[axis] < min(WIDTH, sampled.shape[axis]):  # others make up for it
                most = [LONG] * sampled.ndim
    return tuple(sides)


def _middle(shape: tuple[int, ...], sides: Sequence[int]) -> Any:
    """Return the slices of a box around the centre of a centred array."""
    first = [n // 2 - m // 2 for n, m in zip(shape, sides, strict=True)]
    return tuple(slice(a, a + m) for a, m in zip(first, sides, strict=True))


def _is_volume(y: np.ndarray) -> bool:
    """Whether the second axis of four is one of a volume: its middle plane is the loudest."""
    power = np.sum(np.abs(y) ** 2, axis=(0, 2, 3))
    return bool(
        y.shape[1] > 1 and power.argmax() == y.shape[1] // 2 and power.max() > PEAKED * power[0]
    )


def _radius(shape: tuple[int, ...]) -> np.ndarray:
    """Return the distance from the centre of centred k-space."""
    grids = np.meshgrid(*[(np.arange(n) - n // 2) / n for n in shape], indexing="ij")
    return np.asarray(np.sqrt(np.sum(np.stack(grids) ** 2, axis=0)))
