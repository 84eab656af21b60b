"""Inverse-free sparse Bayesian learning by a relaxed lower bound of the evidence.

Duan, Yang, Fang & Li (2017). The misfit is bounded from above at any point w by

    ‖y − Φz‖² ≤ g(z, w) = ‖y − Φw‖² + 2 Re (z − w)ᴴ∇ + λ‖z − w‖²,   ∇ = Φᴴ(Φw − y),

if λ ≥ ‖Φ‖². With g in place of the misfit the posterior
factorises: a_j = βλ + α_j is its precision and
μ_j = β(λ w_j − ∇_j)/a_j its mean, and what it integrates to is a lower bound of the
evidence (real; complex without the halves):

    F(w, α) = N/2 log(β/2π) − β/2 g(μ, w) − ½ Σ α_j|μ_j|² + ½ Σ log(α_j / a_j).

EM climbs it: μ for given (w, α), then w ← μ and α_j ← 1/(|μ_j|² + 1/a_j). A step costs two
products. The variances 1/a_j do not depend on which directions Φ maps to zero: for N < D they are
far too small, and α converges too early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import LoopResult, Outcome
from cofem.learning.moments.gaussian import Moments, Report
from cofem.learning.recording import Callback, Recorder
from cofem.learning.sites.ard import update_precision
from cofem.learning.stopping import Verdict
from cofem.model.choosing import refuse_unfit
from cofem.model.model import Model, Task
from cofem.model.rival_methods import VI
from cofem.operators.norms import norm_squared

# A λ that was seen to be too small is set to this many times the least that would have been enough.
LARGER = 1.01


def run(
    model: Model,
    options: VI,
    alpha: Array,
    *,
    seed: int,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Outcome:
    """Climb the relaxed bound until the mean settles.

    Parameters
    ----------
    model : Model
        One task; groups may tie its prior precisions.
    options : VI
    alpha : array (D,)
        Where learning starts.
    seed : int
        Decides where the power iteration starts.
    max_iter, tol, callback
        As for :func:`cofem.fit`.
    """
    refuse_unfit(options, model)
    task, like = model.tasks[0], model.like
    steepest = options.safety * norm_squared(
        task.operator, like, n_iter=options.power_steps, seed=seed
    )
    relaxed = RelaxedPosterior(task, like, steepest)
    relaxed.products = 2 * options.power_steps
    recorder = Recorder(max_iter, tol, callback)
    point = relaxed.origin()
    while True:
        step = relaxed.at(point, alpha)
        recorder.add([step.mean], alpha, products=relaxed.products, log_evidence=step.bound)
        verdict = recorder.verdict(recorder.mean_settled, Verdict.MEAN_NOT_SETTLED)
        if verdict is not None:
            break
        rows = step.mean[None, :]
        alpha = update_precision(model, [Moments(rows, step.variance, sparse_mean=rows)])
        point = relaxed.move_to(step.mean, point)
    found = LoopResult(alpha, [step.mean], verdict, recorder.facts, recorder.history)
    unknown = backend.namespace(alpha).full_like(step.variance, math.nan)
    return Outcome(found, [Report(step.variance, unknown, step.bound, math.nan)])


@dataclass(frozen=True)
class Point:
    """Where the misfit is bounded: w (D,), Φw (N,) and ∇ = Φᴴ(Φw − y) (D,)."""

    w: Array
    image: Array
    gradient: Array


@dataclass(frozen=True)
class Step:
    """The factorised posterior at (w, α), and the bound F there."""

    mean: Array
    variance: Array
    bound: float


class RelaxedPosterior:
    """The relaxed posterior of one task, for any λ that is large enough.

    Parameters
    ----------
    task : Task
    like : array
        With the library, device and dtype of z.
    steepest : float
        λ ≥ ‖Φ‖². It is raised if a step shows that it is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Identity
    >>> relaxed = RelaxedPosterior(Task(Identity(2), np.array([1.0, 2.0]), 3.0), np.empty(0), 1.0)
    >>> relaxed.at(relaxed.origin(), np.ones(2)).mean
    array([0.75, 1.5 ])
    """

    def __init__(self, task: Task, like: Array, steepest: float) -> None:
        self.task, self.like, self.products = task, like, 0
        # Φ = 0 has no slope; any positive λ bounds it.
        self.steepest = steepest if steepest > 0 else 1.0

    def origin(self) -> Point:
        """Return w = 0."""
        xp = backend.namespace(self.like)
        d, y = self.task.operator.shape[1], self.task.y
        w = xp.zeros((d,), dtype=self.like.dtype, device=backend.device_of(self.like))
        return self._point(w, xp.zeros_like(y))

    def move_to(self, w: Array, old: Point) -> Point:
        """Return the next point w; the bound F rises if λ is large enough on the way to it."""
        image = self.task.operator.forward(w)
        self.products += 1
        way = backend.squared_size(w - old.w)
        # F rises because ‖Φ(w − w_old)‖² ≤ λ‖w − w_old‖². Power iteration approaches ‖Φ‖² from
        # below, so λ can be too small. This is rare; the step that shows it also shows a better λ.
        if way > 0 and backend.squared_size(image - old.image) > self.steepest * way:
            self.steepest = LARGER * backend.squared_size(image - old.image) / way
        return self._point(w, image)

    def at(self, point: Point, alpha: Array) -> Step:
        """Return mean, variance and bound for given w and α."""
        xp = backend.namespace(alpha)
        slope = self.task.noise_precision * self.steepest  # βλ
        precision = slope + alpha
        pull = slope * point.w - self.task.noise_precision * point.gradient
        mean = pull / precision
        variance = xp.astype(1 / precision, alpha.dtype, copy=False)
        return Step(mean, variance, self._bound(point, mean, alpha))

    def _point(self, w: Array, image: Array) -> Point:
        gradient = self.task.operator.adjoint(image - self.task.y)
        self.products += 1
        xp = backend.namespace(self.like)
        return Point(w, image, xp.astype(gradient, self.like.dtype, copy=False))

    def _bound(self, point: Point, mean: Array, alpha: Array) -> float:
        """F(w, α); sums in double precision."""
        xp, beta = backend.namespace(alpha), self.task.noise_precision
        double = xp.float64
        away = mean - point.w
        along = backend.real(backend.conj(away) * point.gradient)
        misfit = backend.squared_size(self.task.y - point.image)
        misfit += 2 * float(xp.sum(xp.astype(along, double)))
        misfit += self.steepest * backend.squared_size(away)
        alpha = xp.astype(alpha, double)
        prior = float(xp.sum(alpha * xp.astype(backend.abs_squared(mean), double)))
        # log(α/a) = −log(1 + βλ/α), without the difference of two large logarithms.
        log_ratio = -float(xp.sum(xp.log1p(beta * self.steepest / alpha)))
        n = self.task.operator.shape[0]
        if backend.is_complex(mean):
            return n * math.log(beta / math.pi) - beta * misfit - prior + log_ratio
        value = n * math.log(beta / (2 * math.pi)) - beta * misfit - prior + log_ratio
        return self.task.log_volume + 0.5 * value
