"""Sparse Bayesian learning as a site rule: one precision for every coordinate, a = 1/E u².

With pruning, a = (1 + κ)/E u²: EM under a prior on the precisions that favours large ones.
Then a coordinate stays if it stands t = √κ + √(1 + κ) error bars above zero, and for k
non-zeros among D the right t is √(2 log(D/k)) (Donoho & Johnstone 1994; Abramovich, Benjamini,
Donoho & Johnstone 2006). For k we take the number of directions that the data determine, in every
iteration anew. A pruned fit uses few of the data, so its residual shows how large the noise is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.noise import LearnedNoise
from cofem.learning.sites.extrapolation import Extrapolation
from cofem.learning.sites.rectified import rectified_second_moment
from cofem.learning.stopping import Movement, Verdict
from cofem.model.model import Model
from cofem.solvers import kernels

# Pruning in the first iterations would remove coordinates before EM has estimated them. It begins
# when at most one coordinate in NEARLY_SETTLED still moves, and at the latest in this iteration. If
# the noise is learned it begins in just this iteration: its estimate starts high and must fall
# first.
NEARLY_SETTLED, LATEST_PRUNING = 100, 15
# The largest precision, relative to the smallest one: that of a pruned coordinate would grow
# without limit.
LARGEST = 1e12
# With fewer data than unknowns: a fit that uses more than this share of the data does not yet
# prefer some coordinates to others,
ALL_USED = 0.98
# if also more than the share MOST of all precisions grows by this factor in an iteration.
STILL_GROWING, MOST = 1.02, 0.8
# How far apart the precisions of the rows of R may lie.
SPAN = 1e10


def strictness(n_coordinates: int, n_relevant: float) -> float:
    """Return κ for k non-zeros among D.

    Examples
    --------
    >>> strictness(10, 7), round(strictness(200_000, 500), 2)
    (0.0, 2.52)
    """
    t_squared = 2 * math.log(max(n_coordinates, 1) / max(n_relevant, 1.0))
    if t_squared <= 1:
        return 0.0
    t = math.sqrt(t_squared)
    return ((t - 1 / t) / 2) ** 2


@final
class Ard:
    """Precisions that follow from second moments; the noise given or learned on the way.

    Parameters
    ----------
    model : Model
        Its noise precisions are those of the E-steps.
    alpha : array (M,)
        Where the precisions begin.
    tol : float
        As for :func:`cofem.fit`.
    pruning : bool
    noise : LearnedNoise, optional
        None: the noise precisions are those of the model.
    """

    def __init__(
        self,
        model: Model,
        alpha: Array,
        tol: float,
        pruning: bool = False,
        noise: LearnedNoise | None = None,
    ) -> None:
        self.model, self.alpha, self.pruning, self.noise = model, alpha, pruning, noise
        self.movement = Movement(tol)
        self.began = 0  # the iteration from which on it prunes
        self.needs_variances = False
        self.products = 0 if noise is None else len(model.tasks)  # for the residuals
        # Of one precision, beside a real coordinate of one task.
        self._directions = len(model.tasks) * (2 if backend.is_complex(model.like) else 1)
        self._norms: list[Array] | None = None
        if model.sparsifier is None:
            self._norms = [
                f.noise_precision * f.operator.column_norms_squared(alpha) for f in model.families
            ]
        self._tol, self._iteration, self._growing, self._prior_change = tol, 0, 0.0, math.inf
        self._moments: Sequence[Moments] = ()
        plain = tol == 0 or pruning or noise is not None
        self._far = None if plain else Extrapolation()

    @property
    def ratio(self) -> float:
        """The noise precision over that of the model."""
        return 1.0 if self.noise is None else self.noise.ratio

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return where the E-steps start: at the last means."""
        return means

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return precision and pull of every family, at the model's noise precision."""
        alpha = self.alpha if self.noise is None else self.alpha / self.ratio
        return [(alpha, None)] * len(self.model.families)

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the moments under the present sites; return a verdict if they are the last."""
        self._iteration += 1
        if self.noise is not None:  # they are those at the model's noise precision
            moments = [self._at_the_noise(m) for m in moments]
        self._moments = moments
        if self._tol == 0 or before is None:
            return None
        if self._norms is None:  # with a sparsifier: the error bars themselves
            variances = [m.variance for m in moments]
            if any(v is None for v in variances):
                return None
            precisions = [1 / v for v in variances if v is not None]
        else:
            precisions = [self.alpha + self.ratio * norms for norms in self._norms]
        means = [m.sparse_mean for m in moments]
        self.movement.count(means, before, precisions, self._prior_change)
        if self.noise is not None and not self.noise.at_rest:
            return None
        if self.pruning and not self.began:
            return None
        if self._far is not None and not self._far.plain:
            return None
        return None if self._all_used(moments) else self.movement.settled(random)

    def _all_used(self, moments: Sequence[Moments]) -> bool:
        """Whether the prior has no effect yet, as in the first iterations if a coefficient is huge.

        With fewer data than unknowns the mean then stands still, and all precisions only grow.
        """
        tasks = self.model.tasks
        n_data = sum(t.operator.shape[0] for t in tasks)
        used = sum(m.freedom for m in moments)
        few = n_data < self.model.n_unknowns * len(tasks)
        return few and used > ALL_USED * n_data and self._growing > MOST

    def advance(self) -> None:
        """Move on: the M-step, and the noise."""
        alpha = update_precision(self.model, self._moments)
        if self.pruning:
            alpha = self._pruned(alpha)
        xp = backend.namespace(alpha)
        grows = xp.astype(alpha > STILL_GROWING * self.alpha, alpha.dtype)
        self._growing = float(xp.mean(grows))
        self._prior_change = self._directions * divergence(alpha, self.alpha)
        if self._far is not None:
            alpha = self._far.step(self._iteration, self.alpha, alpha, self._worth())
        self.alpha = alpha
        if self.noise is not None:
            self.noise.follow(self._moments, pruned=self.began > 0 or not self.pruning)

    def _worth(self) -> float:
        """Return what long steps must not make smaller; NaN: none are taken.

        This is the log evidence where EM raises it, and else how little EM still moves. Estimates
        from random probes have neither.
        """
        if any(m.cg_steps > 0 for m in self._moments):
            return math.nan
        if self.model.nonnegative or self.model.sparsifier is not None:
            return -self._prior_change
        return sum(m.log_evidence for m in self._moments)

    def _at_the_noise(self, moments: Moments) -> Moments:
        if moments.variance is None:
            return moments
        return replace(moments, variance=moments.variance / self.ratio)

    def _pruned(self, alpha: Array) -> Array:
        nearly = self.movement.n and self.movement.moving <= self.movement.n / NEARLY_SETTLED
        early = nearly and self.noise is None
        if not self.began and (early or self._iteration >= LATEST_PRUNING):
            self.began = self._iteration
        if not self.began:
            return alpha
        xp = backend.namespace(alpha)
        tasks = len(self.model.tasks)
        relevant = sum(m.freedom for m in self._moments) / tasks
        kappa = strictness(int(alpha.shape[0]), relevant) / tasks
        return xp.minimum((1 + kappa) * alpha, LARGEST * xp.min(alpha))

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        n = self.movement.n or self.model.n_precisions  # none is compared in the first iteration
        moving = self.movement.moving if self.movement.n else n
        return {"share": self.movement.share, "moving": moving, "n": n}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.NOT_SETTLED

    # -- checkpoints -------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        kept = {"alpha": backend.to_numpy(self.alpha), "began": np.asarray(self.began)}
        kept["rule_iteration"] = np.asarray(self._iteration)
        kept["changes"] = np.asarray([self._growing, self._prior_change])
        if self._far is not None:
            kept.update(self._far.state())
        if self.noise is not None:
            kept.update(self.noise.state())
        return kept

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.alpha = backend.from_numpy(kept["alpha"], self.alpha)
        self.began = int(kept.get("began", np.asarray(0)))
        self._iteration = int(kept.get("rule_iteration", np.asarray(0)))
        changes = kept.get("changes", np.asarray([0.0, math.inf]))
        self._growing, self._prior_change = float(changes[0]), float(changes[1])
        if self._far is not None:
            self._far.restore(kept, self.alpha)
        if self.noise is not None:
            self.noise.restore(kept)


def divergence(new: Array, old: Array) -> float:
    """Return how many nats normal laws of the precisions ``new`` are from those of ``old``.

    Of M-steps this is what they raise the expected log prior by: a lower bound of what the log
    evidence gains.

    Examples
    --------
    >>> round(divergence(np.array([2.0, 1.0]), np.array([1.0, 1.0])), 4)
    0.0966
    """
    if backend.is_numpy(new):
        return kernels.divergence(new, backend.to_numpy(old))
    xp = backend.namespace(new)
    shrinks = old / new - 1
    return 0.5 * float(xp.sum(shrinks - xp.log1p(shrinks)))


def update_precision(model: Model, moments: Sequence[Moments]) -> Array:
    """Return α_j = n_j / Σ E|(Rx)_j|² over the tasks and coordinates that share it.

    n_j counts directions: one a coordinate and task, or what R leaves of them.
    """
    xp = backend.namespace(moments[0].mean)
    total = reduce(add, [_over_tasks(second_moment(model, m)) for m in moments])
    sizes = [m.mean.shape[0] for m in moments]
    if all(m.count is None for m in moments):
        alpha = sum(sizes) / model.tie.average(total)
    else:
        pairs = zip(sizes, moments, strict=True)
        count: Any = reduce(add, [n if m.count is None else n * m.count for n, m in pairs])
        alpha = model.tie.average(count) / model.tie.average(total)
    if model.sparsifier is None:
        return alpha
    # If R has more rows than columns, some α would otherwise grow without limit.
    return xp.minimum(alpha, SPAN * xp.min(alpha))


def _over_tasks(moment: Array) -> Array:
    """Return the sum over the rows; of a single one without another array."""
    return moment[0, :] if moment.shape[0] == 1 else backend.namespace(moment).sum(moment, axis=0)


def second_moment(model: Model, moments: Moments) -> Array:
    """Return E|(Rx)_j|², (L, M), under the (rectified, if z ≥ 0) posterior."""
    if moments.variance is None:
        raise ValueError("an M-step needs variances")
    if model.nonnegative:
        xp = backend.namespace(moments.mean)
        variance = xp.broadcast_to(moments.variance, moments.sparse_mean.shape)
        return rectified_second_moment(moments.sparse_mean, variance)
    return backend.abs_squared(moments.sparse_mean) + moments.variance
