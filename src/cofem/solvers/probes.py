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
from cofem.backend.distributed import ALONE, Group
from cofem.operators import LinearOperator
from cofem.solvers.cg import solve
from cofem.solvers.probe_rows import ProbeRows, ProbeSums, Solved
from cofem.solvers.systems import Matrix
from cofem.solvers.verdicts import Coefficients

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


def gaussian(number: int, dimension: int, like: Array, seed: int) -> Array:
    """Return standard normal numbers."""
    return backend.Random(seed).normal((number, dimension), like)


LAWS: dict[str, ProbeMaker] = {"rademacher": rademacher, "gaussian": gaussian}


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
        As for :func:`cofem.solvers.solve`.
    """

    rhs: Array
    start: Array | None
    rtol: float
    balance: float = 0.0

    def only(self, rows: np.ndarray) -> ExtraSystems:
        """Return these systems alone."""
        start = None if self.start is None else self.start[rows, :]
        return ExtraSystems(self.rhs[rows, :], start, self.rtol, self.balance)


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
    probes: ProbeMaker | str = rademacher,
    joint: bool = False,
    keep_coefficients: bool = False,
    extra: ExtraSystems | None = None,
    image: LinearOperator | None = None,
    group: Group | None = None,
) -> DiagonalEstimate:
    """Estimate scaling² ∘ diag(A⁻¹) from ``n_probes`` solves of A x = scaling∘p.

    With an operator R as ``image``: scaling² ∘ diag(R A⁻¹ Rᴴ), from A x = Rᴴ(scaling∘p). ``probes``
    is a law of :data:`LAWS` or its name.

    The probes are drawn and solved ``block`` at a time and only sums are kept,
    so memory is O(D · block) however many there are. Results do not depend on
    the number of threads. The processes of a ``group`` each solve their share of the
    systems, and share the sums in one reduction.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Diagonal
    >>> from cofem.solvers.systems import ShiftedGram
    >>> A = ShiftedGram(Diagonal(np.array([1.0, 2.0])), scale=1.0, diagonal=np.ones(2))
    >>> found = estimate_diagonal(
    ...     A, np.ones(2), like=np.zeros(2), n_probes=4, seed=0,
    ...     preconditioner=None, rtol=1e-10, max_steps=10)
    >>> found.diagonal
    array([0.5, 0.2])
    """
    group = ALONE if group is None else group
    probes = LAWS[probes] if isinstance(probes, str) else probes
    sums, told = ProbeSums(probes is rademacher), []
    n_extra = 0 if extra is None else int(extra.rhs.shape[0])
    beside: Array | None = None
    in_threads = probes is rademacher and image is None and backend.is_numpy(scaling)
    for index, first in enumerate(range(0, n_probes, block)):
        shape = min(block, n_probes - first), scaling.shape[0]
        p = (_bits if in_threads else probes)(*shape, like, backend.seed_from(seed, index))
        beginning = extra if index == 0 else None
        # Every process takes every so many of the systems; the extra ones come first.
        n_first = 0 if beginning is None else n_extra
        mine = np.arange(n_first + shape[0])[group.rank :: group.size]
        skip = int(np.sum(mine < n_first))
        if group.size > 1:
            p = p[mine[skip:] - n_first, :]
            beginning = None if beginning is None else beginning.only(mine[:skip])
        batch = _batch(p, scaling, image, beginning, rtol, in_threads)
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
        if n_first:
            beside = _in_place(found.x[:skip, :], mine[:skip], n_extra)
        if isinstance(batch.rhs, ProbeRows):
            sums.add_sums(batch.rhs.sums())
        else:
            x = found.x[skip:, :] if image is None else image.forward(found.x[skip:, :])
            sums.add(p, x, scaling)
        told.append(Solved.of(found, skip))
    beside = sums.share(group, beside, scaling)
    everyone = told
    if group.size > 1:
        everyone = [solved for of_rank in group.gather(told) for solved in of_rank]
    diagonal, variance = sums.finish(n_probes, scaling)
    return DiagonalEstimate(
        diagonal=diagonal,
        variance=variance,
        n_probes=n_probes,
        coefficients=[c for solved in everyone for c in solved.coefficients],
        steps=np.concatenate([solved.steps for solved in everyone]),
        status=np.concatenate([solved.status for solved in everyone]),
        rows=sum(solved.rows for solved in everyone),
        extra=beside,
        extra_steps=np.concatenate([solved.extra_steps for solved in everyone]),
        extra_status=np.concatenate([solved.extra_status for solved in everyone]),
    )


def _in_place(solutions: Array, where: np.ndarray, n_extra: int) -> Array:
    """Return (E, D) with this process's solutions in their rows and zeros in the others."""
    if len(where) == n_extra:
        return solutions
    xp = backend.namespace(solutions)
    blank = xp.zeros_like(solutions[:1, :]) if len(where) else None
    if blank is None:
        shape = (n_extra, solutions.shape[1])
        return xp.zeros(shape, dtype=solutions.dtype, device=backend.device_of(solutions))
    found = {int(row): solutions[i : i + 1, :] for i, row in enumerate(where)}
    return xp.concat([found.get(row, blank) for row in range(n_extra)])


@dataclass(frozen=True)
class _Batch:
    rhs: Array | ProbeRows
    start: Array | None
    rtol: float | np.ndarray
    balance: float | np.ndarray = 0.0


def _batch(
    p: Array,
    scaling: Array,
    image: LinearOperator | None,
    extra: ExtraSystems | None,
    rtol: float,
    in_threads: bool,
) -> _Batch:
    """Put the extra systems first: they are the longest, so a thread begins with them."""
    rhs: Array | ProbeRows
    if in_threads:
        given = None if extra is None else backend.to_numpy(extra.rhs)
        rhs = ProbeRows(backend.to_numpy(p), backend.to_numpy(scaling), given)
    else:
        rhs = p * scaling if image is None else image.adjoint(p * scaling)
    if extra is None:
        return _Batch(rhs, None, rtol)
    if not isinstance(rhs, ProbeRows):
        rhs = backend.namespace(p).concat([extra.rhs, rhs])
    n_extra, n_probes = extra.rhs.shape[0], p.shape[0]
    tolerance = np.concatenate([np.full(n_extra, extra.rtol), np.full(n_probes, rtol)])
    balance = np.concatenate([np.full(n_extra, extra.balance), np.zeros(n_probes)])
    return _Batch(rhs, extra.start, tolerance, balance)


def _bits(number: int, dimension: int, like: Array, seed: int) -> Array:
    """Return what :func:`rademacher` makes its signs of; complex numbers as it does."""
    if backend.is_complex(like):
        return rademacher(number, dimension, like, seed)
    return backend.Random(seed).bits((number, dimension))
