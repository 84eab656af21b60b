"""Preconditioned conjugate gradients for many right-hand sides at once.

Every system has its own tolerance, its own count of steps and its own verdict
(the joint rule of the paper is kept for comparison). Right-hand sides are rows.
Residuals are measured in the norm ‖r‖² = rᴴM⁻¹r, in which a large precision on
some coordinates cannot hide what is wrong on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import Identity
from cofem.solvers.controller import Controller
from cofem.solvers.probe_rows import GivenRows, ProbeRows
from cofem.solvers.steps.choice import steps_for
from cofem.solvers.steps.numpy_steps import NumpySteps, keep_freed_memory
from cofem.solvers.systems import Matrix, ShiftedGram
from cofem.solvers.threads import in_threads
from cofem.solvers.verdicts import CGResult, Status

__all__ = ["CGResult", "Status", "solve"]


# Rows are worked in blocks of about this many bytes, so that a block's five
# arrays live in the cache; each thread takes the next block when it has done one.
BLOCK = 1 << 19
# The transforms work on so many rows of single precision in the time of two.
AT_ONCE = 4
# Right-hand sides between one over this and this are solved in single precision, whose range is
# 1e-38 to 1e38: their squares, and sums of these, must fit into it too.
LARGEST_SINGLE = 1e15
# A system that need not be solved better than this is solved in single precision.
SINGLE_RTOL = 1e-2
_DOUBLE = np.dtype(np.float64)


def solve(
    matrix: Matrix,
    rhs: Array | ProbeRows,
    *,
    preconditioner: Array | None = None,
    start: Array | None = None,
    rtol: float | np.ndarray = 1e-6,
    balance: float | np.ndarray = 0.0,
    max_steps: int = 1000,
    joint: bool = False,
    keep_coefficients: bool = False,
) -> CGResult:
    """Solve A x_q = b_q for every row b_q of ``rhs``.

    Parameters
    ----------
    matrix : ShiftedGram or SparsifiedGram
        A, Hermitian and positive definite.
    rhs : array (Q, D)
        Right-hand sides, one a row. A row of zeros is solved at once. Or probes that
        are made where they are solved, which keep their solutions themselves.
    preconditioner : array (D,), optional
        The diagonal of M, positive. None: M = I.
    start : array (S, D), S ≤ Q, optional
        Where the first S systems start; the others start at zero.
    rtol : float or array (Q,)
        Stop a system when ‖r‖ ≤ rtol ‖b‖, both in the norm of M⁻¹.
    balance : float or array (Q,)
        Stop a system only when also ‖r‖ ≤ balance ‖diag(A's diagonal part) x‖.
        Where ``scale`` is large the right-hand side is large too, and a residual
        that is small beside it can be all that holds the directions which the
        operator does not see. 0: no such demand.
    max_steps : int
        The largest number of steps.
    joint : bool
        The paper's rule instead: stop all systems together when
        ‖R‖_F ≤ rtol ‖B‖_F in the Euclidean norm.
    keep_coefficients : bool
        Return the CG coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> from cofem.solvers.systems import ShiftedGram
    >>> A = ShiftedGram(Dense(np.diag([1.0, 2.0, 3.0])), scale=1.0, diagonal=np.ones(3))
    >>> found = solve(A, np.array([[2.0, 5.0, 10.0], [0.0, 0.0, 0.0]]))
    >>> found.x.round(6)
    array([[1., 1., 1.],
           [0., 0., 0.]])
    >>> found.steps, found.converged
    (array([3, 0]), array([ True,  True]))
    """
    n_rows = rhs.shape[0]
    if n_rows == 0:
        none = np.zeros(0, dtype=np.int64)
        x = rhs.solution if isinstance(rhs, ProbeRows) else rhs
        return CGResult(x, steps=none, residual=np.zeros(0), status=none, rows=0)
    tolerance = np.broadcast_to(np.asarray(rtol, dtype=np.float64), (n_rows,))
    balances = np.broadcast_to(np.asarray(balance, dtype=np.float64), (n_rows,))
    rules: dict[str, Any] = {
        "joint": joint, "keep_coefficients": keep_coefficients, "max_steps": max_steps,
    }  # fmt: skip
    # A x = b and (A/scale) x = b/scale are the same system, and so are their norms
    # relative to each other.
    scale = matrix.scale
    inverse = _unit(rhs) * scale if preconditioner is None else scale / preconditioner
    matrix = matrix.with_unit_scale()
    if not isinstance(rhs, ProbeRows) and not backend.is_numpy(rhs):
        rhs = rhs / scale
        kept = max_steps if keep_coefficients else 0
        with steps_for(matrix, rhs, inverse, start, joint, kept) as steps:
            return Controller(steps, tolerance, balances, **rules).run()
    systems = rhs if isinstance(rhs, ProbeRows) else GivenRows(rhs)
    whole = _Part(slice(0, n_rows), matrix, backend.to_numpy(inverse), systems.dtype)
    parts = [whole]
    if whole.nbytes > BLOCK:
        keep_freed_memory()
    if matrix.splits_rows and not joint and whole.nbytes > BLOCK:
        parts = _shared_out(whole, tolerance, lambda rows: systems.peak(rows) / scale)

    def attempt(part: _Part) -> CGResult:
        rows = systems.rows(part.rows, part.dtype)
        steps = NumpySteps(
            part.matrix,
            rows,
            part.inverse,
            factor=1 / scale,
            start=None if start is None else backend.to_numpy(start)[part.rows],
            dtype=part.dtype,
        )
        found = Controller(steps, tolerance[part.rows], balances[part.rows], **rules).run()
        systems.take(part.rows, rows, backend.to_numpy(found.x))
        return found

    def solved(part: _Part) -> CGResult:
        found = attempt(part)
        if part.dtype != whole.dtype and np.any(found.status != Status.CONVERGED):
            again = attempt(replace(whole, rows=part.rows))
            found = replace(again, rows=found.rows + again.rows)
        return found

    return _joined(systems.solution, in_threads(solved, parts))


def warm_up() -> None:
    """Compile the loops over real numbers now, which the first fits would do otherwise.

    Needed only once on a machine where compiled code can be kept on disk. Call it before measuring
    times.
    """
    whole = _Part(slice(0, 2), ShiftedGram(Identity(4), 1.0, np.ones(4)), np.ones(4), _DOUBLE)
    for part in (whole, whole.in_single_precision()):
        steps = NumpySteps(
            part.matrix, np.ones((2, 4)), part.inverse, factor=1.0, start=None, dtype=part.dtype
        )
        Controller(
            steps, np.full(2, 0.1), np.zeros(2), joint=False, keep_coefficients=False, max_steps=4
        ).run()


@dataclass(frozen=True)
class _Part:
    """Rows that are solved together, and the precision in which they are."""

    rows: slice
    matrix: Matrix
    inverse: np.ndarray
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The size of one of the arrays that it takes."""
        height = int(self.rows.stop - self.rows.start)
        return height * len(self.inverse) * self.dtype.itemsize

    def in_single_precision(self) -> _Part:
        """Return the same systems in half the memory. What overflows will not converge."""
        dtype = np.dtype(np.complex64 if self.dtype.kind == "c" else np.float32)
        with np.errstate(over="ignore"):
            inverse = self.inverse.astype(np.float32)
            return _Part(self.rows, self.matrix.in_single_precision(), inverse, dtype)


def _unit(rhs: Array | ProbeRows) -> Array:
    """Return the diagonal of the identity."""
    if isinstance(rhs, ProbeRows):
        return np.ones(rhs.shape[1], backend.real_dtype(rhs.dtype, np))
    xp = backend.namespace(rhs)
    kind = backend.real_dtype(rhs.dtype, xp)
    return xp.ones(rhs.shape[1], dtype=kind, device=backend.device_of(rhs))


def _shared_out(whole: _Part, tolerance: np.ndarray, peak: Callable[[slice], float]) -> list[_Part]:
    """Cut into blocks for the threads, the loose ones in single precision."""
    loose = tolerance >= SINGLE_RTOL
    single = whole.in_single_precision() if np.any(loose) else whole
    parts = []
    for first, last in _runs(loose):
        fits = loose[first] and 1 / LARGEST_SINGLE < peak(slice(first, last)) < LARGEST_SINGLE
        kind = single if fits else whole
        height = max(1, BLOCK // (len(kind.inverse) * kind.dtype.itemsize))
        if kind.dtype.itemsize < whole.dtype.itemsize:
            height = max(height, AT_ONCE)
        parts += [
            replace(kind, rows=slice(i, min(i + height, last))) for i in range(first, last, height)
        ]
    return parts


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return [first, last) of every run of equal flags."""
    edges = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1), len(flags)]
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def _joined(x: np.ndarray, parts: list[CGResult]) -> CGResult:
    return CGResult(
        x=x,
        steps=np.concatenate([p.steps for p in parts]),
        residual=np.concatenate([p.residual for p in parts]),
        status=np.concatenate([p.status for p in parts]),
        rows=sum(p.rows for p in parts),
        coefficients=[c for p in parts for c in p.coefficients],
    )
