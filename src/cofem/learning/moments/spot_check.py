"""The mean field looked at in a few places: exact cavities of the largest coefficients.

If columns are coherent, one number for all cavities says of a column's neighbour that the data
determine it, when they hardly do. A few linear systems show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.mean_field import field_factor
from cofem.operators import LinearOperator
from cofem.solvers.cg import solve
from cofem.solvers.systems import Matrix

if TYPE_CHECKING:
    from cofem.learning.moments.covariance_free import CovarianceFreeEStep

# How many coordinates of the support are checked, each with the one whose column is most similar.
LOOKED_AT = 4
# Columns whose similarities differ by less than this share are alike, and the first of them is
# looked at: of a convolution the neighbours on both sides are, and rounding must not choose.
ALIKE = 1e-4
# The relative tolerance of their linear systems, and the most CG steps: as many as a fit may take.
SPOT_RTOL, SPOT_STEPS = 1e-4, 2000


def lowest_ratio(
    operator: LinearOperator,
    system: Callable[[Array], tuple[Matrix, Array | None]],
    alpha: Array,
    field: Array,
    chosen: np.ndarray,
    like: Array,
) -> tuple[float, int]:
    """Return the lowest c_j over cθ_j among a few coordinates, exactly, and the products it took.

    Looked at are the ``chosen`` ones and for each the coordinate whose column is most like its:
    if columns are coherent, such a neighbour is hardly determined at all, but one number for all
    cavities says that it is. ``system`` gives posterior precision and preconditioner at prior
    precisions; ``like`` (D,) has the dtype of the unknowns.

    At a coordinate that is zero α_j may be thousands of times c_j, and the difference 1/Σ_jj − α_j
    would be the rounding of single precision. So the systems are solved with cθ_j in the place of
    α_j at the coordinates looked at, and the true α_j are put back in their block of Σ alone.
    """
    xp = backend.namespace(alpha)
    norms = operator.column_norms_squared(alpha)
    images = operator.gram(_unit_rows(chosen, like))
    products = 2 * len(chosen)
    closeness = xp.abs(images) / xp.sqrt(xp.where(norms > 0, norms, xp.ones_like(norms)))
    apart = 1 - xp.abs(_unit_rows(chosen, like))
    beside = backend.to_numpy(likest(closeness * apart))
    where = np.unique(np.concatenate([chosen, beside]))
    there = backend.from_numpy(where, alpha)
    own = xp.stack([xp.take(alpha, there), xp.take(field, there)])
    own_alpha, expected = backend.to_numpy(own).astype(np.float64)  # one transfer
    seen = expected > 0  # not a column of zeros
    where, own_alpha, expected = where[seen], own_alpha[seen], expected[seen]
    if len(where) == 0:
        return 1.0, products
    rows, there = _unit_rows(where, alpha), backend.from_numpy(where, alpha)
    matrix, preconditioner = system(xp.where(xp.sum(rows, axis=0) > 0, field, alpha))
    blocks = []
    for first in range(0, len(where), LOOKED_AT):  # as many as there are probes, for the memory
        part = where[first : first + LOOKED_AT]
        found = solve(
            matrix, _unit_rows(part, like), preconditioner=preconditioner, rtol=SPOT_RTOL,
            max_steps=SPOT_STEPS,
        )  # fmt: skip
        products += 2 * found.rows
        blocks.append(backend.to_numpy(xp.take(found.x, there, axis=1)))
    return min(_cavities(np.concatenate(blocks), expected, own_alpha) / expected), products


def likest(closeness: Array) -> Array:
    """Return for every row (C, D) of similarities the place of the first that is largest, (C,).

    Examples
    --------
    >>> likest(np.array([[0.1, 0.9, 0.9000001], [0.1, 0.8, 0.9]]))
    array([1, 2])
    """
    xp = backend.namespace(closeness)
    largest = xp.max(closeness, axis=1, keepdims=True)
    found: Array = xp.argmax(xp.astype(closeness >= (1 - ALIKE) * largest, xp.int32), axis=1)
    return found


def _cavities(block: np.ndarray, used: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return c_j of a few coordinates from their block of Σ.

    ``block`` was computed with the prior precisions ``used``; their true ones are ``alpha``.

    Examples
    --------
    >>> known = np.array([[2.0, 1.0], [1.0, 3.0]])  # by data and the other coordinates
    >>> block = np.linalg.inv(known + np.diag([5.0, 5.0]))
    >>> alpha = np.array([1e9, 1.0])
    >>> _cavities(block, np.array([5.0, 5.0]), alpha).round(6)  # 2 − 1/(3 + 1), 3 − 1/(2 + 1e9)
    array([1.75, 3.  ])
    """
    block = block.astype(np.result_type(block.dtype, np.float64))
    known = np.linalg.inv((block + block.conj().T) / 2) - np.diag(used)
    found = np.real(np.diag(known)).copy()
    for j in range(len(found)):
        others = np.arange(len(found)) != j
        beside, rest = known[others, j], known[np.ix_(others, others)] + np.diag(alpha[others])
        found[j] -= np.real(beside.conj() @ np.linalg.solve(rest, beside))
    return found


def _unit_rows(where: np.ndarray, like: Array) -> Array:
    """Return rows of the identity, of the kind of ``like`` (D,)."""
    rows = np.zeros((len(where), like.shape[0]), dtype=backend.to_numpy(like[:1]).dtype)
    rows[np.arange(len(where)), where] = 1.0
    return backend.from_numpy(rows, like)


def lowest_at_end(
    estep: CovarianceFreeEStep, alpha: Array, mean: Array, variance: Array
) -> tuple[float, int]:
    """Return how far the mean field is above the exact cavities of the largest coefficients.

    See :func:`~cofem.learning.moments.spot_check.lowest_ratio`; also the products that took.

    Parameters
    ----------
    mean, variance : arrays (L, D) and (D,)
        Of the posterior at ``alpha``.
    """
    family = estep.family
    theta = family.operator.column_norms_squared(alpha)
    xp = backend.namespace(alpha)
    c = field_factor(alpha, theta, family.noise_precision, xp.sum(alpha * variance))
    power = backend.to_numpy(xp.sum(backend.abs_squared(mean), axis=0) * theta)
    largest = np.sort(np.argsort(-power)[:LOOKED_AT])
    return estep.spot_check(alpha, c * theta, largest)
