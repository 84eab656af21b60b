"""The prior of the gradients: one covariance matrix at every pixel, learned from neighbours.

The M-step of the model ``image``. At a pixel the gradient of all contrasts in all
directions is Gaussian with covariance S, a matrix of n × n. Its estimate is the average
of E[g gᵀ] over a neighbourhood (pattern-coupled sparse Bayesian learning with a matrix in
place of a number), drawn a little towards a diagonal. S knows along which direction an
edge runs, and how the contrasts change together across it: what one contrast has
measured of an edge then tells the others more than where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.edges import Edges
from cofem.operators import Smoothing
from cofem.solvers.compiled import compiled

TIES = ("tensor", "contrasts", "directions", "axis", "pixel")

TOGETHER = 64  # pixels whose matrices are inverted side by side: 12 × 12 of them stay in cache

_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}


@dataclass(frozen=True)
class EdgePrior:
    """Precision T = S⁻¹ of the gradients at every pixel, and a factor of it.

    Attributes
    ----------
    tensor : array (B·P, n, n)
        T, for each of the B groups of images that are known apart.
    factor : array (B·P, n, n)
        F with F Fᵀ = T, for draws.
    spread : array (P,)
        The trace of S over n: the mean prior variance of a gradient.
    """

    tensor: Array
    factor: Array
    spread: Array


class EdgeLearner:
    """Turn second moments of the gradients into an :class:`EdgePrior`.

    Parameters
    ----------
    edges : Edges
    coupling : float
        Standard deviation of the Gaussian neighbourhood, in pixels.
    shrinkage : float
        ρ in S ← (1 − ρ) S + ρ D, D diagonal with one value for each direction and part.
    ties : {"tensor", "contrasts", "directions", "axis", "pixel"}
        What S may be. "tensor": any matrix. "contrasts": a matrix over the contrasts for
        each direction. "directions": a matrix over the directions, the same for every
        contrast. "axis": one variance for each direction. "pixel": one variance. The
        last four are kept to measure what each step brings.
    n_parts : int
        2 where the first half of the images are real and the second imaginary parts. Where
        ``edges`` have the two apart, each has a covariance of its own.
    """

    def __init__(
        self,
        edges: Edges,
        coupling: float,
        shrinkage: float,
        ties: str = "tensor",
        n_parts: int = 1,
    ) -> None:
        if ties not in TIES:
            raise ValueError(f"ties must be one of {', '.join(TIES)}, got {ties!r}")
        self._edges, self._shrinkage, self._ties = edges, shrinkage, ties
        self._n_parts = n_parts // edges.n_apart  # in one matrix
        self._smooth = Smoothing(edges.shape, coupling)
        weight = self._smooth.column_norms_squared(np.empty(0))
        self.neighbours = 1 / float(weight[0])
        """How many equally weighted pixels the neighbourhood is worth."""
        n = edges.n_components
        self._rows, self._columns = np.triu_indices(n)
        position = np.zeros((n, n), dtype=np.int64)
        position[self._rows, self._columns] = np.arange(len(self._rows))
        self._position = np.maximum(position, position.T).ravel()

    def learn(self, mean: Array, draws: Array, floor: Array) -> EdgePrior:
        """Return the prior after an M-step.

        Parameters
        ----------
        mean : array (I, P)
            The posterior mean.
        draws : array (S, I, P)
            Draws of the image minus its mean.
        floor : array (I,)
            The least variance of a gradient, by image.
        """
        moments = self._moments(self._edges.gradient(mean[None, ...]), 1.0)
        if draws.shape[0]:
            moments = moments + self._moments(self._edges.gradient(draws), 1 / draws.shape[0])
        covariance = self._unpacked(self._averaged(moments))
        return self._prior(self._tied(covariance), floor)

    def _moments(self, g: Array, weight: float) -> Array:
        """Σ_s g gᵀ, the upper triangle as rows (n(n+1)/2, P)."""
        xp = backend.namespace(g)
        columns = xp.moveaxis(g, 2, 0)  # (n, S, P)
        products = [
            xp.sum(columns[int(a), ...] * columns[int(b), ...], axis=0)
            for a, b in zip(self._rows, self._columns, strict=True)
        ]
        return weight * xp.stack(products)

    def _averaged(self, moments: Array) -> Array:
        """Average over neighbours; row by row where a row fits the processor's cache."""
        if not backend.is_numpy(moments):
            xp = backend.namespace(moments)
            rows = xp.reshape(moments, (-1, self._edges.size))
            return xp.reshape(self._smooth.forward(rows), moments.shape)
        rows = np.asarray(moments).reshape(-1, self._edges.size)
        return np.stack([np.asarray(self._smooth.forward(row)) for row in rows]).reshape(
            moments.shape
        )

    def _unpacked(self, packed: Array) -> Array:
        xp = backend.namespace(packed)
        n = self._edges.n_components
        order = backend.from_numpy(self._position, packed)
        return xp.reshape(xp.take(xp.matrix_transpose(packed), order, axis=1), (-1, n, n))

    def _tied(self, covariance: Array) -> Array:
        if self._ties == "tensor":
            return covariance
        xp = backend.namespace(covariance)
        axes, n_images = self._edges.n_axes, self._edges.n_together
        blocks = np.kron(np.eye(axes), np.ones((n_images, n_images)))
        if self._ties == "contrasts":
            return covariance * _constant(blocks, covariance)
        shape = (-1, axes, n_images, axes, n_images)
        five = xp.reshape(covariance, shape)
        small: Any = sum(five[:, :, c, :, c] for c in range(n_images)) / n_images
        if self._ties == "axis":
            small = small * _constant(np.eye(axes), covariance)
        elif self._ties == "pixel":
            trace: Any = sum(small[:, a, a] for a in range(axes)) / axes
            small = trace[:, None, None] * _constant(np.eye(axes), covariance)
        same = _constant(np.eye(n_images), covariance)
        out = small[:, :, None, :, None] * same[None, None, :, None, :]
        return xp.reshape(out, covariance.shape)

    def _prior(self, covariance: Array, floor: Array) -> EdgePrior:
        xp = backend.namespace(covariance)
        axes, n_images = self._edges.n_axes, self._edges.n_together
        groups, members = axes * self._n_parts, n_images // self._n_parts
        variances = xp.linalg.diagonal(covariance)  # (P, n)
        target = xp.mean(xp.reshape(variances, (-1, groups, members)), axis=2)
        target = xp.repeat(target, members, axis=1)
        least = xp.reshape(floor, (self._edges.n_apart, 1, n_images))
        least = xp.concat([least] * axes, axis=2) + 0 * xp.reshape(
            target, (self._edges.n_apart, self._edges.size, -1)
        )
        added = self._shrinkage * target + xp.reshape(least, target.shape)
        spread = xp.mean((1 - self._shrinkage) * variances + added, axis=1)
        spread = xp.mean(xp.reshape(spread, (self._edges.n_apart, -1)), axis=0)
        if backend.is_numpy(covariance):
            tensor, factor = np.empty_like(covariance), np.empty_like(covariance)
            weight = covariance.dtype.type(1 - self._shrinkage)
            added = backend.to_numpy(added).astype(covariance.dtype)
            _invert(covariance, added, weight, tensor, factor)
            return EdgePrior(tensor, factor, spread)
        eye = _constant(np.eye(self._edges.n_components), covariance)
        diagonal = added[:, :, None] * eye
        lower = xp.linalg.cholesky((1 - self._shrinkage) * covariance + diagonal)
        inverse = xp.linalg.inv(lower)
        root = xp.matrix_transpose(inverse)
        return EdgePrior(xp.matmul(root, inverse), root, spread)


