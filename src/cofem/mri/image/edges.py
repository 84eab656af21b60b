"""Differences between neighbours in every direction, and the prior Rᵀ T R made of them.

I real images (the contrasts, or their real and imaginary parts) are rows (S, I, P), P pixels
flattened. At a pixel the differences to the previous pixel along each axis, of all images,
are one vector of n = axes · I numbers, direction first. T is a symmetric matrix n × n at
every pixel. Where the prior knows B groups of images apart (real parts, and imaginary parts that
are nearly zero), each group has n = axes · I/B numbers and pixels of its own: B·P of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.compiled import compiled

# Numbers of a product of matrices that is written out and summed: an image's, not a volume's. Two
# launches take less time than two for each column, and a processor's cache still holds them.
ONE_GO = 1 << 24
_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}


class Edges:
    """The operator R of ``n_images`` real images.

    Parameters
    ----------
    shape : tuple of int
        The image axes, two or three.
    n_images : int
        I.
    n_apart : int
        B.

    Examples
    --------
    >>> edges = Edges((1, 3), n_images=1)
    >>> edges.gradient(np.array([[[1.0, 2.0, 4.0]]]))[0]
    array([[ 0., -3.],
           [ 0.,  1.],
           [ 0.,  2.]])
    """

    def __init__(self, shape: tuple[int, ...], n_images: int, n_apart: int = 1) -> None:
        self.shape, self.n_images, self.n_apart = tuple(shape), n_images, n_apart
        self.kind = (self.shape, n_images, n_apart)  # products with other edges of it are the same
        self.n_axes, self.size = len(shape), math.prod(shape)
        self.n_together = n_images // n_apart
        self.n_components = self.n_axes * self.n_together
        index = np.arange(self.size, dtype=np.int64).reshape(shape)
        self._previous = np.stack([np.roll(index, 1, axis).ravel() for axis in range(self.n_axes)])

        lines = np.arange(self.size // shape[-1], dtype=np.int64).reshape(shape[:-1])
        self._lines = np.array(
            [np.roll(lines, 1, axis).ravel() for axis in range(self.n_axes - 1)],
            dtype=np.int64,
        ).reshape(self.n_axes - 1, lines.size)

    def gradient(self, x: Array) -> Array:
        """R x: (S, I, P) to (S, B·P, n)."""
        xp = backend.namespace(x)
        x = xp.reshape(x, (-1, self.n_together, self.size))
        if backend.is_numpy(x):
            out = np.empty((x.shape[0], self.size, self.n_components), dtype=x.dtype)
            _gradient(np.ascontiguousarray(x), self._previous, out)
            return self._in_rows(out)
        return self._in_rows(xp.moveaxis(self._differences(x), 1, 2))

    def _differences(self, x: Array) -> Array:
        """R x of groups of images: (G, I/B, P) to (G, n, P)."""
        parts = [x - self._shift(x, axis, 1) for axis in range(self.n_axes)]
        return backend.namespace(x).concat(parts, axis=1)

    def _in_rows(self, g: Array) -> Array:
        xp = backend.namespace(g)
        return xp.reshape(g, (-1, self.n_apart * self.size, self.n_components))

    def adjoint(self, g: Array) -> Array:
        """Rᵀ g: (S, B·P, n) to (S, I, P)."""
        xp = backend.namespace(g)
        g = xp.reshape(g, (-1, self.size, self.n_components))
        if backend.is_numpy(g):
            sums = np.zeros((g.shape[0], self.n_together, self.size), dtype=g.dtype)
            _adjoint(np.ascontiguousarray(g), self._previous, sums)
            return sums.reshape(-1, self.n_images, self.size)
        return xp.reshape(self._sum_back(xp.moveaxis(g, 2, 1)), (-1, self.n_images, self.size))

    def packed(self, tensor: Array) -> Array:
        """Return T as :meth:`add_prior` wants it: NumPy's as upper triangles.

        They are (B, lines, n(n+1)/2, width): what a line of pixels needs lies together. Others are
        (B, n, n, P): passes over pixels, for matrices so small are slow in libraries of products.
        """
        if not backend.is_numpy(tensor):
            xp, n = backend.namespace(tensor), self.n_components
            own = xp.reshape(tensor, (self.n_apart, self.size, n * n))
            groups = [xp.matrix_transpose(own[b, ...]) for b in range(self.n_apart)]
            return xp.reshape(xp.stack(groups), (self.n_apart, n, n, self.size))
        rows, columns = np.triu_indices(self.n_components)
        upper = np.asarray(tensor)[:, rows, columns]
        lines = upper.reshape(self.n_apart, -1, self.shape[-1], len(rows))
        return np.ascontiguousarray(np.swapaxes(lines, 2, 3))

    def add_prior(self, x: Array, packed: Array, out: Array) -> Array:
        """Return out + Rᵀ T R x for a :meth:`packed` T; NumPy's ``out`` changes in place."""
        xp = backend.namespace(x)
        if backend.is_numpy(x):
            each = (-1, self.n_together, self.size)  # views: the parts of a row lie side by side
            sums = np.asarray(out).reshape(each)
            _add_prior(xp.reshape(x, each), packed, self._lines, sums)
            return sums.reshape(out.shape)
        g = self._differences(xp.reshape(x, (-1, self.n_together, self.size)))
        g = xp.reshape(g, (-1, *packed.shape[:2], self.size))  # (S, B, n, P)
        if g.shape[0] * math.prod(packed.shape) <= ONE_GO:
            inner: Any = xp.sum(packed * g[:, :, None, :, :], axis=3)
        else:
            inner = 0.0
            for b in range(self.n_components):
                inner = inner + packed[:, :, b, :] * g[:, :, b : b + 1, :]
        inner = xp.reshape(inner, (-1, self.n_components, self.size))
        return out + xp.reshape(self._sum_back(inner), out.shape)

    def diagonal(self, tensor: Array) -> Array:
        """Return the diagonal of Rᵀ T R, shape (I, P)."""
        xp = backend.namespace(tensor)
        parts = [
            self._diagonal(tensor[b * self.size : (b + 1) * self.size, ...])
            for b in range(self.n_apart)
        ]
        return xp.concat(parts)

    def _diagonal(self, tensor: Array) -> Array:
        xp, n = backend.namespace(tensor), self.n_together
        long = [axis for axis in range(self.n_axes) if self.shape[axis] > 1]
        five = xp.reshape(tensor, (-1, self.n_axes, n, self.n_axes, n))
        total = xp.zeros_like(five[:, 0, :, 0, 0].T)
        for axis in long:
            own = xp.linalg.diagonal(five[:, axis, :, axis, :]).T  # (I, P)
            total = total + own + self._shift(own, axis, -1)
            for other in long:
                if other != axis:  # a pixel is the end of all of its differences
                    total = total + xp.linalg.diagonal(five[:, axis, :, other, :]).T
        return total

    def _sum_back(self, g: Array) -> Array:
        total = backend.namespace(g).zeros_like(g[:, : self.n_together, :])
        for axis in range(self.n_axes):
            first = axis * self.n_together
            part = g[:, first : first + self.n_together, :]
            total = total + part - self._shift(part, axis, -1)
        return total

    def _shift(self, x: Array, axis: int, by: int) -> Array:
        xp = backend.namespace(x)
        image = xp.reshape(x, (*x.shape[:-1], *self.shape))
        rolled = xp.roll(image, by, axis=image.ndim - self.n_axes + axis)
        return xp.reshape(rolled, x.shape)


