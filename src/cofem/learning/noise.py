"""The noise precision, learned while the prior is: what the unused data say of the residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.model.model import Family, Model

# The most that log β moves in an iteration; and where a fit uses more than this share of the
# data, upwards: there what is left of the residual says little, and sites that lag behind a β
# that leaps ahead let it run away (equicorrelated columns: 5 of 40 problems).
LARGEST_MOVE, MUCH_USED, LARGEST_RISE_IF_USED = 1.0, 0.3, 0.4
# log β is not known better than by √(2/N): of N data so many √N are not counted, so that it
# does not drift upwards where its likelihood is flat.
PENALTY = 0.5
# No fit counts as using a larger share of the data, or less than this many of them: an estimate
# by probes may be negative.
LARGEST_SHARE, LEAST_USED = 0.98, 1e-3
# What is left of the data at the least: more is rounding (120 dB, 80 in single precision).
LEAST_RESIDUAL, LEAST_RESIDUAL_SINGLE = 1e-12, 1e-8
# It is at rest when log β moves by less.
AT_REST = 0.01
# Iterations before it moves at all.
FIRST_LEARNED = 4


@final
class LearnedNoise:
    """β as a multiple of the model's: β ← (N − used − ½√N) / ‖y − Φμ‖².

    The tasks keep the proportions of their noise precisions to each other.

    Parameters
    ----------
    families : sequence of Family
        Those that share this noise, with the noise precisions of their E-steps.
    start_snr : float
        It begins at (1 + start_snr) N/‖y‖².
    """

    def __init__(self, families: Sequence[Family], start_snr: float) -> None:
        self.families = families
        self.n_data = sum(f.operator.shape[0] * len(f.members) for f in families)
        y = families[0].y
        self._reals = self.n_data * (2 if backend.is_complex(y) else 1)
        self.energy = math.fsum(
            float(np.sum(squared_rows(f.y))) * f.noise_precision for f in families
        )
        xp = backend.namespace(y)
        single = xp.finfo(y.dtype).bits == 32
        share = LEAST_RESIDUAL_SINGLE if single else LEAST_RESIDUAL
        self._least = share * self.energy or 1.0
        self.ratio = (1 + start_snr) * self.n_data / (self.energy or float(self.n_data))
        self.iteration, self.log_move, self.used = 0, math.inf, 0.0

    @property
    def at_rest(self) -> bool:
        """Whether it hardly moved in the last iteration."""
        return abs(self.log_move) < AT_REST

    def wanted(self, moments: Sequence[Moments], given: bool = False) -> float:
        """Return the step of log β that the moments ask for; note the share of the data used.

        A β that is ``given`` cannot run away: it may rise faster.
        """
        used = max(sum(m.freedom for m in moments), LEAST_USED)
        used = min(used, LARGEST_SHARE * self.n_data)
        self.used = used / self.n_data
        penalty = PENALTY * math.sqrt(self._reals) * self.n_data / self._reals
        unused = max(self.n_data - used - penalty, (1 - LARGEST_SHARE) * self.n_data)
        residual = max(self._residual(moments), self._least)
        move = math.log(unused / residual / self.ratio)
        rise = LARGEST_MOVE if given or self.used < MUCH_USED else LARGEST_RISE_IF_USED
        return min(max(move, -LARGEST_MOVE), rise)

    def follow(self, moments: Sequence[Moments], pruned: bool = True) -> None:
        """Move; slowly while a fit is not pruned yet and may use up the data."""
        self.iteration += 1
        if self.iteration < FIRST_LEARNED:
            return
        move = self.wanted(moments)
        slow = min(max(move, -LARGEST_RISE_IF_USED), LARGEST_RISE_IF_USED)
        self.log_move = move if pruned else slow
        self.ratio *= math.exp(self.log_move)

    def _residual(self, moments: Sequence[Moments]) -> float:
        return math.fsum(
            f.noise_precision * float(np.sum(squared_rows(f.y - f.operator.forward(m.mean))))
            for f, m in zip(self.families, moments, strict=True)
        )

    def state(self, name: str = "noise") -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        return {name: np.asarray([self.ratio, self.iteration, self.log_move])}

    def restore(self, kept: dict[str, np.ndarray], name: str = "noise") -> None:
        """Go on from there."""
        self.ratio, iteration, self.log_move = (float(x) for x in kept[name])
        self.iteration = int(iteration)


def shared_noises(model: Model, start_snr: float) -> list[LearnedNoise]:
    """Return the noise of every family; those whose E-steps have one precision share theirs."""
    kinds = sorted({f.noise_precision for f in model.families})
    shared = {
        kind: LearnedNoise([f for f in model.families if f.noise_precision == kind], start_snr)
        for kind in kinds
    }
    return [shared[f.noise_precision] for f in model.families]


def squared_rows(x: Array) -> np.ndarray:
    """Return the sum of squares over the last axis, in double precision on the host."""
    xp = backend.namespace(x)
    rows = xp.sum(xp.astype(backend.abs_squared(x), xp.float64), axis=-1)
    return backend.to_numpy(rows)
