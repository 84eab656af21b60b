"""What is kept of every fit, and in which arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cofem.many.marginals import OF_COMPONENTS, OF_COORDINATES

PENDING, CONVERGED, NOT_CONVERGED, FAILED = range(4)
NAMES = (
    "mean", "variance", "precision", "noise_precision", "log_evidence", "intercept",
    "intercept_std", "message", "state", "prior", *OF_COORDINATES, *OF_COMPONENTS,
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
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> int:
        """The code that ``state`` holds for it."""
        if self.error:
            return FAILED
        return CONVERGED if self.converged else NOT_CONVERGED


@dataclass(frozen=True)
class Layout:
    """The shapes and types of the arrays: P problems, D unknowns, M prior precisions.

    ``components`` are those of a learned prior, at most; 0 in stores from before the marginals
    were kept.
    """

    problems: int
    unknowns: int
    precisions: int
    dtype: str
    components: int = 0

    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Return name → (shape, dtype)."""
        kind = np.dtype(self.dtype)
        real, byte = np.empty(0, kind).real.dtype, np.dtype(np.uint8)
        double, p = np.dtype(np.float64), self.problems
        arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
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
        if self.components:
            arrays["prior"] = ((p,), byte)
            arrays |= dict.fromkeys(OF_COORDINATES, ((p, self.unknowns), real))
            arrays["seen_value"] = ((p, self.unknowns), kind)
            arrays |= dict.fromkeys(OF_COMPONENTS, ((p, self.components), double))
        return arrays


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


def columns_of(layout: Layout, run: list[Outcome]) -> dict[str, np.ndarray]:
    """Return the rows of consecutive problems for every array but ``state``.

    A failed fit has NaN; a prior with few components has zeros behind them.
    """
    columns = {}
    for name, (shape, dtype) in layout.arrays().items():
        if name in ("message", "state"):
            continue
        empty = 0 if name in ("prior", *OF_COMPONENTS) else np.nan
        block = np.full((len(run), *shape[1:]), empty, dtype)
        for i, outcome in enumerate(run):
            if not outcome.error:
                value = np.asarray(outcome.kept.get(name, getattr(outcome, name, None)))
                block[(i, slice(len(value))) if value.ndim else i] = value
        columns[name] = block
    columns["message"] = np.stack([bytes_of(one.error or one.message) for one in run])
    return columns


def bytes_of(text: str) -> np.ndarray:
    """Return a message as a row of its array."""
    raw = text.encode("utf-8")[:MESSAGE_BYTES].ljust(MESSAGE_BYTES, b"\0")
    return np.frombuffer(raw, dtype=np.uint8)
