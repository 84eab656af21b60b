"""Where the results of many fits go: memory, a folder of .npy files, or a zarr group.

One process writes. Rows are written and flushed first; only then does ``state`` say that
they are there. So a run may be killed at any moment: what ``state`` calls done is whole.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from cofem.many.layout import PENDING, Layout, Outcome, columns_of, runs_of


class Store(ABC):
    """The arrays, made when the first fit tells their layout."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.layout: Layout | None = None
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        """Let other runs write; the arrays can still be read."""
        self._lock.close()

    @property
    def keeps(self) -> str:
        """What to do when a run ends early, for its error."""
        return "with store=PATH the finished ones would have been kept; then"

    @abstractmethod
    def create(self, layout: Layout) -> None:
        """Make the arrays: zeros, so that every state is pending."""

    @abstractmethod
    def flush(self) -> None:
        """Return when everything written is on the disk."""

    def state(self, problems: int) -> np.ndarray:
        """Return the state of every problem, (P,)."""
        if self.layout is None:
            return np.full(problems, PENDING, dtype=np.uint8)
        return np.array(self.arrays["state"][:])

    def write(self, outcomes: Mapping[int, Outcome]) -> None:
        """Store results by the index of their problem, and then mark them as done."""
        assert self.layout is not None
        for first, run in runs_of(outcomes):
            rows = slice(first, first + len(run))
            for name, values in columns_of(self.layout, run).items():
                self.arrays[name][rows] = values
        self.flush()
        for first, run in runs_of(outcomes):
            codes = [outcome.state for outcome in run]
            self.arrays["state"][first : first + len(run)] = np.array(codes, dtype=np.uint8)
        self.flush()

    def readable(self, name: str) -> Any:
        """Return an array for the user; one on the disk cannot be written by mistake."""
        return self.arrays[name]

    def messages(self) -> list[str]:
        """Return the message of every problem."""
        rows = np.array(self.arrays["message"][:])
        return [bytes(row).rstrip(b"\0").decode("utf-8", "ignore") for row in rows]


@final
class MemoryStore(Store):
    """Arrays in memory, gone with the process.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.create(Layout(problems=2, unknowns=1, precisions=1, dtype="float64"))
    >>> one = np.ones(1)
    >>> store.write({1: Outcome(one, one, one, converged=True, message="well")})
    >>> store.state(2), store.messages()
    (array([0, 1], dtype=uint8), ['', 'well'])
    """

    def create(self, layout: Layout) -> None:
        """Make the arrays."""
        self.layout = layout
        shapes = layout.arrays().items()
        self.arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes}

    def flush(self) -> None:
        """Nothing to do."""
