"""The regression problem as the fit sees it: centred, weighted, of unit scale, and rotated.

Every feature is centred and brought to unit length, so that units do not matter. Where the
smaller side of X is at most 1024, the rows are then rotated to their singular directions:
the posterior is the same, there are never more rows than features, and the result does not
depend on the order of the samples or on whether a weight of two is written as two rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import scipy.linalg
import scipy.sparse

from cofem import backend
from cofem.operators import Dense, LinearOperator, as_operator
from cofem.operators.norms import estimate_column_norms_squared

# Rows are rotated up to this smaller side, and up to this many numbers (128 MiB).
SMALL, ENTRIES = 1024, 1 << 24
# Less than this share of y outside the range of Φ is rounding.
EXACT = 1e-12
# A column or an output that is so many roundings of its mean or less, once centred, was constant;
# of an operator, whose products round too, this share of its mean.
ROUNDINGS, CONSTANT = 10, 1e-13


@dataclass(frozen=True)
class Design:
    """Φ and y in standard form, and the way back.

    Attributes
    ----------
    operator : LinearOperator (n, D)
        Φ: weighted, centred features of unit length.
    y : array (L, n)
        Weighted, centred outputs of unit power.
    samples : float
        The number of independent samples: Σw, minus one for the intercept.
    outside : array (L,)
        The power of the part of y outside the range of Φ, which these rows no longer hold.
    rotated : bool
        Whether the rows are singular directions.
    center : array (D,)
        What was subtracted from the features; zeros without intercept.
    inverse_scale : array (D,)
        One over the length of every feature; 0 for one that does not vary.
    y_center, y_scale : array (L,)
        What was subtracted from y, and what it was then divided by.
    total_weight : float
        Σw.
    """

    operator: LinearOperator
    y: np.ndarray
    samples: float
    outside: np.ndarray
    rotated: bool
    center: np.ndarray
    inverse_scale: np.ndarray
    y_center: np.ndarray
    y_scale: np.ndarray
    total_weight: float

    @property
    def rank(self) -> int:
        """How many directions the features span, at most."""
        return min(self.operator.shape)

    @property
    def power(self) -> np.ndarray:
        """‖y‖² of every output, shape (L,)."""
        return np.asarray(np.sum(self.y.astype(np.float64) ** 2, axis=1) + self.outside)

    def standardised(self, X: Any) -> LinearOperator:
        """Return new rows in the coordinates of the fit, (M, D)."""
        ones = np.ones(X.shape[0])
        return Standardised(as_operator(X, "X"), ones, self.center, self.inverse_scale)


@final
class Standardised(LinearOperator):
    """√w (X − 1 x̄ᵀ) diag(1/s), without writing it out.

    Parameters
    ----------
    op : LinearOperator (n, D)
    root_weights : array (n,)
        √w.
    center, inverse_scale : array (D,)
        x̄ and 1/s.

    Examples
    --------
    >>> X = Dense(np.array([[1.0, 2.0], [3.0, 2.0]]))
    >>> Standardised(X, np.ones(2), np.array([2.0, 2.0]), np.array([0.5, 1.0])).to_dense()
    array([[-0.5,  0. ],
           [ 0.5,  0. ]])
    """

    splits_rows = False

    def __init__(
        self,
        op: LinearOperator,
        root_weights: np.ndarray,
        center: np.ndarray,
        inverse_scale: np.ndarray,
        norms: np.ndarray | None = None,
    ) -> None:
        self.op, self.shape, self.trusted = op, op.shape, op.trusted
        self.root_weights, self.center, self.inverse_scale = root_weights, center, inverse_scale
        self._norms = norms
        self.exact_column_norms = norms is not None

    def _forward(self, x: Any) -> Any:
        x = x * self.inverse_scale.astype(x.dtype, copy=False)
        shift = x @ self.center.astype(x.dtype, copy=False)
        out = self.op._forward(x) - shift[..., None]
        return out * self.root_weights.astype(x.dtype, copy=False)

    def _adjoint(self, y: Any) -> Any:
        y = y * self.root_weights.astype(y.dtype, copy=False)
        shift = np.sum(y, axis=-1)[..., None] * self.center.astype(y.dtype, copy=False)
        return (self.op._adjoint(y) - shift) * self.inverse_scale.astype(y.dtype, copy=False)

    def _column_norms_squared(self, like: Any) -> Any:
        if self._norms is not None:
            return self._norms
        return estimate_column_norms_squared(self, like)


def standardise(X: Any, Y: np.ndarray, weights: np.ndarray, fit_intercept: bool) -> Design:
    """Centre, weight and scale.

    Parameters
    ----------
    X : array, SciPy sparse array or LinearOperator (n, D)
    Y : array (L, n)
    weights : array (n,)
        All positive.
    fit_intercept : bool
    """
    total = float(np.sum(weights))
    root = np.sqrt(weights)
    y_center = Y.astype(np.float64) @ weights / total if fit_intercept else np.zeros(len(Y))
    y = (Y - y_center[:, None]) * root
    # Rounding errors of a constant are not a signal.
    rounding = ROUNDINGS * np.finfo(Y.dtype).eps * np.abs(y_center) * np.sqrt(total)
    size = np.linalg.norm(y, axis=1)
    size = np.where(size > rounding, size, 0.0)
    samples = total - fit_intercept
    y_scale = np.where(size > 0, size / np.sqrt(samples), 1.0)
    y = np.where(size[:, None] > 0, y / y_scale[:, None], 0.0).astype(Y.dtype)
    make = _dense if isinstance(X, np.ndarray) else _implicit
    operator, center, inverse_scale = make(X, weights, fit_intercept)
    return Design(
        operator=operator,
        y=y,
        samples=samples,
        outside=np.zeros(len(Y)),
        rotated=False,
        center=center,
        inverse_scale=inverse_scale,
        y_center=y_center,
        y_scale=y_scale,
        total_weight=total,
    )


def _dense(
    X: np.ndarray, weights: np.ndarray, fit_intercept: bool
) -> tuple[LinearOperator, np.ndarray, np.ndarray]:
    """Write the standard form out: one copy, and no cancellation later."""
    total, eps = np.sum(weights), np.finfo(X.dtype).eps
    # einsum adds in double precision without a copy of X in it.
    mean = np.einsum("n,nd->d", weights, X, dtype=np.float64) / total
    center = mean if fit_intercept else np.zeros(X.shape[1])
    matrix = X - center.astype(X.dtype)
    if fit_intercept:  # first the mean rounded to the type of X, then the remainder
        rest = np.einsum("n,nd->d", weights, matrix, dtype=np.float64) / total
        matrix -= rest.astype(X.dtype)
        center = center.astype(X.dtype) + rest
    matrix *= np.sqrt(weights)[:, None].astype(X.dtype)
    norms = np.sqrt(np.einsum("nd,nd->d", matrix, matrix, dtype=np.float64))
    inverse_scale = _inverse(norms, ROUNDINGS * eps * np.abs(center) * np.sqrt(total))
    matrix *= inverse_scale.astype(X.dtype)
    return Dense(matrix, name="X"), center, inverse_scale


def _implicit(
    X: Any, weights: np.ndarray, fit_intercept: bool
) -> tuple[LinearOperator, np.ndarray, np.ndarray]:
    """Leave a sparse array or an operator as it is, and correct its products."""
    op, root, total = as_operator(X, "X"), np.sqrt(weights), float(np.sum(weights))
    columns = op.shape[1]
    center = op.adjoint(weights) / total if fit_intercept else np.zeros(columns)
    if scipy.sparse.issparse(X):
        raw = scipy.sparse.csr_array(X).power(2).T @ weights
        norms = np.sqrt(np.clip(raw - total * center**2, 0.0, None))
        inverse_scale = _inverse(norms, np.sqrt(100 * np.finfo(np.float64).eps * raw))
    else:
        centred = Standardised(op, root, center, np.ones(columns))
        norms = np.sqrt(backend.to_numpy(estimate_column_norms_squared(centred, np.empty(0))))
        inverse_scale = _inverse(norms, CONSTANT * np.abs(center) * np.sqrt(total))
    unit = np.where(inverse_scale > 0, 1.0, 0.0)
    return Standardised(op, root, center, inverse_scale, unit), center, inverse_scale


def _inverse(norms: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Return one over the norms; 0 where a feature does not vary but for rounding."""
    varies = norms > rounding
    return np.asarray(np.divide(1.0, norms, out=np.zeros_like(norms), where=varies))


def with_all_samples(design: Design) -> Design:
    """Return the problem with one row for every sample: learning the noise counts the rows.

    To a rotated design, rows without features are added, which share the power outside the range;
    any other design is scaled to a mean weight of one. Samples that only repeat
    others exactly, as weights do, say nothing about the noise and are not counted.
    """
    n, d = design.operator.shape
    count = round(design.samples)
    if design.rotated:
        if count <= n or not np.all(design.outside > EXACT * design.power):
            return design
        missing = np.sqrt(design.outside / (count - n))
        phi = np.concatenate([design.operator.to_dense(), np.zeros((count - n, d))])
        y = np.concatenate([design.y, np.repeat(missing[:, None], count - n, axis=1)], axis=1)
        return replace(design, operator=Dense(phi), y=y, outside=np.zeros(len(y)))
    if abs(count - n) <= 1:
        return design
    factor = float(np.sqrt(n / design.samples))
    return replace(design, operator=factor * design.operator, y=factor * design.y)
