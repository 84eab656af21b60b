"""When EM has settled: the images drift no more, and only jitter with the draws.

The measure of a change and the verdicts are those of every fit (:mod:`cofem.learning.loop`,
:mod:`cofem.learning.stopping`). The rule is this model's own: there, a coordinate has settled
when it moves by a small share of its error bar, but here the prior of every pixel is learned from
a draw or two, another one in every iteration, and the images never stand still.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.recording import relative_change
from cofem.learning.stopping import Verdict

STEADY = 0.1  # of the noise: what it may change by, as EM finds it to 6 to 9 % (docs/notes/mri.md)


class Window:
    """Tell whether the mean stands still, or moves only because each draw is another one.

    Averages over LENGTH iterations are compared. Where the mean drifts they are LENGTH steps
    apart. Where it only jitters, 0.91 to 0.97 of a step (measured with two kinds of masks and
    noises: the covariance remembers a draw for some iterations).
    """

    LENGTH, JITTER = 5, 1.05

    def __init__(self) -> None:
        self._total: Array | None = None
        self._last: Array | None = None
        self._steps: list[float] = []

    def settled(self, mean: Array, change: float, tol: float) -> Verdict | None:
        """Take the next mean, and how far it is from the one before it."""
        self._total = mean if self._total is None else self._total + mean
        self._steps.append(change)
        if tol > 0 and change <= tol:
            return Verdict.MEAN_SETTLED
        if len(self._steps) < self.LENGTH:
            return None
        drift = np.inf if self._last is None else relative_change([self._total], [self._last])
        step = sum(self._steps) / self.LENGTH
        self._last, self._total, self._steps = self._total, None, []
        return Verdict.ONLY_JITTERS if tol > 0 and drift <= self.JITTER * step else None


def is_steady(old: Array, new: Array) -> bool:
    """Whether the noise has changed by less than :data:`STEADY` of it."""
    xp = backend.namespace(new)
    return bool(xp.all(xp.abs(new - old) <= STEADY * old))
