"""The sensitivities of a scan, and what two sets of them make of images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cofem.cli.errors import warnings_as_lines


def maps_of(scan: Any, y: np.ndarray, fft_order: bool, sets: int = 1) -> np.ndarray | None:
    """Return the sensitivities: the file's, or estimated where there are coils."""
    from cofem.mri import coil_sensitivities

    if not scan.coils:
        if sets > 1:
            raise ValueError(
                "--sets: INPUT has one coil, and two images cannot be told apart without coils; "
                "if an axis is that of coils, say --coils"
            )
        return None
    if scan.sensitivities is not None:
        if sets > 1:
            raise ValueError(
                "--sets: INPUT has sensitivities of its own; two sets are (1, 2, coils, H, W)"
            )
        return np.asarray(scan.sensitivities)
    if scan.trajectory is not None:
        raise ValueError(
            "INPUT has coils and a trajectory but no sensitivities: put them beside it in an .npz"
        )
    if scan.calibration is not None:
        y = scan.calibration[None]  # files with one are centred
    with warnings_as_lines():
        maps = coil_sensitivities(
            _centred(y) if fft_order else y, sets=sets, coil_covariance=scan.coil_covariance,
            n_axes=y.ndim - 2,
        )  # fmt: skip
    return np.fft.ifftshift(maps, tuple(range(2 - y.ndim, 0))) if fft_order else maps


def together(found: Any, y: np.ndarray, maps: np.ndarray | None) -> Any:
    """Return two images that lie over each other as one, with the length of both.

    The length errs by no more than the length of both errors, which is what ``std`` becomes.
    """
    if not several_sets(maps, y):
        return found
    image, std = (np.linalg.norm(x, axis=1) for x in (found.image, found.std))
    return replace(found, image=image, std=std)


def several_sets(maps: np.ndarray | None, y: np.ndarray) -> bool:
    """Whether maps are (L, sets, coils, …) beside k-space (L, coils, …)."""
    return maps is not None and maps.ndim > y.ndim


def combined(images: np.ndarray, maps: np.ndarray | None) -> np.ndarray:
    """Return images of coils (L, coils, …) seen through maps; of two sets of maps their length."""
    if maps is None:
        return images
    if not several_sets(maps, images):
        return np.asarray(np.sum(np.conj(maps) * images, axis=1))
    return np.asarray(np.linalg.norm(np.sum(np.conj(maps) * images[:, None], axis=2), axis=1))


def _centred(y: np.ndarray) -> np.ndarray:
    """Return k-space (L, coils, …) in FFT order as that of the centred image, centred."""
    axes = tuple(range(2, y.ndim))
    image = np.fft.fftshift(np.fft.ifftn(y, axes=axes, norm="ortho"), axes)
    k = np.fft.fftn(np.fft.ifftshift(image, axes), axes=axes, norm="ortho")
    return np.asarray(np.fft.fftshift(k, axes))
