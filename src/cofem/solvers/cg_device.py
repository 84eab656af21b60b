"""CG for torch tensors: the steps stay on the device, only verdicts come to the host.

The engine in the backend owns the arrays and queues steps; here is decided when to
look, when a system is done, and what is said about it. A look asks how many systems
still run and is answered while the next steps are already queued. Systems that are
done are masked; when few are left, the rest of the batch is set aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cofem import backend
from cofem.backend import Array, MaskedTransform
from cofem.solvers.cg_result import CGResult, Coefficients, Status, relative
from cofem.solvers.systems import Matrix, ShiftedGram

if TYPE_CHECKING:
    from cofem.backend._torch.engine import Engine
    from cofem.backend._torch.state import Verdict


def fused_product(matrix: Matrix, rhs: Array) -> MaskedTransform | None:
    """Return ΦᴴΦ for rows like ``rhs`` if it can be part of the engine's own passes."""
    if not isinstance(matrix, ShiftedGram) or not hasattr(matrix.operator, "masked_transform"):
        return None
    found: MaskedTransform | None = matrix.operator.masked_transform(rhs)
    return found


def solve_on_device(
    matrix: Matrix,
    rhs: Array,
    inverse: Array,
    start: Array | None,
    rtol: np.ndarray,
    balance: np.ndarray,
    max_steps: int,
    keep_coefficients: bool,
    joint: bool = False,
) -> CGResult:
    """Solve A x_q = b_q for every row of a torch tensor (see :func:`cofem.solvers.solve`)."""
    product = fused_product(matrix, rhs)
    engine = backend.engine_for(product or matrix.bulk, rhs, max_steps if keep_coefficients else 0)
    try:
        engine.load(rhs, start, inverse, matrix.diagonal, rtol, balance, joint)
        rows = 0 if start is None else rhs.shape[0]
        coefficients: list[Coefficients] = []
        taken, first = 0, True
        while True:
            new, multiplied = _run(engine, max_steps - taken, engine.expected if first else 0)
            taken, rows = taken + new, rows + multiplied
            if first:
                engine.expected = new
                if keep_coefficients:  # later steps would be another Lanczos process
                    coefficients = _by_system(*engine.coefficients())
                first = False
            if taken < max_steps and engine.has_to_go_on():
                continue  # from where they are: nothing has been recomputed
            # The residual of the recursion may have parted from the true one.
            verdict = engine.verify()
            if joint:  # the paper's rule takes it as it is
                break
            rows += rhs.shape[0]
            if taken >= max_steps or not np.any(verdict.unfinished):
                break
        return CGResult(
            x=engine.solution(),
            steps=verdict.steps.astype(np.int64),
            residual=relative(verdict.residual, verdict.size),
            status=_status(verdict),
            rows=rows,
            coefficients=coefficients,
        )
    finally:
        backend.give_back_engine(engine)


def _run(engine: Engine, most: int, expected: int) -> tuple[int, int]:
    """Take steps until all systems are done, at most ``most``.

    Return how many were queued, and how many rows they multiplied. Small batches are
    first looked at when they are ``expected`` to be done: a look costs as much as a step.
    """
    systems = 2 if engine.state.paired else 1
    taken = rows = 0
    while taken < most:
        if engine.looks_are_cheap:
            running = engine.running_rows()
            if not running.any():
                break
            engine.shrink(running)
        chunk = min(engine.steps_between_looks, most - taken)
        engine.advance(chunk)
        taken += chunk
        rows += chunk * engine.active.rows * systems
        if not engine.looks_are_cheap and taken + chunk >= expected and not engine.running():
            break
    return taken, rows


def _status(verdict: Verdict) -> np.ndarray:
    status = np.full(len(verdict.residual), Status.MAX_STEPS, dtype=np.int64)
    status[verdict.stuck] = Status.STAGNATED
    status[verdict.residual <= verdict.goal] = Status.CONVERGED
    status[verdict.bad] = Status.NOT_POSITIVE
    return status


def _by_system(
    lengths: np.ndarray, ratios: np.ndarray, steps: np.ndarray
) -> list[Coefficients]:
    """Return each system's first steps."""
    return [(lengths[:n, q].tolist(), ratios[:n, q].tolist()) for q, n in enumerate(steps)]
