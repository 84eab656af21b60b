"""Longer steps where EM creeps: squared extrapolation of the logarithms of the precisions.

EM's steps shrink geometrically where columns are coherent. Two of them, r and then r + v, say how
fast: with s = |r|/|v| the step 2 s r + s² v goes about as far as a long series of them (SQUAREM:
Varadhan & Roland, Scand. J. Stat. 2008). The log evidence, which EM raises in every iteration, is
the judge: if a long step lowers it, EM goes on from where it was before. Measured in
``docs/notes/stopping.md``.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array

# EM is as it is for so many iterations: most fits end earlier. From then on every second E-step
# is taken at extrapolated precisions.
FIRST = 40
# The largest s at first. After a step with the largest one that did not lower the worth it grows by
# GROWS; after a step that did it is what that step had, over GROWS (SQUAREM's values).
LONGEST, GROWS = 4.0, 4.0
# No precision changes by more than this factor in a step.
FARTHEST = 100.0


@final
class Extrapolation:
    """Where EM goes next, given its steps and the worth of a place, which EM raises.

    Examples
    --------
    Steps that halve lead from 0 by 1/2, 1/4, … to 1; the third one goes there at once.

    >>> far = Extrapolation()
    >>> alphas = [np.exp(np.zeros(1)), np.exp(np.full(1, 0.5)), np.exp(np.full(1, 0.75))]
    >>> far.step(FIRST - 1, alphas[0], alphas[1], 1.0), np.log(far.step(FIRST, *alphas[1:], 2.0))
    (array([1.64872127]), array([1.]))
    """

    def __init__(self) -> None:
        self.longest = self.times = LONGEST
        self.worth = -math.inf  # at the last plain step of EM
        self.before: Array | None = None  # the precisions one step of EM ago
        self.instead: Array | None = None  # where plain EM would be
        self.went_back = False

    @property
    def plain(self) -> bool:
        """Whether the last step was one of EM, from where the last E-step was."""
        return self.instead is None and not self.went_back

    def step(self, iteration: int, alpha: Array, new: Array, worth: float) -> Array:
        """Return the next precisions; ``new`` are EM's after ``alpha``, ``worth`` at ``alpha``.

        ``iteration`` counts from one.
        """
        went_back, self.went_back = self.went_back, False
        if self.instead is not None:  # alpha was extrapolated
            back, self.instead = self.instead, None
            if worth >= self.worth:
                self.before = alpha
                self.longest *= GROWS if self.times == self.longest else 1.0
                return new
            self.longest = max(self.times / GROWS, 1.0)
            self.went_back = True
            return back
        before, self.before, self.worth = self.before, alpha, worth
        if went_back or before is None or iteration < FIRST or not math.isfinite(worth):
            return new
        longer = self._longer(before, alpha, new)
        if longer is None:
            return new
        self.instead = new
        return longer

    def _longer(self, before: Array, alpha: Array, new: Array) -> Array | None:
        """Return the extrapolated precisions; None where EM's own step is as long."""
        xp = backend.namespace(alpha)
        first, second = xp.log(alpha / before), xp.log(new / alpha)
        bend = second - first
        curved = float(xp.sum(bend**2))
        times = math.sqrt(float(xp.sum(first**2)) / curved) if curved > 0 else math.inf
        if not times > 1:
            return None
        self.times = times = min(times, self.longest)
        way = xp.clip(2 * times * first + times**2 * bend, -math.log(FARTHEST), math.log(FARTHEST))
        return before * xp.exp(way)

    def state(self) -> dict[str, np.ndarray]:
        """Return what the next iteration needs."""
        numbers = [self.longest, self.times, self.worth, self.went_back]
        kept = {"extrapolation": np.asarray(numbers)}
        for name, array in (("em_before", self.before), ("em_instead", self.instead)):
            if array is not None:
                kept[name] = backend.to_numpy(array)
        return kept

    def restore(self, kept: dict[str, np.ndarray], like: Array) -> None:
        """Go on from there."""
        if "extrapolation" not in kept:
            return
        self.longest, self.times, self.worth, went_back = map(float, kept["extrapolation"])
        self.went_back = bool(went_back)
        self.before, self.instead = (
            backend.from_numpy(kept[name], like) if name in kept else None
            for name in ("em_before", "em_instead")
        )
