"""Exact posterior moments by factorising a dense matrix: D×D, or N×N by Woodbury.

These are the oracles of everything else, and the fastest way at small sizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Task
from cofem.inference.moments import Moments, Report, log_evidence
from cofem.operators import Dense


class _ExactReport(ABC):
    """Nothing is left to estimate: the moments are the report."""

    task: Task

    @abstractmethod
    def moments(self, alpha: Array, start: Array | None, iteration: int, last: bool) -> Moments:
        """Return the exact moments."""

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return the exact variances with zero error."""
        xp = backend.namespace(alpha)
        return Report(
            variance=moments.variance,
            variance_error=xp.zeros_like(alpha),
            log_evidence=moments.log_evidence,
            log_evidence_error=0.0,
        )


class CholeskyEStep(_ExactReport):
    """Σ = (βΦᴴΦ + diag α)⁻¹ through its Cholesky factor: O(D³) time, O(D²) memory."""

    def __init__(self, task: Task, like: Array) -> None:
        xp = backend.namespace(like)
        self.task, self._like = task, like
        phi = _double(task.operator.to_dense(like), like)
        self._gram = task.noise_precision * (_adjoint(phi) @ phi)
        self._eye = xp.eye(phi.shape[1], dtype=phi.dtype, device=backend.device_of(like))
        self._rhs = task.noise_precision * (_adjoint(phi) @ xp.astype(task.y, phi.dtype))
        self._set_up = _products_of_dense(task)

    def moments(self, alpha: Array, start: Array | None, iteration: int, last: bool) -> Moments:
        """Return the exact moments."""
        xp = backend.namespace(alpha)
        alpha = xp.astype(alpha, xp.float64, copy=False)
        root = backend.inverse_cholesky(self._gram + self._eye * alpha)  # A⁻¹ = rootᴴ root
        mean = _adjoint(root) @ (root @ self._rhs)
        variance = xp.sum(backend.abs_squared(root), axis=0)
        diagonal = backend.real(xp.linalg.diagonal(root))
        log_det = -2 * float(xp.sum(xp.log(xp.astype(diagonal, xp.float64))))
        products, self._set_up = self._set_up, 0
        return Moments(
            mean=xp.astype(mean, self._like.dtype, copy=False),
            variance=_real_like(variance, self._like),
            freedom=float(xp.sum(xp.astype(1 - alpha * variance, xp.float64))),
            log_evidence=log_evidence(self.task, alpha, mean, log_det),
            products=products,
        )


class WoodburyEStep(_ExactReport):
    """The same through C_y = I/β + Φ diag(α)⁻¹ Φᴴ: O(N²D + N³) time, O(ND) memory."""

    def __init__(self, task: Task, like: Array) -> None:
        xp = backend.namespace(like)
        self.task, self._like = task, like
        self._phi = _double(task.operator.to_dense(like), like)
        self._norms = xp.sum(backend.abs_squared(self._phi), axis=0)
        n = self._phi.shape[0]
        self._noise = xp.eye(n, dtype=self._phi.dtype, device=backend.device_of(like))
        self._noise = self._noise / task.noise_precision
        self._y = xp.astype(task.y, self._phi.dtype)
        self._set_up = _products_of_dense(task)

    def moments(self, alpha: Array, start: Array | None, iteration: int, last: bool) -> Moments:
        """Return the exact moments."""
        xp = backend.namespace(alpha)
        alpha = xp.astype(alpha, xp.float64, copy=False)
        scaled = self._phi / xp.sqrt(alpha)  # Φ α^-½, so that C_y = I/β + scaled scaledᴴ
        root = backend.inverse_cholesky(self._noise + scaled @ _adjoint(scaled))
        whitened = root @ scaled
        mean = (_adjoint(whitened) @ (root @ self._y)) / xp.sqrt(alpha)
        # h_j = α_j Σ_jj = 1 − ‖whitened_j‖²; it cannot be below its exact bound.
        h = 1 - xp.sum(backend.abs_squared(whitened), axis=0)
        h = xp.maximum(h, alpha / (alpha + self.task.noise_precision * self._norms))
        diagonal = backend.real(xp.linalg.diagonal(root))
        log_det_data = -2 * float(xp.sum(xp.log(xp.astype(diagonal, xp.float64))))
        n, beta = self._phi.shape[0], self.task.noise_precision
        log_det = log_det_data + float(xp.sum(xp.log(xp.astype(alpha, xp.float64))))
        log_det += n * math.log(beta)
        products, self._set_up = self._set_up, 0
        return Moments(
            mean=xp.astype(mean, self._like.dtype, copy=False),
            variance=_real_like(h / alpha, self._like),
            freedom=float(xp.sum(xp.astype(1 - h, xp.float64))),
            log_evidence=log_evidence(self.task, alpha, mean, log_det),
            products=products,
        )


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


def _products_of_dense(task: Task) -> int:
    """Return how many rows were multiplied to write Φ out as a matrix."""
    return 0 if isinstance(task.operator, Dense) else task.operator.shape[1]


def _adjoint(matrix: Array) -> Array:
    xp = backend.namespace(matrix)
    return backend.conj(xp.matrix_transpose(matrix))
