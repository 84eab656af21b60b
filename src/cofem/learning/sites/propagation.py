"""The learned prior as a site rule: expectation propagation (Minka 2001).

The sites match the moments of the mixture (:mod:`cofem.learning.sites.matching`). They are kept
relative to the noise precision: the E-steps are made at ``unit`` and asked about a·unit/β, so that
sites follow β when it moves. (Kept as they are, the site of a large coefficient would pull it back
while β climbs.)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.noise import (
    FIRST_LEARNED,
    LearnedNoise,
    asked_of,
    shared_noises,
    total_squares,
)
from cofem.learning.sites.matching import (
    UNSEEN,
    Look,
    MatchedSites,
    squared_lengths,
    typical_precision,
)
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The share of the new sites in the average of new and old; the second from iteration LATE on.
DAMPING, LATE_DAMPING, LATE = 0.5, 0.25, 50
# While log β climbs to a given value it rises at least by this much in an iteration.
LEAST_CLIMB = 0.2
# The iterations end when three things hold in IN_A_ROW successive iterations: the two means differ
# by less than DISTANCE_PER_TOL tol (in error bars, root mean square over the directions that the
# data determine), and log β and the log of the slabs' weight each move by less than
# LOG_MOVE_PER_TOL tol.
DISTANCE_PER_TOL, LOG_MOVE_PER_TOL, IN_A_ROW = 200.0, 100.0, 2
# They also end when only the share FEW_APART of the coordinates still has two different means in
# NEARLY_IN_A_ROW successive iterations: some coordinates oscillate without end.
FEW_APART, NEARLY_IN_A_ROW = 0.01, 15
# A start that after PATIENCE iterations uses more than the share HOPELESS of the data diverges.
PATIENCE, HOPELESS = 15, 0.65


@final
class Propagation(MatchedSites):
    """The sites, the prior and the noise precision, and how they follow from moments.

    Parameters
    ----------
    model : Model
        Its noise precisions are the units of the E-steps. One task whose data are rows, (P, N), is
        P problems, each with a prior and a noise precision of its own.
    start_snr : float
        The noise precision to begin with is (1 + start_snr) N/‖y‖².
    given : bool
        Whether the noise precision of the model is the true one, to end at.
    tol : float
        As for :func:`cofem.fit`.
    """

    def __init__(self, model: Model, start_snr: float, given: bool, tol: float = 1e-4) -> None:
        self.given, self._tol = given, tol
        half = 1.0 if backend.is_complex(model.like) else 0.5
        self.noises = shared_noises(model, start_snr)
        self.n_data = sum(noise.n_data for noise in set(self.noises))
        for noise in set(self.noises):
            xp = backend.functions_of(noise.ratio)
            noise.ratio = xp.clip(noise.ratio, max=1.0) if given else noise.ratio
        # What the prior's scales are measured in, for all families.
        self._base = model.families[0].noise_precision
        n = model.n_precisions * len(model.tasks)
        power: Any = sum(total_squares(f.y) for f in model.families) * self._base
        power = backend.functions_of(power).where(power > 0, power, self.n_data + 0 * power)
        self.prior = MixturePrior.beginning(
            power, self.n_data, n, model.tie, half, model.nonnegative, len(model.tasks) > 1
        )
        units = [self._base * squared_lengths(f, model, model.like) for f in model.families]
        # The first sites: a ridge under which prior and data have the same power.
        ridges = [
            backend.column(n / (power * ratio), unit) * unit
            for ratio, unit in zip(self.ratios, units, strict=True)
        ]
        super().__init__(model, units, ridges)
        self.products = len(model.tasks)  # for the residuals
        self.impatient = False  # one start among several: it is stopped when it is hopeless
        self.damping = 0.0  # that of advance, if it is not zero
        self._quiet = self._nearly = 0 * power  # iterations at rest in a row

    # -- what the loop asks ------------------------------------------------------

    @property
    def ratios(self) -> list[Any]:
        """The noise precision of every family over that of its E-step."""
        return [noise.ratio for noise in self.noises]

    @property
    def alpha(self) -> Array:
        """The precisions of the sites of the first family, at the true noise precision."""
        found: Array = self.precisions[0] * backend.column(self.ratios[0], self.precisions[0])
        return found

    @property
    def noise_precisions(self) -> list[float]:
        """β of every task."""
        found = [0.0] * len(self.model.tasks)
        for noise, family in zip(self.noises, self.model.families, strict=True):
            for member in family.members:
                found[member] = noise.ratio * family.noise_precision
        return found

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Learn from the moments under the present sites; return a verdict if they are the last."""
        self.learn(moments)
        if self.at_rest:
            return Verdict.AT_REST
        if self.impatient and self.iteration >= PATIENCE and self.look.used > HOPELESS:
            return Verdict.HOPELESS
        return Verdict.NEARLY_AT_REST if self.nearly_at_rest else None

    def learn(self, moments: Sequence[Moments]) -> None:
        """Learn the weights from the moments under the present sites, and look how they stand."""
        self.iteration += 1
        self._see(moments)
        asked = asked_of(self.noises, moments)  # under way before the first wait
        visible = self.visible
        self.shares = self.prior.given(self.seen, self.ratios, visible)
        look = Look(departs=max(m.departs for m in moments))
        for noise, (own, later) in asked.items():
            move = self._log_move(noise, noise.wanted(own, self.given, later))
            noise.log_move = self._if_going(move, noise.log_move)
        look.log_move = max((noise.log_move for noise in self.noises), key=abs)
        look.used = sum(noise.used * noise.n_data for noise in set(self.noises)) / self.n_data
        if self.iteration >= FIRST_LEARNED:
            weight, new = self.prior.slabs, self.prior.learned(self.shares, visible)
            kept = self._if_going(new.weights, self.prior.weights)
            self.prior = replace(new, weights=kept)
            xp = backend.functions_of(weight)
            look.weight_move = xp.abs(xp.log(self.prior.slabs / weight))
            self.shares = self.prior.given(self.seen, self.ratios, visible)
        means = [m.sparse_mean for m in moments]
        look.compare(self.seen, self.shares, means, self.ratios, look.used * self.n_data)
        self.look = look
        self._count_rest(look)

    def advance(self) -> None:
        """Move the sites and the noise precision on."""
        self._move_sites(self.damping or (DAMPING if self.iteration < LATE else LATE_DAMPING))
        if self.iteration >= FIRST_LEARNED:
            for noise in set(self.noises):
                factor = backend.functions_of(noise.ratio).exp(noise.log_move)
                noise.ratio = self._if_going(noise.ratio * factor, noise.ratio)

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        look = self.look
        return {"few": FEW_APART, "move": look.log_move, "distance": look.distance}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.NOT_AT_REST

    @property
    def typical(self) -> Any:
        """How precisely a coordinate is seen, beside what its column alone would give."""
        return max(map(typical_precision, self.seen))

    def at(self, model: Model) -> Propagation:
        """Return the same rule with the noise precision it has found as the model's own."""
        other = copy.copy(self)
        own = [noise.ratio for noise in self.noises]
        other.model, other.given = model, True
        other.noises = [LearnedNoise([family], 0.0) for family in model.families]
        for noise in other.noises:
            noise.ratio = 1.0
        other._base = model.families[0].noise_precision
        scale = other._base / self._base
        other.prior = replace(self.prior, scales=self.prior.scales * scale)
        other.units = [scale * unit for unit in self.units]
        other.precisions = [r * a for r, a in zip(own, self.precisions, strict=True)]
        other.pulls = [r * b for r, b in zip(own, self.pulls, strict=True)]
        return other

    def with_noise_of_each(self, model: Model) -> Propagation:
        """Return a rule that goes on from here with the noise of every task by itself.

        ``model`` has the same tasks under other noise precisions, and families of its own.
        """
        other = Propagation(model, 0.0, False, self._tol)
        for noise in other.noises:
            noise.ratio = 1.0
        scale = other._base / self._base
        other.prior = replace(self.prior, scales=self.prior.scales * scale)
        own = [noise.ratio for noise in self.noises]
        precisions: list[Any] = [None] * len(model.tasks)
        pulls: list[Any] = [None] * len(model.tasks)
        for ratio, family, a, b in zip(
            own, self.model.families, self.precisions, self.pulls, strict=True
        ):
            for row, member in enumerate(family.members):
                precisions[member], pulls[member] = ratio * a, ratio * b[row, ...]
        xp = backend.namespace(self.pulls[0])
        other.precisions = [precisions[f.members[0]] for f in model.families]
        other.pulls = [xp.stack([pulls[i] for i in f.members]) for f in model.families]
        return other

    def see(self, moments: Sequence[Moments]) -> None:
        """Take moments under the present sites, and learn nothing from them."""
        self._see(moments)
        self.shares = self.prior.given(self.seen, self.ratios, self.visible)

    def of_problems(self, model: Model, where: Array) -> Propagation:
        """Return the rule of some of P problems, those of ``model``, which have these numbers."""
        other = Propagation(model, 0.0, self.given, self._tol)
        take = backend.namespace(where).take
        other.noises[0].ratio = take(self.noises[0].ratio, where, axis=0)
        other.prior = replace(other.prior, weights=take(self.prior.weights, where, axis=0))
        other.precisions = [take(a, where, axis=-2) for a in self.precisions]
        other.pulls = [take(b, where, axis=-2) for b in self.pulls]
        other._quiet, other._nearly = (take(n, where, axis=0) for n in (self._quiet, self._nearly))
        other.iteration = self.iteration
        return other

    # -- checkpoints -------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        kept = {
            "weights": self.prior.weights,
            "counts": np.asarray([self.iteration, self._quiet, self._nearly]),
        }
        for i, noise in enumerate(self.noises):
            kept.update(noise.state(f"noise_{i}"))
        for i, (precision, pull) in enumerate(zip(self.precisions, self.pulls, strict=True)):
            kept[f"precision_{i}"] = backend.to_numpy(precision)
            kept[f"pull_{i}"] = backend.to_numpy(pull)
        return kept

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        for i, noise in enumerate(self.noises):
            noise.restore(kept, f"noise_{i}")
        self.prior = replace(self.prior, weights=kept["weights"])
        self.iteration, self._quiet, self._nearly = (int(n) for n in kept["counts"])
        for i in range(len(self.precisions)):
            self.precisions[i] = backend.from_numpy(kept[f"precision_{i}"], self.precisions[i])
            self.pulls[i] = backend.from_numpy(kept[f"pull_{i}"], self.pulls[i])

    # -- steps -------------------------------------------------------------------

    def _least_seen(self, i: int) -> float:
        return UNSEEN * self.model.families[i].noise_precision / self._base

    def _log_move(self, noise: LearnedNoise, wanted: Any) -> Any:
        """Return how far log β moves: as wanted, and always up to a value that was given."""
        if not self.given:
            return wanted
        xp = backend.functions_of(wanted)
        return xp.minimum(xp.clip(wanted, min=LEAST_CLIMB), -xp.log(noise.ratio))

    @property
    def visible(self) -> Any:
        """Return the inverse of the smallest variance that stands out of the noise."""
        typical = map(typical_precision, self.seen)
        return max(r * t for r, t in zip(self.ratios, typical, strict=True))

    def _count_rest(self, look: Look) -> None:
        """Count in how many iterations in a row the rule has been at rest, or nearly."""
        if self.iteration <= FIRST_LEARNED:
            return
        xp = backend.functions_of(look.distance)
        moves = xp.maximum(xp.abs(look.log_move), look.weight_move)
        still = moves <= LOG_MOVE_PER_TOL * self._tol
        near = look.distance <= DISTANCE_PER_TOL * self._tol
        none = 0 * self._quiet
        self._quiet = xp.where(still & near, self._quiet + 1, none)
        self._nearly = xp.where(still & (look.apart <= FEW_APART), self._nearly + 1, none)

    @property
    def at_rest(self) -> Any:
        """Whether prior, noise and all coordinates are at rest."""
        return self._quiet >= IN_A_ROW

    @property
    def nearly_at_rest(self) -> Any:
        """Whether all but a few coordinates have been at rest for long."""
        return self._nearly >= NEARLY_IN_A_ROW
