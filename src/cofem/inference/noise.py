"""The noise precision from the data, when the user does not know it.

Maximising the evidence over β fails for N ≤ D: it rises for ever, because enough
coordinates explain any noise. We let it rise, and ask on the way up where to stop.

The climb is EM for α and β together, from noise alone upwards. As β grows slowly it
anneals the problem, and near the phase transition it finds the signal where EM at a
fixed β does not. α_j = 1/E|z_j|² keeps a coordinate that stands one standard deviation
above the noise, and a third of all the empty ones do: that is what runs away.

So every few decibels a branch leaves the climb in which precisions have a prior that
prunes, α_j = (1 + κ)/E|z_j|². It keeps what stands three to four standard deviations
above the noise, hardly an empty coordinate among them, and then
β = (N − Σ(1 − α_jΣ_jj)) / ‖y − Φμ‖² is safe to iterate.

Branches that left too early have lost signal, and those that left too late have noise
among their coordinates. The description length tells (Rissanen 2000): what it takes to
write down the residual, the k coordinates and which of the D they are. β is the mean of
the branches' on a log scale, weighted by it. See ``docs/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from scipy.special import gammaln

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Model
from cofem.inference.moments import EStep
from cofem.inference.mstep import update_precision

# The climb, in decibels above the noise precision at which y is all noise: EM's own
# step, kept between these, and the last β that is tried.
LEAST_STEP, LARGEST_STEP, HIGHEST = 0.5, 10.0, 110.0
MAX_STEPS = 200
# The first branch leaves after so many steps, others at this distance; not before the
# climb has come within a factor of what the last branch found.
FIRST_BRANCH, BETWEEN_BRANCHES, FAR_BELOW = 7, 3.0, 3.0
# κ. A coordinate stays if it stands √(1 + 2κ + 2√(κ(1+κ))) = 3.4 deviations above the
# noise: six empty ones in ten thousand do.
PRUNING = 2.5
# Iterations of a branch, the most β moves in one, and when it has settled; decibels.
BRANCH_ITERATIONS, BRANCH_STEP, SETTLED = 10, 3.0, 0.1
# The price of saying which coordinates, in units of log C(D, k). 2 would name the support
# exactly, though its neighbours explain the data nearly as well: weak signal is called
# noise. At 1.5 fitting coordinates to noise alone costs nothing.
SUPPORT_PRICE = 5 / 3
# Differences of description lengths are known to about √N.
FORGOTTEN = 3.0
# A climb past twice the branches' β, which no longer change, has nothing to find.
PLATEAU, PAST = 0.05, 2.0

EStepMaker = Callable[[Model], Sequence[EStep]]


@dataclass(frozen=True)
class Branch:
    """Where a branch that prunes has ended.

    Attributes
    ----------
    left_at : float
        The noise precision of the climb where it left.
    noise_precision : float
        What it found.
    residual, energy : float
        ‖y − Φμ‖² and ‖y‖².
    freedom : float
        k, the directions that the posterior determines, in real numbers.
    n_data : int
        N, in real numbers.
    coordinates : int
        How many precisions there are to choose from.
    per_coordinate : float
        Real numbers that one precision stands for: tasks, members of a group, and two
        for a complex one.
    """

    left_at: float
    noise_precision: float
    residual: float
    energy: float
    freedom: float
    n_data: int
    coordinates: int
    per_coordinate: float

    @property
    def description_length(self) -> float:
        """Twice the nats that it takes to describe y: residual, coefficients, support."""
        n = self.n_data
        k = min(max(self.freedom, 1e-6), 0.98 * n)
        noise = max(self.residual, 1e-20 * self.energy) / (n - k)
        # k coefficients explain at least what k numbers explain of pure noise.
        signal = max((self.energy - self.residual) / k, noise)
        chosen = min(k / self.per_coordinate, float(self.coordinates))
        supports = _log_binomial(self.coordinates, chosen)
        return (n - k) * math.log(noise) + k * math.log(signal) + SUPPORT_PRICE * supports


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise precision of every task, the branches it is taken from, and what it cost."""

    noise_precisions: list[float]
    branches: list[Branch]
    products: int


