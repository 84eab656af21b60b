"""Images to k-space and back: orthonormal, centred as SigPy, BART and fastMRI have it."""

from __future__ import annotations

from collections.abc import Callable
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
    return _transformed(np.fft.fftn, image, n_axes, centered)


def to_image(kspace: Any, *, n_axes: int = 2, centered: bool = True) -> np.ndarray:
    """Transform the last ``n_axes`` axes of k-space to an image.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(1, 3, 4)
    >>> bool(np.allclose(to_image(to_kspace(x)), x))
    True
    """
    return _transformed(np.fft.ifftn, kspace, n_axes, centered)


def _transformed(
    transform: Callable[..., np.ndarray], x: Any, n_axes: int, centered: bool
) -> np.ndarray:
    axes = tuple(range(-n_axes, 0))
    x = np.asarray(x)
    if not centered:
        return np.asarray(transform(x, axes=axes, norm="ortho"))
    found = transform(np.fft.ifftshift(x, axes), axes=axes, norm="ortho")
    return np.asarray(np.fft.fftshift(found, axes))
