"""Preconditioned conjugate gradients for many right-hand sides at once.

Every system has its own tolerance, its own count of steps and its own verdict
(the joint rule of the paper is kept for comparison). Right-hand sides are rows.
Residuals are measured in the norm ‖r‖² = rᴴM⁻¹r, in which a large precision on
some coordinates cannot hide what is wrong on the others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.linalg.cg_blocks import BlockSolver
from cofem.linalg.cg_masked import solve_masked
from cofem.linalg.cg_result import CGResult, Status
from cofem.linalg.systems import Matrix

__all__ = ["CGResult", "Status", "solve"]


# Rows are worked in blocks of about this many numbers, so that a block's five
# arrays live in the cache; each thread takes the next block when it has done one.
BLOCK = 1 << 16


def solve(
    matrix: Matrix,
    rhs: Array,
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
        Right-hand sides, one a row. A row of zeros is solved at once.
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
    >>> from cofem.linalg.systems import ShiftedGram
    >>> A = ShiftedGram(Dense(np.diag([1.0, 2.0, 3.0])), scale=1.0, diagonal=np.ones(3))
    >>> found = solve(A, np.array([[2.0, 5.0, 10.0], [0.0, 0.0, 0.0]]))
    >>> found.x.round(6)
    array([[1., 1., 1.],
           [0., 0., 0.]])
    >>> found.steps, found.converged
    (array([3, 0]), array([ True,  True]))
    """
    n_rows, n_columns = rhs.shape
    if n_rows == 0:
        none = np.zeros(0, dtype=np.int64)
        return CGResult(rhs, steps=none, residual=np.zeros(0), status=none, rows=0)
    xp = backend.namespace(rhs)
    real_type = backend.real_dtype(rhs.dtype, xp)
    tolerance = np.broadcast_to(np.asarray(rtol, dtype=np.float64), (n_rows,))
    balances = np.broadcast_to(np.asarray(balance, dtype=np.float64), (n_rows,))
    if preconditioner is None:
        inverse = xp.ones(n_columns, dtype=real_type, device=backend.device_of(rhs))
    else:
        inverse = 1 / preconditioner
    # A x = b and (A/scale) x = b/scale are the same system, and so are their norms
    # relative to each other.
    scale, inverse = matrix.scale, inverse * matrix.scale
    matrix = matrix.with_unit_scale()
    if not backend.is_numpy(rhs):
        rhs = rhs / scale
        return solve_masked(
            matrix, rhs, inverse, _whole(start, rhs), tolerance, balances, max_steps, joint,
            keep_coefficients,
        )  # fmt: skip
    x = np.empty_like(rhs)

    def block(rows: slice) -> CGResult:
        found = BlockSolver(
            matrix,
            rhs[rows] / scale,
            inverse,
            start=None if start is None else start[rows],
            rtol=tolerance[rows],
            balance=balances[rows],
            joint=joint,
            keep_coefficients=keep_coefficients,
        ).run(max_steps)
        x[rows] = found.x  # here, where threads share the work
        return found

    height = n_rows
    if matrix.splits_rows and not joint:
        height = max(1, BLOCK // n_columns)
    if height >= n_rows:
        return block(slice(0, n_rows))
    blocks = [slice(i, min(i + height, n_rows)) for i in range(0, n_rows, height)]
    threads = min(backend.n_threads(), len(blocks))
    if threads == 1:
        return _joined(x, [block(rows) for rows in blocks])
    with ThreadPoolExecutor(threads) as pool:
        return _joined(x, list(pool.map(block, blocks)))


def _whole(start: Array | None, rhs: Array) -> Array | None:
    """Return a start for every system; those that have none, or a zero rhs, start at zero."""
    if start is None:
        return None
    xp = backend.namespace(rhs)
    missing = rhs.shape[0] - start.shape[0]
    if missing:
        start = xp.concat([start, xp.zeros_like(rhs[:missing, :])])
    return xp.where(xp.any(rhs != 0, axis=1)[:, None], start, xp.zeros_like(start))


def _joined(x: np.ndarray, parts: list[CGResult]) -> CGResult:
    return CGResult(
        x=x,
        steps=np.concatenate([p.steps for p in parts]),
        residual=np.concatenate([p.residual for p in parts]),
        status=np.concatenate([p.status for p in parts]),
        rows=sum(p.rows for p in parts),
        coefficients=[c for p in parts for c in p.coefficients],
    )
