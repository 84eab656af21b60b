"""The variance of predictions, and the evidence of what a design left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from cofem import backend
from cofem.operators import LinearOperator
from cofem.result.posterior import Posterior
from cofem.result.sampling import inverse_of
from cofem.sklearn.design import SMALL, Design

# Numbers in one block of rows: 32 MiB.
BLOCK = 1 << 22


def variance_of_rows(X: Any, design: Design, post: Posterior, output: int) -> np.ndarray:
    """Return the variance of (x − x̄)ᵀw/s for every row x of X, shape (M,).

    Exact where the design is rotated. Otherwise :meth:`Posterior.variance_of`: exact to the
    solver's tolerance for up to 256 rows, from 256 draws for more (the same in every call;
    the standard error of a standard deviation is 4 %). Non-negative weights count as
    independent, as they do in that posterior.
    """
    if post.nonnegative:
        spread = post.variance[output]
        return np.concatenate([rows**2 @ spread for rows in _blocks(X, design)])
    if not design.rotated:
        return np.asarray(_one_output(post, output).variance_of(design.standardised(X)))
    root, narrow = _factor(design, post, output)
    parts = [np.sum((rows @ root.T) ** 2, axis=1) for rows in _blocks(X, design)]
    if narrow:
        return np.concatenate(parts)
    prior = [rows**2 @ (1 / post.precision) for rows in _blocks(X, design)]
    return np.asarray(np.clip(np.concatenate(prior) - np.concatenate(parts), 0.0, None))


def covariance_of_rows(X: Any, design: Design, post: Posterior, output: int) -> np.ndarray:
    """Return how (x − x̄)ᵀw/s of the rows x of X vary together, shape (M, M).

    Exact, to the solver's tolerance: one linear system for every row where the design is not
    rotated.
    """
    rows = np.concatenate([*_blocks(X, design)])
    if post.nonnegative:
        return np.asarray((rows * post.variance[output]) @ rows.T)
    if not design.rotated:
        one = _one_output(post, output)
        solved = inverse_of(one.tasks[0], one.precision, None)(rows.astype(design.y.dtype))
        found = rows @ solved.T
        return np.asarray((found + found.T) / 2)
    root, narrow = _factor(design, post, output)
    image = rows @ root.T
    if narrow:
        return np.asarray(image @ image.T)
    return np.asarray((rows / post.precision) @ rows.T - image @ image.T)


def _one_output(post: Posterior, output: int) -> Posterior:
    """Return the posterior of one output."""
    return replace(
        post,
        gaussian_mean=post.gaussian_mean[output],
        gaussian_variance=post.gaussian_variance[output],
        variance_error=post.variance_error[output],
        noise_precision=float(post.noise_precision[output]),
        tasks=(post.tasks[output],),
        marginals=None,
    )


def _factor(design: Design, post: Posterior, output: int) -> tuple[np.ndarray, bool]:
    """Return F with Σ = FᵀF, and True; or with Σ = α⁻¹ − FᵀF, and False."""
    phi, alpha = backend.to_numpy(design.operator.to_dense()), backend.to_numpy(post.precision)
    beta = float(post.noise_precision[output])
    if phi.shape[1] <= SMALL:
        return backend.inverse_cholesky(beta * phi.T @ phi + np.diag(alpha)), True
    # Woodbury: Σ = α⁻¹ − α⁻¹Φᵀ (I/β + Φα⁻¹Φᵀ)⁻¹ Φα⁻¹.
    scaled = phi / alpha
    return backend.inverse_cholesky(np.eye(len(phi)) / beta + scaled @ phi.T) @ scaled, False


def _blocks(X: Any, design: Design) -> Iterator[np.ndarray]:
    """Write rows out in the design's coordinates, a block at a time."""
    count, d = X.shape
    step = max(1, BLOCK // d)
    for first in range(0, count, step):
        last = min(first + step, count)
        if isinstance(X, LinearOperator):
            rows = X.adjoint(np.eye(last - first, count, first))
        elif scipy.sparse.issparse(X):
            rows = X[first:last].toarray()
        else:
            rows = X[first:last]
        yield (rows - design.center) * design.inverse_scale


def evidence_elsewhere(design: Design, post: Posterior) -> float:
    """Return what the fit's log evidence lacks: dropped rows, the intercept, and units."""
    beta = np.asarray(post.noise_precision)
    if len(post.tasks[0].y) != design.operator.shape[0]:  # all samples had their row
        design = replace(design, operator=post.tasks[0].operator, outside=np.zeros(len(beta)))
    dropped = design.samples - design.operator.shape[0]
    noise = dropped * np.log(2 * math.pi / beta) + beta * design.outside
    return float(np.sum(-0.5 * noise - design.samples * np.log(design.y_scale)))


def observed_variance(model: Any, X: Any, output: int, noise: bool = True) -> np.ndarray:
    """Return the variance of new observations of one output of a fitted regressor."""
    design, beta = model._design, model._beta[output]
    if not np.isfinite(beta):  # it never varied
        return np.zeros(X.shape[0])
    variance = variance_of_rows(X, design, model._post, output) * design.y_scale[output] ** 2
    return np.asarray(variance + (noise + _share(model)) / beta)


def observed_covariance(model: Any, X: Any, output: int) -> np.ndarray:
    """Return the covariance of new observations of one output of a fitted regressor."""
    design, beta, n = model._design, model._beta[output], X.shape[0]
    if not np.isfinite(beta):
        return np.zeros((n, n))
    found = covariance_of_rows(X, design, model._post, output) * design.y_scale[output] ** 2
    return np.asarray(found + (np.eye(n) + _share(model)) / beta)


def _share(model: Any) -> float:
    """Return the intercept's own part of the noise variance."""
    return bool(model.fit_intercept) / float(model._design.total_weight)
