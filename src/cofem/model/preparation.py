"""From checked data to the tasks of the model: row weights, the intercept, real unknowns.

Each of these transforms Φ and y so that the noise is white again and the rest of the library need
not know of it. The change of volume that goes with it is kept for the evidence.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.model.data_arguments import Noise
from cofem.model.model import Intercept, Task
from cofem.operators import LinearOperator
from cofem.operators.centred import Centred, centred
from cofem.operators.realified import Realified, stack_real
from cofem.operators.row_weights import scaled_rows


@final
class Preparation:
    """Makes tasks; tasks with the same operator share the transformed operator too.

    Parameters
    ----------
    intercept : bool
        Project a constant out.
    real : bool
        The unknowns are real although something is complex.
    """

    def __init__(self, intercept: bool = False, real: bool = False) -> None:
        self.intercept, self.real = intercept, real
        self._made: dict[tuple[int, bytes], tuple[LinearOperator, Centred | None]] = {}
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
        halves, volume = 1.0 if is_complex else 0.5, 0.0
        if noise.weights is not None:
            y = y * _root(noise.weights, y)
            volume += halves * float(np.sum(np.log(noise.weights)))
        level = None
        if self.intercept:
            level = _level(op, y, noise.weights)
            node = self._operators(op, noise.weights, y)[1]
            assert node is not None
            y = node.reduce(y)
            volume -= halves * math.log(_total(op, noise.weights))  # log ∫ p(y | c) dc
        # Some operators are linear over the reals only, and their unknowns are real by that.
        stacked = is_complex and (self.real or op.field == "real")
        if stacked:
            volume += len(y) * math.log(2)  # a factor of √2 for each of 2N axes
            y = stack_real(y)
        return self.again(op, y, noise, level, volume, stacked=stacked)

    def again(
        self, op: LinearOperator, y: Array, noise: Noise, level: Any, volume: float = 0.0,
        *, stacked: bool,
    ) -> Task:  # fmt: skip
        """Return the task for data that are transformed already, as a file stores them.

        Parameters
        ----------
        op : LinearOperator (N, D)
            The user's.
        y : array
            The ``y`` of a task.
        noise : Noise
        level : float, complex or None
            That of the constant, where there is one.
        volume : float
        stacked : bool
            Whether ``y`` holds real and imaginary parts one after the other.
        """
        made, node = self._operators(op, noise.weights, y)
        constant = None
        if node is not None:
            total = _total(op, noise.weights)
            row = backend.conj(node.column_part(y)) / math.sqrt(total)
            constant = Intercept(row, level, total)
        if stacked:
            made = self._stacked.setdefault(id(made), Realified(made))
        return Task(made, y, noise.precision, volume, constant, noise.weights)

    def _operators(
        self, op: LinearOperator, weights: np.ndarray | None, like: Array
    ) -> tuple[LinearOperator, Centred | None]:
        """Return the operator with weighted rows and no constant, and how it was centred."""
        kind = (id(op), b"" if weights is None else weights.tobytes())
        if kind not in self._made:
            root = None if weights is None else _root(weights, like)
            made = op if root is None else scaled_rows(op, root)
            self._made[kind] = centred(made, root) if self.intercept else (made, None)
        return self._made[kind]


def _level(op: LinearOperator, y: Array, weights: np.ndarray | None) -> float | complex:
    """Return the weighted mean of the data; ``y`` holds the roots of the weights already."""
    xp = backend.namespace(y)
    wide = backend.complex_dtype if backend.is_complex(y) else backend.real_dtype
    values = xp.astype(y, wide(xp.float64, xp), copy=False)
    if weights is not None:
        values = values * _root(weights, values)
    level = complex(xp.sum(values)) / _total(op, weights)
    return level if op.is_complex or backend.is_complex(y) else level.real


def _total(op: LinearOperator, weights: np.ndarray | None) -> float:
    return float(op.shape[0] if weights is None else np.sum(weights))


def _root(weights: np.ndarray, like: Array) -> Array:
    """Return √w in the library and precision of ``like``."""
    xp = backend.namespace(like)
    single = backend.real_dtype(like.dtype, xp) == xp.float32
    return backend.from_numpy(np.sqrt(weights).astype("float32" if single else "float64"), like)
