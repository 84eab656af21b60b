"""The prior of the gradients: one covariance matrix at every pixel, learned from neighbours.

The M-step of the model ``image``. At a pixel the gradient of all contrasts in all
directions is Gaussian with covariance S, a matrix of n × n. Its estimate is the average
of E[g gᵀ] over a neighbourhood (pattern-coupled sparse Bayesian learning with a matrix in
place of a number), drawn a little towards a diagonal. S knows along which direction an
edge runs, and how the contrasts change together across it: what one contrast has
measured of an edge then tells the others more than where it is.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.edges import Edges
from cofem.mri.small_matrices import inverse_factor, invert
from cofem.operators import Smoothing

TIES = ("tensor", "contrasts", "directions", "axis", "pixel")


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
        # What decides the operations: learners of one kind are one to a recording.
        self._key = (edges.shape, edges.n_images, edges.n_apart, coupling, shrinkage, ties, n_parts)
        self._smooth = Smoothing(edges.shape, coupling)
        weight = self._smooth.column_norms_squared(np.empty(0))
        self.neighbours = 1 / float(weight[0])
        """How many equally weighted pixels the neighbourhood is worth."""
        n = edges.n_components
        self._rows, self._columns = np.triu_indices(n)
        self._position = _positions(n)

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
        if backend.is_numpy(mean) or self._ties != "tensor":  # the others bring arrays along
            return self.learned(mean, draws, floor)
        learn = backend.in_one_launch(_learned_arrays, mean)
        return EdgePrior(*learn(mean, draws, floor, learner=self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EdgeLearner) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def learned(self, mean: Array, draws: Array, floor: Array) -> EdgePrior:
        """Do what :meth:`learn` does, operation by operation."""
        moments = self._moments(self._edges.gradient(mean[None, ...]), 1.0)
        if draws.shape[0]:
            moments = moments + self._moments(self._edges.gradient(draws), 1 / draws.shape[0])
        packed = self._averaged(moments)
        if backend.is_numpy(packed) and self._ties == "tensor":
            return self._prior_here(packed, floor)
        return self._prior(self._tied(self._unpacked(packed)), floor)

    def _moments(self, g: Array, weight: float) -> Array:
        """Σ_s g gᵀ, the upper triangle as rows (n(n+1)/2, P)."""
        xp = backend.namespace(g)
        columns = xp.moveaxis(g, 2, 0)  # (n, S, P)
        if not backend.is_numpy(g):  # few operations, of many numbers each
            rows = [xp.sum(columns[a : a + 1, ...] * columns[a:, ...], axis=1)
                    for a in range(columns.shape[0])]  # fmt: skip
            return weight * xp.concat(rows)
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
        order = self._position.like(packed)
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
        if backend.is_numpy(covariance):
            rows = np.asarray(covariance)[:, self._rows, self._columns]
            return self._prior_here(np.ascontiguousarray(rows.T), floor)
        added, spread = self._added(xp.linalg.diagonal(covariance), floor)
        root = inverse_factor((1 - self._shrinkage) * covariance, added)
        return EdgePrior(xp.matmul(root, xp.matrix_transpose(root)), root, spread)

    def _prior_here(self, packed: Array, floor: Array) -> EdgePrior:
        """Do the same on the host, from upper triangles (n(n+1)/2, B·P)."""
        upper, n = backend.to_numpy(packed), self._edges.n_components
        added, spread = self._added(upper[self._rows == self._columns].T, floor)
        tensor = np.empty((upper.shape[1], n, n), dtype=upper.dtype)
        factor, weight = np.empty_like(tensor), upper.dtype.type(1 - self._shrinkage)
        invert(upper, backend.to_numpy(added).astype(upper.dtype), weight, tensor, factor)
        return EdgePrior(tensor, factor, spread)

    def _added(self, variances: Array, floor: Array) -> tuple[Array, Array]:
        """Return what is added to the diagonals (B·P, n), and the mean prior variance (P,)."""
        xp = backend.namespace(variances)
        axes, n_images = self._edges.n_axes, self._edges.n_together
        groups, members = axes * self._n_parts, n_images // self._n_parts
        target = xp.mean(xp.reshape(variances, (-1, groups, members)), axis=2)
        target = xp.repeat(target, members, axis=1)
        least = xp.reshape(floor, (self._edges.n_apart, 1, n_images))
        least = xp.concat([least] * axes, axis=2) + 0 * xp.reshape(
            target, (self._edges.n_apart, self._edges.size, -1)
        )
        added = self._shrinkage * target + xp.reshape(least, target.shape)
        spread = xp.mean((1 - self._shrinkage) * variances + added, axis=1)
        return added, xp.mean(xp.reshape(spread, (self._edges.n_apart, -1)), axis=0)


@functools.cache
def _positions(n: int) -> backend.Constant:
    """Return where the entries of a matrix stand in its upper triangle; one for all learners.

    A recording reads the copy that the first of them has made.
    """
    position = np.zeros((n, n), dtype=np.int64)
    rows, columns = np.triu_indices(n)
    position[rows, columns] = np.arange(len(rows))
    return backend.Constant(np.maximum(position, position.T).ravel())


def _learned_arrays(
    mean: Array, draws: Array, floor: Array, *, learner: EdgeLearner
) -> tuple[Array, ...]:
    found = learner.learned(mean, draws, floor)
    return found.tensor, found.factor, found.spread


def _constant(matrix: np.ndarray, like: Array) -> Array:
    return backend.namespace(like).astype(backend.from_numpy(matrix, like), like.dtype)
