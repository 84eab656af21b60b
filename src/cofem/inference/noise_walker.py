"""EM for the prior precisions at a noise precision that changes on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Model
from cofem.inference.moments import EStep, Moments
from cofem.inference.mstep import update_precision

EStepMaker = Callable[[Model], Sequence[EStep]]


class Walker:
    """EM whose β changes between iterations; α and the means are carried along.

    Everything but a scale depends on α/β alone, so the E-steps are made once, at
    ``unit``, and asked about α·unit/β.
    """

    def __init__(self, model: Model, esteps: Sequence[EStep], unit: float, alpha: Array) -> None:
        self.model, self.esteps, self.unit, self.alpha = model, esteps, unit, alpha
        self.means: list[Array] | None = None
        self.iteration, self.products = 0, 0
        self.residual, self.freedom = math.nan, math.nan
        self.weights = [t.noise_precision / unit for t in model.tasks]
        self.residuals, self.freedoms = [math.nan] * len(model.tasks), [0.0] * len(model.tasks)

    def fork(self) -> Walker:
        """Return a walker that goes on from here by itself; its products start at 0."""
        other = Walker(self.model, self.esteps, self.unit, self.alpha)
        other.means, other.iteration = self.means, self.iteration
        return other

    def reweighted(self, weights: Sequence[float], make: EStepMaker) -> Walker:
        """Return a walker that goes on from here with other noise in the tasks."""
        model = self.model.with_noise([self.unit * w for w in weights])
        other = Walker(model, make(model), self.unit, self.alpha)
        other.iteration, other.products = self.iteration, self.products
        other.residuals, other.freedoms = self.residuals, self.freedoms
        other._add_up()
        if self.means is not None:
            rows = self.model.in_task_order(self.means)
            xp = backend.namespace(rows[0])
            other.means = [xp.stack([rows[i] for i in f.members]) for f in model.families]
        return other

    def step(self, noise_precision: float, pruning: float = 0.0) -> None:
        """Make one E- and one M-step at this β; pruning multiplies α by 1 + pruning."""
        self.iteration += 1
        scale = self.unit / noise_precision
        self.last_alpha, self.last_moments = self.alpha, []
        for i, estep in enumerate(self.esteps):
            start = None if self.means is None else self.means[i]
            found = estep.moments(scale * self.alpha, start, self.iteration, False)
            assert found.variance is not None  # an M-step follows
            self.last_moments.append(replace(found, variance=scale * found.variance))
        moments = self.last_moments
        self.means = [m.mean for m in moments]
        self.alpha = (1 + pruning) * update_precision(self.model, moments)
        for family, m in zip(self.model.families, moments, strict=True):
            left = squared_rows(family.y - family.operator.forward(m.mean))
            for row, member in enumerate(family.members):
                self.residuals[member] = float(left[row])
                self.freedoms[member] = m.freedom / len(family.members)
        self._add_up()
        self.products += sum(m.products for m in moments) + len(self.model.tasks)

    def _add_up(self) -> None:
        self.residual = math.fsum(map(math.prod, zip(self.weights, self.residuals, strict=True)))
        self.freedom = math.fsum(self.freedoms)

    last_alpha: Array
    last_moments: list[Moments]

    def spread(self) -> float:
        """Return log of arithmetic over geometric mean of the coefficients' power in y."""
        alpha = backend.to_numpy(self.alpha).astype(np.float64)
        last = backend.to_numpy(self.last_alpha).astype(np.float64)
        share, norms = np.zeros_like(alpha), np.zeros_like(alpha)
        for family, m in zip(self.model.families, self.last_moments, strict=True):
            count = 1.0 if m.count is None else backend.to_numpy(m.count)
            share += len(family.members) * (count - last * backend.to_numpy(m.variance))
            if self.model.sparsifier is None:
                weight = family.noise_precision / self.unit
                columns = family.operator.column_norms_squared(m.mean[0, ...])
                norms += weight * backend.to_numpy(columns)
        power = (norms if self.model.sparsifier is None else 1.0) / alpha
        share = np.where(power > 0, np.maximum(share, 0.0), 0.0)
        total = float(share.sum())
        if total < 1e-6:
            return 0.0
        logs = np.log(np.where(power > 0, power, 1.0))
        return float(np.log(share @ power / total) - share @ logs / total)


def squared_rows(x: Array) -> np.ndarray:
    """Return the sum of squares over the last axis, in double precision on the host."""
    xp = backend.namespace(x)
    rows = xp.sum(xp.astype(backend.abs_squared(x), xp.float64), axis=-1)
    return backend.to_numpy(rows)
