"""The noise precision, learned in the same loop as the prior, from the residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.model.model import Family, Model

# The largest change of log β in an iteration; and the largest increase where the fit uses more than
# the share MUCH_USED of the data. There the residual says little about the noise, and if β rises
# faster than the sites follow, it diverges (seen with equicorrelated columns in 5 of 40 problems).
LARGEST_MOVE, MUCH_USED, LARGEST_RISE_IF_USED = 1.0, 0.3, 0.4
# The standard deviation of log β is √(2/N). So many times √N of the N data are not counted, so that
# β does not drift upwards where its likelihood is flat.
PENALTY = 0.5
# The number of data that a fit uses is clipped to this share of N, and to at least LEAST_USED: an
# estimate by probes can be negative.
LARGEST_SHARE, LEAST_USED = 0.98, 1e-3
# The smallest residual that is believed, as a share of the power of y: below it there is only
# rounding (a signal-to-noise ratio of 120 dB, 80 dB in single precision).
LEAST_RESIDUAL, LEAST_RESIDUAL_SINGLE = 1e-12, 1e-8
# β has settled when log β changes by less than this; its standard deviation is √(2/N).
AT_REST = 0.01
# The first iteration that changes β: the sites need a few to follow the data.
FIRST_LEARNED = 4


@final
class LearnedNoise:
    """β as a multiple of the model's: β ← (N − used − ½√N) / ‖y − Φμ‖².

    The tasks keep the proportions of their noise precisions to each other.

    Parameters
    ----------
    families : sequence of Family
        The families that share this noise, with the noise precisions of their E-steps.
    start_snr : float
        β starts at (1 + start_snr) N/‖y‖².
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
        """Whether β has settled."""
        return abs(self.log_move) < AT_REST

    def asked(self, moments: Sequence[Moments]) -> list[backend.Later]:
        """Return the residuals' squares of every family, on their way to the host."""
        return [
            backend.Later(_squares(f.y - f.operator.forward(m.mean)))
            for f, m in zip(self.families, moments, strict=True)
        ]

    def wanted(
        self,
        moments: Sequence[Moments],
        given: bool = False,
        asked: Sequence[backend.Later] | None = None,
    ) -> float:
        """Return the step of log β that follows from the moments, and set ``used``.

        If β is ``given`` it cannot diverge, so it may rise faster. ``asked`` is what
        :meth:`asked` returned before, so that other work could follow it.
        """
        used = max(sum(m.freedom for m in moments), LEAST_USED)
        used = min(used, LARGEST_SHARE * self.n_data)
        self.used = used / self.n_data
        penalty = PENALTY * math.sqrt(self._reals) * self.n_data / self._reals
        unused = max(self.n_data - used - penalty, (1 - LARGEST_SHARE) * self.n_data)
        squares = self.asked(moments) if asked is None else asked
        residual = max(self._residual(squares), self._least)
        move = math.log(unused / residual / self.ratio)
        rise = LARGEST_MOVE if given or self.used < MUCH_USED else LARGEST_RISE_IF_USED
        return min(max(move, -LARGEST_MOVE), rise)

    def follow(self, moments: Sequence[Moments], pruned: bool = True) -> None:
        """Change β; slowly as long as the fit is not pruned and may use all of the data."""
        self.iteration += 1
        if self.iteration < FIRST_LEARNED:
            return
        move = self.wanted(moments)
        slow = min(max(move, -LARGEST_RISE_IF_USED), LARGEST_RISE_IF_USED)
        self.log_move = move if pruned else slow
        self.ratio *= math.exp(self.log_move)

    def _residual(self, asked: Sequence[backend.Later]) -> float:
        return math.fsum(
            f.noise_precision * float(np.sum(later.numpy()))
            for f, later in zip(self.families, asked, strict=True)
        )

    def state(self, name: str = "noise") -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        return {name: np.asarray([self.ratio, self.iteration, self.log_move])}

    def restore(self, kept: dict[str, np.ndarray], name: str = "noise") -> None:
        """Restore what :meth:`state` returned."""
        self.ratio, iteration, self.log_move = (float(x) for x in kept[name])
        self.iteration = int(iteration)


def shared_noises(model: Model, start_snr: float) -> list[LearnedNoise]:
    """Return the noise of every family; families with the same noise precision share one object."""
    kinds = sorted({f.noise_precision for f in model.families})
    shared = {
        kind: LearnedNoise([f for f in model.families if f.noise_precision == kind], start_snr)
        for kind in kinds
    }
    return [shared[f.noise_precision] for f in model.families]


def asked_of(
    noises: Sequence[LearnedNoise], moments: Sequence[Moments]
) -> dict[LearnedNoise, tuple[list[Moments], list[backend.Later]]]:
    """Return for each noise the moments of its families, and their residuals under way."""
    own: dict[LearnedNoise, list[Moments]] = {noise: [] for noise in noises}
    for noise, m in zip(noises, moments, strict=True):
        own[noise].append(m)
    return {noise: (mine, noise.asked(mine)) for noise, mine in own.items()}


def squared_rows(x: Array) -> np.ndarray:
    """Return the sum of squares over the last axis, in double precision on the host."""
    return backend.to_numpy(_squares(x))


def _squares(x: Array) -> Array:
    xp = backend.namespace(x)
    found: Array = xp.sum(xp.astype(backend.abs_squared(x), xp.float64), axis=-1)
    return found
