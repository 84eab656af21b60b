"""From the fits, as they come, to the store."""

from __future__ import annotations

import time
from typing import final

import numpy as np

from cofem.learning.sites.mixture import N_SCALES
from cofem.many.layout import Layout, Outcome
from cofem.many.marginals import OF_COORDINATES
from cofem.many.stores import Store
from cofem.progress import CountProgress

# Results wait at most this long for their place in the store.
COMMIT_SECONDS = 1.0
# A learned prior has at most these: the spike and every scale of the grid.
COMPONENTS = N_SCALES + 1


@final
class Committer:
    """Collects results and writes them about once a second."""

    def __init__(self, target: Store, problems: int, unknowns: int, bar: CountProgress) -> None:
        self.target, self.problems, self.unknowns, self.bar = target, problems, unknowns, bar
        self.waiting: dict[int, Outcome] = {}
        self.seen: set[int] = set()
        self.last = time.perf_counter()

    @property
    def nothing(self) -> bool:
        """Whether there is no result yet, of this run or another."""
        return self.target.layout is None and not self.seen

    @property
    def row_bytes(self) -> int:
        """The size of one result."""
        return 8 * (3 + len(OF_COORDINATES)) * self.unknowns

    def left(self, pending: np.ndarray) -> np.ndarray:
        """Return the problems that have no result yet."""
        return np.array([i for i in pending if int(i) not in self.seen], dtype=np.intp)

    def add(self, outcomes: dict[int, Outcome]) -> None:
        """Take results."""
        self.waiting.update(outcomes)
        self.seen.update(outcomes)
        self.bar.advance(len(outcomes))
        if time.perf_counter() - self.last > COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Write what waits. Failures before the first success wait for it: it has the layout."""
        if self.target.layout is None:
            layout = self._layout()
            if layout is None:
                return
            self.target.create(layout)
        if self.waiting:
            self.target.write(self.waiting)
        self.waiting = {}
        self.last = time.perf_counter()

    def _layout(self) -> Layout | None:
        for one in self.waiting.values():
            if one.mean is not None and one.precision is not None:
                sizes = len(one.mean), len(one.precision)
                return Layout(self.problems, *sizes, np.dtype(one.mean.dtype).name, COMPONENTS)
        if len(self.seen) == self.problems:  # nothing but failures
            return Layout(self.problems, self.unknowns, self.unknowns, "float64", COMPONENTS)
        return None
