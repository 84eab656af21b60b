"""The one model behind every fit.

y_ℓ = Φ_ℓ z_ℓ + ε, ε ~ N(0, I/β_ℓ), z_ℓ ~ N(0, diag(α)⁻¹) for tasks ℓ = 1 … L that
share α. A :class:`Tie` says which coordinates share an entry of α besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator


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
    """

    operator: LinearOperator
    y: Array
    noise_precision: float
    log_volume: float = 0.0

    def with_noise(self, noise_precision: float) -> Task:
        """Return the same measurements under another noise precision."""
        return replace(self, noise_precision=noise_precision)


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


@dataclass(frozen=True)
class Model:
    """Tasks that share α, how α is tied, and whether z ≥ 0."""

    tasks: tuple[Task, ...]
    tie: Tie
    nonnegative: bool = False

    @property
    def n_unknowns(self) -> int:
        """D."""
        return self.tasks[0].operator.shape[1]

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

    E‖Φz‖² = Σ‖φ_j‖²/α should be ‖y‖² less the noise's share; so a change of
    units changes nothing but units.
    """
    power = columns = noise = 0.0
    for task in model.tasks:
        xp = backend.namespace(task.y)
        power += float(xp.sum(backend.abs_squared(task.y)))
        norms = task.operator.column_norms_squared(task.y)
        columns += float(xp.sum(xp.astype(norms, xp.float64)))
        if math.isfinite(task.noise_precision):  # NaN while it is being looked for
            noise += task.operator.shape[0] / task.noise_precision
    signal = max(power - noise, 0.1 * power)
    if signal == 0.0:
        signal = noise or 1.0  # y = 0: only the noise sets a scale
    if columns == 0.0:
        return model.n_unknowns / signal  # Φ = 0: nothing can be learned anyway
    return columns / signal
