"""The noise precision under a prior of two numbers: most coordinates are zero.

With one free α for every coordinate the evidence has no maximum in β. So here all
coordinates have one prior, z_j = 0 with probability 1 − λ and otherwise z_j ~ N(0, s), and
λ, s and β are learned. They are found by expectation propagation (Minka 2001) in the form
in which one number describes what the data say about every coordinate (vector approximate
message passing, Rangan, Schniter & Fletcher 2019):

- Every coordinate has a Gaussian site, exp(−α_j z²/2 + η_j z). The posterior under the
  sites is that of our models with another right-hand side, βΦᴴy + η, and its trace
  Σ α_j Σ_jj is what the probes know best. From it follows c with Σ α_j/(α_j + cθ_j) equal to
  the trace, θ_j = ‖φ_j‖²: without its site, coordinate j is known as v_j ± (cθ_j)^-½.
- That and the prior give the probability that z_j is not zero, and mean and variance of
  z_j; the new site is what turns v_j into them.
- λ and s follow from the probabilities (EM), and β from what is left unexplained,
  β = (N − k − ½√N) / ‖y − Φμ‖², k = Σ(1 − α_jΣ_jj).

β moves by a bounded factor in an iteration. If it begins below the truth, that anneals the
problem, and finds signal that EM for α does not find at the true β. See ``docs/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cofem import backend
from cofem.backend import Array
from cofem.inference.estep_cofem import CovarianceFreeEStep
from cofem.inference.model import Model, Tie
from cofem.inference.noise_walker import squared_rows
from cofem.inference.shrinkage import field_factor

# The share of the data that may carry signal to begin with, as a fraction of min(N, D).
FIRST_SHARE = 0.2
# New sites and old ones are averaged half and half; β follows from the fourth iteration on.
DAMPING, FIRST_NOISE = 0.5, 3
# The most that log β moves in an iteration.
LARGEST_MOVE = 0.4
# Iterations; the last WINDOW of them are averaged, and compared with those before. Near the
# phase transition it may rest for twenty before it finds the signal.
MOST, LEAST, WINDOW, SETTLED = 140, 40, 4, 0.005
# log β is not known better than by √(2/N), and near the phase transition its likelihood is
# flat: of the N data so many √N are not counted, so that it does not drift upwards for ever.
PENALTY = 0.5
# What the data say of a column of zeros, beside the best seen: nothing, but not 0/0.
UNSEEN = 1e-8
# A site is never weaker or stronger than this beside what the data say. And no fit counts
# as using more of the data.
WEAKEST, STRONGEST, LARGEST_SHARE = 1e-3, 1e8, 0.98


CovarianceFreeMaker = Callable[[Model], Sequence[CovarianceFreeEStep]]
"""Model → CoFEM's E-steps: the ones that take sites with a mean."""


@dataclass(frozen=True)
class Mixture:
    """A coordinate is zero but with probability ``share``, and then N(0, power).

    Attributes
    ----------
    share, power : float
        λ and s.
    half : float
        ½ for real numbers, 1 for complex ones: what stands before a log density.
    tie : Tie
        Coordinates of one group are zero together.

    Examples
    --------
    >>> import numpy as np
    >>> prior = Mixture(share=0.1, power=4.0, half=0.5, tie=Tie())
    >>> posterior = prior.given(np.array([0.1, 3.0]), np.array([10.0, 10.0]))
    >>> posterior.probability.round(3)
    array([0.018, 1.   ])
    """

    share: float
    power: float
    half: float
    tie: Tie

    def given(self, value: Array, precision: Array) -> Posterior:
        """Return what is known of coordinates that were seen as value ± precision^-½."""
        xp = backend.namespace(precision)
        signal = self.power * precision  # signal to noise
        # log of N(v; 0, s + 1/q) over N(v; 0, 1/q)
        evidence = backend.abs_squared(value) * precision * (signal / (1 + signal))
        evidence = self.half * (evidence - xp.log(1 + signal))
        if self.tie.labels is not None:
            sizes = backend.from_numpy(self.tie.sizes[self.tie.labels], evidence)
            means = backend.group_means(evidence, self.tie.labels, self.tie.sizes)
            evidence = means * xp.astype(sizes, evidence.dtype)
        odds = evidence + math.log(self.share / (1 - self.share))
        probability = 1 / (1 + xp.exp(-xp.clip(odds, min=-80.0, max=80.0)))
        variance = self.power / (1 + signal)
        return Posterior(probability, variance * precision * value, variance)


