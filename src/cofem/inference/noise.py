"""The noise precision from the data, when the user does not know it.

Maximising the evidence over β fails for N ≤ D: it rises for ever, because enough
coordinates explain any noise. Holding rows out fails too where it matters: near the
phase transition the remaining rows no longer recover z, and in a convolution a
missing sample is not predictable. We keep all rows and count what the fit uses up.

EM is walked down a ladder of noise precisions, from far too high to too low, warm
all the way. Beside it walks a twin whose data are perturbed by δe with random signs
e; the difference of the fits, eᵀ(ŷ' − ŷ)/δ, estimates the divergence of the whole
map y → Φμ, learning of α included (Ramani, Blu & Unser 2008). With it, generalised
cross-validation (‖y − ŷ‖²/N)/(1 − div/N)² is an honest estimate of the prediction
error at every rung. It is flat where α absorbs noise and rises steeply where signal
is lost; the lowest β before that rise is taken, and there, where little noise is
fitted, the residual tells the noise: σ² = ‖y − Φμ‖² / (N − Σ(1 − α_jΣ_jj)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Model
from cofem.inference.moments import EStep
from cofem.inference.mstep import update_precision

# The ladder: signal-to-noise ratios in dB. A high precision costs many CG steps, so a
# higher top is tried only for data so clean that the ladder is best at its top.
TOPS, LOWEST, RUNG = (40.0, 60.0, 85.0, 110.0), -5.0, 5.0
# EM iterations on the first rung, on the others, and while nothing can be learned.
FIRST_ITERATIONS, ITERATIONS, WHILE_SATURATED = 30, 5, 2
# A fit that uses more than this share of the data says little about its noise: the
# divergence is an estimate, and what is left of the data is a small difference.
SATURATED = 0.65
# How much larger than its minimum the prediction error may be at the rung we take.
SLACK = 1.3
PERTURBATION = 1e-3

EStepMaker = Callable[[Model], Sequence[EStep]]


@dataclass(frozen=True)
class Rung:
    """What the walk found at one noise precision."""

    noise_precision: float
    residual: float
    freedom: float
    divergence: float
    n_data: int

    @property
    def prediction_error(self) -> float:
        """Generalised cross-validation with the divergence of the whole fit."""
        share = min(self.divergence / self.n_data, 0.999)
        return self.residual / self.n_data / (1 - share) ** 2

    @property
    def noise_variance(self) -> float:
        """σ² from the residual and the directions that the posterior determines."""
        return self.residual / max(self.n_data - self.freedom, 1e-3 * self.n_data)

    @property
    def saturated(self) -> bool:
        """Whether the fit follows nearly all of the data, noise included."""
        return max(self.divergence, self.freedom) > SATURATED * self.n_data


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise precision of every task, the ladder, and what it cost."""

    noise_precisions: list[float]
    ladder: list[Rung]
    products: int


class _Walker:
    """EM with α and means carried from one noise precision to the next."""

    def __init__(self, model: Model, make: EStepMaker, alpha: Array) -> None:
        self.model, self.make, self.alpha = model, make, alpha
        self.means: list[Array] | None = None
        self.iteration, self.products, self.freedom = 0, 0, 0.0

    def walk(self, noise_precision: float, iterations: int) -> list[Array]:
        """Run EM at this β and return the fitted data of every family."""
        model = self.model.with_noise([noise_precision] * len(self.model.tasks))
        esteps = self.make(model)
        for _ in range(iterations):
            self.iteration += 1
            moments = [
                step.moments(
                    self.alpha, None if self.means is None else self.means[i], self.iteration, False
                )
                for i, step in enumerate(esteps)
            ]
            self.means = [m.mean for m in moments]
            self.alpha = update_precision(model, moments)
            self.freedom = sum(m.freedom for m in moments)
            self.products += sum(m.products for m in moments)
        assert self.means is not None
        self.products += len(model.tasks)
        return [f.operator.forward(m) for f, m in zip(model.families, self.means, strict=True)]


