"""When EM has settled: the images drift no more, and only jitter with the draws."""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.recording import relative_change


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

    def settled(self, mean: Array, change: float, tol: float) -> bool:
        """Take the next mean, and how far it is from the one before it."""
        self._total = mean if self._total is None else self._total + mean
        self._steps.append(change)
        if tol > 0 and change <= tol:
            return True
        if len(self._steps) < self.LENGTH:
            return False
        drift = np.inf if self._last is None else relative_change([self._total], [self._last])
        step = sum(self._steps) / self.LENGTH
        self._last, self._total, self._steps = self._total, None, []
        return tol > 0 and drift <= self.JITTER * step


def is_steady(old: Array, new: Array) -> bool:
    """Whether the noise has changed by less than a tenth."""
    xp = backend.namespace(new)
    return bool(xp.all(xp.abs(new - old) <= 0.1 * old))
