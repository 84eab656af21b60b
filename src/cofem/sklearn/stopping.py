"""When the weights of a regression have settled."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem import validation

# Random probes move the weights for ever: up to so many times tol, over so many iterations,
# a change that no longer shrinks is theirs.
NOISE_OF_PROBES, WINDOW = 20, 10


@final
class Settled:
    """Stops a fit when ‖Δμ‖ ≤ tol (‖μ‖ + σ): features have unit length, so σ is an error bar.

    Relative to ‖μ‖ alone a fit of nothing but noise would never end: its mean goes to zero,
    and each step is a fair part of what is left.

    Parameters
    ----------
    tol : float
        0: never.
    beta : array (L,)
        1/σ² of every output.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> settled = Settled(0.1, np.ones(1))
    >>> means = [np.array([1.0]), np.array([2.0]), np.array([2.1])]
    >>> [settled(SimpleNamespace(mean=mean, cg_steps=0)) for mean in means]
    [False, False, True]
    """

    def __init__(self, tol: Any, beta: np.ndarray) -> None:
        self.tol = validation.tolerance(tol)
        self.error_bar = float(np.sqrt(np.sum(1 / beta)))
        self.last: np.ndarray | None = None
        self.changes: list[float] = []
        self.settled = False

    def __call__(self, state: Any) -> bool:
        """Take note of an iteration; True stops the fit."""
        last, self.last = self.last, state.mean
        change = math.inf
        if last is not None:
            size = float(np.linalg.norm(state.mean)) + self.error_bar
            change = float(np.linalg.norm(state.mean - last)) / size
        self.changes.append(change)
        if self.tol > 0:
            self.settled = change <= self.tol or (state.cg_steps > 0 and self._only_noise())
        return self.settled

    def _only_noise(self) -> bool:
        """Whether random probes are all that still moves the weights: slowly, and no slower."""
        before, now = self.changes[-2 * WINDOW : -WINDOW], self.changes[-WINDOW:]
        if len(before) < WINDOW or np.median(now) > NOISE_OF_PROBES * self.tol:
            return False
        return bool(np.median(now) > 0.9 * np.median(before))

    def verdict(self) -> str:
        """Say how the fit ended."""
        if self.settled:
            return f"the weights change by {self.changes[-1]:.2g} per iteration (tol={self.tol:g})"
        if self.tol == 0:
            return f"ran the {len(self.changes)} iterations asked for (tol=0)"
        return (
            f"the weights still change by {self.changes[-1]:.2g} per iteration after "
            f"max_iter={len(self.changes)} (tol={self.tol:g}): raise max_iter, or accept it "
            "with a larger tol"
        )
