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


def looked_at(probability: np.ndarray) -> np.ndarray:
    """Return which coordinates are looked at: some of those that are probably not zero, (C,).

    With P problems ``probability`` (P, D) has a row for each, and what is returned a column (C, P);
    -1 where a problem has fewer such coordinates than the others.

    Examples
    --------
    >>> looked_at(np.array([[0.9, 0.1, 0.8], [0.1, 0.1, 0.9]])).tolist()
    [[0, 2], [2, -1]]
    """
    found = []
    for row in probability.reshape(-1, probability.shape[-1]):
        likely = np.flatnonzero(row > 0.5)
        random = np.random.default_rng(len(likely))
        found.append(np.sort(random.choice(likely, min(LOOKED_AT, len(likely)), replace=False)))
    chosen = np.full((max(map(len, found)), len(found)), -1)
    for p, own in enumerate(found):
        chosen[: len(own), p] = own
    return chosen[:, 0] if probability.ndim == 1 else chosen


def lowest_ratio(
    operator: LinearOperator,
    system: Callable[[Array], tuple[Matrix, Array | None]],
    alpha: Array,
    field: Array,
    chosen: np.ndarray,
    like: Array,
) -> tuple[float, int]:
    """Return the lowest c_j over cθ_j among a few coordinates, exactly, and the products it took.

    Of one problem: ``alpha`` and ``field`` are (D,), ``chosen`` (C,). See :func:`lowest_ratios`.
    """
    alone = alpha[None, :], field[None, :], np.asarray(chosen, dtype=int)[:, None]
    lowest, products = lowest_ratios(operator, system, *alone, like)
    return float(lowest[0]), products


def lowest_ratios(
    operator: LinearOperator,
    system: Callable[[Array], tuple[Matrix, Array | None]],
    alpha: Array,
    field: Array,
    chosen: np.ndarray,
    like: Array,
) -> tuple[np.ndarray, int]:
    """Return the lowest c_j over cθ_j among a few coordinates of each of P problems, (P,).

    And the products it took. Looked at are the ``chosen`` ones (C, P; -1 for none) and for each the
    coordinate whose column is most like its: if columns are coherent, such a neighbour is hardly
    determined at all, but one number for all cavities says that it is. ``alpha`` and ``field`` are
    (P, D); ``system`` gives posterior precision and preconditioner of all problems at prior
    precisions (P·D,); ``like`` (D,) has the dtype of the unknowns.

    At a coordinate that is zero α_j may be thousands of times c_j, and the difference 1/Σ_jj − α_j
    would be the rounding of single precision. So the systems are solved with cθ_j in the place of
    α_j at the coordinates looked at, and the true α_j are put back in their block of Σ alone.
    """
    xp, number = backend.namespace(alpha), chosen.shape[1]
    lowest = np.ones(number)
    if chosen.size == 0:
        return lowest, 0
    norms = operator.column_norms_squared(alpha)
    rows = _unit_rows(chosen.reshape(-1), like)
    closeness = xp.abs(operator.gram(rows)) / xp.sqrt(
        xp.where(norms > 0, norms, xp.ones_like(norms))
    )
    beside = backend.to_numpy(likest(closeness * (1 - xp.abs(rows)))).reshape(chosen.shape)
    products = 2 * chosen.size
    where = np.sort(np.concatenate([chosen, np.where(chosen < 0, -1, beside)]), axis=0)
    own_alpha, expected = _entries(xp.stack([alpha, field]), where)
    used = (where >= 0) & (expected > 0)  # not a column of zeros
    used[1:] &= where[1:] != where[:-1]  # no coordinate twice
    some = np.any(used, axis=1)
    where, used, own_alpha, expected = (x[some] for x in (where, used, own_alpha, expected))
    if len(where) == 0:
        return lowest, products
    where = np.where(used, where, -1)
    there = xp.zeros_like(alpha) > 0
    for place in where:
        there = there | (_unit_rows(place, alpha) > 0)
    matrix, preconditioner = system(xp.reshape(xp.where(there, field, alpha), (-1,)))
    blocks = []
    for first in range(0, len(where), LOOKED_AT):  # as many as there are probes, for the memory
        part = where[first : first + LOOKED_AT]
        found = solve(
            matrix, xp.reshape(_unit_rows(part.reshape(-1), like), (len(part), -1)),
            preconditioner=preconditioner, rtol=SPOT_RTOL, max_steps=SPOT_STEPS,
        )  # fmt: skip
        products += 2 * found.rows * number
        blocks.append(_entries(xp.reshape(found.x, (len(part), *alpha.shape)), where))
    block = np.concatenate(blocks)
    for p in range(number):
        u = used[:, p]
        if np.any(u):
            cavities = _cavities(block[:, :, p][np.ix_(u, u)], expected[u, p], own_alpha[u, p])
            lowest[p] = min(cavities / expected[u, p])
    return lowest, products


def _entries(rows: Array, where: np.ndarray) -> np.ndarray:
    """Return of K arrays (P, D) the entries at (R, P) places, on the host: (K, R, P)."""
    xp, (_, number, n) = backend.namespace(rows), rows.shape
    flat = np.maximum(where, 0) + n * np.arange(number)
    index = backend.from_numpy(flat.reshape(-1), rows)
    found = backend.to_numpy(xp.take(xp.reshape(rows, (rows.shape[0], -1)), index, axis=1))
    kind = np.result_type(found.dtype, np.float64)
    return found.astype(kind).reshape(-1, *where.shape)  # one transfer


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
    """Return rows of the identity, of the kind of ``like`` (…, D); of zeros where it is -1."""
    xp = backend.namespace(like)
    columns = xp.arange(like.shape[-1], dtype=xp.int64, device=backend.device_of(like))
    places = backend.from_numpy(where.astype(np.int64), like)
    return xp.astype(columns[None, :] == places[:, None], like.dtype)


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
