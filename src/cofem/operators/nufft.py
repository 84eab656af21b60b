"""Images measured along a trajectory: frequencies that are on no grid."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import image_shape
from cofem.backend import Array
from cofem.operators.base import LinearOperator

# Tolerances of finufft; in single precision a smaller one would be below rounding.
TOLERANCE, TOLERANCE_SINGLE = 1e-9, 1e-6
# Cycles a pixel: the Nyquist limit, with room for trajectories stored in single precision.
LARGEST_FREQUENCY = 0.5 + 1e-6


@final
class NUFFT(LinearOperator):
    """The Fourier transform of an image at any frequencies, by finufft.

    y_i = D^-½ Σ_r x_r exp(−2πi Σ_a k_ia (r_a − n_a // 2) / n_a): the centre of the image is at
    n // 2, as SigPy and BART have it, and on a grid of whole k this is the orthonormal
    transform. ΦᴴΦ depends on differences of positions alone; it is a convolution, and
    ``gram`` does it by two transforms of twice the size, without finufft and without
    gridding (Fessler et al. 2005).

    Parameters
    ----------
    shape : tuple of int
        Of the image, one to three axes; D is its size.
    trajectory : array (…, axes)
        Frequencies k in cycles over the field of view, from −n/2 to n/2 along each axis.

    Examples
    --------
    >>> phi = NUFFT((4, 4), np.zeros((1, 2)))
    >>> phi.shape, phi.forward(np.ones(16)).real.round(6)
    ((1, 16), array([4.]))
    """

    is_complex = True
    exact_row_norms = True

    def __init__(self, shape: Any, trajectory: Any) -> None:
        self.image_shape = image_shape(shape)
        axes = len(self.image_shape)
        k = backend.to_numpy(trajectory) if backend.is_array(trajectory) else trajectory
        k = np.asarray(k, dtype=np.float64)
        if axes > 3:
            raise ValueError(f"shape must have one to three axes, got {self.image_shape}")
        if k.ndim < 1 or k.shape[-1] != axes or k.size == 0:
            raise ValueError(
                f"trajectory has shape {k.shape}; expected (…, {axes}), one number for each "
                "image axis"
            )
        if not np.isfinite(k).all():
            raise ValueError("trajectory contains NaN or Inf")
        largest = np.abs(k.reshape(-1, axes)).max(axis=0) / np.asarray(self.image_shape)
        if largest.max() > LARGEST_FREQUENCY:
            raise ValueError(
                f"trajectory reaches {largest.max():.3g} cycles a pixel; expected at most 0.5: its "
                "unit is cycles over the field of view, −n/2 to n/2"
            )
        self.trajectory = k.reshape(-1, axes)
        self.shape = (len(self.trajectory), math.prod(self.image_shape))
        turns = 2 * np.pi * self.trajectory / np.asarray(self.image_shape)
        self._turns = [np.ascontiguousarray(turns[:, a]) for a in range(axes)]
        self._kernels = backend.Cache()
        _finufft()

    def _forward(self, x: Array) -> Array:
        flat = _complex_rows(x)
        images = flat.reshape(-1, *self.image_shape)
        out = self._run(2, images) / math.sqrt(self.shape[1])
        return backend.from_numpy(out.reshape(*x.shape[:-1], -1), x)

    def _adjoint(self, y: Array) -> Array:
        rows = _complex_rows(y)
        out = self._run(1, rows.reshape(-1, self.shape[0])) / math.sqrt(self.shape[1])
        return backend.from_numpy(out.reshape(*y.shape[:-1], self.shape[1]), y)

    def _gram(self, x: Array) -> Array:
        xp = backend.namespace(x)
        x = xp.astype(x, backend.complex_dtype(x.dtype, xp), copy=False)
        kernel = self._kernels.get(x, lambda: backend.from_numpy(self.kernel(), x))
        image = xp.reshape(x, (*x.shape[:-1], *self.image_shape))
        out = toeplitz_product(image, xp.astype(kernel, x.dtype, copy=False))
        return xp.reshape(out, x.shape)

    def kernel(self) -> np.ndarray:
        """Return the spectrum of ΦᴴΦ on a grid of twice the size, complex128."""
        double = tuple(2 * n for n in self.image_shape)
        ones = np.ones((1, self.shape[0]), dtype=np.complex128)
        lags = self._run(1, ones, double)[0] / self.shape[1]
        return np.asarray(np.fft.fftn(np.fft.ifftshift(lags)))

    def _column_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(self.shape[0] / self.shape[1], self.shape[1], like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)

    def _run(self, kind: int, rows: np.ndarray, modes: tuple[int, ...] | None = None) -> np.ndarray:
        """Run finufft: kind 1 from samples to an image of ``modes``, 2 from images to samples."""
        finufft = _finufft()
        axes, single = len(self.image_shape), rows.dtype == np.complex64
        call = getattr(finufft, f"nufft{axes}d{kind}")
        kind_real = np.float32 if single else np.float64
        turns = [turn.astype(kind_real) for turn in self._turns]
        options = {"eps": TOLERANCE_SINGLE if single else TOLERANCE, "nthreads": 1}
        rows = np.ascontiguousarray(rows)
        if kind == 2:
            return np.asarray(call(*turns, rows, isign=-1, **options)).reshape(len(rows), -1)
        shape: Any = self.image_shape if modes is None else modes
        out = call(*turns, rows, shape if axes > 1 else shape[0], isign=1, **options)
        return np.asarray(out).reshape(len(rows), *shape)


def toeplitz_product(image: Array, kernel: Array) -> Array:
    """Convolve images (…, *shape) with a kernel given by its spectrum on twice the shape."""
    fft = backend.fft_module(image)
    shape = image.shape[-kernel.ndim :]
    axes = tuple(range(-kernel.ndim, 0))
    spectrum = fft.fftn(image, s=tuple(2 * n for n in shape), axes=axes)
    spectrum *= kernel
    out = fft.ifftn(spectrum, axes=axes)
    return out[(..., *[slice(0, n) for n in shape])]


def _complex_rows(x: Array) -> np.ndarray:
    rows = backend.to_numpy(x)
    single = rows.dtype in (np.float32, np.complex64)
    return rows.astype(np.complex64 if single else np.complex128)


def _finufft() -> Any:
    try:
        import finufft
    except ImportError:
        raise ImportError("trajectories need finufft: pip install finufft") from None
    return finufft
