"""Projections of an image along parallel rays: computed tomography."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse

from cofem.arguments import count, host_vector, image_shape
from cofem.operators.sparse import Sparse


def radon(shape: Any, angles: Any, n_detectors: int | None = None) -> Sparse:
    """Return the parallel-beam Radon transform of an image as a sparse matrix.

    Entry (k, s) of the sinogram is the integral of the image along the ray
    {(x, y): x cos θ_k + y sin θ_k = s}, where x counts columns to the right and y rows
    upwards, in pixels from the centre of the image; the angles are those of
    ``skimage.transform.radon``, whose sinogram is the transpose of this one. The image
    is interpolated linearly between the pixels that a ray passes (Joseph 1982), which a
    matrix with about 2 max(H, W) entries a ray holds exactly, adjoint included.

    Parameters
    ----------
    shape : (int, int)
        (H, W) of the image, flattened in C order; D = H W.
    angles : array of shape (K,)
        In degrees.
    n_detectors : int, optional
        Rays at every angle, one pixel apart, the middle one through the centre. By
        default as many as see the whole image: its diagonal, rounded up to an odd number.

    Returns
    -------
    Sparse of shape (K n_detectors, D)
        Its output is the sinogram (K, n_detectors), flattened.

    Examples
    --------
    >>> image = np.zeros((5, 5))
    >>> image[2, 1:4] = 1.0  # a horizontal bar
    >>> phi = radon((5, 5), [0.0, 90.0], n_detectors=5)
    >>> phi.forward(image.ravel()).reshape(2, 5).round(6)
    array([[0., 1., 1., 1., 0.],
           [0., 0., 3., 0., 0.]])
    """
    sides = image_shape(shape)
    if len(sides) != 2:
        raise ValueError(f"shape must be (H, W), got {sides}")
    degrees = host_vector(angles, "angles")
    if np.iscomplexobj(degrees):
        raise TypeError("angles must be real")
    if n_detectors is None:
        n_detectors = 2 * math.ceil(math.hypot(*sides) / 2) + 1
    places = np.arange(count(n_detectors, "n_detectors")) - (n_detectors - 1) / 2
    blocks = [_projection(sides, math.radians(angle), places) for angle in degrees]
    return Sparse(scipy.sparse.vstack(blocks, format="csr"))


def _projection(sides: tuple[int, ...], angle: float, s: np.ndarray) -> scipy.sparse.coo_array:
    """Return the matrix (rays, pixels) of one angle."""
    height, width = sides
    cosine, sine = math.cos(angle), math.sin(angle)
    # Step through the axis along which the ray runs more steeply, so that every step
    # crosses one line of pixels; in between lies 1/|cos| or 1/|sin| of the ray's length.
    along_rows = abs(cosine) >= abs(sine)
    lines = np.arange(height if along_rows else width)
    across = width if along_rows else height
    if along_rows:  # at the row y: x = (s − y sin θ) / cos θ, counted from the left
        y = (height - 1) / 2 - lines
        place = (s[:, None] - y[None, :] * sine) / cosine + (width - 1) / 2
        weight = 1 / abs(cosine)
    else:  # at the column x: y = (s − x cos θ) / sin θ, and rows count downwards
        x = lines - (width - 1) / 2
        place = (height - 1) / 2 - (s[:, None] - x[None, :] * cosine) / sine
        weight = 1 / abs(sine)
    below = np.floor(place).astype(np.int64)
    fraction = place - below
    rays = np.broadcast_to(np.arange(s.size)[:, None], place.shape)
    crossed = np.broadcast_to(lines[None, :], place.shape)
    parts = []
    for neighbour, share in ((below, 1 - fraction), (below + 1, fraction)):
        inside = (neighbour >= 0) & (neighbour < across) & (share > 0)
        row, column = (crossed, neighbour) if along_rows else (neighbour, crossed)
        pixel = row * width + column
        parts.append((weight * share[inside], rays[inside], pixel[inside]))
    values, ray, pixel = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return scipy.sparse.coo_array((values, (ray, pixel)), shape=(s.size, height * width))
