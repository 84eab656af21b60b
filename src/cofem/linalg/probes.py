"""Diagonals of inverses by random probes (Bekas, Kokiopoulou & Saad 2007).

For probes p with independent entries of mean zero, Σ_k p̄_k∘(M p_k) / Σ_k |p_k|²
is an unbiased estimate of diag(M). Applying M = A⁻¹ means solving a system. What
the probe is scaled with decides which coordinates come out well:

- √α while learning: α_j s_j estimates H_jj, H = √α A⁻¹ √α with eigenvalues in
  (0, 1], with a variance of at most 1/(4K) whatever Φ is;
- √A_jj for reporting: a relative error of the same size on every coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.linalg.cg import solve
from cofem.linalg.cg_result import CGResult, Coefficients
from cofem.linalg.systems import Matrix
from cofem.operators import LinearOperator

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
    matrix: Matrix,
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
    image: LinearOperator | None = None,
) -> DiagonalEstimate:
    """Estimate scaling² ∘ diag(A⁻¹) from ``n_probes`` solves of A x = scaling∘p.

    With an operator R as ``image``: scaling² ∘ diag(R A⁻¹ Rᴴ), from A x = Rᴴ(scaling∘p).

    The probes are drawn and solved ``block`` at a time and only sums are kept,
    so memory is O(D · block) however many there are. Results do not depend on
    the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Diagonal
    >>> from cofem.linalg.systems import ShiftedGram
    >>> A = ShiftedGram(Diagonal(np.array([1.0, 2.0])), scale=1.0, diagonal=np.ones(2))
    >>> found = estimate_diagonal(
    ...     A, np.ones(2), like=np.zeros(2), n_probes=4, seed=0,
    ...     preconditioner=None, rtol=1e-10, max_steps=10)
    >>> found.diagonal
    array([0.5, 0.2])
    """
    xp = backend.namespace(like)
    n_columns = scaling.shape[0]
    total = weight = squares = cross = fourth = 0.0
    modulus_one = probes is rademacher
    coefficients: list[Coefficients] = []
    steps, status, rows = [], [], 0
    beside: CGResult | None = None
    for index, first in enumerate(range(0, n_probes, block)):
        p = probes(min(block, n_probes - first), n_columns, like, _block_seed(seed, index))
        rhs = p * scaling if image is None else image.adjoint(p * scaling)
        batch = _with_extra(rhs, extra if index == 0 else None, rtol)
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
        skip = 0
        if extra is not None and index == 0:
            beside, skip = found, extra.rhs.shape[0]
        x = found.x[skip:, :] if image is None else image.forward(found.x[skip:, :])
        one = backend.real(backend.conj(p) * x) * scaling
        total = total + xp.sum(one, axis=0)
        squares = squares + xp.sum(one * one, axis=0)
        if modulus_one:
            weight = weight + p.shape[0]
        else:
            size = backend.abs_squared(p)
            weight = weight + xp.sum(size, axis=0)
            cross = cross + xp.sum(one * size, axis=0)
            fourth = fourth + xp.sum(size * size, axis=0)
        coefficients += found.coefficients[skip:]
        steps.append(found.steps[skip:])
        status.append(found.status[skip:])
        rows += found.rows
    if not modulus_one:
        # A law with zeros may miss a coordinate; its estimate is then zero, not NaN.
        weight = xp.where(weight > 0, weight, xp.ones_like(weight))
    diagonal = total / weight
    if modulus_one:
        spread = squares / n_probes - diagonal**2
    else:
        # A ratio's error is that of p̄∘x − diagonal∘|p|², over the mean |p|².
        departure = squares - 2 * diagonal * cross + diagonal**2 * fourth
        spread = departure * n_probes / weight**2
    spread = xp.clip(spread, min=0.0)
    n_extra = 0 if extra is None else extra.rhs.shape[0]
    return DiagonalEstimate(
        diagonal=diagonal,
        variance=spread * (n_probes / max(n_probes - 1, 1)),
        n_probes=n_probes,
        coefficients=coefficients,
        steps=np.concatenate(steps),
        status=np.concatenate(status),
        rows=rows,
        extra=None if beside is None else beside.x[:n_extra, :],
        extra_steps=None if beside is None else beside.steps[:n_extra],
        extra_status=None if beside is None else beside.status[:n_extra],
    )


@dataclass(frozen=True)
class _Batch:
    rhs: Array
    start: Array | None
    rtol: float | np.ndarray
    balance: float | np.ndarray = 0.0


def _with_extra(rhs: Array, extra: ExtraSystems | None, rtol: float) -> _Batch:
    """Put the extra systems first: they are the longest, so a thread begins with them."""
    if extra is None:
        return _Batch(rhs, None, rtol)
    xp = backend.namespace(rhs)
    n_extra, n_probes = extra.rhs.shape[0], rhs.shape[0]
    start = None
    if extra.start is not None:
        start = xp.concat([extra.start, xp.zeros_like(rhs)])
    tolerance = np.concatenate([np.full(n_extra, extra.rtol), np.full(n_probes, rtol)])
    balance = np.concatenate([np.full(n_extra, extra.balance), np.zeros(n_probes)])
    return _Batch(xp.concat([extra.rhs, rhs]), start, tolerance, balance)


def _block_seed(seed: int, index: int) -> int:
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])
