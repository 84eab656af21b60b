"""The learned prior as a site rule: expectation propagation (Minka 2001).

Each coordinate's prior is stood in for by a Gaussian site exp(−a u²/2 + b u). Leave one site
out and the coordinate is seen as a value v with precision c (its cavity); its true prior, the
mixture, gives it a mean and a variance there, and the site becomes the one that gives the
same. The mean of the Gaussian posterior under all sites and those means agree at the end.

Sites are kept relative to the noise precision: the E-steps are made at ``unit`` and asked
about a·unit/β, so that sites follow β when it moves. (Kept as they are, the site of a large
coefficient would pull it back while β climbs.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Family, Model
from cofem.inference.moments import Moments
from cofem.inference.noise_rule import FIRST_LEARNED, LearnedNoise
from cofem.inference.stopping import Verdict
from cofem.learning.mixture import MixturePrior, Seen, Shares

# New sites and old ones are averaged half and half; less of the new where they still swing.
DAMPING, LATE_DAMPING, LATE = 0.5, 0.25, 50
# The least that log β moves in an iteration while it climbs to a given value.
LEAST_CLIMB = 0.2
# A site is never weaker or stronger than this beside what the data say of its coordinate.
WEAKEST, STRONGEST = 1e-3, 1e8
# A column of zeros counts as this share of the longest, so that nothing is divided by zero.
UNSEEN = 1e-8
# Means that differ by more than this many error bars count as apart.
APART = 0.1
# At rest: the means differ by tol times this (error bars, root mean square over the directions
# that the data determine), log β moves by less, and both hold for so many iterations.
DISTANCE_PER_TOL, LOG_MOVE_PER_TOL, IN_A_ROW = 200.0, 100.0, 2
# Nearly: so few are apart for so many iterations, and the rest is at rest. They swing for ever.
FEW_APART, NEARLY_IN_A_ROW = 0.01, 15
# A start that after so many iterations uses more than this share of the data is running away.
PATIENCE, HOPELESS = 15, 0.65


@dataclass
class Look:
    """How an iteration stands.

    Attributes
    ----------
    apart : float
        The share of coordinates whose two means differ by more than a tenth of an error bar.
    distance : float
        The root mean square difference of the means in error bars, over the directions that
        the data determine.
    clipped : float
        The share of sites at their weakest.
    used : float
        The share of the data that the fit uses up.
    departs : float
        See :class:`~cofem.inference.moments.Moments`.
    log_move : float
        How far log β moves next.
    """

    apart: float = math.inf
    distance: float = math.inf
    clipped: float = 0.0
    used: float = 0.0
    departs: float = 0.0
    log_move: float = math.inf


@final
class Propagation:
    """The sites, the prior and the noise precision, and how they follow from moments.

    Parameters
    ----------
    model : Model
        Its noise precisions are the units of the E-steps.
    start_snr : float
        The noise precision to begin with is (1 + start_snr) N/‖y‖².
    given : bool
        Whether the noise precision of the model is the true one, to end at.
    tol : float
        As for :func:`cofem.fit`.
    """

    def __init__(self, model: Model, start_snr: float, given: bool, tol: float = 1e-4) -> None:
        self.model, self.given, self._tol = model, given, tol
        like = model.like
        xp = backend.namespace(like)
        half = 1.0 if backend.is_complex(like) else 0.5
        self.noise = LearnedNoise(model, start_snr)
        if given:
            self.noise.ratio = min(self.noise.ratio, 1.0)
        n, n_data = model.n_precisions * len(model.tasks), self.noise.n_data
        energy = self.noise.energy or float(n_data)
        self.prior = MixturePrior.beginning(energy, n_data, n, model.tie, half)
        self.units = [_unit(family, model, like) for family in model.families]
        # A ridge under which the data's power is the prior's.
        level = n / (energy * self.noise.ratio)
        self.precisions = [level * unit for unit in self.units]
        self.pulls = [
            xp.zeros(
                (len(f.members), model.n_precisions), dtype=like.dtype,
                device=backend.device_of(like),
            )
            for f in model.families
        ]  # fmt: skip
        self.needs_variances = True
        self.impatient = False  # a start among several, cut as soon as it is hopeless
        self.iteration = self._quiet = self._nearly = 0
        self.look = Look()
        self.seen: list[Seen] = []
        self.shares: Shares | None = None

    # -- what the loop asks ------------------------------------------------------

    @property
    def ratio(self) -> float:
        """The noise precision over that of the model."""
        return self.noise.ratio

    @property
    def alpha(self) -> Array:
        """The precisions of the sites of the first family, at the true noise precision."""
        return self.precisions[0] * self.ratio

    @property
    def noise_precisions(self) -> list[float]:
        """β of every task."""
        return [t.noise_precision * self.ratio for t in self.model.tasks]

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return precision and pull of every family, at the model's noise precision."""
        return list(zip(self.precisions, self.pulls, strict=True))

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Learn the weights from the moments under the present sites, and look how they stand."""
        self.iteration += 1
        self.seen = [
            self._seen(*parts)
            for parts in zip(moments, self.precisions, self.pulls, self.units, strict=True)
        ]
        typical = _typical(self.seen)
        self.shares = self.prior.given(self.seen, self.ratio, typical)
        look = Look(departs=max(m.departs for m in moments))
        look.log_move = self._log_move(self.noise.wanted(moments, self.given))
        look.used = self.noise.used
        if self.iteration >= FIRST_LEARNED:
            self.prior = self.prior.learned(self.shares, self.ratio, typical)
            self.shares = self.prior.given(self.seen, self.ratio, typical)
        self._compare(look, moments)
        self.look = look
        return self._verdict(look)

    def advance(self) -> None:
        """Move the sites and the noise precision on."""
        damping = DAMPING if self.iteration < LATE else LATE_DAMPING
        for i, seen in enumerate(self.seen):
            wanted, pull = _sites(seen, self._kept(i), self._spread_power(i))
            xp = backend.namespace(wanted)
            mixed = (1 - damping) * xp.log(self.precisions[i]) + damping * xp.log(wanted)
            self.precisions[i] = xp.exp(mixed)
            self.pulls[i] = (1 - damping) * self.pulls[i] + damping * pull
        if self.iteration >= FIRST_LEARNED:
            self.noise.ratio *= math.exp(self.look.log_move)

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        look = self.look
        return {"few": FEW_APART, "move": look.log_move, "distance": look.distance}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.NOT_AT_REST

    def moments_of(self, i: int) -> tuple[Array, Array]:
        """Return mean (L, M) and variance (L, M) of the coordinates of a family."""
        seen, kept = self.seen[i], self._kept(i)
        assert self.shares is not None
        size = self.ratio * seen.precision * backend.abs_squared(seen.value)
        variance = (1 - kept + size * self.shares.spread[i]) / (self.ratio * seen.precision)
        return seen.value * (1 - kept), variance

    @property
    def typical(self) -> float:
        """How precisely a coordinate is seen, beside what its column alone would give."""
        return _typical(self.seen)

    def at(self, model: Model) -> Propagation:
        """Return the same rule with the noise precision it has found as the model's own."""
        other = copy.copy(self)
        ratio = self.ratio
        other.model, other.given, other.noise = model, True, LearnedNoise(model, 0.0)
        other.noise.ratio = 1.0
        other.prior = replace(self.prior, scales=self.prior.scales * ratio)
        other.units = [ratio * unit for unit in self.units]
        other.precisions = [ratio * precision for precision in self.precisions]
        other.pulls = [ratio * pull for pull in self.pulls]
        return other

    def see(self, moments: Sequence[Moments]) -> None:
        """Take moments under the present sites, and learn nothing from them."""
        self.seen = [
            self._seen(*parts)
            for parts in zip(moments, self.precisions, self.pulls, self.units, strict=True)
        ]
        self.shares = self.prior.given(self.seen, self.ratio, self.typical)

    def log_evidence(self, moments: Sequence[Moments], gaussian: float) -> float:
        """Return the log evidence under the mixture, as expectation propagation has it.

        Parameters
        ----------
        moments : sequence of Moments
            Of the sites, at the model's noise precision.
        gaussian : float
            log p(y) with normal priors of these precisions and means zero.
        """
        assert self.shares is not None
        half = self.prior.half
        constant = math.log(math.pi / half)
        total = gaussian + self.shares.log_evidence
        for seen, m, a, b in zip(self.seen, moments, self.precisions, self.pulls, strict=True):
            xp = backend.namespace(a)
            tasks, c, v = m.sparse_mean.shape[0], seen.precision, seen.value
            power = backend.abs_squared
            # exp(−a u²/2 + b u) in place of a normal prior at zero,
            prior = tasks * (constant - xp.log(a))
            pulled = 2 * xp.sum(backend.real(backend.conj(b) * m.sparse_mean), axis=0)
            # and in place of each site, met by what is seen beside it, the mixture.
            met = tasks * xp.log(c / (a + c)) + xp.sum(
                power(c * v + b) / (a + c) - c * power(v), axis=0
            )
            alone = tasks * (xp.log(c) - constant) - xp.sum(c * power(v), axis=0)
            terms = half * (prior + pulled - met + alone)
            total += float(xp.sum(xp.astype(terms, xp.float64)))
        return total

    # -- checkpoints -------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        kept = {
            "weights": self.prior.weights,
            "counts": np.asarray([self.iteration, self._quiet, self._nearly]),
            **self.noise.state(),
        }
        for i, (precision, pull) in enumerate(zip(self.precisions, self.pulls, strict=True)):
            kept[f"precision_{i}"] = backend.to_numpy(precision)
            kept[f"pull_{i}"] = backend.to_numpy(pull)
        return kept

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.noise.restore(kept)
        self.prior = replace(self.prior, weights=kept["weights"])
        self.iteration, self._quiet, self._nearly = (int(n) for n in kept["counts"])
        for i in range(len(self.precisions)):
            like = self.precisions[i]
            self.precisions[i] = backend.from_numpy(kept[f"precision_{i}"], like)
            self.pulls[i] = backend.from_numpy(kept[f"pull_{i}"], self.pulls[i])

    # -- steps -------------------------------------------------------------------

    def _seen(self, moments: Moments, precision: Array, pull: Array, unit: Array) -> Seen:
        xp = backend.namespace(precision)
        assert moments.cavity is not None
        cavity = xp.maximum(moments.cavity, UNSEEN * xp.max(moments.cavity))
        mean = moments.sparse_mean
        # ((a + c) μ − b)/c, written so that large sites do not cancel.
        value = mean + (precision * mean - pull) / cavity
        return Seen(value, cavity, unit)

    def _kept(self, i: int) -> Array:
        assert self.shares is not None
        return self.shares.shrinkage[i]

    def _spread_power(self, i: int) -> Array:
        """Return the mean of |v|² c Var g over the tasks of a family."""
        assert self.shares is not None
        seen = self.seen[i]
        xp = backend.namespace(seen.precision)
        power = xp.mean(backend.abs_squared(seen.value), axis=0)
        return self.ratio * seen.precision * power * self.shares.spread[i]

    def _log_move(self, wanted: float) -> float:
        """Return how far log β moves: as wanted, and always up to a value that was given."""
        if self.given:
            return min(max(wanted, LEAST_CLIMB), -math.log(self.ratio))
        return wanted

    def _verdict(self, look: Look) -> Verdict | None:
        resting = abs(look.log_move) <= LOG_MOVE_PER_TOL * self._tol
        still = self.iteration > FIRST_LEARNED and resting
        near = look.distance <= DISTANCE_PER_TOL * self._tol
        self._quiet = self._quiet + 1 if still and near else 0
        self._nearly = self._nearly + 1 if still and look.apart <= FEW_APART else 0
        if self._quiet >= IN_A_ROW:
            return Verdict.AT_REST
        if self.impatient and self.iteration >= PATIENCE and look.used > HOPELESS:
            return Verdict.HOPELESS
        return Verdict.NEARLY_AT_REST if self._nearly >= NEARLY_IN_A_ROW else None

    def _compare(self, look: Look, moments: Sequence[Moments]) -> None:
        apart = total = clipped = 0.0
        n = 0
        for i, (seen, m) in enumerate(zip(self.seen, moments, strict=True)):
            xp = backend.namespace(seen.precision)
            mean, variance = self.moments_of(i)
            error = backend.abs_squared(mean - m.sparse_mean) / variance
            # Beside the error bar of a coordinate at zero, which may be tiny, a share of what
            # the data alone say of it counts too.
            error = xp.minimum(error, backend.abs_squared(mean - m.sparse_mean) * (
                1e4 * self.ratio * seen.precision))
            wanted = _weight(self._kept(i), self._spread_power(i))
            parts = xp.stack([
                xp.sum(xp.astype(error > APART**2, seen.precision.dtype)),
                xp.sum(error),
                xp.sum(xp.astype(wanted < WEAKEST, seen.precision.dtype)) * error.shape[0],
            ])
            parts = backend.to_numpy(parts)
            apart, total, clipped = apart + parts[0], total + parts[1], clipped + parts[2]
            n += int(np.prod(error.shape))
        look.apart, look.clipped = float(apart / n), float(clipped / n)
        look.distance = math.sqrt(float(total) / max(look.used * self.noise.n_data, 1.0))


