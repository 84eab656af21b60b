"""Few rows in place of many: a design rotated to its singular directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from cofem import backend
from cofem.operators import Dense, LinearOperator
from cofem.sklearn.design import ENTRIES, SMALL, Design

# Singular values below these shares of the largest, times the root of the size, are rounding. Of a
# Gram matrix, which holds their squares, half of the digits are left.
LEAST_SINGULAR, LEAST_OF_GRAM = 1e-14, 1e-8
# Rows multiplied at a time where a product is written out.
BLOCK = 64


def rotate(design: Design) -> Design | None:
    """Rotate the rows to their singular directions; None where that is too large.

    Directions beyond the rank are dropped: what y has there goes to ``outside``.
    """
    n, d = design.operator.shape
    if min(n, d) > SMALL or min(n, d) * d > ENTRIES:
        return None
    y = design.y.astype(np.float64)
    if n > d:
        rows, y, outside = _square(design.operator, y)
    else:
        rows, outside = _rows(design.operator), np.zeros(len(y))
    left, sizes, right = scipy.linalg.svd(rows, full_matrices=False)
    squared = n > d and not isinstance(design.operator, Dense)
    eps = LEAST_OF_GRAM if squared else LEAST_SINGULAR
    kept = int(np.sum(sizes > eps * max(n, d) ** 0.5 * sizes[0])) if sizes[0] > 0 else 0
    right, turned = right[:kept], y @ left[:, :kept]
    # The sign of a singular vector is arbitrary; it is fixed here, whatever the order of the rows.
    largest = np.argmax(np.abs(right), axis=1)
    signs = np.sign(right[np.arange(kept), largest])
    outside = outside + np.clip(np.sum(y**2, axis=1) - np.sum(turned**2, axis=1), 0.0, None)
    phi = (signs * sizes[:kept])[:, None] * right
    # A feature that does not vary stays a column of zeros; rounding must not become a feature.
    phi[:, design.inverse_scale == 0] = 0.0
    if kept == 0:  # no feature varies; an operator has at least one row
        phi, turned = np.zeros((1, d)), np.zeros((len(y), 1))
    else:
        turned = turned * signs
    return replace(design, operator=Dense(phi), y=turned, outside=outside, rotated=True)


def _square(op: LinearOperator, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a D×D matrix with the Gram matrix of Φ, y beside it, and ‖y‖² outside."""
    d = op.shape[1]
    if isinstance(op, Dense):
        both = np.concatenate([backend.to_numpy(op.matrix), y.T], axis=1, dtype=np.float64)
        triangle = scipy.linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)[0]
        return triangle[:d, :d], triangle[:d, d:].T, np.sum(triangle[d:, d:] ** 2, axis=0)
    gram = np.concatenate(
        [op.gram(np.eye(min(BLOCK, d - first), d, first)) for first in range(0, d, BLOCK)]
    )
    values, vectors = scipy.linalg.eigh((gram + gram.T) / 2)
    sizes = np.sqrt(np.clip(values, 0.0, None))
    known = sizes > LEAST_OF_GRAM * np.sqrt(d) * sizes[-1]
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=known)
    turned = (op.adjoint(y) @ vectors) * inverse
    outside = np.sum(y**2, axis=1) - np.sum(turned**2, axis=1)
    return sizes[:, None] * vectors.T, turned, np.clip(outside, 0.0, None)


def _rows(op: LinearOperator) -> np.ndarray:
    """Write the operator out, a few rows at a time."""
    if isinstance(op, Dense):
        return np.asarray(op.matrix, dtype=np.float64)
    n = op.shape[0]
    return np.concatenate(
        [op.adjoint(np.eye(min(BLOCK, n - first), n, first)) for first in range(0, n, BLOCK)]
    )
