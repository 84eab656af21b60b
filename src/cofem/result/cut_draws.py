"""Draws of a normal distribution cut off at zero: the marginals are right, and sweeps settle them.

Draws whose marginals are those of the posterior are made from those of a normal distribution, place
for place (:meth:`cofem.learning.sites.marginals.Marginals.draw`). Where columns are coherent the
data know some sums of coordinates far better than each of them, and this does not survive the
change of every coordinate by itself. So each draw is the start of a few sweeps of a chain that
draws one coordinate after the other given all others (Gibbs), which leave the posterior as it is.
The sweeps are slow where the data know little, and there the draws are right from the start.
"""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.supports.cut_values import above_zero
from cofem.model.model import Task
from cofem.solvers.compiled import compiled, compiled_here

SWEEPS = 20
# Sweeps are made if all of them take at most so many operations: ten seconds or so.
MOST_OPERATIONS = 1e10


def settled(draws: Array, task: Task, precision: Array, seed: int) -> Array:
    """Return draws (n, D) after the sweeps; as they are, if these would take too long."""
    rows, columns = task.operator.shape
    if not compiled_here() or 4.0 * SWEEPS * rows * columns * draws.shape[0] > MOST_OPERATIONS:
        return draws
    phi, y, alpha, start = (
        backend.to_numpy(x).astype(np.float64)
        for x in (task.operator.to_dense(draws), task.y, precision, draws)
    )
    found = np.ascontiguousarray(start)
    _sweep(
        np.ascontiguousarray(phi.T), y, alpha, task.noise_precision, found,
        np.random.default_rng([seed, 11]),
    )  # fmt: skip
    return backend.from_numpy(found.astype(backend.to_numpy(draws[:0]).dtype), draws)


@compiled
def _sweep(
    phi: np.ndarray,
    y: np.ndarray,
    alpha: np.ndarray,
    beta: float,
    draws: np.ndarray,
    random: np.random.Generator,
) -> None:
    squares = np.sum(phi * phi, axis=1)
    for row in range(len(draws)):
        z = draws[row]
        left = y - z @ phi
        for _ in range(SWEEPS):
            for j in range(len(z)):
                precision = beta * squares[j] + alpha[j]
                pull = beta * (phi[j] @ left + squares[j] * z[j])
                root = math.sqrt(precision)
                new = above_zero(pull / root, random) / root
                left += (z[j] - new) * phi[j]
                z[j] = new
