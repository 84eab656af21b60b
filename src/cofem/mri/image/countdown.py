"""How far a reconstruction is: several fits, counted as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cofem.mri.image.options import Progress

Call = Callable[[Progress], None]


class Countdown:
    """Turn the iterations of fits that follow each other into those of one long one.

    Parameters
    ----------
    show : function, or None
        Shown the iterations done and the most that there will be, of all fits together.
    lengths : list of int
        The most iterations of every fit.

    Examples
    --------
    A fit that ends early leaves less to do:

    >>> count = Countdown(lambda p: print(p.iteration, "of", p.max_iter), [3, 2])
    >>> first, second = count.stage(), count.stage()
    >>> first(Progress(1, 3, 0.5, 10))
    1 of 5
    >>> second(Progress(1, 2, 0.5, 10))
    2 of 3
    """

    def __init__(self, show: Call | None, lengths: list[int]) -> None:
        self._show, self._lengths = show, lengths
        self._done = [0] * len(lengths)
        self._begun = 0

    def skip_to(self, index: int) -> None:
        """Leave out fits before this one that were not needed; ``index`` counts from 0."""
        self._begun = index

    def stage(self, other: Call | None = None) -> Call:
        """Return the callback of the next fit; ``other`` is called with the fit's own count."""
        index = self._begun
        self._begun += 1

        def call(state: Progress) -> None:
            if other is not None:
                other(state)
            if self._show is None:
                return
            self._done[index] = state.iteration
            done = sum(self._done[: index + 1])
            left = sum(self._lengths[index:]) - state.iteration
            self._show(replace(state, iteration=done, max_iter=done + left))

        return call