@compiled(**_OPTIONS)
def _gradient(x: Any, previous: Any, out: Any) -> None:
    for s in range(x.shape[0]):
        for j in range(x.shape[2]):
            for d in range(previous.shape[0]):
                before = previous[d, j]
                for c in range(x.shape[1]):
                    out[s, j, d * x.shape[1] + c] = x[s, c, j] - x[s, c, before]


@compiled(**_OPTIONS)
def _adjoint(g: Any, previous: Any, out: Any) -> None:
    for s in range(g.shape[0]):
        for j in range(g.shape[1]):
            for d in range(previous.shape[0]):
                before = previous[d, j]
                for c in range(out.shape[1]):
                    value = g[s, j, d * out.shape[1] + c]
                    out[s, c, j] += value
                    out[s, c, before] -= value


@compiled(**_OPTIONS)
def _multiply(tensor: Any, g: Any, v: Any) -> None:
    """V = T g for a line of pixels, T as upper triangles."""
    v[:] = 0
    k = 0
    for a in range(g.shape[0]):
        for j in range(g.shape[1]):
            v[a, j] += tensor[k, j] * g[a, j]
        k += 1
        for b in range(a + 1, g.shape[0]):
            for j in range(g.shape[1]):
                value = tensor[k, j]
                v[a, j] += value * g[b, j]
                v[b, j] += value * g[a, j]
            k += 1


@compiled(**_OPTIONS)
def _add_prior(x: Any, packed: Any, lines: Any, out: Any) -> None:
    """Out += Rᵀ T R x, a line of pixels at a time, so that every loop runs along memory.

    Rows take the B groups of pixels of T in turn. A line of T serves all rows while the processor's
    cache holds it: read again for every row, T would take longer than the products.
    """
    n_images, n_axes, width = x.shape[1], lines.shape[0] + 1, packed.shape[3]
    n, groups = n_axes * n_images, packed.shape[0]
    g = np.empty((n, width), dtype=x.dtype)
    v = np.empty((n, width), dtype=x.dtype)
    last = (n_axes - 1) * n_images
    for group in range(groups):
        for line in range(lines.shape[1]):
            here, tensor = line * width, packed[group, line]
            for s in range(group, x.shape[0], groups):
                for c in range(n_images):
                    for d in range(n_axes - 1):
                        before = lines[d, line] * width
                        for j in range(width):
                            g[d * n_images + c, j] = x[s, c, here + j] - x[s, c, before + j]
                    g[last + c, 0] = x[s, c, here] - x[s, c, here + width - 1]
                    for j in range(1, width):
                        g[last + c, j] = x[s, c, here + j] - x[s, c, here + j - 1]
                _multiply(tensor, g, v)
                for c in range(n_images):
                    for d in range(n_axes - 1):
                        before, row = lines[d, line] * width, d * n_images + c
                        for j in range(width):
                            out[s, c, here + j] += v[row, j]
                        for j in range(width):
                            out[s, c, before + j] -= v[row, j]
                    row = last + c
                    for j in range(width):
                        out[s, c, here + j] += v[row, j]
                    for j in range(1, width):
                        out[s, c, here + j - 1] -= v[row, j]
                    out[s, c, here + width - 1] -= v[row, 0]
