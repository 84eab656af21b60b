"""Signals that are sparse in the discrete cosine transform."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import scipy.fft

from cofem import backend
from cofem.backend import Array
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

    def _column_norms_squared(self, like: Array) -> Array:
        # Column j is s_j cos(πj(2i+1)/2n), and 2cos² θ = 1 + cos 2θ: the squares sum to
        # s_j² (Σw + W(2j)) / 2, where W(k) = Σ_i w_i cos(πk(2i+1)/2n) is a DCT of w.
        weights, n = self._rows.numpy_counts(), self.n
        transform = scipy.fft.dct(weights) / 2
        twice = 2 * np.arange(n)
        mirrored = np.append(transform, 0.0)  # W(n) = 0, and W(2n−k) = −W(k)
        at_twice = np.where(twice <= n, 1.0, -1.0) * mirrored[np.minimum(twice, 2 * n - twice)]
        norms = (weights.sum() + at_twice) / n
        norms[0] /= 2
        return backend.from_numpy(np.maximum(norms, 0.0), like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)
