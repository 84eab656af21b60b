"""The progress bar of a fit, on the terminal's error stream."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["CountProgress", "FitProgress"]


class State(Protocol):
    """What the bar reads of the state that a callback of ``fit`` receives."""

    @property
    def iteration(self) -> int:
        """Iterations done, from 1."""

    @property
    def max_iter(self) -> int:
        """The most iterations there will be."""

    @property
    def change(self) -> float:
        """Relative change of the mean."""

    @property
    def cg_steps(self) -> int:
        """Steps of conjugate gradients in this iteration."""


class FitProgress:
    """A bar with iteration, relative change, CG steps, time spent and time left.

    It writes to the error stream, disappears when the fit is done, and says nothing
    where the error stream is not a terminal. The time left is to ``max_iter``; a fit
    that converges is done sooner.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw instead.
    label : str
        What stands before the bar.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> with FitProgress() as bar:
    ...     bar.update(SimpleNamespace(iteration=1, max_iter=50, change=0.3, cg_steps=12))
    """

    def __init__(self, console: Console | None = None, label: str = "fit") -> None:
        console = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("change {task.fields[change]:.1e}  CG steps {task.fields[cg_steps]}"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._shown = console.is_terminal
        self._task = self._progress.add_task(
            label, total=None, change=float("nan"), cg_steps=0
        )
        self._last = 0

    def __enter__(self) -> FitProgress:
        if self._shown:  # even a disabled bar would leave an empty line in some versions
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._progress.stop()

    def update(self, state: State) -> None:
        """Show ``state``; an iteration that is not the next one starts the bar anew."""
        if state.iteration <= self._last:  # another fit, as in the search for the noise
            self._progress.reset(self._task)
        self._last = state.iteration
        self._progress.update(
            self._task,
            completed=state.iteration,
            total=state.max_iter,
            change=float(state.change),
            cg_steps=int(state.cg_steps),
        )


class CountProgress:
    """A bar that counts: how many are done, time spent and time left.

    It is silent where the error stream is not a terminal, and disappears in the end.

    Parameters
    ----------
    total : int
        How many there are.
    label : str
        What stands before the bar.
    shown : bool
        False: nothing is ever drawn.
    console : rich.console.Console, optional
        Where to draw instead.

    Examples
    --------
    >>> with CountProgress(3, "problems") as bar:
    ...     bar.update(1)
    ...     bar.advance(2)
    """

    def __init__(
        self, total: int, label: str, *, shown: bool = True, console: Console | None = None
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self._shown = shown and console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._shown,
        )
        self._task = self._progress.add_task(label, total=total)

    def __enter__(self) -> CountProgress:
        if self._shown:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._progress.stop()

    def update(self, done: int) -> None:
        """Show that so many are done."""
        self._progress.update(self._task, completed=done)

    def advance(self, count: int) -> None:
        """Show that so many more are done."""
        self._progress.advance(self._task, count)
