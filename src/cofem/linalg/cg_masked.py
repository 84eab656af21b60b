"""CG on all rows together in any array library; finished systems are masked.

Nothing is read back from the device but, every few steps, whether all systems
are done: on a GPU each look waits for everything that was queued before it.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.linalg.cg_device import solve_on_device
from cofem.linalg.cg_result import CGResult, Coefficients, Status, relative
from cofem.linalg.kernels import ArrayKernels
from cofem.linalg.systems import Matrix


def solve_masked(
    matrix: Matrix,
    rhs: Array,
    inverse: Array,
    start: Array | None,
    rtol: np.ndarray,
    balance: np.ndarray,
    max_steps: int,
    joint: bool,
    keep_coefficients: bool,
) -> CGResult:
    """Solve A x_q = b_q for every row (see :func:`cofem.linalg.solve`)."""
    if backend.has_engine(rhs) and not joint:
        return solve_on_device(
            matrix, rhs, inverse, start, rtol, balance, max_steps, keep_coefficients
        )
    xp = backend.namespace(rhs)
    kernels = ArrayKernels(xp)
    weight = xp.ones_like(inverse) if joint else inverse

    def size_of(r: Array) -> Array:
        squared = kernels.weighted_norm_squared(r, weight)
        return xp.ones_like(squared) * xp.sum(squared) if joint else squared

    scale = size_of(rhs)
    goal = backend.from_numpy(np.asarray(rtol**2), rhs)
    goal = xp.astype(goal, scale.dtype) * scale
    x = xp.zeros_like(rhs) if start is None else start
    r = rhs if start is None else rhs - matrix.product(x)
    multiplied = 0 if start is None else rhs.shape[0]
    verified = start is None
    lengths: list[Array] = []
    ratios: list[Array] = []
    steps = xp.zeros_like(scale)
    not_positive = xp.zeros(scale.shape, dtype=xp.bool, device=backend.device_of(rhs))
    taken = 0
    look_every = backend.steps_between_looks(rhs)
    best = np.full(rhs.shape[0], np.inf)
    stuck = np.zeros(rhs.shape[0], dtype=bool)
    run_once: Array | None = None  # steps before the first restart: one Lanczos process
    while True:
        p = inverse * r  # times unit/ρ from here on, see the kernels
        rho = unit = kernels.weighted_norm_squared(r, inverse)
        size = size_of(r)
        done = (size <= goal) | not_positive
        while taken < max_steps:
            if taken % look_every == 0 and bool(xp.all(done)):
                break
            g, curvature = kernels.curvature(p, matrix.bulk(p), matrix.diagonal)
            multiplied += rhs.shape[0]
            solved = rho == 0  # no direction is left, though under the joint rule not done
            not_positive = not_positive | (~done & ~solved & ~(curvature > 0))
            done = done | not_positive
            idle = done | solved
            one = xp.ones_like(rho)
            step = xp.where(idle, 0 * one, unit / xp.where(idle, one, curvature))
            x, r, rho_new = kernels.descend(x, r, p, g, step, inverse)
            safe = xp.where(idle | ~(rho_new > 0), one, rho_new)
            p = kernels.turn(p, r, xp.where(idle, 0 * one, unit / safe), inverse)
            steps = steps + xp.astype(~done, steps.dtype)
            if keep_coefficients:
                safe_old = xp.where(idle, one, rho)
                lengths.append(step * unit / safe_old)
                ratios.append(xp.where(idle, 0 * one, rho_new / safe_old))
            rho = xp.where(done, rho, rho_new)
            taken += 1
            size = size_of(r) if joint else rho
            done = done | (size <= goal)
            verified = False
        if joint or verified:
            break
        if np.any(balance > 0):
            pull = xp.astype(backend.from_numpy(balance**2, rhs), goal.dtype)
            pull = pull * kernels.weighted_norm_squared(x * matrix.diagonal, inverse)
            goal = xp.where(pull > 0, xp.minimum(goal, pull), goal)
        # The residual of the recursion may have parted from the true one.
        r = rhs - matrix.product(x)
        multiplied += rhs.shape[0]
        verified = True
        true = backend.to_numpy(size_of(r)).astype(np.float64)
        short = true > backend.to_numpy(goal)
        stuck = short & (true > 0.25 * best)
        best = np.minimum(best, true)
        size = size_of(r)
        if run_once is None:
            run_once = steps
        if taken >= max_steps or not np.any(short & ~stuck):
            break
    status = np.full(rhs.shape[0], Status.MAX_STEPS, dtype=np.int64)
    status[backend.to_numpy(size <= goal)] = Status.CONVERGED
    status[stuck & (status != Status.CONVERGED)] = Status.STAGNATED
    status[backend.to_numpy(not_positive)] = Status.NOT_POSITIVE
    count = backend.to_numpy(steps).astype(np.int64)
    kept = count if run_once is None else backend.to_numpy(run_once).astype(np.int64)
    return CGResult(
        x=x,
        steps=count,
        residual=relative(
            backend.to_numpy(size).astype(np.float64), backend.to_numpy(scale).astype(np.float64)
        ),
        status=status,
        rows=multiplied,
        coefficients=_by_system(lengths, ratios, kept) if keep_coefficients else [],
    )


def _by_system(
    lengths: list[Array], ratios: list[Array], count: np.ndarray
) -> list[Coefficients]:
    """Turn lists over steps into one pair of lists for each system: its first steps."""
    if not lengths:
        return [([], []) for _ in count]
    a = np.stack([backend.to_numpy(v) for v in lengths])
    b = np.stack([backend.to_numpy(v) for v in ratios])
    return [(a[:n, q].tolist(), b[:n, q].tolist()) for q, n in enumerate(count)]