@dataclass(frozen=True)
class Posterior:
    """The probability of not being zero, and mean and variance if so."""

    probability: Array
    mean: Array
    variance: Array

    def learned(self, prior: Mixture) -> Mixture:
        """Return the prior that fits best (an M-step)."""
        xp = backend.namespace(self.probability)
        total = float(xp.sum(self.probability, dtype=xp.float64))
        squares = self.probability * (backend.abs_squared(self.mean) + self.variance)
        n = self.probability.shape[0]
        share = min(max(total / n, 1e-3 / n), 0.999)
        power = float(xp.sum(squares, dtype=xp.float64)) / max(total, 1e-12)
        return Mixture(share, max(power, 1e-12 * prior.power), prior.half, prior.tie)

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of the coordinates themselves."""
        p = self.probability
        variance = p * self.variance + p * (1 - p) * backend.abs_squared(self.mean)
        return p * self.mean, variance


@dataclass(frozen=True)
class End:
    """A noise precision, whether it had settled, and the products that it took."""

    noise_precision: float
    settled: bool
    products: int


def refined(
    model: Model, make: CovarianceFreeMaker, alpha: Array, noise_precision: float
) -> End:
    """Return the noise precision of the only task.

    Parameters
    ----------
    model : Model
        Its noise precision is ignored.
    make : function
        Model → CoFEM's E-steps.
    alpha, noise_precision
        Where it begins: the precisions of a sparse fit, and its noise precision.
    """
    (task,) = model.tasks
    y, like = task.y, model.like
    xp = backend.namespace(like)
    n_data, n = task.operator.shape
    energy = float(squared_rows(y))
    unit = beta = noise_precision
    (estep,) = make(model.with_noise([unit]))
    theta = task.operator.column_norms_squared(like)
    theta = xp.maximum(theta, UNSEEN * xp.max(theta))
    share, power = _first_guess(model)
    prior = Mixture(share, power, 1.0 if backend.is_complex(like) else 0.5, model.tie)
    pull = xp.zeros(n, dtype=like.dtype, device=backend.device_of(like))
    mean: Any = None
    products = 0
    logs: list[float] = []
    for count in range(1, MOST + 1):
        # Everything but a scale depends on α/β and η/β alone: the E-step was made at unit.
        scale = unit / beta
        found = estep.moments(scale * alpha, mean, count, False, scale * pull)
        mean, products = found.mean, products + found.products + 1
        used = min(max(found.freedom, 1e-3), LARGEST_SHARE * n_data)
        cavity = field_factor(scale * alpha, theta, unit, n - used) / scale * theta
        value = ((alpha + cavity) * mean[0, :] - pull) / cavity
        posterior = prior.given(value, cavity)
        if count > FIRST_NOISE:
            prior = posterior.learned(prior)
            posterior = prior.given(value, cavity)
            residual = float(squared_rows(y - task.operator.forward(mean[0, :])))
            beta = _moved(beta, n_data, used, max(residual, 1e-20 * energy))
            logs.append(math.log(beta))
            if _settled(logs):
                return End(_average(logs), True, products)
        alpha, pull = _sites(alpha, pull, value, cavity, *posterior.moments())
    return End(_average(logs), False, products)


def _moved(beta: float, n_data: int, used: float, residual: float) -> float:
    """Return β after a step towards what the unused data say of the residual."""
    unused = max(n_data - used - PENALTY * math.sqrt(n_data), (1 - LARGEST_SHARE) * n_data)
    move = math.log(unused / residual / beta)
    return beta * math.exp(min(max(move, -LARGEST_MOVE), LARGEST_MOVE))


def _average(logs: list[float]) -> float:
    return math.exp(math.fsum(logs[-WINDOW:]) / WINDOW)


def from_noise_alone(model: Model, make: CovarianceFreeMaker) -> End:
    """Return the same, beginning where y is all noise and nothing is known."""
    (task,) = model.tasks
    share, power = _first_guess(model)
    xp = backend.namespace(model.like)
    flat = xp.ones_like(task.operator.column_norms_squared(model.like)) / (share * power)
    return refined(model, make, flat, task.operator.shape[0] / float(squared_rows(task.y)))


def _first_guess(model: Model) -> tuple[float, float]:
    """Return λ and s if y were all signal."""
    (task,) = model.tasks
    n_data, n = task.operator.shape
    theta = task.operator.column_norms_squared(model.like)
    share = FIRST_SHARE * min(n_data, n) / n
    total = float(backend.namespace(theta).sum(theta))
    return share, float(squared_rows(task.y)) / (share * total)


def _sites(
    alpha: Array, pull: Array, value: Array, cavity: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Return the sites under which a coordinate seen as ``value`` has this mean and variance."""
    xp = backend.namespace(alpha)
    tiny = 1e-14 if alpha.dtype == xp.float64 else 1e-10
    precision = 1 / xp.maximum(variance, tiny / cavity) - cavity
    precision = xp.minimum(xp.maximum(precision, WEAKEST * cavity), STRONGEST * cavity)
    wanted = mean * (cavity + precision) - value * cavity
    mixed = xp.exp((1 - DAMPING) * xp.log(alpha) + DAMPING * xp.log(precision))
    return mixed, (1 - DAMPING) * pull + DAMPING * wanted


def _settled(logs: list[float]) -> bool:
    """Whether log β has not moved for two windows; one alone trembles with the probes."""
    if len(logs) < max(LEAST, 2 * WINDOW):
        return False
    now, before = logs[-WINDOW:], logs[-2 * WINDOW : -WINDOW]
    return abs(math.fsum(now) - math.fsum(before)) <= SETTLED * WINDOW
