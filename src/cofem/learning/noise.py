"""The noise precision, learned in the same loop as the prior, from the residual.

Where y has rows of problems, (L, P, N), every number here is one of every problem, an array (P,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

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
        self.energy = _added([total_squares(f.y) * f.noise_precision for f in families])
        xp, numbers = backend.namespace(y), backend.functions_of(self.energy)
        single = xp.finfo(y.dtype).bits == 32
        least = (LEAST_RESIDUAL_SINGLE if single else LEAST_RESIDUAL) * self.energy
        self._least = numbers.where(least > 0, least, 1 + 0 * least)
        power = numbers.where(self.energy > 0, self.energy, self.n_data + 0 * self.energy)
        self.ratio = (1 + start_snr) * self.n_data / power
        self.iteration, self.log_move, self.used = 0, math.inf + 0 * self.ratio, 0 * self.ratio

    @property
    def at_rest(self) -> bool:
        """Whether β has settled."""
        return bool(abs(self.log_move) < AT_REST)

    def asked(self, moments: Sequence[Moments]) -> list[Any]:
        """Return the residuals' squares of every family, on their way to the host.

        Those of many problems stay where they are.
        """
        return [
            _under_way(_squares(f.y - f.operator.forward(m.mean)))
            for f, m in zip(self.families, moments, strict=True)
        ]

    def wanted(
        self,
        moments: Sequence[Moments],
        given: bool = False,
        asked: Sequence[Any] | None = None,
    ) -> Any:
        """Return the step of log β that follows from the moments, and set ``used``.

        If β is ``given`` it cannot diverge, so it may rise faster. ``asked`` is what
        :meth:`asked` returned before, so that other work could follow it.
        """
        xp, n = backend.functions_of(self.ratio), self.n_data
        freedom: Any = sum(m.freedom for m in moments)
        used = xp.clip(freedom, min=LEAST_USED, max=LARGEST_SHARE * n)
        self.used = used / n
        penalty = PENALTY * math.sqrt(self._reals) * n / self._reals
        unused = xp.clip(n - used - penalty, min=(1 - LARGEST_SHARE) * n)
        squares = self.asked(moments) if asked is None else asked
        residual = xp.maximum(self._residual(squares), self._least)
        move = xp.log(unused / residual / self.ratio)
        fast, slow = LARGEST_MOVE + 0 * self.ratio, LARGEST_RISE_IF_USED + 0 * self.ratio
        rise = fast if given else xp.where(self.used < MUCH_USED, fast, slow)
        return xp.minimum(xp.clip(move, min=-LARGEST_MOVE), rise)

    def follow(self, moments: Sequence[Moments], pruned: bool = True) -> None:
        """Change β; slowly as long as the fit is not pruned and may use all of the data."""
        self.iteration += 1
        if self.iteration < FIRST_LEARNED:
            return
        move = self.wanted(moments)
        slow = min(max(move, -LARGEST_RISE_IF_USED), LARGEST_RISE_IF_USED)
        self.log_move = move if pruned else slow
        self.ratio *= math.exp(self.log_move)

    def _residual(self, asked: Sequence[Any]) -> Any:
        return _added(
            [f.noise_precision * _over_tasks(s) for f, s in zip(self.families, asked, strict=True)]
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
) -> dict[LearnedNoise, tuple[list[Moments], list[Any]]]:
    """Return for each noise the moments of its families, and their residuals under way."""
    own: dict[LearnedNoise, list[Moments]] = {noise: [] for noise in noises}
    for noise, m in zip(noises, moments, strict=True):
        own[noise].append(m)
    return {noise: (mine, noise.asked(mine)) for noise, mine in own.items()}


def squared_rows(x: Array) -> np.ndarray:
    """Return the sum of squares over the last axis, in double precision on the host."""
    return backend.to_numpy(_squares(x))


def total_squares(y: Array) -> Any:
    """Return ‖y‖² over all tasks: a float, or an array (P,) for the rows of P problems."""
    return _over_tasks(_under_way(_squares(y)))


def _under_way(squares: Array) -> Any:
    return backend.Later(squares) if squares.ndim == 1 else squares


def _over_tasks(squares: Any) -> Any:
    if isinstance(squares, backend.Later):
        return float(np.sum(squares.numpy()))
    return backend.namespace(squares).sum(squares, axis=0)


def _added(parts: list[Any]) -> Any:
    return math.fsum(parts) if isinstance(parts[0], float) else sum(parts)


def _squares(x: Array) -> Array:
    xp = backend.namespace(x)
    found: Array = xp.sum(xp.astype(backend.abs_squared(x), xp.float64), axis=-1)
    return found
