"""Whether y may have a constant that Φz does not contain, because the intercept was forgotten.

Counts, intensities and most regressions have an offset, and ``intercept=False`` is the default.
Columns that have means of their own then make it up together: all of them are a little non-zero,
and nothing else shows it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcinv

from cofem import backend
from cofem.fitting.outlying import FALSE_ALARM
from cofem.model.model import Model, Task
from cofem.operators import Dense, Sparse

# By so many standard deviations noise has a mean once in 1 / FALSE_ALARM fits.
SIGNIFICANT = math.sqrt(2) * float(erfcinv(FALSE_ALARM))
# A column whose cosine with a constant is larger is one.
IS_CONSTANT = 0.99
# The mean squared cosine of columns with a constant, times N, is about one for columns without
# means; from here on they have some.
MEANS = 10.0
# Of fewer data the mean says little.
FEWEST = 8


def may_lack_a_constant(model: Model) -> bool:
    """Whether y or the columns have a mean, and Φ is a table of numbers without a constant column.

    Parameters
    ----------
    model : Model
        Without an intercept.
    """
    if model.sparsifier is not None or model.sees_nothing:
        return False
    if any(backend.is_complex(task.y) or task.operator.is_complex for task in model.tasks):
        return False
    if not all(isinstance(task.operator, (Dense, Sparse)) for task in model.tasks):
        return False
    largest, usual = _cosines(model.tasks[0])
    if largest > IS_CONSTANT**2:
        return False
    return usual > MEANS / model.tasks[0].operator.shape[0] or any(map(_has_mean, model.tasks))


def _root(task: Task) -> np.ndarray:
    """Return what a constant of one is in the rows of the task."""
    n = task.operator.shape[0]
    return np.ones(n) if task.weights is None else np.sqrt(task.weights)


def _has_mean(task: Task) -> bool:
    y, unit = np.asarray(backend.to_numpy(task.y), dtype=np.float64), _root(task)
    n = len(y)
    if n < FEWEST:
        return False
    along = float(unit @ y) / float(np.linalg.norm(unit))
    rest = math.sqrt(max(float(y @ y) - along**2, 0.0) / (n - 1))
    return abs(along) > SIGNIFICANT * rest


def _cosines(task: Task) -> tuple[float, float]:
    """Return the largest and the mean squared cosine of a column with a constant."""
    xp, root = backend.namespace(task.y), _root(task)
    unit = xp.astype(backend.from_numpy(root / np.linalg.norm(root), task.y), task.y.dtype)
    parts = backend.abs_squared(task.operator.adjoint(unit[None, :])[0, :])
    norms = task.operator.column_norms_squared(task.y)
    squared = xp.where(norms > 0, parts / xp.where(norms > 0, norms, 1.0), 0.0)
    return float(xp.max(squared)), float(xp.mean(squared))


def log_prior_of_constant(task: Task) -> float:
    """Return the log prior density of the constant found: a normal of the size of the data."""
    assert task.intercept is not None
    level = float(task.intercept.level)
    energy = float(np.sum(np.square(backend.to_numpy(task.y), dtype=np.float64)))
    power = level**2 + energy / task.intercept.weight
    return -0.5 * math.log(2 * math.pi * power) - 0.5 * level**2 / power
