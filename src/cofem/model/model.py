"""The one model behind every fit.

y_ℓ = Φ_ℓ x_ℓ + ε, ε ~ N(0, I/β_ℓ), for tasks ℓ = 1 … L. What is sparse is R x_ℓ, with
prior precisions α that the tasks share; R = I unless a sparsifier is given, and then
x is the z of the paper. The posterior precision of x_ℓ is

    Q_ℓ = β_ℓ Φ_ℓᴴΦ_ℓ + Rᴴ diag(α) R.

A :class:`Tie` says which coordinates share an entry of α besides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator

# At least this share of the power of y counts as signal where learning starts: where the noise
# explains all of it, a start at zero signal would never leave zero.
LEAST_SIGNAL = 0.1


@dataclass(frozen=True)
class Intercept:
    """A constant in the data that was projected out.

    Given x, it has the law N(level − row x, 1/(β weight)).

    Attributes
    ----------
    row : array (D,)
        The weighted mean of every column of Φ.
    level : float or complex
        The mean of y.
    weight : float
        The sum of the row weights; N without them.
    """

    row: Array
    level: Any
    weight: float


@dataclass(frozen=True)
class Task:
    """One set of measurements.

    Attributes
    ----------
    operator : LinearOperator
        Φ, shape (N, D).
    y : array (N,)
        The data, in the precision of the whole computation.
    noise_precision : float
        β.
    log_volume : float
        Added to the log evidence where y is a scaled form of the user's data.
    intercept : Intercept, optional
        The constant that is no part of ``operator`` and ``y`` any more.
    weights : ndarray (N,), optional
        Weights of the rows, which ``operator`` and ``y`` already hold.
    """

    operator: LinearOperator
    y: Array
    noise_precision: float
    log_volume: float = 0.0
    intercept: Intercept | None = None
    weights: Any = None

    def with_noise(self, noise_precision: float) -> Task:
        """Return the same measurements under another noise precision."""
        return replace(self, noise_precision=noise_precision)


@dataclass(frozen=True)
class Family:
    """Tasks with one operator and one noise precision: they share their covariance.

    Attributes
    ----------
    operator : LinearOperator
        Φ, shape (N, D).
    y : array (L, N)
        The data of the L tasks.
    noise_precision : float
        β.
    log_volume : float
        Added to the log evidence of each task.
    members : tuple of int
        Where these tasks stand among all tasks.
    """

    operator: LinearOperator
    y: Array
    noise_precision: float
    log_volume: float
    members: tuple[int, ...]


class Tie:
    """Which coordinates share their prior precision: none, groups, or neighbours.

    Parameters
    ----------
    groups : array of int (D,), optional
        Coordinates with the same label share one α.
    coupling : LinearOperator (D, D), optional
        Averages the second moments over a neighbourhood before the M-step.
    """

    def __init__(
        self, groups: np.ndarray | None = None, coupling: LinearOperator | None = None
    ) -> None:
        self.coupling = coupling
        self.labels: np.ndarray | None = None
        if groups is not None:
            self.labels = np.unique(groups, return_inverse=True)[1].reshape(-1)
            self.sizes = np.bincount(self.labels)

    def average(self, second_moment: Array) -> Array:
        """Average (D,) second moments over what shares an α."""
        if self.coupling is not None:
            second_moment = self.coupling.forward(second_moment)
            if not bool(backend.namespace(second_moment).all(second_moment > 0)):
                raise ValueError(
                    "coupling must be non-negative and give every coordinate a positive average"
                )
        if self.labels is None:
            return second_moment
        return backend.group_means(second_moment, self.labels, self.sizes)

    def sums(self, x: Array) -> Array:
        """Replace every entry by the sum over its group."""
        if self.labels is None:
            return x
        return backend.group_means(x, self.labels, self.sizes) * self.counts(x)

    def counts(self, like: Array) -> Array:
        """Return the size of every coordinate's group, as an array like the one given."""
        if self.labels is None:
            return backend.namespace(like).ones_like(like)
        sizes = self.sizes[self.labels].astype(backend.to_numpy(like).dtype)
        return backend.from_numpy(sizes, like)


