"""The filtered mode: the most probable z ≥ 0 on the coordinates that are surely active.

Of a non-negative posterior, keep j with P(z_j = 0) < q and set the rest to zero. What
is most probable then solves (Lin, Song, Bilgic & Ba 2022, Appendix C)

    min β‖y − Φz‖² + Σ_j α_j z_j²   over z ≥ 0, z_j = 0 where j is not kept,

a non-negative ridge regression whose ridge α/β is the model's own prior. It is solved
by block principal pivoting (Júdice & Pires 1994, Kim & Park 2011): guess which z_j are
positive, solve the linear system on those, exchange the coordinates that came out with
the wrong sign, repeat. The system is a banded recursion for autoregressive Φ of order
1 and 2 and conjugate gradients for any other.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.convergence import ConvergenceWarning
from cofem.learning.moments.banded import banded_coefficients
from cofem.learning.sites.rectified import probability_of_zero
from cofem.operators import Convolution, Diagonal, LinearOperator
from cofem.result.sampling import MAX_STEPS
from cofem.solvers.banded import factors as banded
from cofem.solvers.cg import Status, solve
from cofem.solvers.systems import ShiftedGram

# How often the exchange of a whole block may fail to reduce the number of wrong signs. After that
# coordinates are exchanged one by one, which is slow and always ends.
PATIENCE = 3
MAX_EXCHANGES = 2000
# A sign counts as wrong only beyond the accuracy of the linear systems: rounding for recursions,
# these relative tolerances for conjugate gradients. They are tighter than for draws, because small
# numbers decide the signs.
RTOL_BANDED, RTOL, RTOL_SINGLE = 1e-12, 1e-10, 1e-5


class Face(NamedTuple):
    """The solution on the coordinates that are assumed positive, and the slope of all coordinates.

    Attributes
    ----------
    z : ndarray (D,)
        Zero outside the assumed coordinates.
    slope : ndarray (D,)
        βΦᵀ(y − Φz) − α∘z: above zero where a larger z_j would be more probable.
    """

    z: np.ndarray
    slope: np.ndarray


def filtered_mode(
    operator: LinearOperator,
    y: Array,
    *,
    precision: Array,
    noise_precision: Any,
    mean: Array,
    variance: Array,
    q: float = 0.05,
) -> Array:
    """Return the most probable z ≥ 0 among those with P(z_j = 0) < q, shape (D,).

    Parameters
    ----------
    operator : LinearOperator
        Φ, shape (N, D).
    y : array (N,)
        The data, real (complex data of real unknowns come with a realified operator).
    precision : array (D,)
        α of the posterior; α/β is the ridge.
    noise_precision : float, or array (N,) for autoregressive operators of order 1 and 2
        β; zero marks a missing sample.
    mean, variance : array (D,)
        Of the Gaussian posterior, before rectification.
    q : float
        The largest probability of being zero at which a coordinate is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Autoregressive
    >>> phi = Autoregressive((0.5,), n=4)
    >>> y = phi.forward(np.array([1.0, 0.0, 2.0, 0.0]))
    >>> filtered_mode(phi, y, precision=np.full(4, 1e-9), noise_precision=1.0,
    ...               mean=np.array([1.0, 0.0, 2.0, 0.0]), variance=np.full(4, 0.1)).round(6)
    array([1., 0., 2., 0.])
    """
    level: Any = q
    if not (isinstance(level, numbers.Real) and 0 < float(level) < 1):
        raise ValueError(f"q must be a number between 0 and 1, got {q!r}")
    if backend.is_complex(y) or backend.is_complex(mean):
        raise ValueError("the filtered mode is of non-negative unknowns: y must be real")
    kept = backend.to_numpy(probability_of_zero(mean, variance)) < q
    if not kept.any():
        return backend.namespace(mean).zeros_like(mean)
    alpha = backend.to_numpy(precision).astype(np.float64)
    coefficients = banded_coefficients(operator)
    if coefficients is not None:
        beta = np.broadcast_to(np.asarray(noise_precision, dtype=np.float64), operator.shape[:1])
        curvature = alpha + _weighted_norms(operator, beta)
        face = _banded_face(coefficients, backend.to_numpy(y), alpha, beta)
        tolerance = RTOL_BANDED
    else:
        if np.ndim(noise_precision) > 0:
            raise ValueError(
                "noise_precision must be one number unless phi is operators.Autoregressive of "
                f"order 1 or 2, got shape {np.shape(noise_precision)}"
            )
        norms = backend.to_numpy(operator.column_norms_squared(mean)).astype(np.float64)
        curvature = noise_precision * norms + alpha
        double = mean.dtype == backend.namespace(mean).float64
        rtol = RTOL if double else RTOL_SINGLE
        face = _general_face(operator, y, precision, noise_precision, curvature, rtol)
        tolerance = 10 * rtol
    z = nonnegative_least_squares(face, kept, curvature, tolerance)
    return backend.namespace(mean).astype(backend.from_numpy(z, mean), mean.dtype)


def nonnegative_least_squares(
    face: Callable[[np.ndarray], Face], kept: np.ndarray, curvature: np.ndarray, tolerance: float
) -> np.ndarray:
    """Find the face on which solution and slope have the right signs.

    Parameters
    ----------
    face : function
        Takes a mask (D,) of the coordinates guessed positive.
    kept : ndarray of bool (D,)
        The coordinates that may be positive.
    curvature : ndarray (D,)
        Diagonal of the matrix: slope/curvature is how far z_j would move alone, which
        counts as nothing below ``tolerance`` of the largest z.

    Examples
    --------
    >>> import numpy as np
    >>> pull = np.array([1.0, -2.0])                     # the matrix is the identity
    >>> identity = lambda free: Face(np.where(free, pull, 0.0), np.where(free, 0.0, pull))
    >>> nonnegative_least_squares(identity, np.array([True, True]), np.ones(2), 1e-12)
    array([1., 0.])
    """
    free = kept.copy()
    fewest, patience = len(kept) + 1, PATIENCE
    for _ in range(MAX_EXCHANGES):
        found = face(free)
        small = tolerance * np.max(np.abs(found.z), initial=0.0)
        wrong = np.where(free, found.z < -small, kept & (found.slope > small * curvature))
        count = int(np.count_nonzero(wrong))
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience > 0:
            patience -= 1
        else:  # Murty's rule: one exchange at a time, always the last wrong coordinate
            last = np.flatnonzero(wrong)[-1]
            wrong = np.zeros_like(wrong)
            wrong[last] = True
        free = free ^ wrong
    else:
        warnings.warn(
            f"the filtered mode has {count} coordinates of the wrong sign after "
            f"{MAX_EXCHANGES} exchanges",
            ConvergenceWarning,
            stacklevel=3,
        )
    clipped: np.ndarray = np.maximum(found.z, 0.0)
    return clipped


def _weighted_norms(operator: Any, beta: np.ndarray) -> np.ndarray:
    """Σ_t β_t Φ_tj² of an autoregressive operator, by one convolution."""
    squares = Convolution(operator.kernel() ** 2, operator.shape[0])
    norms: np.ndarray = np.maximum(squares.adjoint(np.array(beta)), 0.0)
    return norms


def _banded_face(
    coefficients: tuple[float, ...], y: np.ndarray, alpha: np.ndarray, beta: np.ndarray
) -> Callable[[np.ndarray], Face]:
    """One pass of filter and smoother, which gives solution and slope together."""

    def face(free: np.ndarray) -> Face:
        pinned = np.where(free, alpha, np.inf)
        dual = banded.dual(coefficients, y, pinned, beta)
        return Face(np.where(free, dual / alpha, 0.0), np.where(free, 0.0, dual))

    return face


def _general_face(
    operator: LinearOperator,
    y: Array,
    precision: Array,
    noise_precision: float,
    curvature: np.ndarray,
    rtol: float,
) -> Callable[[np.ndarray], Face]:
    """Conjugate gradients on the free coordinates, started at the last solution."""
    xp = backend.namespace(precision)
    pull = noise_precision * operator.adjoint(y)
    diagonal = xp.astype(backend.from_numpy(curvature, precision), precision.dtype)
    last: Any = xp.zeros_like(pull)

    def face(free: np.ndarray) -> Face:
        nonlocal last
        mask = xp.astype(backend.from_numpy(free, precision), precision.dtype)
        matrix = ShiftedGram(operator @ Diagonal(mask), noise_precision, precision)
        found = solve(
            matrix,
            (mask * pull)[None, :],
            start=(mask * last)[None, :],
            preconditioner=diagonal,
            rtol=rtol,
            max_steps=MAX_STEPS,
        )
        worst = Status(int(found.status.max()))
        if worst in (Status.MAX_STEPS, Status.NOT_POSITIVE):
            warnings.warn(f"filtered mode: {worst.message}", ConvergenceWarning, stacklevel=4)
        last = mask * found.x[0, :]
        slope = pull - noise_precision * operator.gram(last)
        outside = backend.to_numpy(slope).astype(np.float64)
        return Face(backend.to_numpy(last).astype(np.float64), np.where(free, 0.0, outside))

    return face