def _weight(kept: Array, spread: Array) -> Array:
    """Return the site's precision over the cavity's: 1/(E g + |v|²c Var g) − 1."""
    return (kept - spread) / (1 - kept + spread)


def _sites(seen: Seen, kept: Array, spread: Array) -> tuple[Array, Array]:
    """Return the sites under which the coordinates have the mixture's moments."""
    xp = backend.namespace(kept)
    weight = xp.clip(_weight(kept, spread), min=WEAKEST, max=STRONGEST)
    # mean (c + a) − v c, with mean = v (1 − kept)
    pull = seen.value * (seen.precision * ((1 - kept) * weight - kept))
    return seen.precision * weight, pull


def _typical(seen: Sequence[Seen]) -> float:
    """Return the geometric mean of c/θ."""
    logs = []
    for s in seen:
        xp = backend.namespace(s.precision)
        logs.append(float(xp.mean(xp.log(s.precision / s.unit))))
    return math.exp(math.fsum(logs) / len(logs))


def _unit(family: Family, model: Model, like: Array) -> Array:
    """Return θ times the noise precision: of squared columns, or one for all rows of R."""
    xp = backend.namespace(like)
    norms = family.operator.column_norms_squared(like)
    if model.sparsifier is not None:
        return xp.ones(
            (model.n_precisions,), dtype=norms.dtype, device=backend.device_of(norms)
        ) * (family.noise_precision * xp.mean(norms))
    largest = xp.max(norms)
    seen = xp.where(largest > 0, xp.maximum(norms, UNSEEN * largest), xp.ones_like(norms))
    return family.noise_precision * seen
