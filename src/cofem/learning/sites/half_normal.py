"""z ≥ 0 under precisions that are known: half-normal priors, by expectation propagation.

The prior of coordinate j is N(0, 1/α_j) cut off at zero, so the posterior is the normal one cut off
at zero in all coordinates together. Its moments have no closed form for more than two of them.
Sites match moments as for the learned prior (:mod:`cofem.learning.sites.matching`). Every prior is
log-concave here, and so is the posterior: it has one mode, a site is never weaker than the prior
itself, and the iterations come to rest also where columns are coherent (Cunningham, Hennig &
Lacoste-Julien 2011 have it for the probability of such a box).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.matching import UNSEEN, MatchedSites
from cofem.learning.sites.shares import Seen, rectified_shares
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Tie

# The share of the new sites in the average of new and old; the second from iteration LATE on.
DAMPING, LATE_DAMPING, LATE = 0.7, 0.35, 30
# The iterations end when the two means of a coordinate differ by less than this, in error bars:
# root mean square over all coordinates; the second where probes are random.
NEAR, NEAR_IF_RANDOM = 1e-3, 0.02
# The components: a spike that never counts, as a mixture needs one, and the half-normal law, in
# units of 1/α.
SCALES, WEIGHTS = np.array([0.0, 1.0]), np.array([1e-30, 1.0])


@final
class HalfNormal(MatchedSites):
    """The sites of half-normal priors, and how they follow from moments.

    Parameters
    ----------
    model : Model
        With its noise precisions.
    alpha : array (D,)
        α.
    """

    def __init__(self, model: Model, alpha: Array) -> None:
        same = [alpha for _ in model.families]
        super().__init__(model, same, list(same))
        self.alpha = alpha

    @property
    def ratios(self) -> list[float]:
        """The noise precision of every family is that of its E-step."""
        return [1.0 for _ in self.model.families]

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the moments under the present sites; return a verdict if they are the last."""
        self.iteration += 1
        self._see(moments)
        parts = self.seen, SCALES, np.log(WEIGHTS), self.ratios
        self.shares = rectified_shares(*parts, half=0.5, tie=Tie())
        means = [m.sparse_mean for m in moments]
        number = float(sum(math.prod(m.shape) for m in means))
        self.look.compare(self.seen, self.shares, means, self.ratios, number)
        near = NEAR_IF_RANDOM if random else NEAR
        return Verdict.GIVEN if self.look.distance <= near else None

    def advance(self) -> None:
        """Move the sites on."""
        self._move_sites(DAMPING if self.iteration < LATE else LATE_DAMPING)

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        return {"distance": self.look.distance}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.CUT_NOT_AT_REST

    def _least_seen(self, i: int) -> float:
        return UNSEEN

    def _weakest(self, seen: Seen) -> Array:
        """Return the prior's own precision: a site is never weaker."""
        return self.alpha / seen.precision