def estimate_noise_precision(model: Model, make: EStepMaker, alpha: Array) -> NoiseEstimate:
    """Walk down the ladder and return one noise precision for all tasks.

    Parameters
    ----------
    model : Model
        Its noise precisions are ignored.
    make : function
        Model → E-steps, with the random numbers of an iteration decided by its
        number, so that the twin sees the same ones.
    alpha : array (D,)
        Where EM starts.
    """
    # One noise precision for all tasks: a family is then an operator.
    model = model.with_noise([1.0] * len(model.tasks))
    n_data = sum(t.operator.shape[0] for t in model.tasks)
    power = sum(_squared(t.y) for t in model.tasks) / n_data
    if power == 0.0:
        return NoiseEstimate([1.0] * len(model.tasks), [], 0)  # y = 0 has no scale
    delta = PERTURBATION * math.sqrt(power)
    signs = [
        backend.Random(0, i).signs((t.operator.shape[0],), t.y) for i, t in enumerate(model.tasks)
    ]
    twin_tasks = tuple(
        replace(t, y=t.y + delta * e)
        for t, e in zip(model.tasks, signs, strict=True)
    )
    twin_model = replace(model, tasks=twin_tasks)
    family_signs = [
        backend.namespace(f.y).stack([signs[i] for i in f.members]) for f in model.families
    ]
    products = 0
    for top in TOPS:
        walker, twin = _Walker(model, make, alpha), _Walker(twin_model, make, alpha)
        ladder = _descend(walker, twin, family_signs, delta, power, top)
        products += walker.products + twin.products
        chosen = _choose(ladder)
        if not _best_at_the_top(ladder[:2]):
            break
    beta = 1 / chosen.noise_variance
    return NoiseEstimate([beta] * len(model.tasks), ladder, products)


def _descend(
    walker: _Walker, twin: _Walker, signs: list[Array], delta: float, power: float, top: float
) -> list[Rung]:
    """Walk both from the rung at ``top`` dB down until the signal is being lost."""
    families = walker.model.families
    n_data = sum(f.y.shape[0] * f.operator.shape[0] for f in families)
    ladder: list[Rung] = []
    for snr in np.arange(top, LOWEST - RUNG / 2, -RUNG):
        beta = 10 ** (float(snr) / 10) / power
        iterations = _iterations(ladder)
        fitted, moved = walker.walk(beta, iterations), twin.walk(beta, iterations)
        ladder.append(
            Rung(
                noise_precision=beta,
                residual=sum(_squared(f.y - g) for f, g in zip(families, fitted, strict=True)),
                freedom=walker.freedom,
                divergence=sum(map(_divergence, signs, fitted, moved)) / delta,
                n_data=n_data,
            )
        )
        if _past_the_rise(ladder) or _best_at_the_top(ladder):
            break
    return ladder


def _iterations(ladder: list[Rung]) -> int:
    if not ladder:
        return FIRST_ITERATIONS
    return WHILE_SATURATED if ladder[-1].saturated else ITERATIONS


def _past_the_rise(ladder: list[Rung]) -> bool:
    """Whether the prediction error has risen so far that nothing below can be chosen."""
    useful = [r.prediction_error for r in ladder if not r.saturated]
    return len(useful) >= 2 and useful[-1] > 2.5 * min(useful)


def _best_at_the_top(ladder: list[Rung]) -> bool:
    """Whether the second rung already predicts worse than the first."""
    return (
        len(ladder) == 2
        and not ladder[0].saturated
        and ladder[1].prediction_error > ladder[0].prediction_error
    )


def _choose(ladder: list[Rung]) -> Rung:
    """Return the lowest β whose prediction error is still close to the least one."""
    useful = [r for r in ladder if not r.saturated] or ladder[-1:]
    best = min(range(len(useful)), key=lambda i: useful[i].prediction_error)
    least = useful[best].prediction_error
    chosen = best
    for i in range(best, len(useful)):
        if useful[i].prediction_error > SLACK * least:
            break
        chosen = i
    return useful[chosen]


def _squared(x: Array) -> float:
    xp = backend.namespace(x)
    return float(xp.sum(xp.astype(backend.abs_squared(x), xp.float64)))


def _divergence(signs: Array, fitted: Array, moved: Array) -> float:
    xp = backend.namespace(fitted)
    return float(xp.sum(backend.real(backend.conj(signs) * (moved - fitted))))
