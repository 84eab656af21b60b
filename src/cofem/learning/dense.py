"""The dense end: no coordinate is zero, and all have one normal prior.

With few data about many non-zeros, sets of non-zeros cannot be told apart, and expectation
propagation names some of them, or none, and is sure of it. A ridge regression is right there:
z_j √θ_j ~ N(0, v/β) for every j. The two numbers v and β follow from the evidence, which for this
prior is known exactly. v is taken where the evidence is largest if the share of the power of y
that is signal, ρ = vλ/(1 + vλ), λ = D/N, is uniformly distributed (the uniform shrinkage prior of
Daniels 1999): with orthonormal rows, where the data do not tell small coefficients from noise, ρ
is then a half and not zero or one. The noise variance is the mean of its posterior, given v.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from cofem import backend
from cofem.learning.certificate import Certificate
from cofem.learning.ends.held_shares import STEP
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import iterate
from cofem.learning.moments.spectrum import Spectrum, spectrum
from cofem.learning.sites.averages import LEAST_SHARE, NO_SPIKE, averaged, sigmoid
from cofem.learning.sites.marginals import Marginals
from cofem.learning.sites.mixture import most_per_datum
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import End, EStepMaker
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The range of v λ, the signal to noise ratio, and how many values are looked at before the best
# is refined.
RANGE, VALUES = (1e-6, 1e12), 200
# With fewer data than unknowns a sparse end must have so much more evidence than the dense one: how
# the slabs divide their share is learned too, half a nat for a number that the data determine.
MARGIN = 0.5
# The prior odds of a dense z are e to the minus this: one in 150. They count in the
# probabilities that coordinates are non-zero.
RARE = 5.0


def may_be_dense(model: Model, ends: list[End], settings: Settings) -> bool:
    """Whether there can be a dense end: one plain task with data, and a fit that may go on."""
    stopped = any(end.found.verdict is Verdict.STOPPED for end in ends)
    plain = model.is_plain and not model.nonnegative
    noise = ends[0].rule.noises[0]
    return plain and not stopped and settings.tol > 0 and noise.energy > 0 and noise.n_data >= 3


def dense_end(
    model: Model, make: EStepMaker, given: bool, settings: Settings, spent: int
) -> tuple[End, dict[str, Any]]:
    """Return the end at which all coordinates have one normal prior, and its log evidence.

    ``model`` has its noise precision if that is ``given``; ``spent`` products were made before.
    """
    task, family = model.tasks[0], model.families[0]
    xp = backend.namespace(model.like)
    lengths = family.operator.column_norms_squared(model.like)
    lengths = xp.where(lengths > 0, lengths, xp.max(lengths))
    y = xp.astype(task.y, model.like.dtype, copy=False)
    found = spectrum(task.operator, y, lengths, settings.seed)
    half = 1.0 if backend.is_complex(model.like) else 0.5
    n, d = task.operator.shape
    beta = task.noise_precision if given else 0.0
    v = best_ratio(found, n, d / n, half, beta)
    beta = beta or (n - 1 / half) / found.quadratic(v)
    model = model.with_noise([beta])
    rule = Propagation(model, 0.0, True, settings.tol)
    rule.noises[0].ratio = 1.0
    scales, weights = np.array([0.0, v]), np.array([NO_SPIKE, 1.0])
    rule.prior = replace(rule.prior, scales=scales, weights=weights, most=1.0, first=weights)
    rule.precisions = [unit / v for unit in rule.units]
    end = iterate(model, make(model), rule, max_iter=1, tol=0.0, spent=spent + found.products)
    end.verdict = Verdict.DENSE
    power = beta * found.quadratic(v)
    evidence = -half * (found.log_det(v) + n * math.log(math.pi / half / beta) + power)
    evidence += model.families[0].log_volume
    error = half * found.log_det_error(v)
    told = {"log_evidence": evidence, "log_evidence_error": error}
    return End(rule, end, Certificate.GIVEN), told


def best_ratio(found: Spectrum, n: int, level: float, half: float, beta: float) -> float:
    """Return v, prior variance over noise variance in units of the columns.

    Parameters
    ----------
    found : Spectrum
    n : int
        N.
    level : float
        The mean eigenvalue λ of K.
    half : float
        ½, or 1 if complex.
    beta : float
        The noise precision, or 0 if it is to be learned.
    """

    def loss(log_v: float) -> float:
        v = math.exp(log_v)
        power = found.quadratic(v)
        misfit = beta * power if beta else n * math.log(power)
        uniform = math.log(v * level) - 2 * math.log1p(v * level)  # log ρ(1 − ρ)
        return half * (found.log_det(v) + misfit) - uniform

    first, last = (math.log(ratio / level) for ratio in RANGE)
    logs = np.linspace(first, last, VALUES)
    losses = [loss(x) for x in logs.tolist()]
    best = int(np.argmin(losses))
    low, high = logs[max(best - 1, 0)], logs[min(best + 1, VALUES - 1)]
    refined: Any = minimize_scalar(loss, bounds=(low, high), method="bounded")
    return math.exp(float(refined.x if refined.fun < losses[best] else logs[best]))


def margin(model: Model) -> float:
    """Return by how much more evidence a sparse end must have than the dense one.

    The prior is uniform in the logarithm of the share of non-zeros. With fewer data than unknowns
    the slabs may weigh only so much, and the dense end stands for all shares above. With more they
    can say "dense" themselves.
    """
    rows, columns = model.tasks[0].operator.shape
    if rows >= columns:
        return 0.0
    half = 1.0 if backend.is_complex(model.like) else 0.5
    most = min(most_per_datum(rows / columns, half) * rows / columns, 1.0)
    return MARGIN + math.log(max(-math.log(most) / math.log(STEP), 1.0))


def unless_sparse(dense: Learned, sparse: Learned, believed: bool) -> Learned:
    """Return the dense fit, the sparse one, or their average where the evidence is about equal.

    A sparse one that is not ``believed`` is no part of an average.
    """
    gain = dense.outcome.reports[0].log_evidence - sparse.outcome.reports[0].log_evidence
    share = sigmoid(gain + margin(dense.model))
    if not share > (LEAST_SHARE if believed else 0.5):
        return sparse
    assert isinstance(sparse.marginals, Marginals)
    chosen = weighed(dense, gain, sparse.marginals.probability)
    if not believed or share > 1 - LEAST_SHARE:
        return chosen
    chosen.outcome.found.note = f"; averaged with a sparse one, which has {1 - share:.0%} of both"
    assert isinstance(chosen.marginals, Marginals)
    known = replace(sparse.marginals, probability=chosen.marginals.probability)
    both = averaged([chosen.marginals, known], [share, 1 - share], atoms=False)
    return replace(chosen, marginals=both)


def weighed(dense: Learned, gain: float, otherwise: Any) -> Learned:
    """Return the dense fit with P(z_j ≠ 0) averaged over both explanations of y.

    ``gain`` is by how much its log evidence is larger than that of the sparse one, and
    ``otherwise`` the probabilities under that one.
    """
    share = sigmoid(gain - RARE)
    marginals = dense.marginals
    assert isinstance(marginals, Marginals)
    xp = backend.namespace(marginals.probability)
    average = share + (1 - share) * (otherwise + 0 * marginals.probability)
    marginals = replace(marginals, probability=xp.clip(average, min=0.0, max=1.0))
    return replace(dense, marginals=marginals)
