"""The noise precision from the data, when the user does not know it.

Maximising the evidence over β fails for N ≤ D: it rises for ever, because enough
coordinates explain any noise. We let it rise, and ask on the way up where to stop.

The climb is EM for α and β together, from noise alone upwards. As β grows slowly it
anneals the problem, and near the phase transition it finds signal that EM at a fixed β
does not. α_j = 1/E|z_j|² keeps a coordinate that stands one standard deviation above the
noise, and a third of all the empty ones do: that is what runs away.

So every few decibels a branch leaves the climb in which precisions have a prior that
prunes, α_j = (1 + κ)/E|z_j|². It keeps what stands three to four standard deviations
above the noise, hardly an empty coordinate among them, and then
β = (N − Σ(1 − α_jΣ_jj)) / ‖y − Φμ‖² is safe to iterate.

Branches that left too early have lost signal, those that left too late have noise among
their coordinates. :mod:`cofem.inference.description` tells which; β is the mean of the
branches' on a log scale, weighted by it. See ``docs/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.description import (
    LARGEST_SHARE,
    SparseFit,
    average_noise_precision,
    excess,
)
from cofem.inference.model import Model
from cofem.inference.moments import EStep, Moments
from cofem.inference.mstep import update_precision

# The climb, in decibels above the noise precision at which y is all noise: EM's own
# step, kept between these, and the last β that is tried.
LEAST_STEP, LARGEST_STEP, HIGHEST = 0.5, 10.0, 110.0
MAX_STEPS = 200
# The first branch leaves after so many steps, others at this distance in decibels; not
# before the climb has come within this factor of what the last branch found.
FIRST_BRANCH, BETWEEN_BRANCHES, FAR_BELOW = 7, 3.0, 3.0
# κ. A coordinate stays if it stands √(1 + 2κ + 2√(κ(1+κ))) = 3.4 deviations above the
# noise: six empty ones in ten thousand do.
PRUNING = 2.5
# Iterations of a branch, the most β moves in one, and when it has settled; decibels.
BRANCH_ITERATIONS, BRANCH_STEP, SETTLED = 10, 3.0, 0.2
# Descriptions so many √N longer than the shortest one no longer count.
FORGOTTEN = 2.0
# A climb well past the branches' β, the same three times, has nothing more to find. Not
# earlier: the largest of very unequal coefficients, found alone, make a plateau too.
PLATEAU, PAST = 0.1, 4.0

EStepMaker = Callable[[Model], Sequence[EStep]]


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise precision of every task, the branches it is taken from, and what it cost."""

    noise_precisions: list[float]
    branches: list[SparseFit]
    products: int


class _Walker:
    """EM whose β changes between iterations; α and the means are carried along.

    Everything but a scale depends on α/β alone, so the E-steps are made once, at
    ``unit``, and asked about α·unit/β.
    """

    def __init__(self, model: Model, esteps: Sequence[EStep], unit: float, alpha: Array) -> None:
        self.model, self.esteps, self.unit, self.alpha = model, esteps, unit, alpha
        self.means: list[Array] | None = None
        self.iteration, self.products = 0, 0
        self.residual, self.freedom = math.nan, math.nan

    def fork(self) -> _Walker:
        """Return a walker that goes on from here by itself; its products start at 0."""
        other = _Walker(self.model, self.esteps, self.unit, self.alpha)
        other.means, other.iteration = self.means, self.iteration
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
        self.residual = math.fsum(
            _squared(f.y - f.operator.forward(m))
            for f, m in zip(self.model.families, self.means, strict=True)
        )
        self.freedom = math.fsum(m.freedom for m in moments)
        self.products += sum(m.products for m in moments) + len(self.model.tasks)

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
                norms += backend.to_numpy(family.operator.column_norms_squared(m.mean[0, ...]))
        power = (norms if self.model.sparsifier is None else 1.0) / alpha
        share = np.where(power > 0, np.maximum(share, 0.0), 0.0)
        total = float(share.sum())
        if total < 1e-6:
            return 0.0
        logs = np.log(np.where(power > 0, power, 1.0))
        return float(np.log(share @ power / total) - share @ logs / total)


