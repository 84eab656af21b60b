"""Expectation propagation of many problems at once: the loop over numbers, with arrays for numbers.

What :class:`cofem.learning.sites.propagation.Propagation` and
:class:`cofem.learning.noise.LearnedNoise` do for one problem from one start, step for step; what
is a number there is an array (P,) here. Problems that are done leave, so that the others do not
wait for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.learning import noise
from cofem.learning.moments.mean_field import MEMORY
from cofem.learning.sites import propagation as one
from cofem.learning.sites.matching import APART, LEAST_BAR, STRONGEST, UNSEEN, WEAKEST
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.starts import STARTS
from cofem.many.side_by_side.prior import Priors, Told
from cofem.many.side_by_side.systems import Sides, Systems, column
from cofem.model.model import Tie

GOES_ON, AT_REST, NEARLY = range(3)
# Problems that are done leave when they are so large a share: every new number of problems is
# another shape, whose steps are recorded anew.
LEAVING = 0.5


@dataclass
class State:
    """Where P problems stand; every array has a row for each of them.

    Attributes
    ----------
    index : array of int (P,)
        Their numbers among all problems.
    energy, ratio : array (P,)
        ‖y‖², and the noise precision, both in units of the E-steps.
    a, b, mean : array (P, D)
        Sites, and the mean of the Gaussian posterior.
    how : array of int (P,)
        How their iterations ended.
    """

    index: Array
    energy: Array
    ratio: Array
    a: Array
    b: Array
    mean: Array
    priors: Priors
    field: Array
    quiet: Array
    nearly: Array
    how: Array
    excess: Array
    size: Array
    used: Array
    log_move: Array
    distance: Array
    apart: Array
    told: Told | None = None
    value: Any = None

    @property
    def departs(self) -> Array:
        """How far the cavities are from what the probes see, root mean square, (P,)."""
        xp = backend.namespace(self.a)
        size = xp.where(self.size > 0, self.size, xp.inf + 0 * self.size)
        return xp.sqrt(xp.clip(self.excess / size, min=0.0))

    def only(self, kept: Array) -> State:
        """Return the state of some of the problems."""
        xp = backend.namespace(self.a)
        found: dict[str, Any] = {}
        for name, x in self.__dict__.items():
            if isinstance(x, Priors):
                found[name] = x.only(kept)
            elif isinstance(x, Told):
                found[name] = Told(*(xp.take(part, kept, axis=0) for part in x.__dict__.values()))
            else:
                found[name] = x if x is None else xp.take(x, kept, axis=0)
        return State(**found)


@final
class Learning:
    """The first start of the learned prior, for P problems.

    Parameters
    ----------
    systems : Systems
        Of problems none of which has data of zeros only, in units of their noise precision if it
        is ``given``, otherwise in units in which all of y is noise.
    given : bool
    tol : float
    """

    def __init__(self, systems: Systems, given: bool, tol: float) -> None:
        self.systems, self._given, self._tol = systems, given, tol
        self.products = self.iteration = 0
        self.state = self._beginning()

    def _beginning(self) -> State:
        systems, Y = self.systems, self.systems.Y
        xp = backend.namespace(Y)
        self.n_data, self.n = int(Y.shape[1]), systems.n
        half = 1.0 if backend.is_complex(Y) else 0.5
        self._reals = self.n_data * (2 if backend.is_complex(Y) else 1)
        single = xp.finfo(Y.dtype).bits == 32
        self._least = noise.LEAST_RESIDUAL_SINGLE if single else noise.LEAST_RESIDUAL
        energy = xp.sum(xp.astype(backend.abs_squared(Y), xp.float64), axis=1)
        ratio = (1 + STARTS[0]) * self.n_data / energy
        ratio = xp.clip(ratio, max=1.0) if self._given else ratio
        first = MixturePrior.beginning(1.0, self.n_data, self.n, Tie(None), half)
        a = column(self.n / (energy * ratio), systems.norms) * systems.norms
        nothing, never = 0 * energy, xp.inf + 0 * energy
        count = xp.astype(nothing, xp.int64)
        zeros = xp.astype(0 * a, Y.dtype)
        return State(
            xp.arange(systems.number, device=backend.device_of(Y)), energy, ratio, a, zeros, zeros,
            Priors.beginning(first, energy), nothing, count, count, count, nothing, nothing,
            nothing, never, never, never,
        )  # fmt: skip

    def run(self, max_iter: int) -> State:
        """Iterate until every problem is at rest; return all of them in their order."""
        xp = backend.namespace(self.state.a)
        finished: list[State] = []
        while True:
            self.iteration += 1
            self._look()
            last = self.iteration == max_iter
            going = self.state.how == GOES_ON
            left = int(xp.sum(xp.astype(going, xp.int64)))  # the wait of an iteration
            if last or left == 0:
                finished.append(self.state)
                break
            if left <= LEAVING * self.systems.number:
                finished.append(self.state.only(xp.nonzero(~going)[0]))
                kept = xp.nonzero(going)[0]
                self.state, self.systems = self.state.only(kept), self.systems.only(kept)
            self._advance()
        return _joined(finished)

    # -- the parts of an iteration ---------------------------------------------------------

    def _look(self) -> None:
        """Take the moments under the present sites, learn the priors, and see who is done."""
        s, systems = self.state, self.systems
        xp = backend.namespace(s.a)
        found = systems.moments(s.a, s.b, s.mean if self.iteration > 1 else None, self.iteration)
        self.products += found.products + systems.number
        active = s.how == GOES_ON
        s.mean, s.field = found.mean, xp.clip(found.field, min=UNSEEN)
        keep = 0.0 if self.iteration == 1 else MEMORY
        s.excess = keep * s.excess + (1 - keep) * found.excess
        s.size = keep * s.size + (1 - keep) * found.size
        move = self._log_move(s, found)
        visible = s.ratio * s.field
        told = self.told(s, visible)
        weight_move = 0 * s.ratio
        if self.iteration >= noise.FIRST_LEARNED:
            before = s.priors.slabs
            new = s.priors.learned(told.weights, visible)
            # Who is done keeps the prior that it ended with.
            s.priors = replace(
                new, weights=xp.where(active[:, None], new.weights, s.priors.weights)
            )
            weight_move = xp.abs(xp.log(s.priors.slabs / before))
            told = self.told(s, visible)
        s.told = told
        self._compare(s, told)
        still = xp.maximum(xp.abs(move), weight_move) <= one.LOG_MOVE_PER_TOL * self._tol
        still = still & (self.iteration > noise.FIRST_LEARNED)
        near = s.distance <= one.DISTANCE_PER_TOL * self._tol
        quiet = xp.where(still & near, s.quiet + 1, 0 * s.quiet)
        nearly = xp.where(still & (s.apart <= one.FEW_APART), s.nearly + 1, 0 * s.nearly)
        how = xp.where(nearly >= one.NEARLY_IN_A_ROW, NEARLY + 0 * quiet, GOES_ON + 0 * quiet)
        how = xp.where(quiet >= one.IN_A_ROW, AT_REST + 0 * quiet, how)
        s.quiet, s.nearly = quiet, nearly
        s.log_move = xp.where(active, move, s.log_move)
        if self._tol > 0:
            s.how = xp.where(active, how, s.how)

    def told(self, s: State, visible: Array) -> Told:
        """Return what the priors say of every coordinate as it is seen."""
        theta = self.systems.norms
        cavity = column(s.field, s.a) * theta
        s.value = s.mean + (s.a * s.mean - s.b) / cavity
        return s.priors.told(s.value, column(s.ratio, s.a) * cavity, s.ratio * s.field, visible)

    def _log_move(self, s: State, found: Sides) -> Array:
        xp, n = backend.namespace(s.a), self.n_data
        used = xp.clip(found.freedom, min=noise.LEAST_USED, max=noise.LARGEST_SHARE * n)
        s.used = used / n
        penalty = noise.PENALTY * math.sqrt(self._reals) * n / self._reals
        unused = xp.clip(n - used - penalty, min=(1 - noise.LARGEST_SHARE) * n)
        residual = xp.maximum(self.systems.residuals(s.mean), self._least * s.energy)
        move = xp.log(unused / residual / s.ratio)
        free = s.used < noise.MUCH_USED
        rise = xp.where(free, noise.LARGEST_MOVE + 0 * move, noise.LARGEST_RISE_IF_USED + 0 * move)
        if not self._given:
            return xp.minimum(xp.clip(move, min=-noise.LARGEST_MOVE), rise)
        move = xp.clip(move, min=-noise.LARGEST_MOVE, max=noise.LARGEST_MOVE)
        return xp.minimum(xp.clip(move, min=one.LEAST_CLIMB), -xp.log(s.ratio))

    def _compare(self, s: State, told: Told) -> None:
        xp = backend.namespace(s.a)
        precision = column(s.ratio * s.field, s.a) * self.systems.norms
        distance = backend.abs_squared(told.mean - s.mean)
        error = distance / xp.maximum(told.variance, LEAST_BAR**2 / precision)
        s.apart = xp.mean(xp.astype(error > APART**2, xp.float64), axis=1)
        total = xp.sum(xp.astype(error, xp.float64), axis=1)
        s.distance = xp.sqrt(total / xp.clip(s.used * self.n_data, min=1.0))

    def _advance(self) -> None:
        """Move sites and noise precision of the problems that go on."""
        s = self.state
        xp, told = backend.namespace(s.a), s.told
        assert told is not None
        going = s.how == GOES_ON
        damping = one.DAMPING if self.iteration < one.LATE else one.LATE_DAMPING
        cavity = column(s.field, s.a) * self.systems.norms
        share = column(s.ratio, s.a) * cavity * told.variance
        weight = 1 / xp.clip(share, min=1 / (1 + STRONGEST)) - 1
        weight = xp.clip(weight, min=WEAKEST, max=STRONGEST)
        pull = cavity * ((told.mean - s.value) + told.mean * weight)
        a = xp.exp((1 - damping) * xp.log(s.a) + damping * xp.log(cavity * weight))
        s.a = xp.where(going[:, None], a, s.a)
        s.b = xp.where(going[:, None], (1 - damping) * s.b + damping * pull, s.b)
        if self.iteration >= noise.FIRST_LEARNED:
            s.ratio = xp.where(going, s.ratio * xp.exp(s.log_move), s.ratio)


def _joined(parts: list[State]) -> State:
    """Return the problems of all parts in their order."""
    xp = backend.namespace(parts[0].a)
    first = parts[0]
    merged: dict[str, Any] = {}
    for name, x in first.__dict__.items():
        every = [getattr(p, name) for p in parts]
        if isinstance(x, Priors):
            scales, weights = (xp.concat([getattr(p, k) for p in every])
                               for k in ("scales", "weights"))  # fmt: skip
            merged[name] = Priors(scales, weights, x.first)
        elif isinstance(x, Told):
            merged[name] = Told(*(xp.concat(list(of)) for of in zip(
                *(p.__dict__.values() for p in every), strict=True)))  # fmt: skip
        else:
            merged[name] = x if x is None else xp.concat(every)
    order = xp.argsort(merged["index"])
    return State(**merged).only(order)
