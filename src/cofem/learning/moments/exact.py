"""Exact posterior moments by factorising a dense matrix: D×D, or N×N by Woodbury.

These are the oracles of everything else, and the fastest way at small sizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments, Report, log_evidence
from cofem.learning.moments.leverage import ExactLeverage
from cofem.model.model import Family
from cofem.operators import Dense, LinearOperator


class _ExactReport(ABC):
    """Nothing is left to estimate: the moments are the report."""

    family: Family

    @abstractmethod
    def moments(
        self,
        alpha: Array,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the exact moments."""

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return the exact variances with zero error."""
        xp = backend.namespace(alpha)
        variance = self._variance(alpha, moments)
        return Report(
            variance=variance,
            variance_error=xp.zeros_like(variance),
            log_evidence=moments.log_evidence,
            log_evidence_error=0.0 if math.isfinite(moments.log_evidence) else math.nan,
        )

    def _variance(self, alpha: Array, moments: Moments) -> Array:
        assert moments.variance is not None
        return moments.variance


class CholeskyEStep(_ExactReport):
    """Σ = (βΦᴴΦ + Rᴴ diag(α) R)⁻¹ through its Cholesky factor: O(D³) time, O(D²) memory.

    Parameters
    ----------
    family : Family
    like : array
        Library, device and dtype of x.
    sparsifier : LinearOperator, optional
        R; None: the identity.
    leverage : bool
        Count directions rather than rows of R in the M-step.
    """

    def __init__(
        self,
        family: Family,
        like: Array,
        sparsifier: LinearOperator | None = None,
        leverage: bool = True,
    ) -> None:
        xp = backend.namespace(like)
        self.family, self._like = family, like
        phi = _double(family.operator.to_dense(like), like)
        beta = family.noise_precision
        self._gram = beta * (_adjoint(phi) @ phi)
        self._eye = xp.eye(phi.shape[1], dtype=phi.dtype, device=backend.device_of(like))
        data = xp.matrix_transpose(xp.astype(family.y, phi.dtype))
        self._rhs = beta * (_adjoint(phi) @ data)  # (D, L)
        self._sparsifier: Array | None = None
        self._leverage: ExactLeverage | None = None
        if sparsifier is not None:
            self._sparsifier = _double(sparsifier.to_dense(like), like)
            self._leverage = ExactLeverage(self._sparsifier) if leverage else None
        self._set_up = _products_of_dense(family)

    def moments(
        self,
        alpha: Array,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the exact moments."""
        xp = backend.namespace(alpha)
        alpha = xp.astype(alpha, xp.float64, copy=False)
        root = self._root(alpha)
        mean = xp.matrix_transpose(_adjoint(root) @ (root @ self._pulled(pull)))
        evidence, count = math.nan, None
        if self._sparsifier is None:
            variance, sparse_mean = xp.sum(backend.abs_squared(root), axis=0), mean
            diagonal = backend.real(xp.linalg.diagonal(root))
            log_det = -2 * float(xp.sum(xp.log(xp.astype(diagonal, xp.float64))))
            evidence = log_evidence(self.family, alpha, mean, log_det)
        else:
            image = root @ _adjoint(self._sparsifier)
            variance = xp.sum(backend.abs_squared(image), axis=0)
            sparse_mean = mean @ xp.matrix_transpose(self._sparsifier)
            if self._leverage is not None:
                count = _real_like(self._leverage(alpha), self._like)
        products, self._set_up = self._set_up, 0
        determined = mean.shape[1] - float(xp.sum(xp.astype(alpha * variance, xp.float64)))
        return Moments(
            mean=xp.astype(mean, self._like.dtype, copy=False),
            variance=_real_like(variance, self._like),
            sparse_mean=xp.astype(sparse_mean, self._like.dtype, copy=False),
            count=count,
            cavity=None if pull is None else _cavity(alpha, variance, self._like),
            freedom=mean.shape[0] * determined,
            log_evidence=evidence,
            products=products,
        )

    def _pulled(self, pull: Array | None) -> Array:
        """Return the right-hand sides (D, L)."""
        if pull is None:
            return self._rhs
        xp = backend.namespace(pull)
        wide = xp.astype(pull, self._rhs.dtype, copy=False)
        if self._sparsifier is not None:
            wide = wide @ backend.conj(self._sparsifier)
        return self._rhs + xp.matrix_transpose(wide)

    def _root(self, alpha: Array) -> Array:
        """Return the inverse of the Cholesky factor: Q⁻¹ = rootᴴ root."""
        if self._sparsifier is None:
            return backend.inverse_cholesky(self._gram + self._eye * alpha)
        weighted = self._sparsifier * backend.namespace(alpha).sqrt(alpha)[:, None]
        try:
            return backend.inverse_cholesky(self._gram + _adjoint(weighted) @ weighted)
        except (ArithmeticError, ValueError, RuntimeError) as error:
            raise ValueError(
                "sparsifier: phi and sparsifier leave a direction of x undetermined "
                "(both map it to zero, or nearly so)"
            ) from error

    def _variance(self, alpha: Array, moments: Moments) -> Array:
        if self._sparsifier is None:
            return super()._variance(alpha, moments)
        xp = backend.namespace(alpha)
        root = self._root(xp.astype(alpha, xp.float64, copy=False))
        return _real_like(xp.sum(backend.abs_squared(root), axis=0), self._like)


