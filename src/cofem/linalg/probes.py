"""Diagonals of inverses by random probes (Bekas, Kokiopoulou & Saad 2007).

For probes p with independent entries of mean zero, Σ_k p̄_k∘(M p_k) / Σ_k |p_k|²
is an unbiased estimate of diag(M). Applying M = A⁻¹ means solving a system. What
the probe is scaled with decides which coordinates come out well:

- √α while learning: α_j s_j estimates H_jj, H = √α A⁻¹ √α with eigenvalues in
  (0, 1], with a variance of at most 1/(4K) whatever Φ is;
- √A_jj for reporting: a relative error of the same size on every coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import add

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.linalg.cg import BLOCK, in_threads, solve
from cofem.linalg.cg_result import CGResult, Coefficients
from cofem.linalg.systems import ShiftedGram

ProbeMaker = Callable[[int, int, Array, int], Array]
"""(number, dimension, like, seed) → probes of shape (number, dimension)."""


def rademacher(number: int, dimension: int, like: Array, seed: int) -> Array:
    """Random signs, or numbers of modulus one if ``like`` is complex.

    Examples
    --------
    >>> import numpy as np
    >>> rademacher(2, 4, np.zeros(4), seed=0)
    array([[-1., -1.,  1.,  1.],
           [-1., -1.,  1., -1.]])
    """
    return backend.Random(seed).signs((number, dimension), like)


@dataclass(frozen=True)
class DiagonalEstimate:
    """diag(A⁻¹) times the squared scaling, estimated by K probes.

    Attributes
    ----------
    diagonal : array (D,)
        The estimate of (scaling² ∘ diag(A⁻¹)): unbiased up to the solver's
        tolerance, and therefore sometimes negative.
    variance : array (D,)
        The sample variance of one probe's estimate about that mean (zeros if
        K = 1): the variance of ``diagonal`` is about variance / K.
    n_probes : int
        K.
    coefficients : list
        CG coefficients of each probe's system, if asked for.
    steps, status : ndarray (K,)
        CG steps and verdict of each probe's system.
    rows : int
        Rows multiplied by A, for the probes and the extra systems.
    extra : array (E, D) or None
        Solutions of the extra systems, with ``extra_steps`` and ``extra_status``.
    """

    diagonal: Array
    variance: Array
    n_probes: int
    coefficients: list[Coefficients]
    steps: np.ndarray
    status: np.ndarray
    rows: int
    extra: Array | None = None
    extra_steps: np.ndarray | None = None
    extra_status: np.ndarray | None = None

    def beside(self) -> tuple[Array, np.ndarray, np.ndarray]:
        """Return solutions, steps and verdicts of the extra systems."""
        if self.extra is None or self.extra_steps is None or self.extra_status is None:
            raise ValueError("there were no extra systems")
        return self.extra, self.extra_steps, self.extra_status


@dataclass(frozen=True)
class ExtraSystems:
    """Right-hand sides solved beside the first probes, in the same batch.

    Attributes
    ----------
    rhs : array (E, D)
    start : array (E, D), optional
    rtol, balance : float
        As for :func:`cofem.linalg.solve`.
    """

    rhs: Array
    start: Array | None
    rtol: float
    balance: float = 0.0


def estimate_diagonal(
    matrix: ShiftedGram,
    scaling: Array,
    *,
    like: Array,
    n_probes: int,
    seed: int,
    preconditioner: Array | None,
    rtol: float,
    max_steps: int,
    block: int = 16,
    probes: ProbeMaker = rademacher,
    joint: bool = False,
    keep_coefficients: bool = False,
    extra: ExtraSystems | None = None,
) -> DiagonalEstimate:
    """Estimate scaling² ∘ diag(A⁻¹) from ``n_probes`` solves of A x = scaling∘p.

    The probes are drawn and solved ``block`` at a time and only sums are kept,
    so memory is O(D · block) however many there are. Results do not depend on
    the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Diagonal
    >>> A = ShiftedGram(Diagonal(np.array([1.0, 2.0])), scale=1.0, diagonal=np.ones(2))
    >>> found = estimate_diagonal(
    ...     A, np.ones(2), like=np.zeros(2), n_probes=4, seed=0,
    ...     preconditioner=None, rtol=1e-10, max_steps=10)
    >>> found.diagonal
    array([0.5, 0.2])
    """
    splits = backend.is_numpy(like) and matrix.splits_rows and not joint
    # Where rows are independent each thread takes a small block from drawing the
    # probes to summing their part; the extra systems, the longest, are the first block.
    height = min(block, max(1, BLOCK // scaling.shape[0])) if splits else block
    jobs = [
        (index, min(height, n_probes - first), extra if index == 0 else None)
        for index, first in enumerate(range(0, n_probes, height))
    ]
    if splits and extra is not None and extra.rhs.shape[0] + jobs[0][1] > height:
        jobs = [(-1, 0, extra), *((index, size, None) for index, size, _ in jobs)]

    def work(job: tuple[int, int, ExtraSystems | None]) -> _Part:
        index, size, beside = job
        p = probes(size, scaling.shape[0], like, _block_seed(seed, index)) if size else None
        batch = _batch(None if p is None else p * scaling, beside, rtol)
        found = solve(
            matrix,
            batch.rhs,
            start=batch.start,
            rtol=batch.rtol,
            balance=batch.balance,
            preconditioner=preconditioner,
            max_steps=max_steps,
            joint=joint,
            keep_coefficients=keep_coefficients,
        )
        return _part(found, p, scaling, beside, modulus_one=probes is rademacher)

    return _summed(in_threads(work, jobs, split=splits), n_probes, probes is rademacher)


@dataclass(frozen=True)
class _Part:
    """What one block adds: its sums over probes, and the solver's account of it."""

    sums: tuple[Array, ...] | None
    found: CGResult
    n_extra: int


