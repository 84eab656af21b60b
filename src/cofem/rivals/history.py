"""What a method with a loop of its own needs besides: its history and its end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import (
    Callback,
    IterationState,
    empty_history,
    record,
    relative_change,
)
from cofem.learning.stopping import Verdict


class Journal:
    """The history of a run, and whether it is over: the same rules as in the EM loop.

    Parameters
    ----------
    max_iter, tol, callback
        As for :func:`cofem.fit`.

    Examples
    --------
    >>> journal = Journal(max_iter=5, tol=0.1)
    >>> journal.note([np.array([1.0])], np.ones(1), products=2)
    False
    >>> journal.note([np.array([1.01])], np.ones(1), products=4)
    True
    >>> journal.settled, journal.history["products"]
    (True, [2, 4])
    """

    def __init__(self, max_iter: int, tol: float, callback: Callback | None = None) -> None:
        self._max_iter, self._tol, self._callback = max_iter, tol, callback
        self._began = time.perf_counter()
        self._previous: list[Array] | None = None
        self._change = math.inf
        self.history = empty_history()
        self.settled = self.stopped = False

    @property
    def iteration(self) -> int:
        """How many iterations are noted."""
        return len(self.history["iteration"])

    def note(
        self,
        means: Sequence[Array],
        alpha: Array,
        *,
        products: int,
        log_evidence: float = math.nan,
        done: bool = False,
    ) -> bool:
        """Write an iteration down, tell the callback, and return whether it was the last.

        Parameters
        ----------
        means : list of arrays (D,)
            The mean of every task, at ``alpha``.
        alpha : array (D,)
        products : int
            Rows multiplied by Φ or Φᴴ since the beginning.
        log_evidence : float
        done : bool
            The method knows by a rule of its own that nothing will change any more.
        """
        count = self.iteration + 1
        if self._previous is not None:
            self._change = relative_change(means, self._previous)
        self._previous = list(means)
        state = IterationState(
            iteration=count,
            max_iter=self._max_iter,
            change=self._change,
            cg_steps=0,
            products=products,
            seconds=time.perf_counter() - self._began,
            mean=means[0] if len(means) == 1 else backend.namespace(alpha).stack(list(means)),
            precision=alpha,
        )
        record(self.history, state, log_evidence)
        answer = self._callback(state) if self._callback is not None else None
        self.stopped = isinstance(answer, (bool, np.bool_)) and bool(answer)
        self.settled = self._tol > 0 and (done or (count > 1 and self._change <= self._tol))
        return self.settled or self.stopped or count == self._max_iter

    @property
    def verdict(self) -> Verdict:
        """How the run ended."""
        if self.settled:
            return Verdict.MEAN_SETTLED
        if self.stopped:
            return Verdict.STOPPED
        return Verdict.AS_ASKED if self._tol == 0 else Verdict.MEAN_NOT_SETTLED

    @property
    def facts(self) -> dict[str, float]:
        """What the verdict's sentence names."""
        return {"tol": self._tol, "max_iter": self._max_iter, "change": self._change}
