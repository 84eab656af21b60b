"""What a batched solve returns, and the verdicts in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from cofem.backend import Array

Coefficients = tuple[list[float], list[float]]
"""Step lengths and ratios of one system, step by step."""


class Status(IntEnum):
    """How the solution of one system ended."""

    CONVERGED = 0
    MAX_STEPS = 1
    STAGNATED = 2
    NOT_POSITIVE = 3

    @property
    def message(self) -> str:
        """The same in words."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "the residual is below the tolerance",
    Status.MAX_STEPS: (
        "the largest number of CG steps was reached; allow more, or a looser tolerance"
    ),
    Status.STAGNATED: "the residual cannot fall further in this precision",
    Status.NOT_POSITIVE: (
        "the matrix is not positive definite along a search direction. Possible causes: for this "
        "floating-point type (float32: use float64) noise_precision is too large compared with the "
        "prior's, or columns of phi are too nearly dependent; the operator's adjoint function does "
        "not match its forward function; or its output is not finite"
    ),
}


@dataclass(frozen=True)
class CGResult:
    """What :func:`solve` found.

    Attributes
    ----------
    x : array (Q, D)
        The solutions.
    steps : ndarray (Q,)
        CG steps of each system.
    residual : ndarray (Q,)
        ‖b − Ax‖ / ‖b‖ in the norm of M⁻¹.
    status : ndarray (Q,)
        A :class:`Status` for each system.
    rows : int
        How many rows were multiplied by the matrix in all.
    coefficients : list of (step lengths, ratios)
        The CG coefficients of each system, if they were asked for; they make
        the tridiagonal matrix that :mod:`cofem.solvers.quadrature` needs.
    """

    x: Array
    steps: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    rows: int
    coefficients: list[Coefficients] = field(default_factory=list)

    @property
    def converged(self) -> np.ndarray:
        """Whether each system reached its tolerance."""
        return np.asarray(self.status == Status.CONVERGED)


def relative(residual_squared: np.ndarray, scale_squared: np.ndarray) -> np.ndarray:
    """√(residual² / scale²), with 0/0 = 0 for right-hand sides that are zero."""
    scale = np.where(scale_squared > 0, scale_squared, 1.0)
    return np.asarray(np.sqrt(np.maximum(residual_squared, 0.0) / scale))


def refuse_indefinite(*statuses: np.ndarray) -> None:
    """Raise where a system was not positive definite: the operator is not what it says."""
    if any(np.any(s == Status.NOT_POSITIVE) for s in statuses):
        raise ValueError(f"phi: {Status.NOT_POSITIVE.message}")


def trouble_of(status: np.ndarray, what: str) -> str:
    """Return what went wrong in systems for ``what``, in words; nothing if nothing did."""
    worst = Status(int(status.max()))
    return "" if worst in (Status.CONVERGED, Status.STAGNATED) else f"{what}: {worst.message}"
