"""The posterior precision of the image, as products, solves and draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.linalg import CGResult, solve
from cofem.mri.edge_prior import EdgePrior
from cofem.mri.edges import Edges
from cofem.mri.encoding import Encoding


@dataclass(frozen=True)
class ImagePrecision:
    """Q = factor ∘ ΦᴴΦ + strength · Rᵀ T R on rows (S, I·P).

    It has the face that :func:`cofem.linalg.solve` knows: ``bulk``, ``diagonal``, …

    Attributes
    ----------
    encoding : Encoding
    edges : Edges
    prior : EdgePrior
    factor : array (I, 1)
        Of ΦᴴΦ, in the precision that solves are to have.
    strength : float
        Of the prior.
    """

    encoding: Encoding
    edges: Edges
    prior: EdgePrior
    factor: Array
    strength: float = 1.0
    scale: float = 1.0

    splits_rows = True

    @cached_property
    def tensor(self) -> Array:
        """T times the strength."""
        return self.prior.tensor if self.strength == 1 else self.strength * self.prior.tensor

    @cached_property
    def _packed(self) -> Array:
        return self.edges.packed(self.tensor)

    @cached_property
    def preconditioner(self) -> Array:
        """The diagonal of Q, (I·P,)."""
        xp = backend.namespace(self.factor)
        data = self.factor * xp.astype(self.encoding.diagonal(), self.factor.dtype)
        return xp.reshape(data + self.edges.diagonal(self.tensor), (-1,))

    @cached_property
    def diagonal(self) -> Array:
        """Zeros: all of Q is in its bulk."""
        return 0 * self.preconditioner

    def bulk(self, rows: Array) -> Array:
        """Q x for every row."""
        xp = backend.namespace(rows)
        x = self.images(rows)
        out = self.edges.add_prior(x, self._packed, self.encoding.gram(x, self.factor))
        return xp.reshape(out, rows.shape)

    product = bulk

    def with_unit_scale(self) -> ImagePrecision:
        """Return itself: the scale is one."""
        return self

    def images(self, rows: Array) -> Array:
        """Return rows (S, I·P) as (S, I, P)."""
        shape = (rows.shape[0], self.edges.n_images, self.edges.size)
        return backend.namespace(rows).reshape(rows, shape)

    def prior_force(self, rows: Array) -> Array:
        """Rᵀ T R x for every row."""
        xp = backend.namespace(rows)
        x = self.images(rows)
        return xp.reshape(self.edges.add_prior(x, self._packed, xp.zeros_like(x)), rows.shape)

    def size(self, row: Array) -> float:
        """Return the norm of a row (1, I·P) in the norm of M⁻¹."""
        xp = backend.namespace(row)
        squared = xp.sum(backend.abs_squared(row) / self.preconditioner[None, :])
        return math.sqrt(float(squared))

    def solve(
        self, rhs: Array, start: Array | None, rtol: float | np.ndarray, max_steps: int
    ) -> CGResult:
        """Solve Q x = b for every row b."""
        face: Any = self
        return solve(
            face,
            rhs,
            preconditioner=self.preconditioner,
            start=start,
            rtol=rtol,
            max_steps=max_steps,
        )

    def pushes(self, random: Random, number: int, like: Array) -> Array:
        """Draw from N(0, Q), (number, I·P): solved with Q they are draws from N(0, Q⁻¹)."""
        xp = backend.namespace(like)
        noise = self.encoding.draw(random, number, self.factor)
        white = random.normal((number, self.edges.size, self.edges.n_components), like)
        inner = apply_at_pixels(self.prior.factor, white)
        if self.strength != 1:
            inner = self.strength**0.5 * inner
        return xp.reshape(noise + self.edges.adjoint(inner), (number, -1))


def apply_at_pixels(matrices: Array, vectors: Array) -> Array:
    """Multiply (S, P, n) by a matrix (P, n, n) at every pixel."""
    xp = backend.namespace(matrices)
    columns = xp.matmul(matrices[None, ...], vectors[..., None])
    return columns[..., 0]
