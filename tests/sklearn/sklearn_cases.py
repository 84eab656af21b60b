"""Regressions with their dense posterior, and the kinds of X that the regressor takes."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from cofem.operators import as_operator, from_functions


def problem(seed, n=60, d=12, outputs=None, noise=0.3):
    """Correlated features of very different units, some of them irrelevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    X = (X + rng.normal(size=d)) * np.exp(rng.normal(size=d))
    shape = (d,) if outputs is None else (d, outputs)
    w = rng.normal(size=shape) * (np.arange(d) < d // 3).reshape(-1, *[1] * (len(shape) - 1))
    y = X @ w + 2.0
    y = y + noise * y.std() * rng.normal(size=y.shape)
    return X, y, w


def flat_intercept_posterior(model, X, weights):
    """Mean map and covariance of (w, intercept) at the α and β that the model reports.

    The intercept is one more column with no prior at all.
    """
    alpha, beta = model.precision_, model.noise_precision_
    full = np.column_stack([X, np.ones(len(X))]) if model.fit_intercept else X
    alpha = np.append(alpha, 0.0) if model.fit_intercept else alpha
    scale = np.linalg.norm(full, axis=0)
    scaled = full / scale
    precision = beta * scaled.T @ (weights[:, None] * scaled) + np.diag(alpha / scale**2)
    covariance = np.linalg.inv(precision) / np.outer(scale, scale)
    return covariance, beta * covariance @ (full.T * weights)


def as_is(X):
    return X


def through_functions(X):
    return from_functions(lambda z: z @ X.T, lambda y: y @ X, X.shape, float)


KINDS = {
    "dense": as_is,
    "csr": scipy.sparse.csr_array,
    "csc matrix": scipy.sparse.csc_matrix,
    "operator": as_operator,
    "functions": through_functions,
    "scipy operator": scipy.sparse.linalg.aslinearoperator,
}
