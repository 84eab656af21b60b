"""Signals and images that are sparse in cosines, measured at some samples."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import count, image_shape
from cofem.backend import Array, Cache, MaskedTransform
from cofem.operators._selection import Selection
from cofem.operators.base import LinearOperator


@final
class DCT(LinearOperator):
    """Some samples of a signal or image given by its DCT coefficients.

    ``forward(z) = idct(z, norm="ortho")[..., rows]``, or for a shape of several sides
    the same with ``idctn`` and everything flattened in C order. A product costs one
    transform, ``gram`` two.

    Parameters
    ----------
    n : int or tuple of int
        Length of the signal, or shape of the image; D = n, or its size.
    rows : integer array (N,) or boolean mask (of the signal's or image's shape), optional
        The samples that were measured, as flat indices; all by default. A sample listed
        twice was measured twice.

    Examples
    --------
    >>> import numpy as np
    >>> phi = DCT(4, rows=[0, 3])
    >>> phi.forward(np.array([2.0, 0.0, 0.0, 0.0]))
    array([1., 1.])
    >>> DCT((2, 3)).forward(np.array([6.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(3)
    array([2.449, 2.449, 2.449, 2.449, 2.449, 2.449])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, n: int | tuple[int, ...], rows: Any = None) -> None:
        many = isinstance(n, (tuple, list))
        self.image_shape = image_shape(n) if many else (count(n, "n"),)
        self.n = math.prod(self.image_shape)
        self._rows = Selection(rows, self.image_shape, "rows")
        self.shape = (self._rows.size, self.n)
        self._cache = Cache()

    @property
    def rows(self) -> np.ndarray | None:
        """The measured samples as flat indices, shape (N,); None for all."""
        return self._rows.index

    def _forward(self, x: Array) -> Array:
        return self._rows.take(self._inverse(x))

    def _adjoint(self, y: Array) -> Array:
        # What put returns is our own scratch unless every row was kept.
        return self._transform(self._rows.put(y), self.rows is not None)

    def _gram(self, x: Array) -> Array:
        if self.rows is None:
            return backend.namespace(x).asarray(x, copy=True)
        signal = self._inverse(x)
        signal *= self._rows.counts(x)
        return self._transform(signal, True)

    def _transform(self, x: Array, scratch: bool) -> Array:
        if len(self.image_shape) == 1:
            return backend.dct(x, overwrite=scratch)
        return self._flat(backend.dctn(self._grid(x), len(self.image_shape)))

    def _inverse(self, x: Array) -> Array:
        if len(self.image_shape) == 1:
            return backend.idct(x)
        return self._flat(backend.idctn(self._grid(x), len(self.image_shape)))

    def _grid(self, x: Array) -> Array:
        return backend.namespace(x).reshape(x, (*x.shape[:-1], *self.image_shape))

    def _flat(self, image: Array) -> Array:
        batch = image.shape[: image.ndim - len(self.image_shape)]
        return backend.namespace(image).reshape(image, (*batch, self.n))

    def masked_transform(self, like: Array) -> MaskedTransform | None:
        """Describe ΦᴴΦ to solvers that fuse it into their own passes; one axis only."""
        if len(self.image_shape) > 1:
            return None
        weights = self._cache.get(like, lambda: self._weights(like), "weights")
        return MaskedTransform("dct", (self.n,), weights)

    def _weights(self, like: Array) -> Array:
        xp = backend.namespace(like)
        weights = backend.from_numpy(backend.even_odd(self._rows.numpy_counts()), like)
        return xp.astype(weights, backend.real_dtype(like.dtype, xp))

    def _column_norms_squared(self, like: Array) -> Array:
        return self._weighted_by_sample(backend.from_numpy(self._rows.numpy_counts(), like))

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self._weighted_by_sample(self._rows.put(weights))

    def _weighted_by_sample(self, weights: Array) -> Array:
        """Return Σ_i w_i |Φ_ij|² for weights of all n samples; atoms are products over axes."""
        xp, sums = backend.namespace(weights), self._grid(weights)
        for axis in range(len(self.image_shape)):
            sums = xp.moveaxis(_sums_of_squares(xp.moveaxis(sums, axis, -1)), -1, axis)
        return xp.clip(self._flat(sums), min=0.0)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        side = self.image_shape if len(self.image_shape) > 1 else self.n
        return DCT(side, index if self.rows is None else self.rows[index])


def _sums_of_squares(weights: Array) -> Array:
    """Return Σ_i w_i φ_ij² along the last axis, where φ_j are the atoms of the 1-D DCT.

    Atom j is s_j cos(πj(2i+1)/2n), and 2cos² θ = 1 + cos 2θ: the squares sum to
    s_j² (Σw + W(2j)) / 2, where W(k) = Σ_i w_i cos(πk(2i+1)/2n) is a DCT of w.
    """
    xp, n = backend.namespace(weights), weights.shape[-1]
    transform = backend.dct(weights) * math.sqrt(n / 2)  # W(k) for k > 0
    total = xp.sum(weights, axis=-1, keepdims=True)
    even = transform[..., min(2, n) :: 2]
    # W(0), W(2), … and then, with W(n) = 0 and W(2n−k) = −W(k), back again.
    middle = xp.zeros_like(weights[..., : 1 - n % 2])
    back = total - xp.flip(even, axis=-1)
    return xp.concat([total, total + even, total + middle, back], axis=-1) / n
