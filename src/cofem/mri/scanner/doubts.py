"""Mistakes that can be seen in the data: each is said with its likely cause."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.fft

from cofem import backend
from cofem.mri.scanner.mirror import mirrored
from cofem.mri.scanner.noise import farthest_power

NOT_REAL = 0.1  # of the power may differ between samples and their mirror images
CORNER = 10.0  # times the power of the centre, in the corners: the other order of frequencies
MISSING = 0.2  # of the samples that the mask promises may be exactly zero
# Of the low frequencies' power, what no image through the maps explains: less than 0.01 for
# estimated maps, 0.37 and more for transposed or flipped ones.
UNFIT = 0.05
SOME_OUTSIDE = 0.01  # of the samples outside the mask: enough to ask whether it is transposed
# Of the largest trace of the maps' products: what keeps a matrix of two sets invertible, and below
# which no coil sees anything (a thousandth of the power is a thirtieth of the signal).
TINY, DARK = 1e-6, 1e-3
UNSEEN = 0.3  # of that power may be where the maps are zero
FEW = 10  # numbers without a phase that are no accident
ACROSS = 0.5  # an image that lies across its border is this much narrower when it is moved
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
        flag = "--fft-order" if centered else "no --fft-order"
        warn(
            "the power of k-space is in its corners, not at its centre: is it "
            f"centered={not centered} ({flag})? np.fft.fftshift moves the zero frequency"
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
             + (cause if outside > SOME_OUTSIDE else ""))  # fmt: skip


def doubt_numbers(y: np.ndarray) -> None:
    """Warn where k-space has no phase: magnitudes, or images instead of k-space."""
    if np.count_nonzero(y) > FEW and not y.imag.any():
        kind = "are not negative" if y.real.min() >= 0 else "are real"
        warn(
            f"the numbers of kspace {kind}, as of an image or of magnitudes; k-space is complex "
            "(mri.to_kspace makes it from images)"
        )


def doubt_place(y: np.ndarray, mask: np.ndarray) -> None:
    """Warn where an image, its centre at index 0 here, lies across its border.

    So it does where k-space was centred but the image was not: fftshift(fft2(image)).
    """
    axes, window = tuple(range(1 - mask.ndim, 0)), _window(mask)
    for axis, side in zip(axes, mask.shape[1:], strict=True):
        if side % 4 == 0:  # the window has faded there: every other pixel says it all
            y, window = (_middle_half(x, axis) for x in (y, window))
    power = np.abs(scipy.fft.ifftn(y * window, workers=backend.n_threads(), axes=axes)) ** 2
    for axis in axes:
        side = y.shape[axis]
        others = tuple(a for a in range(y.ndim) if a != y.ndim + axis)
        marginal = power.sum(axis=others)
        distance = np.fft.fftfreq(side)
        spread, moved = (float(np.sum(marginal * d**2)) for d in (distance, 0.5 - np.abs(distance)))
        if moved >= ACROSS * spread:
            return
    warn(
        "the images lie across their borders: their centre is in the corners. Was k-space made as "
        "fftshift(fft2(image))? Centred k-space is fftshift(fft2(ifftshift(image))), see "
        "mri.to_kspace"
    )


def _window(mask: np.ndarray) -> np.ndarray:
    """Return a Gaussian over the low frequencies, (*shape)."""
    window = np.ones(mask.shape[1:])
    for axis, side in enumerate(mask.shape[1:]):
        wave = np.exp(-0.5 * (np.fft.fftfreq(side) * NEAR) ** 2)
        window = window * wave.reshape([-1 if i == axis else 1 for i in range(mask.ndim - 1)])
    return window


def _noise_in(y: np.ndarray, mask: np.ndarray, window: np.ndarray) -> float:
    """Return the power of the noise of all coils behind a window."""
    grids = np.meshgrid(*[np.fft.fftfreq(n) for n in mask.shape[1:]], indexing="ij")
    radius = np.sqrt(np.sum(np.stack(grids) ** 2, axis=0))
    powers = (farthest_power(a, m, radius).sum() for a, m in zip(y, mask, strict=True))
    return float(sum(p * np.sum(m * window**2) for p, m in zip(powers, mask, strict=True)))


def doubt_maps(y: np.ndarray, mask: np.ndarray, maps: np.ndarray) -> None:
    """Warn where the low frequencies of the coils fit no image seen through the maps."""
    if not maps.any():
        raise ValueError("sensitivities are zero everywhere")
    window = _window(mask)
    noise = _noise_in(y, mask, window)
    axes = tuple(range(1 - mask.ndim, 0))
    for axis, side in zip(axes, mask.shape[1:], strict=True):
        if side % 4 == 0:  # the window has faded there: every other pixel says it all
            y, window = (_middle_half(x, axis) for x in (y, window))
            maps = np.moveaxis(np.moveaxis(maps, axis, -1)[..., ::2], -1, axis)
    images = scipy.fft.ifftn(y * window, workers=backend.n_threads(), axes=axes, norm="ortho")
    sets = maps[:, None] if maps.ndim == y.ndim else maps
    # At every pixel, what the maps can show of the coils' images: least squares.
    both = np.einsum("lmc...,lnc...->l...mn", sets.conj(), sets)
    trace = np.trace(both, axis1=-2, axis2=-1).real
    both = both + TINY * max(float(trace.max()), 1e-300) * np.eye(sets.shape[1])
    seen = np.einsum("lmc...,lc...->l...m", sets.conj(), images)
    fit = np.moveaxis(np.linalg.solve(both, seen[..., None])[..., 0], -1, 1)
    left = images - np.einsum("lmc...,lm...->lc...", sets, fit)
    total = float(np.sum(np.abs(images) ** 2)) - noise
    power = np.sum(np.abs(left) ** 2, axis=1)
    # Where no coil sees anything, the edges of low frequencies alone may reach.
    dark = trace <= DARK * trace.max()
    inside, outside = (
        float(power[where].sum()) - noise * float(where.mean()) for where in (~dark, dark)
    )
    share = (inside + outside) / total if total > 0 else 0.0
    if total > 0 and (inside > UNFIT * total or outside > UNSEEN * total):
        warn(
            f"sensitivities: {100 * share:.0f} % of the power of the low frequencies fits no image "
            "seen through these maps. Are they in the other order (centered), transposed, of "
            "other coils, or is the object wider than the field of view (two sets of maps)?"
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
