"""The posterior precision of the image, as products, solves and draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.image.edge_prior import EdgePrior
from cofem.mri.image.edges import Edges
from cofem.mri.image.phase_field import PhaseBlock
from cofem.mri.scanner.encoding import Encoding
from cofem.solvers import CGResult, solve
from cofem.solvers.systems import Bulk


@dataclass(frozen=True)
class _Packed:
    """What products need of a prior."""

    packed: Array


@dataclass(frozen=True)
class ImagePrecision:
    """Q = factor ∘ ΦᴴΦ + Rᵀ T R on rows (S, I·P).

    It has the face that :func:`cofem.solvers.solve` knows: ``bulk``, ``diagonal``, …

    Attributes
    ----------
    encoding : Encoding
    edges : Edges
    prior : EdgePrior
    factor : array (I, 1)
        Of ΦᴴΦ, in the precision that solves are to have.
    """

    encoding: Encoding
    edges: Edges
    prior: EdgePrior | _Packed
    factor: Array
    scale: float = 1.0
    phase: PhaseBlock | None = None

    splits_rows = True

    @cached_property
    def _packed(self) -> Array:
        if isinstance(self.prior, _Packed):
            return self.prior.packed
        return self.edges.packed(self.prior.tensor)

    @cached_property
    def preconditioner(self) -> Array:
        """The diagonal of Q, (I·P,)."""
        xp = backend.namespace(self.factor)
        assert isinstance(self.prior, EdgePrior)
        data = self.factor * xp.astype(self.encoding.diagonal(), self.factor.dtype)
        diagonal = xp.reshape(data + self.edges.diagonal(self.prior.tensor), (-1,))
        if self.phase is None:
            return diagonal
        half = data.shape[0] // 2
        return xp.concat([diagonal, self.phase.diagonal(data[:half, :])])

    @cached_property
    def diagonal(self) -> Array:
        """Zeros: all of Q is in its bulk."""
        return 0 * self.preconditioner

    def bulk(self, rows: Array) -> Array:
        """Q x for every row."""
        xp = backend.namespace(rows)
        x, phase = self.images(rows), self.phase
        if phase is None:
            data = self.encoding.gram(x, self.factor)
            return xp.reshape(self.edges.add_prior(x, self._packed, data), rows.shape)
        own = phase.unmixed(rows[:, self._pixels :])
        data = self.encoding.gram(self._with_turn(x, own), self.factor)
        more = phase.adjoint(data[:, self._half :, :])  # before the prior is added, in place
        out = xp.reshape(self.edges.add_prior(x, self._packed, data), (rows.shape[0], -1))
        return xp.concat([out, phase.mixed(more + own)], axis=1)

    product = bulk

    def bulk_parts(self) -> Bulk:
        """Return what :meth:`bulk` is made of: what changes between iterations is its input."""
        phase, encoding, edges = self.phase, self.encoding, self.edges
        waves = () if phase is None else (phase.waves.kind, phase.mix is not None)
        moving = encoding.moving(self.factor)
        inputs = [self.factor, self._packed, *moving]
        if phase is not None:
            inputs += [phase.sizes, phase.magnitude, *([] if phase.mix is None else [phase.mix])]

        def apply(rows: Array, factor: Array, packed: Array, *more: Array) -> Array:
            own = phase
            if own is not None:
                fields = more[len(moving) :]
                mix = None if own.mix is None else fields[2]
                own = PhaseBlock(own.waves, fields[0], fields[1], own.pull, mix)
            at = encoding.moved(more[: len(moving)])
            return ImagePrecision(at, edges, _Packed(packed), factor, phase=own).bulk(rows)

        return Bulk((), tuple(inputs), apply, (encoding.kind, edges.kind, waves))

    def with_unit_scale(self) -> ImagePrecision:
        """Return itself: the scale is one."""
        return self

    def in_single_precision(self) -> ImagePrecision:
        """Return itself: ``factor`` and the prior are in single precision while learning."""
        return self

    @property
    def _pixels(self) -> int:
        return self.edges.n_images * self.edges.size

    @property
    def _half(self) -> int:
        return self.edges.n_images // 2

    def images(self, rows: Array) -> Array:
        """Return the images of rows as (S, I, P), the phase's part left out."""
        shape = (rows.shape[0], self.edges.n_images, self.edges.size)
        xp = backend.namespace(rows)
        if self.phase is not None:
            rows = rows[:, : self._pixels]
            if backend.is_numpy(rows):
                rows = np.ascontiguousarray(rows)
        return xp.reshape(rows, shape)

    def turned(self, rows: Array) -> Array:
        """Return the images (S, I, P) with what the phase's part adds to them."""
        own = None if self.phase is None else self.phase.unmixed(rows[:, self._pixels :])
        return self._with_turn(self.images(rows), own)

    def _with_turn(self, x: Array, own: Array | None) -> Array:
        if self.phase is None or own is None:
            return x
        if backend.is_numpy(x):
            out = x.copy()
            out[:, self._half :, :] += self.phase.added(own)
            return out
        xp = backend.namespace(x)
        imaginary = x[:, self._half :, :] + self.phase.added(own)
        return xp.concat([x[:, : self._half, :], imaginary], axis=1)

    def coefficients(self, rows: Array) -> Array:
        """Return the phase's part of rows."""
        return rows[:, self._pixels :]

    def pulled(self, data: Array) -> Array:
        """Return right-hand sides for pulls (S, I, P) of the data on the images."""
        xp = backend.namespace(data)
        out = xp.reshape(data, (data.shape[0], -1))
        if self.phase is None:
            return out
        more = self.phase.mixed(self.phase.adjoint(data[:, self._half :, :])) + self.phase.pull
        return xp.concat([out, more], axis=1)

    def row_of(self, image: Array) -> Array:
        """Return images (I, P) as a row, with no turn."""
        xp = backend.namespace(image)
        row = xp.reshape(image, (1, -1))
        return row if self.phase is None else xp.concat([row, 0 * self.phase.pull], axis=1)

    def prior_force(self, rows: Array) -> Array:
        """Rᵀ T R x for every row, and the phase's own."""
        xp = backend.namespace(rows)
        x = self.images(rows)
        out = self.edges.add_prior(x, self._packed, xp.zeros_like(x))
        out = xp.reshape(out, (rows.shape[0], -1))
        if self.phase is None:
            return out
        return xp.concat([out, self.phase.prior_force(rows[:, self._pixels :])], axis=1)

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
        data, prior = self.pushes_apart(random, number, like)
        return data + prior

    def pushes_apart(self, random: Random, number: int, like: Array) -> tuple[Array, Array]:
        """Draw the parts of :meth:`pushes` that come from the data and from the prior."""
        xp = backend.namespace(like)
        noise = self.encoding.draw(random, number, self.factor)
        assert isinstance(self.prior, EdgePrior)
        white = random.normal((number, *self.prior.factor.shape[:2]), like)
        inner = apply_at_pixels(self.prior.factor, white)
        prior = xp.reshape(self.edges.adjoint(inner), (number, -1))
        data = xp.reshape(noise, (number, -1))
        if self.phase is None:
            return data, prior
        own = self.phase.pushes(random, number, like)
        more = self.phase.mixed(self.phase.adjoint(noise[:, self._half :, :]))
        return xp.concat([data, more], axis=1), xp.concat([prior, own], axis=1)


def apply_at_pixels(matrices: Array, vectors: Array) -> Array:
    """Multiply (S, P, n) by a matrix (P, n, n) at every pixel."""
    xp = backend.namespace(matrices)
    columns = xp.matmul(matrices[None, ...], vectors[..., None])
    return columns[..., 0]
