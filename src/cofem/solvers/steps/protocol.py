"""What the controller of conjugate gradients asks of a kind of array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from cofem.solvers.verdicts import Coefficients

# Scalars are arrays of the steps' own library, which the controller does not know.
Array = Any


class Scalars(Protocol):
    """Numbers that systems have, one array for each kind, all of one shape.

    Attributes
    ----------
    rtol, balance : array
        Tolerances, squared.
    size, target, goal : array
        ‖b‖², what the true residual must reach, and what the recursion aims at, squared.
    true, best : array
        The true residual when it was last computed, and its smallest value so far.
    steps, done, bad : array
        Steps taken; whether the system rests; whether the matrix was not positive.
    zero, stuck : array of bool
        Whether the right-hand side is zero; whether rounding ended the progress.
    """

    rtol: Array
    balance: Array
    size: Array
    target: Array
    goal: Array
    true: Array
    best: Array
    steps: Array
    done: Array
    bad: Array
    zero: Array
    stuck: Array

    def set(self, **values: Array) -> None:
        """Give kinds new values; arrays that a graph reads keep their address."""

    def running(self) -> Array:
        """Which systems neither rest nor have failed."""

    def failed(self) -> Array:
        """Where the matrix was not positive."""


class Steps(Protocol):
    """The arrays of a batch of systems, and steps on them.

    Methods that return scalars return them where the arrays are, without waiting.

    Attributes
    ----------
    expected : int
        Steps that the last batch needed.
    rows : int
        Rows multiplied by the matrix so far.
    """

    expected: int
    rows: int

    @property
    def xp(self) -> Any:
        """The namespace of the scalars."""

    @property
    def eps(self) -> float:
        """The rounding of the arrays' numbers."""

    @property
    def scalars(self) -> Scalars:
        """The systems' numbers, in the systems' own order."""

    @property
    def knows_rounding(self) -> bool:
        """Whether :meth:`rounding` has an answer; else all residuals are recomputed at the end."""

    @property
    def looks_are_cheap(self) -> bool:
        """Whether a look costs less than a step."""

    @property
    def steps_between_looks(self) -> int:
        """How many steps to take before the next look."""

    @property
    def lowers_at_looks(self) -> bool:
        """Whether the balance of systems at their goals is checked at every look.

        Otherwise it is checked for all together, when none runs any more.
        """

    def do(self, name: Any, work: Callable[..., None], *arguments: Any, products: int = 0) -> None:
        """Do work that reads no number; what has the same name may be recorded and repeated.

        ``products``: how often it multiplies the rows that are worked on.
        """

    def set_tolerances(self, rtol: np.ndarray, balance: np.ndarray) -> None:
        """Take squared tolerances of systems (Q,)."""

    def begin(self) -> Array:
        """R = B, X = 0; return rᴴM⁻¹r."""

    def start(self) -> None:
        """Move X to its start, if there is one; not where the right-hand side is zero."""

    def step(self, record: bool) -> None:
        """One step of every system that runs and is above its goal; ``record`` coefficients."""

    def sizes(self) -> Array:
        """Return rᴴM⁻¹r of every system."""

    def joint_size(self, of: Array) -> Array:
        """Return Σ ‖r‖² over the systems where ``of`` is true; every system gets this number."""

    def pull(self, of: Array) -> Array | None:
        """Return Σ |diagonal x|²/M of systems; where ``of`` is false it may be zero.

        None if no system has to balance and this is known without any work.
        """

    def rounding(self, of: Array) -> Array:
        """Bound the norm of the difference between the recursion's residual and the true one."""

    def recompute(self, of: Array) -> None:
        """R = B − A X at least where asked for, and let directions begin anew there."""

    def restore(self) -> None:
        """Bring back the systems that were set aside."""

    def mark(self) -> None:
        """Queue the answer for the next look."""

    def look(self) -> bool:
        """Wait: whether a system runs. The others may be set aside until :meth:`restore`."""

    def report(self, *scalars: Array) -> None:
        """Queue a copy of scalars for the host."""

    def reported(self) -> np.ndarray:
        """Wait for the report, (number of scalars, Q) in double precision."""

    def coefficients(self) -> list[Coefficients]:
        """Return each system's step lengths and ratios."""

    def solution(self) -> Array:
        """Return X (Q, D)."""
