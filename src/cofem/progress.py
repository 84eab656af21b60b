"""Progress bars on the terminal's error stream: of a fit, and of anything that is counted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["CountProgress", "FitProgress", "ProgressBar", "watched"]


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


class ProgressBar:
    """A bar on the error stream, which disappears at the end.

    It says nothing where the error stream is not a terminal.

    Parameters
    ----------
    label : str
        What stands before the bar.
    total : int, optional
        How much there is to do, if that is known already.
    columns : rich columns
        What stands behind the count, in the place of the time left.
    console : rich.console.Console, optional
        Where to draw instead.
    fields
        First values of what ``columns`` show.

    Examples
    --------
    >>> with ProgressBar("cells", 10) as bar:
    ...     bar.show(3)
    """

    def __init__(
        self,
        label: str = "",
        total: int | None = None,
        *columns: ProgressColumn,
        console: Console | None = None,
        **fields: Any,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            *(columns or (TimeElapsedColumn(), TimeRemainingColumn())),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._shown = console.is_terminal
        self._task = self._progress.add_task(label, total=total, **fields)
        self._last = 0

    def __enter__(self) -> Self:
        if self._shown:  # even a disabled bar would leave an empty line in some versions
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._progress.stop()

    def show(self, done: int, total: int | None = None, **fields: Any) -> None:
        """Show how much is done; less than before starts the clock anew."""
        if done < self._last:
            self._progress.reset(self._task)
        self._last = done
        self._progress.update(self._task, completed=done, total=total, **fields)

    def show_as(self, label: str, done: int, total: int) -> None:
        """Show how much is done of what ``label`` names."""
        self.show(done, total, description=label)


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
        self._bar = ProgressBar(
            label, None,
            TextColumn("change {task.fields[change]:.1e}  CG steps {task.fields[cg_steps]}"),
            TimeElapsedColumn(), TextColumn("at most"), TimeRemainingColumn(),
            console=console, change=float("nan"), cg_steps=0,
        )  # fmt: skip

    def __enter__(self) -> FitProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def update(self, state: State) -> None:
        """Show ``state``; an earlier iteration than the last starts the bar anew."""
        self._bar.show(
            state.iteration, state.max_iter,
            change=float(state.change), cg_steps=int(state.cg_steps),
        )  # fmt: skip


@contextlib.contextmanager
def watched(callback: Callable[[Any], object] | None) -> Iterator[Callable[[Any], object]]:
    """Yield a callback of ``fit`` that updates a bar, and calls ``callback`` if there is one."""
    with FitProgress() as bar:

        def both(state: Any) -> object:
            bar.update(state)
            return callback(state) if callback is not None else None

        yield both


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
        silent = Console(quiet=True, force_terminal=False) if not shown else console
        self._bar = ProgressBar(
            label, total, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=silent,
        )  # fmt: skip
        self._total, self._done = total, 0

    def __enter__(self) -> CountProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def update(self, done: int) -> None:
        """Show that so many are done."""
        self._done = done
        self._bar.show(done, self._total)

    def advance(self, count: int) -> None:
        """Show that so many more are done."""
        self.update(self._done + count)
