"""The noise precision by annealing: EM for α and β together, stopped on the way up.

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
from dataclasses import dataclass, replace

from cofem import backend
from cofem.backend import Array
from cofem.inference.description import (
    LARGEST_SHARE,
    SparseFit,
    average_noise_precision,
    excess,
)
from cofem.inference.model import Model
from cofem.inference.noise_levels import alike, merged, noise_weights
from cofem.inference.noise_walker import EStepMaker, Walker, squared_rows

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


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise precision of every task, the branches it is taken from, and what it cost."""

    noise_precisions: list[float]
    branches: list[SparseFit]
    products: int
    alpha: Array | None = None
    """The precisions of the branch with the shortest description."""


def climb(model: Model, make: EStepMaker, alpha: Array) -> NoiseEstimate:
    """Climb, branch, and return the noise precision of every task.

    Joint tasks begin with one in common. What every branch leaves unexplained of each task
    tells how they differ, and the climb goes on with that.

    Parameters
    ----------
    model : Model
        Its noise precisions are ignored.
    make : function
        Model → E-steps.
    alpha : array (D,)
        Where EM starts.
    """
    tasks = len(model.tasks)
    n_data = sum(t.operator.shape[0] for t in model.tasks)
    energies = [float(squared_rows(t.y)) for t in model.tasks]
    energy = math.fsum(energies)
    if energy == 0.0:
        return NoiseEstimate([1.0] * tasks, [], 0)  # y = 0 has no scale
    lowest = n_data / energy
    model = model.with_noise([lowest] * tasks)
    climber = Walker(model, make(model), lowest, alpha)
    branches = [_all_noise(model, energies, n_data)]
    best = climber.alpha
    products, beta, left_at = 0, lowest, lowest
    for count in range(1, MAX_STEPS + 1):
        climber.step(beta)
        if count >= FIRST_BRANCH and _branch_is_due(branches[-1], left_at, beta):
            walker = climber.fork()
            branches.append(_branch(walker, beta, branches[0], energies, n_data))
            products += walker.products
            if excess(branches)[-1] == 0.0:
                best = walker.alpha
            weights = _believed_weights(branches)
            left_at = beta
            if not alike(weights, climber.weights):
                # Others come down; for nobody β jumps up, for it is the slow rise that anneals.
                beta *= min(a / b for a, b in zip(climber.weights, weights, strict=True))
                climber, left_at = climber.reweighted(weights, make), beta
            elif _past_the_noise(branches):
                break
        beta *= _ratio(_climb(climber, beta, n_data))
        if beta > lowest * _ratio(HIGHEST):
            break
    found = merged([average_noise_precision(branches, task) for task in range(tasks)])
    return NoiseEstimate(found, branches, products + climber.products, best)


def _all_noise(model: Model, energies: list[float], n_data: int) -> SparseFit:
    """Return the fit that has no coordinate at all."""
    reals = 2 if backend.is_complex(model.like) else 1
    groups = model.n_precisions if model.tie.labels is None else len(model.tie.sizes)
    weights = noise_weights(energies, [float(t.operator.shape[0]) for t in model.tasks], reals)
    energy = math.fsum(w * e for w, e in zip(weights, energies, strict=True))
    return SparseFit(
        left_at=n_data / math.fsum(energies),
        noise_precision=n_data / energy,
        residual=energy,
        energy=energy,
        freedom=0.0,
        spread=0.0,
        n_data=reals * n_data,
        coordinates=groups,
        # With groups of several sizes, on average.
        per_coordinate=len(model.tasks) * reals * model.n_precisions / groups,
        weights=tuple(weights),
    )


def _branch_is_due(last: SparseFit, left_at: float, beta: float) -> bool:
    far = last.noise_precision > FAR_BELOW * beta
    return not far and _decibels(beta / left_at) >= BETWEEN_BRANCHES


def _branch(
    walker: Walker, beta: float, nothing: SparseFit, energies: list[float], n_data: int
) -> SparseFit:
    """Prune, with β from the residual at every iteration, until β settles."""
    left_at, pruning, settled = beta, PRUNING / nothing.per_coordinate, 0
    energy = math.fsum(w * e for w, e in zip(walker.weights, energies, strict=True))
    walker.alpha = (1 + pruning) * walker.alpha
    for _ in range(BRANCH_ITERATIONS):
        walker.step(beta, pruning)
        unused = n_data * (1 - _share_used(walker, n_data))
        residual = max(walker.residual, 1e-20 * energy)
        move = _decibels(unused / residual / beta)
        beta *= _ratio(min(max(move, -BRANCH_STEP), BRANCH_STEP))
        settled = settled + 1 if abs(move) < SETTLED else 0
        if settled == 2:
            break
    weights = _own_weights(walker, nothing.n_data // n_data)
    own = math.fsum(map(math.prod, zip(weights, walker.residuals, strict=True)))
    unit = residual / own if weights != walker.weights else 1.0
    return replace(
        nothing,
        left_at=unit * left_at,
        noise_precision=unit * beta,
        residual=walker.residual,
        energy=energy,
        freedom=walker.freedom * nothing.n_data / n_data,
        spread=walker.spread(),
        weights=tuple(weights),
    )


def _believed_weights(branches: list[SparseFit]) -> tuple[float, ...]:
    """Return the last branch's weights, or the best one's where the last is overfitted."""
    longer = excess(branches)
    chosen = branches[-1] if longer[-1] <= FORGOTTEN else branches[longer.index(0.0)]
    return chosen.weights


def _own_weights(walker: Walker, reals: int) -> list[float]:
    """Return how much cleaner than the others every task turned out to be."""
    sizes = [t.operator.shape[0] for t in walker.model.tasks]
    unused = [
        n * (1 - min(max(k / n, 1e-6), LARGEST_SHARE))
        for n, k in zip(sizes, walker.freedoms, strict=True)
    ]
    return noise_weights(walker.residuals, unused, reals)


def _climb(walker: Walker, beta: float, n_data: int) -> float:
    """Return EM's step of β, N/β' = ‖y − Φμ‖² + Σ(1 − αΣ)/β, in decibels."""
    step = -_decibels(beta * walker.residual / n_data + _share_used(walker, n_data))
    return min(max(step, LEAST_STEP), LARGEST_STEP)


def _share_used(walker: Walker, n_data: int) -> float:
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
