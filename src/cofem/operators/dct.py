"""Signals that are sparse in the discrete cosine transform."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array, Cache, MaskedTransform
from cofem.operators._selection import Selection
from cofem.operators._validation import count
from cofem.operators.base import LinearOperator


@final
class DCT(LinearOperator):
    """Some samples of a signal given by its DCT coefficients.

    ``forward(z) = idct(z, norm="ortho")[..., rows]``. A product costs one transform,
    ``gram`` two.

    Parameters
    ----------
    n : int
        Length of the signal; D = n.
    rows : integer array (N,) or boolean mask (n,), optional
        The samples that were measured; all by default. A sample listed twice was
        measured twice.

    Examples
    --------
    >>> import numpy as np
    >>> phi = DCT(4, rows=[0, 3])
    >>> phi.forward(np.array([2.0, 0.0, 0.0, 0.0]))
    array([1., 1.])
    """

    exact_row_norms = True

    def __init__(self, n: int, rows: Any = None) -> None:
        self.n = count(n, "n")
        self._rows = Selection(rows, (self.n,), "rows")
        self.shape = (self._rows.size, self.n)
        self._cache = Cache()

    @property
    def rows(self) -> np.ndarray | None:
        """The measured samples as integers, shape (N,); None for all."""
        return self._rows.index

    def _forward(self, x: Array) -> Array:
        return self._rows.take(backend.idct(x))

    def _adjoint(self, y: Array) -> Array:
        # What put returns is our own scratch unless every row was kept.
        return backend.dct(self._rows.put(y), overwrite=self.rows is not None)

    def _gram(self, x: Array) -> Array:
        if self.rows is None:
            return backend.namespace(x).asarray(x, copy=True)
        signal = backend.idct(x)
        signal *= self._rows.counts(x)
        return backend.dct(signal, overwrite=True)

    def masked_transform(self, like: Array) -> MaskedTransform:
        """Describe ΦᴴΦ to solvers that fuse it into their own passes."""
        weights = self._cache.get(like, lambda: self._weights(like), "weights")
        return MaskedTransform("dct", (self.n,), weights)

    def _weights(self, like: Array) -> Array:
        xp = backend.namespace(like)
        weights = backend.from_numpy(backend.even_odd(self._rows.numpy_counts()), like)
        return xp.astype(weights, backend.real_dtype(like.dtype, xp))

    def _column_norms_squared(self, like: Array) -> Array:
        # Column j is s_j cos(πj(2i+1)/2n), and 2cos² θ = 1 + cos 2θ: the squares sum to
        # s_j² (Σw + W(2j)) / 2, where W(k) = Σ_i w_i cos(πk(2i+1)/2n) is a DCT of w.
        xp, n = backend.namespace(like), self.n
        weights = backend.from_numpy(self._rows.numpy_counts(), like)
        transform = backend.dct(weights) * math.sqrt(n / 2)  # W(k) for k > 0
        total = self._rows.size
        even = transform[min(2, n) :: 2]
        # W(0), W(2), … and then, with W(n) = 0 and W(2n−k) = −W(k), back again.
        middle = xp.zeros_like(weights[: 1 - n % 2])
        first = xp.zeros_like(weights[:1])
        norms = xp.concat([first, total + even, total + middle, total - xp.flip(even)]) / n
        norms = xp.where(xp.arange(n, device=backend.device_of(like)) == 0, total / n, norms)
        return xp.clip(norms, min=0.0)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)
