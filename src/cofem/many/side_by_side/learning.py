"""The learned prior of many problems at once, in the one loop: those that are done leave.

The rule is that of one problem, :class:`cofem.learning.sites.propagation.Propagation`. Here the
data have a row for every problem.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, final

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import iterate
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.matching import Look
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import STARTS
from cofem.learning.stopping import Verdict
from cofem.many.side_by_side.systems import Systems

GOES_ON, AT_REST, NEARLY = range(3)
# Problems that are done leave the batch when they are this share of it. (Not at once: every new
# number of problems is another shape, and a GPU records its steps anew.)
LEAVING = 0.5


@dataclass
class Ends:
    """Where P problems ended; every array has a row for each of them.

    Attributes
    ----------
    index, how : array of int (P,)
        Their numbers among all problems, and how their iterations ended.
    ratio : array (P,)
        The noise precision in units of the E-steps.
    weights : array (P, K + 1)
        Of the prior's components.
    a, b, mean, probability : array (P, D)
        Sites, the mean of the Gaussian posterior, and P(z_j ≠ 0).
    field, slabs : array (P,)
        The one number of the cavities, and the weight that the data ask for beside the spike's.
    used, log_move, distance, apart, departs : array (P,)
        As in :class:`cofem.learning.sites.matching.Look`.
    """

    index: Array
    how: Array
    ratio: Array
    weights: Array
    a: Array
    b: Array
    mean: Array
    probability: Array
    field: Array
    slabs: Array
    used: Array
    log_move: Array
    distance: Array
    apart: Array
    departs: Array

    @property
    def look(self) -> Look:
        """How they stood there, as one problem's rule tells it."""
        return Look(self.apart, self.distance, self.used, self.departs, self.log_move)

    def only(self, where: Array) -> Ends:
        """Return those of some of the problems."""
        take = backend.namespace(where).take
        return Ends(*(take(getattr(self, f.name), where, axis=0) for f in fields(self)))


@final
class SideBySide:
    """Site rule and E-step of P problems, from the first start of the learned prior.

    Parameters
    ----------
    systems : Systems
        Of problems none of which has data of zeros only, in units of their noise precision if it
        is ``given``, otherwise in units in which all of y is noise.
    given : bool
    tol : float
    """

    def __init__(self, systems: Systems, given: bool, tol: float) -> None:
        self.rule = Propagation(systems.model, STARTS[0], given, tol)
        self.systems, self._tol = systems, tol
        self.needs_variances, self.products = True, self.rule.products
        ratio = self.rule.noises[0].ratio
        xp = backend.namespace(ratio)
        self._index = xp.arange(ratio.shape[0], device=backend.device_of(ratio))
        self._how = 0 * self._index
        self._mean: Array | None = None
        self._leaving = False
        self._kept: Array | None = None
        self._ended: list[Ends] = []

    def run(self, max_iter: int) -> tuple[Ends, int]:
        """Iterate until every problem is at rest; return all in their order, and the iterations."""
        found = iterate(None, [self], self, max_iter=max_iter, tol=self._tol)
        return _in_order([*self._ended, self._ends()]), len(found.history["iteration"])

    # -- what the loop asks --------------------------------------------------------------

    def moments(
        self, a: Array, start: Array | None, iteration: int, last: bool, pull: Array | None = None
    ) -> Moments:
        """Return the moments of the problems that are left."""
        return self.systems.moments(a, start, iteration, last, pull)

    @property
    def alpha(self) -> Array:
        """The precisions of the sites."""
        return self.rule.alpha

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return the last means of the problems that are left."""
        if means is None or self._kept is None:
            return means
        kept, self._kept = self._kept, None
        return [backend.namespace(mean).take(mean, kept, axis=-2) for mean in means]

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return the sites of the problems that are left."""
        return self.rule.sites()

    def absorb(self, moments: Any, before: Any, random: bool) -> Verdict | None:
        """Learn from the moments; the last verdict is that nobody is left."""
        rule = self.rule
        rule.learn(moments)
        self._mean = moments[0].mean[0, ...]
        if self._tol == 0:
            return None
        xp = backend.namespace(self._how)
        how = xp.where(rule.nearly_at_rest, NEARLY + 0 * self._how, GOES_ON + 0 * self._how)
        how = xp.where(rule.at_rest, AT_REST + 0 * how, how)
        self._how = xp.where(self._how == GOES_ON, how, self._how)
        rule.going = self._how == GOES_ON
        left = int(xp.sum(xp.astype(rule.going, xp.int64)))  # the wait of an iteration
        self._leaving = left <= LEAVING * self._how.shape[0]
        return None if left else Verdict.AT_REST

    def advance(self) -> None:
        """Move the sites of those that go on; let the others leave."""
        self.rule.advance()
        if not self._leaving:
            return
        xp, going = backend.namespace(self._how), self.rule.going
        assert going is not None
        self._ended.append(self._ends().only(xp.nonzero(~going)[0]))
        kept = self._kept = xp.nonzero(going)[0]
        self.systems = self.systems.only(kept)
        self.rule = self.rule.of_problems(self.systems.model, kept)
        self._index, self._how = (xp.take(x, kept, axis=0) for x in (self._index, self._how))

    def facts(self) -> dict[str, Any]:
        """No sentence of this run is shown: every problem gets one of its own."""
        return {}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.AS_ASKED

    def _ends(self) -> Ends:
        """Return where the problems that are left stand."""
        rule, look = self.rule, self.rule.look
        assert rule.shares is not None
        assert self._mean is not None
        asked, noise = rule.shares.weights, rule.noises[0]
        return Ends(
            index=self._index, how=self._how, ratio=noise.ratio, weights=rule.prior.weights,
            a=rule.precisions[0], b=rule.pulls[0][0, ...], mean=self._mean,
            probability=1 - rule.shares.spike, field=rule.typical,
            slabs=backend.namespace(asked).sum(asked[:, 1:], axis=1),
            used=look.used, log_move=look.log_move, distance=look.distance, apart=look.apart,
            departs=look.departs,
        )  # fmt: skip


def _in_order(parts: list[Ends]) -> Ends:
    """Return the problems of all parts in their order."""
    xp = backend.namespace(parts[0].index)
    every = Ends(*(xp.concat([getattr(p, f.name) for p in parts]) for f in fields(Ends)))
    return every.only(xp.argsort(every.index))
