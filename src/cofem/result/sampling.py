"""Draws from the posterior and variances of linear maps, by solving linear systems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import reduce
from operator import add

from cofem import backend
from cofem.backend import Array
from cofem.learning.convergence import ConvergenceWarning
from cofem.learning.moments.banded import banded_coefficients, banded_deviations
from cofem.model.model import Task
from cofem.operators import LinearOperator
from cofem.operators.realified import Realified
from cofem.solvers.cg import Status, solve
from cofem.solvers.systems import posterior_precision

# Rows solved at a time; memory is O(D · BLOCK).
BLOCK = 16
# Maps of up to so many rows, or of so many unknowns, have exact variances: one system for each.
EXACT_ROWS = 256
EXACT_UNKNOWNS = 1024
# Draws for the variances of other maps where the user does not say: a relative error of 9 %.
DRAWS = 256
# Relative tolerance of a system, far below the error of a draw, and at least so many roundings.
RTOL, ROUNDINGS = 1e-6, 100
# Steps after which a system counts as not solved; a warning says so.
MAX_STEPS = 20_000


def inverse_of(
    task: Task, alpha: Array, sparsifier: LinearOperator | None
) -> Callable[[Array], Array]:
    """Return b → A⁻¹ b for rows b, to a relative residual of RTOL (1e-5 in single precision)."""
    xp = backend.namespace(alpha)
    eps = float(xp.finfo(alpha.dtype).eps)
    beta = task.noise_precision
    matrix = posterior_precision(task.operator, beta, alpha, sparsifier)
    prior = alpha if sparsifier is None else sparsifier.weighted_column_norms_squared(alpha)
    # Computed once: for an operator given by functions the norms cost products.
    diagonal = beta * task.operator.column_norms_squared(alpha) + prior
    rtol = max(RTOL, ROUNDINGS * eps)

    def inverse(rhs: Array) -> Array:
        found = solve(matrix, rhs, preconditioner=diagonal, rtol=rtol, max_steps=MAX_STEPS)
        worst = Status(int(found.status.max()))
        if worst in (Status.MAX_STEPS, Status.NOT_POSITIVE):
            warnings.warn(f"a linear system: {worst.message}", ConvergenceWarning, stacklevel=2)
        return found.x

    return inverse


def deviations(
    task: Task,
    alpha: Array,
    n: int,
    *,
    seed: int,
    like: Array,
    stream: int = 0,
    sparsifier: LinearOperator | None = None,
) -> Array:
    """Draw n samples of N(0, Q⁻¹), shape (n, D).

    b = βΦᴴε + Rᴴ(√α∘η) with ε ~ N(0, I/β), η ~ N(0, I) has covariance Q, so Q⁻¹b has
    covariance Q⁻¹ (Papandreou & Yuille 2010).
    """
    xp = backend.namespace(like)
    if sparsifier is None and banded_coefficients(task.operator) is not None:
        return banded_deviations(task, alpha, n, seed=seed, like=like, stream=stream)
    n_rows = task.operator.shape[0]
    random = backend.Random(seed, stream)
    root, inverse = xp.sqrt(alpha), inverse_of(task, alpha, sparsifier)
    parts = []
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        noise = random.normal((size, n_rows), _like_data(task, like))
        prior = root * random.normal((size, alpha.shape[0]), like)
        prior = prior if sparsifier is None else sparsifier.adjoint(prior)
        rhs = task.noise_precision**0.5 * task.operator.adjoint(noise) + prior
        parts.append(inverse(xp.astype(rhs, like.dtype, copy=False)))
    return xp.concat(parts)


def _like_data(task: Task, like: Array) -> Array:
    """Return an array like the data: complex noise for complex data."""
    return task.y if backend.is_complex(task.y) else like


def variance_of_map(
    task: Task,
    alpha: Array,
    op: LinearOperator,
    *,
    like: Array,
    n_samples: int,
    seed: int,
    sparsifier: LinearOperator | None = None,
) -> Array:
    """Return diag(B Q⁻¹ Bᴴ) for the operator B = ``op``, shape (M,)."""
    if op.is_complex and not backend.is_complex(like):
        halves = variance_of_map(
            task,
            alpha,
            Realified(op),
            like=like,
            n_samples=n_samples,
            seed=seed,
            sparsifier=sparsifier,
        )
        return (halves[: op.shape[0]] + halves[op.shape[0] :]) / 2
    n_rows, n_columns = op.shape
    if n_rows <= EXACT_ROWS:
        return _by_rows(op, like, inverse_of(task, alpha, sparsifier))
    if n_columns <= EXACT_UNKNOWNS:
        return _by_factor(task, alpha, op, like, sparsifier)
    blocks = (
        deviations(
            task, alpha, min(BLOCK, n_samples - first),
            seed=seed, stream=first, like=like, sparsifier=sparsifier,
        )
        for first in range(0, n_samples, BLOCK)
    )  # fmt: skip
    return _sum_of_squares(op, blocks) / n_samples


def _sum_of_squares(op: LinearOperator, blocks: Iterable[Array]) -> Array:
    """Apply the map to the rows of every block, and sum |·|² over all rows: (M,)."""
    images = (backend.abs_squared(op.forward(rows)) for rows in blocks)
    return reduce(add, (backend.namespace(image).sum(image, axis=0) for image in images))


def _by_rows(op: LinearOperator, like: Array, inverse: Callable[[Array], Array]) -> Array:
    """One solve for every row of the map."""
    xp = backend.namespace(like)
    eye = xp.eye(op.shape[0], dtype=like.dtype, device=backend.device_of(like))
    parts = []
    for first in range(0, op.shape[0], BLOCK):
        rows = op.adjoint(eye[first : min(first + BLOCK, op.shape[0]), :])
        if backend.is_complex(rows) and not backend.is_complex(like):
            # A complex map of real unknowns: the variances of real and imaginary part add up.
            pieces = [xp.real(rows), xp.imag(rows)]
        else:
            pieces = [xp.astype(rows, like.dtype, copy=False)]
        parts.append(
            sum(
                xp.sum(backend.real(backend.conj(piece) * inverse(piece)), axis=1)
                for piece in pieces
            )
        )
    return xp.clip(xp.concat(parts), min=0.0)


def _by_factor(
    task: Task, alpha: Array, op: LinearOperator, like: Array, sparsifier: LinearOperator | None
) -> Array:
    """Q⁻¹ = LᴴL for few unknowns, and the map applied to every row of L."""
    xp = backend.namespace(like)
    n = op.shape[1]
    eye = xp.eye(n, dtype=like.dtype, device=backend.device_of(like))
    matrix = posterior_precision(task.operator, task.noise_precision, alpha, sparsifier).product(
        eye
    )
    root = backend.conj(backend.inverse_cholesky(xp.matrix_transpose(matrix)))
    return _sum_of_squares(op, (root[i : min(i + BLOCK, n), :] for i in range(0, n, BLOCK)))
