"""Images that are sparse in a wavelet basis."""

from __future__ import annotations

import itertools
import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.arguments import count, image_shape
from cofem.backend import Array
from cofem.operators._periodic import shifted_sum
from cofem.operators.base import LinearOperator

# Some wavelets that count as orthogonal ("dmey") are so to three digits only; the published
# coefficients of the others are so to 1e-11 or better.
ORTHOGONAL = 1e-9


@final
class Wavelet(LinearOperator):
    """Wavelet synthesis: coefficients to image, periodic at the borders.

    The coefficients are an array with the shape of the image in nested corner blocks
    (the layout of ``pywt.coeffs_to_array``), flattened in C order. PyWavelets provides
    the filters; the filtering runs in the library of the argument.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the image (1-D, 2-D or 3-D); N = D is its size.
    name : str
        A discrete wavelet of PyWavelets, orthogonal ("haar", "db4", "sym8", …) or
        biorthogonal ("bior4.4", …).
    level : int, optional
        Depth; every side must be divisible by 2^level. By default as deep as that
        allows while the blocks stay longer than the filter, and at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> phi = Wavelet((4, 4), "haar", level=2)
    >>> z = np.zeros(16)
    >>> z[0] = 4.0  # the coarsest coefficient: a constant image
    >>> phi.forward(z).reshape(4, 4)[0].round(6)
    array([1., 1., 1., 1.])
    """

    def __init__(self, shape: Any, name: str = "db4", level: int | None = None) -> None:
        self.image_shape = image_shape(shape)
        if len(self.image_shape) > 3:
            raise ValueError(f"shape must have 1 to 3 sides, got {self.image_shape}")
        self.name = name
        self._low, self._high, self.orthogonal = _filters(name)
        self.level = _level(self.image_shape, len(self._low), level)
        size = math.prod(self.image_shape)
        self.shape = (size, size)
        self.exact_row_norms = self.orthogonal

    def _forward(self, x: Array) -> Array:
        xp, ndim = backend.namespace(x), len(self.image_shape)
        coefficients = xp.reshape(x, (*x.shape[:-1], *self.image_shape))
        image = coefficients[self._block(self.level, (0,) * ndim)]
        for level in range(self.level, 0, -1):
            bands = {
                kind: coefficients[self._block(level, kind)] if any(kind) else image
                for kind in itertools.product((0, 1), repeat=ndim)
            }
            for _ in range(ndim):  # merge along the first axis that is still split
                bands = {
                    rest: self._merge(bands[0, *rest], bands[1, *rest], -1 - len(rest))
                    for rest in {kind[1:] for kind in bands}
                }
            image = bands[()]
        return xp.reshape(image, x.shape)

    def _adjoint(self, y: Array) -> Array:
        xp, ndim = backend.namespace(y), len(self.image_shape)
        image = xp.reshape(y, (*y.shape[:-1], *self.image_shape))
        return xp.reshape(self._analyse(image, ndim, self.level), y.shape)

    def _analyse(self, image: Array, ndim: int, level: int) -> Array:
        if level == 0:
            return image
        xp = backend.namespace(image)
        bands: dict[tuple[int, ...], Array] = {(): image}
        for axis in range(-ndim, 0):
            bands = {
                (*kind, i): part
                for kind, band in bands.items()
                for i, part in enumerate(self._split(band, axis))
            }
        bands[(0,) * ndim] = self._analyse(bands[(0,) * ndim], ndim, level - 1)
        for axis in range(-1, -ndim - 1, -1):  # the last axis is the innermost pair
            bands = {
                kind: xp.concat([bands[*kind, 0], bands[*kind, 1]], axis=axis)
                for kind in {kind[:-1] for kind in bands}
            }
        return bands[()]

    def _gram(self, x: Array) -> Array:
        if self.orthogonal:
            return backend.namespace(x).asarray(x, copy=True)
        return self._adjoint(self._forward(x))

    def _merge(self, low: Array, high: Array, axis: int) -> Array:
        """One synthesis step along ``axis``: two halves to twice their length."""
        xp = backend.namespace(low)
        phases = []
        for phase in (0, 1):
            parts = []
            for band, taps in ((low, self._low), (high, self._high)):
                # Tap l of coefficient k lands on sample 2k + l − F/2 + 1 = 2(k + a) + phase.
                kept = [(t, o) for t, o in _placed(taps) if o % 2 == phase]
                weights, offsets = [t for t, _ in kept], [-(o // 2) for _, o in kept]
                parts.append(shifted_sum(band, weights, offsets, axis))
            phases.append(parts[0] + parts[1])
        shape = list(low.shape)
        shape[axis] *= 2
        # Interleave: stack the phases just behind the axis and flatten the two.
        return xp.reshape(xp.stack(phases, axis=low.ndim + axis + 1), tuple(shape))

    def _split(self, image: Array, axis: int) -> tuple[Array, Array]:
        """Apply the transpose of :meth:`_merge`."""
        low, high = (
            shifted_sum(image, [t for t, _ in placed], [o for _, o in placed], axis, step=2)
            for placed in (_placed(self._low), _placed(self._high))
        )
        return low, high

    def _block(self, level: int, kind: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the index of a band (0: average, 1: detail along each axis) of a level."""
        halves = [side >> level for side in self.image_shape]
        return (..., *[slice(k * h, (k + 1) * h) for k, h in zip(kind, halves, strict=True)])

    def _column_norms_squared(self, like: Array) -> Array:
        if self.orthogonal:
            return self._constant_norms(1.0, self.shape[1], like)
        # A band's atoms are shifts of one atom, a product of 1-D atoms over the axes.
        norms, ndim = np.empty(self.image_shape), len(self.image_shape)
        for level in range(1, self.level + 1):
            for kind in itertools.product((0, 1), repeat=ndim):
                if any(kind) or level == self.level:
                    atoms = (
                        self._atom_norm(side, level, k)
                        for side, k in zip(self.image_shape, kind, strict=True)
                    )
                    norms[self._block(level, kind)] = math.prod(atoms)
        return backend.from_numpy(norms.ravel(), like)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._constant_norms(1.0, self.shape[0], like)

    def _atom_norm(self, side: int, level: int, kind: int) -> float:
        low: Any = np.zeros(side >> level)
        high = np.zeros_like(low)
        (high if kind else low)[0] = 1.0
        for _ in range(level):
            low = self._merge(low, high, -1)
            high = np.zeros_like(low)
        return float(low @ low)


def _placed(taps: tuple[float, ...]) -> list[tuple[float, int]]:
    """Pair the taps that are not zero with their places relative to sample 2k."""
    return [(t, i - len(taps) // 2 + 1) for i, t in enumerate(taps) if t != 0]


def _filters(name: str) -> tuple[tuple[float, ...], tuple[float, ...], bool]:
    try:
        import pywt
    except ImportError:
        raise ImportError("Wavelet needs PyWavelets: pip install PyWavelets") from None
    if not isinstance(name, str) or name not in pywt.wavelist(kind="discrete"):
        raise ValueError(
            f"name: PyWavelets has no discrete wavelet {name!r} "
            '(pywt.wavelist(kind="discrete") lists them)'
        )
    wavelet = pywt.Wavelet(name)
    low = np.asarray(wavelet.rec_lo)
    products = [low[2 * k :] @ low[: low.size - 2 * k] for k in range(low.size // 2)]
    defect = np.abs(np.asarray(products) - (np.arange(len(products)) == 0)).max()
    return (
        tuple(float(t) for t in low),
        tuple(float(t) for t in wavelet.rec_hi),
        bool(wavelet.orthogonal) and bool(defect < ORTHOGONAL),
    )


def _level(sides: tuple[int, ...], filter_length: int, level: int | None) -> int:
    deepest = min((side & -side).bit_length() - 1 for side in sides)
    if level is not None:
        level = count(level, "level")
        if level > deepest:
            raise ValueError(f"level: every side of {sides} must be divisible by 2^{level}")
        return level
    if deepest == 0:
        raise ValueError(f"shape: every side must be even, got {sides}")
    useful = [j for j in range(1, deepest + 1) if min(sides) >> (j - 1) >= filter_length]
    return max(useful, default=1)