def _constant(matrix: np.ndarray, like: Array) -> Array:
    return backend.namespace(like).astype(backend.from_numpy(matrix, like), like.dtype)


@compiled(**_OPTIONS)
def _invert(covariance: Any, added: Any, weight: Any, tensor: Any, factor: Any) -> None:
    """Cholesky S = C Cᵀ of every pixel's matrix, then F = C⁻ᵀ and T = F Fᵀ.

    TOGETHER pixels at a time, their numbers side by side, so that every inner loop runs along
    memory: a matrix of 12 × 12 is too small for that by itself.
    """
    n = covariance.shape[1]
    shape = (n, n, TOGETHER)
    c, inverse = np.zeros(shape, covariance.dtype), np.zeros(shape, covariance.dtype)
    value = np.zeros(TOGETHER, covariance.dtype)
    for first in range(0, covariance.shape[0], TOGETHER):
        m = min(TOGETHER, covariance.shape[0] - first)
        for j in range(m):
            for a in range(n):
                for b in range(a + 1):
                    c[a, b, j] = weight * covariance[first + j, a, b]
        for b in range(n):
            for k in range(b):
                for a in range(b, n):
                    for j in range(m):
                        c[a, b, j] -= c[a, k, j] * c[b, k, j]
            for j in range(m):
                # rounding must not take away what the floor has added
                least = added[first + j, b]
                c[b, b, j] = np.sqrt(max(c[b, b, j] + least, least))
                inverse[b, b, j] = 1 / c[b, b, j]
            for a in range(b + 1, n):
                for j in range(m):
                    c[a, b, j] *= inverse[b, b, j]
        for b in range(n):
            for a in range(b + 1, n):
                value[:m] = 0
                for k in range(b, a):
                    for j in range(m):
                        value[j] += c[a, k, j] * inverse[k, b, j]
                for j in range(m):
                    inverse[a, b, j] = -value[j] * inverse[a, a, j]
        for a in range(n):
            for b in range(a, n):
                value[:m] = 0
                for k in range(b, n):
                    for j in range(m):
                        value[j] += inverse[k, a, j] * inverse[k, b, j]
                for j in range(m):
                    tensor[first + j, a, b] = tensor[first + j, b, a] = value[j]
                    factor[first + j, a, b] = inverse[b, a, j]
                    factor[first + j, b, a] = inverse[a, a, j] if a == b else 0.0
