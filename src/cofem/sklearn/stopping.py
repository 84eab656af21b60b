"""When the weights of a regression have settled, and the warning if they have not."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from sklearn.exceptions import ConvergenceWarning as _LearnWarning

from cofem import fitting, validation
from cofem.sklearn.pruning import Pruning

# Random probes move the weights for ever: up to so many times tol, over so many iterations,
# a change that no longer shrinks is theirs.
NOISE_OF_PROBES, WINDOW = 20, 10
# Pruning begins when the change has come down to this, or to tol if that is larger.
NEARLY = 1e-3


class ConvergenceWarning(fitting.ConvergenceWarning, _LearnWarning):  # type: ignore[misc]
    """A warning of both libraries, so that the filter of either catches it.

    Examples
    --------
    >>> import cofem, sklearn.exceptions
    >>> issubclass(ConvergenceWarning, cofem.ConvergenceWarning)
    True
    >>> issubclass(ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    True
    """


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
    pruning : Pruning, optional
        Switched on when the weights have nearly settled without it; the fit ends when they
        have settled with it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> settled = Settled(0.1, np.ones(1))
    >>> means = [np.array([1.0]), np.array([2.0]), np.array([2.1])]
    >>> [settled(SimpleNamespace(mean=mean, cg_steps=0)) for mean in means]
    [False, False, True]
    """

    def __init__(self, tol: Any, beta: np.ndarray, pruning: Pruning | None = None) -> None:
        self.tol = validation.tolerance(tol)
        self.error_bar = float(np.sqrt(np.sum(1 / beta)))
        self.last: np.ndarray | None = None
        self.changes: list[float] = []
        self.settled = False
        self.pruning = pruning
        self.since = 0  # where the changes begin that are compared with each other

    def __call__(self, state: Any) -> bool:
        """Take note of an iteration; True stops the fit."""
        last, self.last = self.last, state.mean
        change = math.inf
        if last is not None:
            size = float(np.linalg.norm(state.mean)) + self.error_bar
            change = float(np.linalg.norm(state.mean - last)) / size
        self.changes.append(change)
        noise = state.cg_steps > 0 and self._only_noise()
        if self.pruning is None or self.pruning.on:
            self.settled = self.tol > 0 and (change <= self.tol or noise)
        elif change <= max(self.tol, NEARLY) or noise:
            self.pruning.on, self.since = True, len(self.changes)
        if self.pruning is not None:
            self.pruning.update(state)
        return self.settled

    def _only_noise(self) -> bool:
        """Whether random probes are all that still moves the weights: slowly, and no slower."""
        changes = self.changes[self.since :]
        before, now = changes[-2 * WINDOW : -WINDOW], changes[-WINDOW:]
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
