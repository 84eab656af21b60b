"""What is kept of every fit, and in which arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

PENDING, CONVERGED, NOT_CONVERGED, FAILED = range(4)
NAMES = (
    "mean", "variance", "precision", "noise_precision", "log_evidence", "intercept",
    "intercept_std", "message", "state",
)  # fmt: skip
MESSAGE_BYTES = 240


@dataclass(frozen=True)
class Outcome:
    """What is kept of one fit; ``error`` says why there is nothing else."""

    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    precision: np.ndarray | None = None
    noise_precision: float = np.nan
    log_evidence: float = np.nan
    intercept: complex = np.nan
    intercept_std: float = np.nan
    converged: bool = False
    message: str = ""
    error: str = ""

    @property
    def state(self) -> int:
        """The code that ``state`` holds for it."""
        if self.error:
            return FAILED
        return CONVERGED if self.converged else NOT_CONVERGED


@dataclass(frozen=True)
class Layout:
    """The shapes and types of the arrays: P problems, D unknowns, M prior precisions."""

    problems: int
    unknowns: int
    precisions: int
    dtype: str

    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Return name → (shape, dtype)."""
        kind = np.dtype(self.dtype)
        real, byte = np.empty(0, kind).real.dtype, np.dtype(np.uint8)
        double, p = np.dtype(np.float64), self.problems
        return {
            "mean": ((p, self.unknowns), kind),
            "variance": ((p, self.unknowns), real),
            "precision": ((p, self.precisions), real),
            "noise_precision": ((p,), double),
            "log_evidence": ((p,), double),
            # Complex also where z is real and the data are complex.
            "intercept": ((p,), np.dtype(np.complex128)),
            "intercept_std": ((p,), double),
            "message": ((p, MESSAGE_BYTES), byte),
            "state": ((p,), byte),
        }


def runs_of(outcomes: Mapping[int, Outcome]) -> Iterator[tuple[int, list[Outcome]]]:
    """Yield (first index, outcomes) of consecutive problems."""
    first = -1
    run: list[Outcome] = []
    for index in sorted(outcomes):
        if run and index != first + len(run):
            yield first, run
            run = []
        if not run:
            first = index
        run.append(outcomes[index])
    if run:
        yield first, run


def bytes_of(text: str) -> np.ndarray:
    """Return a message as a row of its array."""
    raw = text.encode("utf-8")[:MESSAGE_BYTES].ljust(MESSAGE_BYTES, b"\0")
    return np.frombuffer(raw, dtype=np.uint8)