class WoodburyEStep(_ExactReport):
    """The same through C_y = I/β + Φ diag(α)⁻¹ Φᴴ: O(N²D + N³) time, O(ND) memory."""

    def __init__(self, family: Family, like: Array) -> None:
        xp = backend.namespace(like)
        self.family, self._like = family, like
        self._phi = _double(family.operator.to_dense(like), like)
        self._norms = xp.sum(backend.abs_squared(self._phi), axis=0)
        n = self._phi.shape[0]
        self._noise = xp.eye(n, dtype=self._phi.dtype, device=backend.device_of(like))
        self._noise = self._noise / family.noise_precision
        self._y = xp.matrix_transpose(xp.astype(family.y, self._phi.dtype))  # (N, L)
        self._set_up = _products_of_dense(family)

    def moments(
        self,
        alpha: Array,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the exact moments."""
        xp = backend.namespace(alpha)
        alpha = xp.astype(alpha, xp.float64, copy=False)
        scaled = self._phi / xp.sqrt(alpha)  # Φ α^-½, so that C_y = I/β + scaled scaledᴴ
        root = backend.inverse_cholesky(self._noise + scaled @ _adjoint(scaled))
        whitened = root @ scaled
        # A pull moves the prior's mean to pull/α. Its image is subtracted from the data first.
        placed = None if pull is None else xp.astype(pull, self._phi.dtype, copy=False) / alpha
        y = self._y
        if placed is not None:
            y = y - self._phi @ xp.matrix_transpose(placed)
        mean = xp.matrix_transpose(_adjoint(whitened) @ (root @ y)) / xp.sqrt(alpha)
        if placed is not None:
            mean = mean + placed
        # h_j = α_j Σ_jj = 1 − ‖whitened_j‖²; it cannot be below its exact bound.
        n, beta = self._phi.shape[0], self.family.noise_precision
        known = xp.sum(backend.abs_squared(whitened), axis=0)
        h = xp.maximum(1 - known, alpha / (alpha + beta * self._norms))
        diagonal = backend.real(xp.linalg.diagonal(root))
        log_det_data = -2 * float(xp.sum(xp.log(xp.astype(diagonal, xp.float64))))
        log_det = log_det_data + float(xp.sum(xp.log(xp.astype(alpha, xp.float64))))
        log_det += n * math.log(beta)
        products, self._set_up = self._set_up, 0
        single = xp.astype(mean, self._like.dtype, copy=False)
        return Moments(
            mean=single,
            variance=_real_like(h / alpha, self._like),
            sparse_mean=single,
            cavity=None if pull is None else _real_like(alpha * known / h, self._like),
            freedom=mean.shape[0] * float(xp.sum(xp.astype(1 - h, xp.float64))),
            log_evidence=log_evidence(self.family, alpha, mean, log_det),
            products=products,
        )


def _cavity(alpha: Array, variance: Array, like: Array) -> Array:
    """Return 1/variance − α, in double precision until the difference is taken."""
    xp = backend.namespace(alpha)
    return _real_like(xp.clip(1 / variance - alpha, min=0.0), like)


def _double(matrix: Array, like: Array) -> Array:
    """Return the matrix in double precision, complex if the unknowns are.

    An exact method promises no error, and a factorisation in single precision fails
    where noise and prior differ by seven orders of magnitude.
    """
    xp = backend.namespace(like)
    convert = backend.complex_dtype if backend.is_complex(like) else backend.real_dtype
    return xp.astype(matrix, convert(xp.float64, xp), copy=False)


def _real_like(x: Array, like: Array) -> Array:
    xp = backend.namespace(like)
    return xp.astype(x, backend.real_dtype(like.dtype, xp), copy=False)


def _products_of_dense(family: Family) -> int:
    """Return how many rows were multiplied to write Φ out as a matrix."""
    return 0 if isinstance(family.operator, Dense) else family.operator.shape[1]


def _adjoint(matrix: Array) -> Array:
    xp = backend.namespace(matrix)
    return backend.conj(xp.matrix_transpose(matrix))