def _part(
    found: CGResult, p: Array | None, scaling: Array, extra: ExtraSystems | None,
    *, modulus_one: bool,
) -> _Part:  # fmt: skip
    n_extra = 0 if extra is None else extra.rhs.shape[0]
    if p is None:
        return _Part(None, found, n_extra)
    xp = backend.namespace(p)
    one = backend.real(backend.conj(p) * found.x[n_extra:, :]) * scaling
    sums: tuple[Array, ...] = (xp.sum(one, axis=0), xp.sum(one * one, axis=0))
    if not modulus_one:
        size = backend.abs_squared(p)
        sums += (
            xp.sum(size, axis=0),
            xp.sum(one * size, axis=0),
            xp.sum(size * size, axis=0),
        )
    # Solutions of the probes are not needed any more: let their memory go.
    extra_rows = found.x[:n_extra, :]
    return _Part(sums, replace(found, x=extra_rows), n_extra)


def _summed(parts: Iterable[_Part], n_probes: int, modulus_one: bool) -> DiagonalEstimate:
    sums: tuple[Array, ...] | None = None
    coefficients: list[Coefficients] = []
    steps, status, rows = [], [], 0
    beside: CGResult | None = None
    for part in parts:  # in the order of the blocks, whichever thread was first
        if part.sums is not None:
            sums = part.sums if sums is None else tuple(map(add, sums, part.sums))
        if part.n_extra:
            beside = part.found
        coefficients += part.found.coefficients[part.n_extra :]
        steps.append(part.found.steps[part.n_extra :])
        status.append(part.found.status[part.n_extra :])
        rows += part.found.rows
    assert sums is not None
    xp = backend.namespace(sums[0])
    if modulus_one:
        diagonal = sums[0] / n_probes
        spread = sums[1] / n_probes - diagonal**2
    else:
        total, squares, weight, cross, fourth = sums
        diagonal = total / weight
        # A ratio's error is that of p̄∘x − diagonal∘|p|², over the mean |p|².
        departure = squares - 2 * diagonal * cross + diagonal**2 * fourth
        spread = departure * n_probes / weight**2
    n_extra = 0 if beside is None else beside.x.shape[0]
    return DiagonalEstimate(
        diagonal=diagonal,
        variance=xp.clip(spread, min=0.0) * (n_probes / max(n_probes - 1, 1)),
        n_probes=n_probes,
        coefficients=coefficients,
        steps=np.concatenate(steps),
        status=np.concatenate(status),
        rows=rows,
        extra=None if beside is None else beside.x,
        extra_steps=None if beside is None else beside.steps[:n_extra],
        extra_status=None if beside is None else beside.status[:n_extra],
    )


@dataclass(frozen=True)
class _Batch:
    rhs: Array
    start: Array | None
    rtol: float | np.ndarray
    balance: float | np.ndarray = 0.0


def _batch(rhs: Array | None, extra: ExtraSystems | None, rtol: float) -> _Batch:
    """Put the extra systems before the probes'."""
    if extra is None:
        return _Batch(rhs, None, rtol)
    if rhs is None:
        return _Batch(extra.rhs, extra.start, extra.rtol, extra.balance)
    xp = backend.namespace(rhs)
    n_extra, n_probes = extra.rhs.shape[0], rhs.shape[0]
    start = None
    if extra.start is not None:
        start = xp.concat([extra.start, xp.zeros_like(rhs)])
    tolerance = np.concatenate([np.full(n_extra, extra.rtol), np.full(n_probes, rtol)])
    balance = np.concatenate([np.full(n_extra, extra.balance), np.zeros(n_probes)])
    return _Batch(xp.concat([extra.rhs, rhs]), start, tolerance, balance)


def _block_seed(seed: int, index: int) -> int:
    return int(np.random.SeedSequence([seed, index + 1]).generate_state(1, np.uint64)[0])
