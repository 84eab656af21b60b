"""Differences between neighbours."""

from __future__ import annotations

import math
from typing import Any, final

from cofem import backend
from cofem.arguments import image_shape
from cofem.backend import Array
from cofem.operators._periodic import shifted_sum
from cofem.operators.base import LinearOperator


@final
class FiniteDifference(LinearOperator):
    """Circular differences x_i − x_{i−1} along one axis of a flattened image.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the image; N = D is its size.
    axis : int
        The axis along which neighbours are compared.

    Examples
    --------
    >>> import numpy as np
    >>> FiniteDifference(4, 0).forward(np.array([1.0, 2.0, 4.0, 7.0]))
    array([-6.,  1.,  2.,  3.])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, shape: Any, axis: int) -> None:
        self.image_shape = image_shape(shape)
        ndim = len(self.image_shape)
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis must be between {-ndim} and {ndim - 1}, got {axis}")
        self.axis = int(axis) % ndim
        size = math.prod(self.image_shape)
        self.shape = (size, size)

    def _forward(self, x: Array) -> Array:
        return self._sum(x, (1.0, -1.0), (0, -1))

    def _adjoint(self, y: Array) -> Array:
        return self._sum(y, (1.0, -1.0), (0, 1))

    def _gram(self, x: Array) -> Array:
        return self._sum(x, (2.0, -1.0, -1.0), (0, -1, 1))

    def _sum(self, x: Array, weights: tuple[float, ...], offsets: tuple[int, ...]) -> Array:
        xp = backend.namespace(x)
        image = xp.reshape(x, (*x.shape[:-1], *self.image_shape))
        out = shifted_sum(image, weights, offsets, self.axis - len(self.image_shape))
        return xp.reshape(out, x.shape)

    def _column_norms_squared(self, like: Array) -> Array:
        # On an axis of length one a pixel is its own neighbour, and the difference is zero.
        norm = 2.0 if self.image_shape[self.axis] > 1 else 0.0
        return self._constant_norms(norm, self.shape[1], like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        if self.image_shape[self.axis] == 1:
            return 0 * weights
        return self._sum(weights, (1.0, 1.0), (0, 1))

    def _row_norms_squared(self, like: Array) -> Array:
        return self._column_norms_squared(like)
