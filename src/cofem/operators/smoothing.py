"""Gaussian averages over neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import image_shape
from cofem.backend import Array
from cofem.operators._periodic import shifted_sum
from cofem.operators.base import LinearOperator


@final
class Smoothing(LinearOperator):
    """Circular Gaussian average of a flattened image; symmetric, weights sum to one.

    The weights are sums and products of non-negative numbers and are applied
    directly, not by FFT, so that non-negative images stay non-negative exactly.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the image; N = D is its size.
    sigma : float or one float per axis
        Standard deviation in pixels; the Gaussian is cut at 4 sigma, and 0 leaves
        the axis alone.

    Examples
    --------
    >>> import numpy as np
    >>> smooth = Smoothing(5, sigma=0.5)
    >>> smooth.forward(np.array([0.0, 0.0, 1.0, 0.0, 0.0])).round(3)
    array([0.   , 0.106, 0.787, 0.106, 0.   ])
    """

    exact_row_norms = True

    def __init__(self, shape: Any, sigma: float | Sequence[float]) -> None:
        self.image_shape = image_shape(shape)
        ndim = len(self.image_shape)
        given = np.asarray(sigma, dtype=float)
        if given.ndim > 1 or (given.ndim == 1 and given.size != ndim):
            raise ValueError(f"sigma must be a number or {ndim} numbers, one per axis")
        if not (np.all(np.isfinite(given)) and np.all(given >= 0)):
            raise ValueError(f"sigma must be finite and not negative, got {sigma!r}")
        self.sigma = tuple(float(s) for s in np.broadcast_to(given, (ndim,)))
        size = math.prod(self.image_shape)
        self.shape = (size, size)
        self._weights = [
            _wrapped_gaussian(side, s) for side, s in zip(self.image_shape, self.sigma, strict=True)
        ]

    def _forward(self, x: Array) -> Array:
        xp = backend.namespace(x)
        ndim = len(self.image_shape)
        image = xp.reshape(x, (*x.shape[:-1], *self.image_shape))
        for i, (offsets, weights) in enumerate(self._weights):
            image = shifted_sum(image, weights, offsets, i - ndim)
        return xp.reshape(image, x.shape)

    def _adjoint(self, y: Array) -> Array:
        return self._forward(y)

    def _column_norms_squared(self, like: Array) -> Array:
        norm = math.prod(sum(w * w for w in weights) for _, weights in self._weights)
        return self._constant_norms(norm, self.shape[1], like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._column_norms_squared(like)


def _wrapped_gaussian(side: int, sigma: float) -> tuple[list[int], list[float]]:
    """Return the offsets and weights of a truncated Gaussian on a circle of ``side``."""
    radius = math.ceil(4 * sigma)
    offset = np.arange(-radius, radius + 1)
    # sigma far below a pixel: the exponent overflows to −∞ and the weight to 0, rightly.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        exponent = np.where(offset == 0, 0.0, -0.5 * (offset / sigma) ** 2)
    folded = np.bincount(offset % side, weights=np.exp(exponent), minlength=side)
    symmetric = (folded + folded[-np.arange(side)]) / 2  # exactly, to the last bit
    average = symmetric / symmetric.sum()
    kept = np.flatnonzero(average)
    centred = np.where(kept > side // 2, kept - side, kept)
    return [int(o) for o in centred], [float(w) for w in average[kept]]