@dataclass(frozen=True)
class Model:
    """Tasks that share α, how α is tied, what is sparse, and whether z ≥ 0."""

    tasks: tuple[Task, ...]
    tie: Tie
    nonnegative: bool = False
    sparsifier: LinearOperator | None = None

    @property
    def n_unknowns(self) -> int:
        """D."""
        return self.tasks[0].operator.shape[1]

    @property
    def n_precisions(self) -> int:
        """The length of α: D, or the rows of the sparsifier."""
        return self.n_unknowns if self.sparsifier is None else self.sparsifier.shape[0]

    @property
    def sees_nothing(self) -> bool:
        """Whether every column of every Φ is zero, so that all of y is noise."""
        norms = [task.operator.column_norms_squared(task.y) for task in self.tasks]
        return not any(bool(backend.namespace(n).any(n > 0)) for n in norms)

    @property
    def is_plain(self) -> bool:
        """Whether it is one task, with a sparse z and nothing that ties its coordinates."""
        tied = self.tie.labels is not None or self.tie.coupling is not None
        return len(self.tasks) == 1 and self.sparsifier is None and not tied

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The tasks in groups: those of one family share their operator and noise precision."""
        kinds: dict[tuple[int, float], list[int]] = {}
        for i, task in enumerate(self.tasks):
            kinds.setdefault((id(task.operator), task.noise_precision), []).append(i)
        xp = backend.namespace(self.tasks[0].y)
        return tuple(
            Family(
                self.tasks[members[0]].operator,
                xp.stack([self.tasks[i].y for i in members]),
                self.tasks[members[0]].noise_precision,
                self.tasks[members[0]].log_volume,
                tuple(members),
            )
            for members in kinds.values()
        )

    def in_task_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Turn one array (L_f, …) per family into one array (…) per task."""
        placed: list[Any] = [None] * len(self.tasks)
        for family, rows in zip(self.families, arrays, strict=True):
            for row, member in enumerate(family.members):
                placed[member] = rows[row, ...]
        return placed

    @property
    def like(self) -> Array:
        """An empty array with the library, device and dtype of z."""
        y = self.tasks[0].y
        xp = backend.namespace(y)
        is_complex = any(backend.is_complex(t.y) or t.operator.is_complex for t in self.tasks)
        dtype = backend.complex_dtype(y.dtype, xp) if is_complex else y.dtype
        return xp.empty((0,), dtype=dtype, device=backend.device_of(y))

    def with_noise(self, noise_precisions: list[float]) -> Model:
        """Return the same model under other noise precisions."""
        tasks = tuple(t.with_noise(b) for t, b in zip(self.tasks, noise_precisions, strict=True))
        return replace(self, tasks=tasks)


def initial_precision(model: Model) -> float:
    """Return the common α at which the prior explains the power of the data.

    Scaling the data then scales the start, and nothing else changes.
    """
    signal, columns = _signal_power(model), 0.0
    if model.sparsifier is not None:
        return _sparsified_start(model, model.sparsifier, signal)
    for task in model.tasks:
        xp = backend.namespace(task.y)
        norms = task.operator.column_norms_squared(task.y)
        columns += float(xp.sum(xp.astype(norms, xp.float64)))
    if columns == 0.0:
        return model.n_unknowns / signal  # Φ = 0: nothing can be learned anyway
    return columns / signal  # E‖Φz‖² = Σ‖φ_j‖²/α


def relative_units(model: Model) -> Array:
    """Return the squared length of every column divided by their mean, (D,); one for a zero column.

    Precisions that start in proportion to these do not depend on the units of the columns.
    Coordinates that share a precision share one unit.
    """
    xp = backend.namespace(model.tasks[0].y)
    total: Any = 0.0
    for task in model.tasks:
        norms = task.operator.column_norms_squared(task.y)
        total = total + xp.astype(norms, xp.float64)
    seen = xp.sum(xp.astype(total > 0, xp.float64))
    mean = xp.sum(total) / xp.where(seen > 0, seen, xp.ones_like(seen))
    units = xp.where(total > 0, total / xp.where(mean > 0, mean, xp.ones_like(mean)), 1 + 0 * total)
    return 1 / model.tie.average(1 / units)


def _signal_power(model: Model) -> float:
    """Return ‖y‖² minus the expected power of the noise; never zero."""
    power = noise = 0.0
    for task in model.tasks:
        power += backend.squared_size(task.y)
        if math.isfinite(task.noise_precision):  # NaN: not known yet
            noise += task.operator.shape[0] / task.noise_precision
    signal = max(power - noise, LEAST_SIGNAL * power)
    return signal or noise or 1.0  # y = 0: only the noise sets a scale


def _sparsified_start(model: Model, sparsifier: LinearOperator, signal: float) -> float:
    """Return α from a first estimate of x: Φᴴy, scaled to fit the data best."""
    energy = 0.0
    for family in model.families:
        picture = family.operator.adjoint(family.y)
        size = backend.squared_size(picture)
        image = backend.squared_size(family.operator.forward(picture))
        scale = size / image if image > 0 else 0.0
        energy += scale**2 * backend.squared_size(sparsifier.forward(picture))
    if energy == 0.0:
        return model.n_precisions / signal
    return model.n_precisions * len(model.tasks) / energy
