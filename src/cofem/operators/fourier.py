"""Images measured at some of their spatial frequencies."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import image_shape
from cofem.backend import Array, MaskedTransform
from cofem.operators._selection import Selection
from cofem.operators.base import LinearOperator


@final
class Fourier(LinearOperator):
    """Some coefficients of the orthonormal n-D Fourier transform of an image.

    The image is flattened in C order, the frequencies stand in FFT order (zero
    first). The output is complex. A product costs one transform, ``gram`` two.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the image; D is its size.
    mask : boolean array of that shape (or flattened), or integer indices, optional
        The frequencies that were measured; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> mask = np.zeros((2, 2), dtype=bool)
    >>> mask[0, 0] = True
    >>> Fourier((2, 2), mask).forward(np.array([1.0, 2.0, 3.0, 4.0])).real
    array([5.])
    """

    is_complex = True
    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, shape: Any, mask: Any = None) -> None:
        self.image_shape = image_shape(shape)
        self._mask = Selection(mask, self.image_shape, "mask")
        self.shape = (self._mask.size, math.prod(self.image_shape))
        self._axes = tuple(range(-len(self.image_shape), 0))

    @property
    def samples(self) -> np.ndarray | None:
        """The measured frequencies as flat indices, shape (N,); None for all."""
        return self._mask.index

    def _forward(self, x: Array) -> Array:
        return self._mask.take(self._flat(self._transform(x)))

    def _adjoint(self, y: Array) -> Array:
        return self._inverse(_as_complex(self._mask.put(y)), self.samples is not None)

    def _gram(self, x: Array) -> Array:
        if self.samples is None:
            return backend.namespace(x).asarray(_as_complex(x), copy=True)
        spectrum = self._flat(self._transform(x))
        spectrum *= self._mask.counts(x)
        return self._inverse(spectrum, True)

    def masked_transform(self, like: Array) -> MaskedTransform:
        """Describe ΦᴴΦ to solvers that fuse it into their own passes."""
        return MaskedTransform("fourier", self.image_shape, self._mask.counts(like))

    def _transform(self, x: Array) -> Array:
        image = backend.namespace(x).reshape(x, (*x.shape[:-1], *self.image_shape))
        if not backend.is_numpy(x):
            image = _as_complex(image)  # SciPy saves half the work on real images
        return backend.fft_module(x).fftn(image, axes=self._axes, norm="ortho")

    def _inverse(self, spectrum: Array, scratch: bool) -> Array:
        grid = (*spectrum.shape[:-1], *self.image_shape)
        spectrum = backend.namespace(spectrum).reshape(spectrum, grid)
        options = {"overwrite_x": scratch} if backend.is_numpy(spectrum) else {}
        fft = backend.fft_module(spectrum)
        return self._flat(fft.ifftn(spectrum, axes=self._axes, norm="ortho", **options))

    def _flat(self, image: Array) -> Array:
        batch = image.shape[: image.ndim - len(self.image_shape)]
        return backend.namespace(image).reshape(image, (*batch, self.shape[1]))

    def _column_norms_squared(self, like: Array) -> Array:
        # Every entry of the transform has modulus 1/√D.
        return self._constant_norms(self.shape[0] / self.shape[1], self.shape[1], like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        total = float(backend.namespace(weights).sum(weights))
        return self._constant_norms(total / self.shape[1], self.shape[1], weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)

    def _select_rows(self, index: np.ndarray) -> LinearOperator:
        return Fourier(self.image_shape, index if self.samples is None else self.samples[index])


def _as_complex(x: Array) -> Array:
    xp = backend.namespace(x)
    return xp.astype(x, backend.complex_dtype(x.dtype, xp), copy=False)
