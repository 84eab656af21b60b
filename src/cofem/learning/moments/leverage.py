"""How many directions each α_j stands for when R is not the identity.

The prior's normaliser is |Rᴴ diag(α) R|^½, so the M-step's fixed point has, in place of
a one for every row of R, its leverage

    P_j = α_j [R (Rᴴ diag(α) R)⁺ Rᴴ]_jj,   0 ≤ P_j ≤ 1,   Σ P_j = rank R.

Both gradients of an image are two rows for every pixel but one direction less than
pixels: counting rows makes the answer too sparse.
"""

from __future__ import annotations

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator
from cofem.solvers.probes import estimate_diagonal
from cofem.solvers.systems import SparsifiedGram

# Singular values below this times the largest one, times the longer side of R, count as zero: about
# 5000 roundings of double precision.
ROUNDING = 1e-12
# A direction counts at least this much of itself: a probe's estimate may be negative.
LEAST = 1e-3


class ExactLeverage:
    """Leverage by a dense factorisation.

    The null space of R does not depend on α. It is taken out once, so that what is
    left has full rank however far the entries of α lie apart.

    Parameters
    ----------
    matrix : array (M, D)
        R, dense, in double precision.
    """

    def __init__(self, matrix: Array) -> None:
        xp = backend.namespace(matrix)
        _, sizes, basis = xp.linalg.svd(matrix, full_matrices=False)
        largest = float(xp.max(sizes))
        rank = int(xp.sum(xp.astype(sizes > ROUNDING * max(matrix.shape) * largest, xp.int64)))
        self._range = matrix @ backend.conj(xp.matrix_transpose(basis[:rank, :]))

    def __call__(self, alpha: Array) -> Array:
        """Return P, shape (M,)."""
        xp = backend.namespace(alpha)
        # Rows from large to small keep Householder's QR accurate for each of them.
        order = xp.argsort(-alpha)
        rows = xp.take(self._range * xp.sqrt(alpha)[:, None], order, axis=0)
        basis, _ = xp.linalg.qr(rows)
        sorted_leverage = xp.sum(backend.abs_squared(basis), axis=1)
        return xp.clip(xp.take(sorted_leverage, xp.argsort(order)), min=LEAST, max=1.0)


def probed_leverage(
    sparsifier: LinearOperator,
    alpha: Array,
    *,
    like: Array,
    n_probes: int,
    seed: int,
    rtol: float,
    max_steps: int,
) -> Array:
    """Estimate P from solves with Rᴴ diag(α) R alone, shape (M,).

    The matrix may be singular; its right-hand sides Rᴴ(√α∘p) lie in its range, which
    conjugate gradients never leave.
    """
    xp = backend.namespace(alpha)
    found = estimate_diagonal(
        SparsifiedGram(None, 1.0, sparsifier, alpha),
        xp.sqrt(alpha),
        like=like,
        n_probes=n_probes,
        seed=seed,
        preconditioner=sparsifier.weighted_column_norms_squared(alpha),
        rtol=rtol,
        max_steps=max_steps,
        image=sparsifier,
    )
    return xp.clip(found.diagonal, min=LEAST, max=1.0)