class _Walker:
    """EM whose β can be changed between iterations; α and the means are carried along.

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
        moments = []
        for i, estep in enumerate(self.esteps):
            start = None if self.means is None else self.means[i]
            found = estep.moments(scale * self.alpha, start, self.iteration, False)
            moments.append(replace(found, variance=scale * found.variance))
        self.means = [m.mean for m in moments]
        self.alpha = (1 + pruning) * update_precision(self.model, moments)
        fitted = [f.operator.forward(m) for f, m in zip(self.families, self.means, strict=True)]
        self.residual = math.fsum(
            _squared(f.y - g) for f, g in zip(self.families, fitted, strict=True)
        )
        self.freedom = math.fsum(m.freedom for m in moments)
        self.products += sum(m.products for m in moments) + len(self.model.tasks)

    @property
    def families(self) -> Sequence[object]:
        return self.model.families


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
    branches = [_all_noise(climber, energy, n_data)]
    products, beta = 0, lowest
    for count in range(1, MAX_STEPS + 1):
        climber.step(beta)
        if count >= FIRST_BRANCH and _branch_is_due(branches, beta):
            walker = climber.fork()
            branches.append(_branch(walker, beta, energy, n_data))
            products += walker.products
            if _past_the_noise(branches):
                break
        beta *= _ratio(_climb(climber, beta, n_data))
        if beta > lowest * _ratio(HIGHEST):
            break
    estimate = _average(branches)
    return NoiseEstimate(
        [estimate] * len(model.tasks), branches, products + climber.products
    )


def _climb(walker: _Walker, beta: float, n_data: int) -> float:
    """Return EM's step of β, N/β' = ‖y − Φμ‖² + Σ(1 − αΣ)/β, in decibels."""
    used = min(max(walker.freedom / n_data, 0.0), 0.98)
    step = -_decibels(beta * walker.residual / n_data + used)
    return min(max(step, LEAST_STEP), LARGEST_STEP)


def _branch_is_due(branches: list[Branch], beta: float) -> bool:
    last = branches[-1]
    far = last.noise_precision > FAR_BELOW * beta
    return not far and _decibels(beta / last.left_at) >= BETWEEN_BRANCHES


def _branch(walker: _Walker, beta: float, energy: float, n_data: int) -> Branch:
    """Prune, with β from the residual at every iteration, until β settles."""
    start = _all_noise(walker, energy, n_data)
    left_at, pruning = beta, PRUNING / start.per_coordinate
    walker.alpha = (1 + pruning) * walker.alpha
    settled = 0
    for _ in range(BRANCH_ITERATIONS):
        walker.step(beta, pruning)
        left = n_data - min(max(walker.freedom, 0.0), 0.98 * n_data)
        residual = max(walker.residual, 1e-20 * energy)
        move = min(max(_decibels(left / residual / beta), -BRANCH_STEP), BRANCH_STEP)
        beta *= _ratio(move)
        settled = settled + 1 if abs(move) < SETTLED else 0
        if settled == 2:
            break
    freedom = start.n_data / n_data * walker.freedom
    return replace(
        start,
        left_at=left_at,
        noise_precision=beta,
        residual=walker.residual,
        freedom=freedom,
    )


def _all_noise(walker: _Walker, energy: float, n_data: int) -> Branch:
    """Return the branch with no coordinate at all."""
    model = walker.model
    reals = 2 if backend.is_complex(model.like) else 1
    groups = model.n_precisions if model.tie.labels is None else len(model.tie.sizes)
    return Branch(
        left_at=n_data / energy,
        noise_precision=n_data / energy,
        residual=energy,
        energy=energy,
        freedom=0.0,
        n_data=reals * n_data,
        coordinates=groups,
        # With groups of several sizes, on average.
        per_coordinate=len(model.tasks) * reals * model.n_precisions / groups,
    )


def _past_the_noise(branches: list[Branch]) -> bool:
    """Whether later branches would change nothing."""
    if len(branches) < 3:
        return False  # one is "all noise"
    last, before = branches[-1], branches[-2]
    best = min(b.description_length for b in branches)
    if last.description_length - best > FORGOTTEN * math.sqrt(last.n_data):
        return True
    moved = abs(math.log(last.noise_precision / before.noise_precision))
    return moved < PLATEAU and last.left_at > PAST * last.noise_precision


def _average(branches: list[Branch]) -> float:
    """Average log β over the branches, the shorter descriptions first."""
    lengths = [b.description_length for b in branches]
    least = min(lengths)
    weights = [
        math.exp(-(length - least) / math.sqrt(b.n_data))
        for length, b in zip(lengths, branches, strict=True)
    ]
    logs = [math.log(b.noise_precision) for b in branches]
    total = math.fsum(w * x for w, x in zip(weights, logs, strict=True))
    return math.exp(total / math.fsum(weights))


def _log_binomial(n: float, k: float) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _decibels(ratio: float) -> float:
    return 10 * math.log10(ratio)


def _ratio(decibels: float) -> float:
    return float(10 ** (decibels / 10))


def _squared(x: Array) -> float:
    xp = backend.namespace(x)
    return float(xp.sum(xp.astype(backend.abs_squared(x), xp.float64)))
