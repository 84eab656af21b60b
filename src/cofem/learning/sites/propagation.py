"""The learned prior as a site rule: expectation propagation (Minka 2001).

Each coordinate's prior is replaced by a Gaussian site exp(−a u²/2 + b u). Without its own site, a
coordinate is known by the data and the other sites as a value v with precision c (its cavity). The
true prior, the mixture, together with this cavity gives a mean and a variance, and the new site is
the one that gives the same two numbers. At the end these means and the mean of the Gaussian
posterior under all sites agree.

Sites are kept relative to the noise precision: the E-steps are made at ``unit`` and asked
about a·unit/β, so that sites follow β when it moves. (Kept as they are, the site of a large
coefficient would pull it back while β climbs.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.noise import FIRST_LEARNED, LearnedNoise, asked_of, shared_noises, squared_rows
from cofem.learning.sites.matching import (
    UNSEEN,
    Look,
    matching_sites,
    squared_lengths,
    typical_precision,
)
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.sites.shares import Seen, Shares
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
        self.noises = shared_noises(model, start_snr)
        self.n_data = sum(noise.n_data for noise in set(self.noises))
        for noise in set(self.noises):
            noise.ratio = min(noise.ratio, 1.0) if given else noise.ratio
        # What the prior's scales are measured in, for all families.
        self._base = model.families[0].noise_precision
        n = model.n_precisions * len(model.tasks)
        energy = sum(float(np.sum(squared_rows(f.y))) for f in model.families)
        power = energy * self._base or float(self.n_data)
        self.prior = MixturePrior.beginning(
            power, self.n_data, n, model.tie, half, model.nonnegative, len(model.tasks) > 1
        )
        self.units = [self._base * squared_lengths(f, model, like) for f in model.families]
        # The first sites: a ridge under which prior and data have the same power.
        self.precisions = [
            n / (power * ratio) * unit for ratio, unit in zip(self.ratios, self.units, strict=True)
        ]
        self.pulls = [
            xp.zeros(
                (len(f.members), model.n_precisions), dtype=like.dtype,
                device=backend.device_of(like),
            )
            for f in model.families
        ]  # fmt: skip
        self.needs_variances = True
        self.products = len(model.tasks)  # for the residuals
        self.impatient = False  # one start among several: it is stopped when it is hopeless
        self.iteration = self._quiet = self._nearly = 0
        self.look = Look()
        self.seen: list[Seen] = []
        self.shares: Shares | None = None

    # -- what the loop asks ------------------------------------------------------

    @property
    def ratios(self) -> list[float]:
        """The noise precision of every family over that of its E-step."""
        return [noise.ratio for noise in self.noises]

    @property
    def alpha(self) -> Array:
        """The precisions of the sites of the first family, at the true noise precision."""
        return self.precisions[0] * self.noises[0].ratio

    @property
    def noise_precisions(self) -> list[float]:
        """β of every task."""
        found = [0.0] * len(self.model.tasks)
        for noise, family in zip(self.noises, self.model.families, strict=True):
            for member in family.members:
                found[member] = noise.ratio * family.noise_precision
        return found

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return where the E-steps start: at the last means."""
        return means

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return precision and pull of every family, at the model's noise precision."""
        return list(zip(self.precisions, self.pulls, strict=True))

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Learn the weights from the moments under the present sites, and look how they stand."""
        self.iteration += 1
        self.seen = [self._seen(i, m) for i, m in enumerate(moments)]
        asked = asked_of(self.noises, moments)  # under way before the first wait
        visible = self.visible
        self.shares = self.prior.given(self.seen, self.ratios, visible)
        look = Look(departs=max(m.departs for m in moments))
        for noise, (own, later) in asked.items():
            noise.log_move = self._log_move(noise, noise.wanted(own, self.given, later))
        look.log_move = max((noise.log_move for noise in self.noises), key=abs)
        look.used = sum(noise.used * noise.n_data for noise in set(self.noises)) / self.n_data
        if self.iteration >= FIRST_LEARNED:
            weight, self.prior = self.prior.slabs, self.prior.learned(self.shares, visible)
            look.weight_move = abs(math.log(self.prior.slabs / weight))
            self.shares = self.prior.given(self.seen, self.ratios, visible)
        means = [m.sparse_mean for m in moments]
        look.compare(self.seen, self.shares, means, self.ratios, look.used * self.n_data)
        self.look = look
        return self._verdict(look)

    def advance(self) -> None:
        """Move the sites and the noise precision on."""
        damping = DAMPING if self.iteration < LATE else LATE_DAMPING
        for i, seen in enumerate(self.seen):
            wanted, pull = matching_sites(seen, *self.moments_of(i), self.noises[i].ratio)
            xp = backend.namespace(wanted)
            mixed = (1 - damping) * xp.log(self.precisions[i]) + damping * xp.log(wanted)
            self.precisions[i] = xp.exp(mixed)
            self.pulls[i] = (1 - damping) * self.pulls[i] + damping * pull
        if self.iteration >= FIRST_LEARNED:
            for noise in set(self.noises):
                noise.ratio *= math.exp(noise.log_move)

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
        assert self.shares is not None
        return self.shares.mean[i], self.shares.variance[i]

    @property
    def typical(self) -> float:
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
        self.seen = [self._seen(i, m) for i, m in enumerate(moments)]
        self.shares = self.prior.given(self.seen, self.ratios, self.visible)

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
            like = self.precisions[i]
            self.precisions[i] = backend.from_numpy(kept[f"precision_{i}"], like)
            self.pulls[i] = backend.from_numpy(kept[f"pull_{i}"], self.pulls[i])

    # -- steps -------------------------------------------------------------------

    def _seen(self, i: int, moments: Moments) -> Seen:
        """Return how the coordinates of a family are seen without their sites."""
        xp = backend.namespace(moments.cavity)
        precision, unit = self.precisions[i], self.units[i]
        share = UNSEEN * self.model.families[i].noise_precision / self._base
        cavity = xp.maximum(moments.cavity, share * unit)
        mean = moments.sparse_mean
        # ((a + c) μ − b)/c, written so that large sites do not cancel.
        value = mean + (precision * mean - self.pulls[i]) / cavity
        return Seen(value, cavity, unit)

    def _log_move(self, noise: LearnedNoise, wanted: float) -> float:
        """Return how far log β moves: as wanted, and always up to a value that was given."""
        if self.given:
            return min(max(wanted, LEAST_CLIMB), -math.log(noise.ratio))
        return wanted

    @property
    def visible(self) -> float:
        """Return the inverse of the smallest variance that stands out of the noise."""
        typical = map(typical_precision, self.seen)
        return max(r * t for r, t in zip(self.ratios, typical, strict=True))

    def _verdict(self, look: Look) -> Verdict | None:
        moves = max(abs(look.log_move), look.weight_move)
        resting = moves <= LOG_MOVE_PER_TOL * self._tol
        still = self.iteration > FIRST_LEARNED and resting
        near = look.distance <= DISTANCE_PER_TOL * self._tol
        self._quiet = self._quiet + 1 if still and near else 0
        self._nearly = self._nearly + 1 if still and look.apart <= FEW_APART else 0
        if self._quiet >= IN_A_ROW:
            return Verdict.AT_REST
        if self.impatient and self.iteration >= PATIENCE and look.used > HOPELESS:
            return Verdict.HOPELESS
        return Verdict.NEARLY_AT_REST if self._nearly >= NEARLY_IN_A_ROW else None