def estimate_noise_precision(model: Model, make: EStepMaker, alpha: Array) -> NoiseEstimate:
    """Climb, branch, and return one noise precision for all tasks.

    Parameters
    ----------
    model : Model
        Its noise precisions are ignored.
    make : function
        Model → E-steps.
    alpha : array (D,)
        Where EM starts.
    """
    n_data = sum(t.operator.shape[0] for t in model.tasks)
    energy = math.fsum(_squared(t.y) for t in model.tasks)
    if energy == 0.0:
        return NoiseEstimate([1.0] * len(model.tasks), [], 0)  # y = 0 has no scale
    lowest = n_data / energy
    model = model.with_noise([lowest] * len(model.tasks))
    climber = _Walker(model, make(model), lowest, alpha)
    branches = [_all_noise(model, energy, n_data)]
    products, beta = 0, lowest
    for count in range(1, MAX_STEPS + 1):
        climber.step(beta)
        if count >= FIRST_BRANCH and _branch_is_due(branches[-1], beta):
            walker = climber.fork()
            branches.append(_branch(walker, beta, branches[0], n_data))
            products += walker.products
            if _past_the_noise(branches):
                break
        beta *= _ratio(_climb(climber, beta, n_data))
        if beta > lowest * _ratio(HIGHEST):
            break
    found = average_noise_precision(branches)
    return NoiseEstimate([found] * len(model.tasks), branches, products + climber.products)


def _all_noise(model: Model, energy: float, n_data: int) -> SparseFit:
    """Return the fit that has no coordinate at all."""
    reals = 2 if backend.is_complex(model.like) else 1
    groups = model.n_precisions if model.tie.labels is None else len(model.tie.sizes)
    return SparseFit(
        left_at=n_data / energy,
        noise_precision=n_data / energy,
        residual=energy,
        energy=energy,
        freedom=0.0,
        spread=0.0,
        n_data=reals * n_data,
        coordinates=groups,
        # With groups of several sizes, on average.
        per_coordinate=len(model.tasks) * reals * model.n_precisions / groups,
    )


def _branch_is_due(last: SparseFit, beta: float) -> bool:
    far = last.noise_precision > FAR_BELOW * beta
    return not far and _decibels(beta / last.left_at) >= BETWEEN_BRANCHES


def _branch(walker: _Walker, beta: float, nothing: SparseFit, n_data: int) -> SparseFit:
    """Prune, with β from the residual at every iteration, until β settles."""
    left_at, pruning, settled = beta, PRUNING / nothing.per_coordinate, 0
    walker.alpha = (1 + pruning) * walker.alpha
    for _ in range(BRANCH_ITERATIONS):
        walker.step(beta, pruning)
        unused = n_data * (1 - _share_used(walker, n_data))
        residual = max(walker.residual, 1e-20 * nothing.energy)
        move = _decibels(unused / residual / beta)
        beta *= _ratio(min(max(move, -BRANCH_STEP), BRANCH_STEP))
        settled = settled + 1 if abs(move) < SETTLED else 0
        if settled == 2:
            break
    return replace(
        nothing,
        left_at=left_at,
        noise_precision=beta,
        residual=walker.residual,
        freedom=walker.freedom * nothing.n_data / n_data,
        spread=walker.spread(),
    )


def _climb(walker: _Walker, beta: float, n_data: int) -> float:
    """Return EM's step of β, N/β' = ‖y − Φμ‖² + Σ(1 − αΣ)/β, in decibels."""
    step = -_decibels(beta * walker.residual / n_data + _share_used(walker, n_data))
    return min(max(step, LEAST_STEP), LARGEST_STEP)


def _share_used(walker: _Walker, n_data: int) -> float:
    """Return the share of the data that the posterior uses up; it is an estimate."""
    return min(max(walker.freedom / n_data, 1e-6), LARGEST_SHARE)


def _past_the_noise(branches: list[SparseFit]) -> bool:
    """Whether later branches would change nothing."""
    if len(branches) < 3:
        return False  # "all noise" and one more
    last = branches[-1]
    if excess(branches)[-1] > FORGOTTEN:
        return last.left_at > last.noise_precision  # else it was still finding signal
    logs = [math.log(b.noise_precision) for b in branches[-3:]]
    return max(logs) - min(logs) < PLATEAU and last.left_at > PAST * last.noise_precision


def _decibels(ratio: float) -> float:
    return 10 * math.log10(ratio)


def _ratio(decibels: float) -> float:
    return float(10 ** (decibels / 10))


def _squared(x: Array) -> float:
    xp = backend.namespace(x)
    return float(xp.sum(xp.astype(backend.abs_squared(x), xp.float64)))
