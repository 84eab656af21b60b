"""Mistakes that can be seen in the data: each is said with its likely cause."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.fft

from cofem import backend
from cofem.mri.scanner.mirror import mirrored

NOT_REAL = 0.1  # of the power may differ between samples and their mirror images
CORNER = 10.0  # times the power of the centre, in the corners: the other order of frequencies
MISSING = 0.2  # of the samples that the mask promises may be exactly zero
UNFIT = 0.3  # of the low frequencies' power may be what no image through the maps explains
NEAR = 16  # a box of a sixteenth of every axis is the centre


def check_coils_are_not_depth(y: np.ndarray, centered: bool) -> None:
    """Refuse (L, coils, H, W) without sensitivities: coils are no third axis of an image.

    The planes of a volume's k-space have most power at the zero frequency; coils are about as
    loud as each other.
    """
    if y.ndim != 4:
        return
    power = np.sum(np.abs(np.nan_to_num(y)) ** 2, axis=(0, 2, 3))
    centre = y.shape[1] // 2 if centered else 0
    if len(power) > 1 and power[centre] < power.max():
        raise ValueError(
            f"kspace has shape {y.shape}, and its second axis does not look like one of an image: "
            f"plane {int(power.argmax())} has more power than the central one. Coils need "
            "sensitivities= (see mri.coil_sensitivities)"
        )


def doubt_order(y: np.ndarray, mask: np.ndarray, centered: bool) -> None:
    """Warn where the power of k-space, in FFT order by now, is in the corners."""
    axes = tuple(range(1 - mask.ndim, 0))
    power = np.abs(y) ** 2
    if y.ndim > mask.ndim:
        power = power.sum(axis=1)
    ends = [max(side // NEAR, 1) for side in mask.shape[1:]]
    centre = np.roll(power, ends, axes)[(..., *[slice(0, 2 * n + 1) for n in ends])]
    halves = [side // 2 for side in mask.shape[1:]]
    moved = np.roll(power, [n - h for n, h in zip(ends, halves, strict=True)], axes)
    corner = moved[(..., *[slice(0, 2 * n + 1) for n in ends])]
    if corner.max() > CORNER * max(float(centre.max()), 1e-300):
        warn(
            "the power of k-space is in its corners, not at its centre: "
            f"is it centered={not centered}? (np.fft.fftshift moves the zero frequency)"
        )


def doubt_mask(y: np.ndarray, mask: np.ndarray, given: bool) -> None:
    """Warn where k-space is zero at what should be samples, and not zero elsewhere."""
    if not given:
        return
    there = y != 0
    if there.ndim > mask.ndim:
        there = there.any(axis=1)
    empty = 1 - there[mask].mean()
    outside = there[~mask].mean() if not mask.all() else 0.0
    if empty > MISSING:
        cause = " and not zero elsewhere: is the mask transposed, or in the other order?"
        warn(f"kspace is zero at {100 * empty:.0f} % of the mask's samples"
             + (cause if outside > 0.01 else ""))  # fmt: skip


def doubt_maps(y: np.ndarray, mask: np.ndarray, maps: np.ndarray) -> None:
    """Warn where the low frequencies of the coils fit no image seen through the maps."""
    axes = tuple(range(1 - mask.ndim, 0))
    window = np.ones(mask.shape[1:])
    for axis, side in enumerate(mask.shape[1:]):
        wave = np.exp(-0.5 * (np.fft.fftfreq(side) * NEAR) ** 2)
        window = window * wave.reshape([-1 if i == axis else 1 for i in range(mask.ndim - 1)])
    for axis, side in zip(axes, mask.shape[1:], strict=True):
        if side % 4 == 0:  # the window has faded there: every other pixel says it all
            y, window = (_middle_half(x, axis) for x in (y, window))
            maps = np.moveaxis(np.moveaxis(maps, axis, -1)[..., ::2], -1, axis)
    images = scipy.fft.ifftn(y * window, workers=backend.n_threads(), axes=axes, norm="ortho")
    power = np.sum(np.abs(maps) ** 2, axis=1)
    seen = power > 1e-3 * power.max()
    fit = np.sum(maps.conj() * images, axis=1) / np.where(seen, power, 1)
    left = np.sum(np.abs(images - maps * fit[:, None]) ** 2, axis=1)
    total = float(np.sum(np.abs(images) ** 2))
    share = float(left.sum()) / total if total > 0 else 0.0
    if share > UNFIT:
        warn(
            f"sensitivities: {100 * share:.0f} % of the power of the low frequencies fits no image "
            "seen through these maps. Are they in the other order (centered), transposed, of "
            "other coils, or is the object cut off by a small field of view?"
        )


def _middle_half(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the lower half of the frequencies along an axis, in FFT order."""
    first, last = np.split(np.moveaxis(x, axis, -1), [x.shape[axis] // 2], axis=-1)
    quarter = x.shape[axis] // 4
    kept = np.concatenate([first[..., :quarter], last[..., -quarter:]], axis=-1)
    return np.moveaxis(kept, -1, axis)


def doubt_real(y: np.ndarray, mask: np.ndarray, axes: tuple[int, ...]) -> None:
    """Compare samples with their mirror images; a real image has y(−k) = conj(y(k))."""
    both = mask & mirrored(mask, axes)
    difference = np.abs(y - mirrored(y, axes).conj())[both] ** 2
    size = np.abs(y[both]) ** 2
    if len(size) and difference.sum() > NOT_REAL * size.sum():
        warn(
            "real=True, but the k-space is not that of a real image: samples differ from "
            f"their mirror images by {100 * (difference.sum() / size.sum()) ** 0.5:.0f} % "
            "of their size. Leave real=False, or remove the phase first."
        )


def warn(message: str) -> None:
    """Warn where ``reconstruct`` was called."""
    warnings.warn(message, UserWarning, stacklevel=5)
