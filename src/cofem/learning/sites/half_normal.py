"""z ≥ 0 under precisions that are known: half-normal priors, by expectation propagation.

The prior of coordinate j is N(0, 1/α_j) cut off at zero, so the posterior is the normal one cut off
at zero in all coordinates together. Its moments have no closed form for more than two of them.
As in :mod:`cofem.learning.sites.propagation`, each coordinate's prior is replaced by a site
exp(−a z²/2 + b z) that gives the mean and the variance which the true prior has with the cavity.
Every prior is log-concave here, and so is the posterior: it has one mode, a site is never weaker
than the prior itself, and the iterations come to rest also where columns are coherent (Cunningham,
Hennig & Lacoste-Julien 2011 have it for the probability of such a box).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments
from cofem.learning.sites.matching import STRONGEST, UNSEEN, Look
from cofem.learning.sites.shares import Seen, Shares, rectified_shares
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
class HalfNormal:
    """The sites of half-normal priors, and how they follow from moments.

    Parameters
    ----------
    model : Model
        With its noise precisions.
    alpha : array (D,)
        α.
    """

    def __init__(self, model: Model, alpha: Array) -> None:
        self.alpha = alpha
        xp = backend.namespace(alpha)
        self.precisions = [alpha for _ in model.families]
        self.pulls = [
            xp.zeros((len(f.members), alpha.shape[0]), dtype=alpha.dtype,
                     device=backend.device_of(alpha))
            for f in model.families
        ]  # fmt: skip
        self.needs_variances = True
        self.products = 0
        self.seen: list[Seen] = []
        self.shares: Shares | None = None
        self.look = Look()
        self._iteration = 0

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return where the E-steps start: at the last means."""
        return means

    def sites(self) -> list[tuple[Array, Array | None]]:
        """Return precision and pull of every family."""
        return list(zip(self.precisions, self.pulls, strict=True))

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the moments under the present sites; return a verdict if they are the last."""
        self._iteration += 1
        near = NEAR_IF_RANDOM if random else NEAR
        self.seen = [
            self._seen(a, b, m)
            for a, b, m in zip(self.precisions, self.pulls, moments, strict=True)
        ]
        ratios = [1.0] * len(moments)
        self.shares = rectified_shares(self.seen, SCALES, np.log(WEIGHTS), ratios, 0.5, Tie())
        means = [m.sparse_mean for m in moments]
        number = float(sum(math.prod(m.shape) for m in means))
        self.look.compare(self.seen, self.shares, means, ratios, number)
        return Verdict.GIVEN if self.look.distance <= near else None

    def advance(self) -> None:
        """Move the sites on."""
        assert self.shares is not None
        damping = DAMPING if self._iteration < LATE else LATE_DAMPING
        for i, seen in enumerate(self.seen):
            mean, variance = self.shares.mean[i], self.shares.variance[i]
            xp = backend.namespace(mean)
            c = seen.precision
            # One precision for the tasks of a family, as their covariance is one.
            wanted = 1 / xp.mean(variance, axis=0) - c
            wanted = xp.minimum(
                xp.maximum(wanted, self.alpha), STRONGEST * xp.maximum(c, self.alpha)
            )
            pull = mean * (c + wanted) - seen.value * c
            mixed = (1 - damping) * xp.log(self.precisions[i]) + damping * xp.log(wanted)
            self.precisions[i] = xp.exp(mixed)
            self.pulls[i] = (1 - damping) * self.pulls[i] + damping * pull

    def facts(self) -> dict[str, Any]:
        """Return what the sentences of a verdict may name."""
        return {"distance": self.look.distance}

    @property
    def unfinished(self) -> Verdict:
        """The verdict if there are no more iterations."""
        return Verdict.CUT_NOT_AT_REST

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs: no checkpoint is made of this."""
        raise NotImplementedError

    def restore(self, kept: dict[str, np.ndarray]) -> None:
        """Go on from there: no checkpoint is made of this."""
        raise NotImplementedError

    def _seen(self, a: Array, b: Array, moments: Moments) -> Seen:
        """Return how the coordinates of a family are seen without their sites."""
        xp = backend.namespace(a)
        cavity = xp.maximum(moments.cavity, UNSEEN * self.alpha)
        mean = moments.sparse_mean
        return Seen(mean + (a * mean - b) / cavity, cavity, self.alpha)
