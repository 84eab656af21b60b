"""From checked data to the tasks of the model: row weights, the intercept, real unknowns.

Each of these is a change of Φ and y after which the noise is white again and everything else is
as without it. What it does to the volume of the data is kept for the evidence.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Intercept, Task
from cofem.noise_arguments import Noise
from cofem.operators import LinearOperator
from cofem.operators.centred import Centred, centred
from cofem.operators.realified import Realified
from cofem.operators.row_weights import scaled_rows


@final
class Preparation:
    """Makes tasks; those that share an operator share what becomes of it.

    Parameters
    ----------
    intercept : bool
        Project a constant out.
    real : bool
        The unknowns are real although something is complex.
    """

    def __init__(self, intercept: bool = False, real: bool = False) -> None:
        self.intercept, self.real = intercept, real
        self._weighted: dict[tuple[int, bytes], LinearOperator] = {}
        self._centred: dict[tuple[int, bytes], tuple[LinearOperator, Centred]] = {}
        self._stacked: dict[int, Realified] = {}

    def task(self, op: LinearOperator, y: Array, noise: Noise) -> Task:
        """Return one task.

        Parameters
        ----------
        op : LinearOperator (N, D)
        y : array (N,)
        noise : Noise
        """
        is_complex = op.is_complex or backend.is_complex(y)
        halves = 1.0 if is_complex else 0.5
        volume, n = 0.0, op.shape[0]
        root, kind = None, (id(op), b"")
        if noise.weights is not None:
            root = backend.from_numpy(np.sqrt(noise.weights).astype(_real_name(y)), y)
            kind = (id(op), noise.weights.tobytes())
            if kind not in self._weighted:
                self._weighted[kind] = scaled_rows(op, root)
            op, y = self._weighted[kind], y * root
            volume += halves * float(np.sum(np.log(noise.weights)))
        constant = None
        if self.intercept:
            total = float(n if noise.weights is None else np.sum(noise.weights))
            if kind not in self._centred:
                self._centred[kind] = centred(op, root)
            op, node = self._centred[kind]
            constant, y = _intercept(node, y, root, total), node.reduce(y)
            volume -= halves * math.log(total)  # log ∫ p(y | constant) d constant
        if self.real and is_complex:
            if id(op) not in self._stacked:
                self._stacked[id(op)] = Realified(op)
            stacked = self._stacked[id(op)]
            volume += op.shape[0] * math.log(2)  # the stacking stretches by √2 in 2N axes
            op, y = stacked, stacked.stack(y)
        return Task(op, y, noise.precision, volume, constant, noise.weights)


def _intercept(node: Centred, y: Array, root: Array | None, total: float) -> Intercept:
    xp = backend.namespace(y)
    wide = backend.complex_dtype if backend.is_complex(y) else backend.real_dtype
    values = xp.astype(y, wide(xp.float64, xp), copy=False)
    if root is not None:
        values = values * root  # √w y times √w
    level = complex(xp.sum(values)) / total
    return Intercept(
        row=backend.conj(node.column_part(y)) / math.sqrt(total),
        level=level if backend.is_complex(y) or node.is_complex else level.real,
        weight=total,
    )


def _real_name(y: Array) -> str:
    """The name of y's real type."""
    xp = backend.namespace(y)
    return "float32" if backend.real_dtype(y.dtype, xp) == xp.float32 else "float64"
