"""How precisely the data and the other coordinates know each coordinate, from few probes.

c_j = 1/Σ_jj − α_j. Where the columns of Φ are not coherent, c_j = c θ_j with one number c (the mean
field of :mod:`cofem.learning.moments.shrinkage`), which follows from the trace of H: few probes
with loose tolerances are enough, and their remaining noise disturbs no single coordinate. If
columns are coherent this does not hold, and the probes show it: their estimates of 1 − h_j =
c_j/(α_j + c_j) deviate from the mean field by more than their own noise. This excess, relative to
the field, is returned, and the certificate refuses the end if it is large. (A cavity for every
coordinate from its own noisy estimate was tried, with averages over iterations and with shrinkage:
the iterations never settled, and the answers were worse on convolutions too.)
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator
from cofem.solvers.cg import solve
from cofem.solvers.mean_field import field_factor
from cofem.solvers.probes import DiagonalEstimate
from cofem.solvers.systems import Matrix

# The weight that the sums of an iteration keep in the next one.
MEMORY = 0.8
# How many coordinates of the support are checked, each with the one whose column is most similar.
LOOKED_AT = 4
# The relative tolerance of their linear systems.
SPOT_RTOL = 1e-4


@final
class Cavities:
    """Precisions of the cavities, one number for all, and how wrong that is.

    Parameters
    ----------
    unit : array (M,)
        θ, squared column norms.
    noise_precision : float
        β: c_j is at most βθ_j.
    """

    def __init__(self, unit: Array, noise_precision: float) -> None:
        self._unit, self._top = unit, noise_precision
        self._excess = self._size = 0.0

    def update(self, found: DiagonalEstimate, alpha: Array, iteration: int) -> tuple[Array, float]:
        """Return c (M,) and how far it is from what the probes see, root mean square.

        ``found`` estimates h by probes scaled by √α; iteration 1 forgets what was before.
        """
        xp = backend.namespace(alpha)
        field = self._unit * field_factor(
            alpha, self._unit, self._top, xp.sum(found.diagonal, dtype=xp.float64)
        )
        expected = field / (alpha + field)
        n = found.n_probes
        noise = found.variance / n if n > 1 else expected * (1 - expected)
        departure = (1 - found.diagonal - expected) ** 2 - noise
        sums = backend.to_numpy(xp.stack([xp.sum(departure), xp.sum(expected**2)]))
        keep = 0.0 if iteration == 1 else MEMORY
        self._excess = keep * self._excess + (1 - keep) * float(sums[0])
        self._size = keep * self._size + (1 - keep) * float(sums[1])
        share = self._excess / self._size if self._size > 0 else 0.0
        return field, math.sqrt(max(share, 0.0))


def lowest_ratio(
    operator: LinearOperator,
    matrix: Matrix,
    preconditioner: Array | None,
    alpha: Array,
    field: Array,
    chosen: np.ndarray,
    like: Array,
) -> tuple[float, int]:
    """Return the lowest c_j over cθ_j among a few coordinates, exactly, and the products it took.

    Looked at are the ``chosen`` ones and for each the coordinate whose column is most like its:
    if columns are coherent, such a neighbour is hardly determined at all, but one number for all
    cavities says that it is. ``like`` (D,) has the dtype of the unknowns.
    """
    xp = backend.namespace(alpha)
    norms = operator.column_norms_squared(alpha)
    images = operator.gram(_unit_rows(chosen, like))
    products = 2 * len(chosen)
    closeness = xp.abs(images) / xp.sqrt(xp.where(norms > 0, norms, xp.ones_like(norms)))
    apart = 1 - xp.abs(_unit_rows(chosen, like))
    beside = backend.to_numpy(xp.argmax(closeness * apart, axis=1))
    where = np.unique(np.concatenate([chosen, beside]))
    ratios = []
    for first in range(0, len(where), LOOKED_AT):  # as many as there are probes, for the memory
        part = where[first : first + LOOKED_AT]
        found = solve(
            matrix, _unit_rows(part, like), preconditioner=preconditioner, rtol=SPOT_RTOL,
            max_steps=2000,
        )  # fmt: skip
        products += 2 * found.rows
        for row, j in enumerate(part):
            expected = float(field[int(j)])
            if expected > 0:  # not a column of zeros
                variance = float(backend.real(found.x[row, int(j)]))
                ratios.append((1 / variance - float(alpha[int(j)])) / expected)
    return min(ratios, default=1.0), products


def _unit_rows(where: np.ndarray, like: Array) -> Array:
    """Return rows of the identity, of the kind of ``like`` (D,)."""
    rows = np.zeros((len(where), like.shape[0]), dtype=backend.to_numpy(like[:1]).dtype)
    rows[np.arange(len(where)), where] = 1.0
    return backend.from_numpy(rows, like)
