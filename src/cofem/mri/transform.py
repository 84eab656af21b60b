"""Images to k-space and back: orthonormal, centred as SigPy, BART and fastMRI have it."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_kspace(image: Any, *, n_axes: int = 2, centered: bool = True) -> np.ndarray:
    """Transform the last ``n_axes`` axes of an image to k-space.

    Examples
    --------
    >>> to_kspace(np.ones((1, 2, 2))).real
    array([[[0., 0.],
            [0., 2.]]])
    """
    axes = tuple(range(-n_axes, 0))
    x = np.asarray(image)
    if not centered:
        return np.asarray(np.fft.fftn(x, axes=axes, norm="ortho"))
    k = np.fft.fftn(np.fft.ifftshift(x, axes), axes=axes, norm="ortho")
    return np.asarray(np.fft.fftshift(k, axes))


def to_image(kspace: Any, *, n_axes: int = 2, centered: bool = True) -> np.ndarray:
    """Transform the last ``n_axes`` axes of k-space to an image.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(1, 3, 4)
    >>> bool(np.allclose(to_image(to_kspace(x)), x))
    True
    """
    axes = tuple(range(-n_axes, 0))
    k = np.asarray(kspace)
    if not centered:
        return np.asarray(np.fft.ifftn(k, axes=axes, norm="ortho"))
    x = np.fft.ifftn(np.fft.ifftshift(k, axes), axes=axes, norm="ortho")
    return np.asarray(np.fft.fftshift(x, axes))
