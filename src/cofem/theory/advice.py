"""A number of probes K and of CG steps U for a given Φ, with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg

from cofem import backend
from cofem.arguments import whole_number
from cofem.operators import LinearOperator, as_operator
from cofem.theory.columns import active_gram
from cofem.theory.steps import condition_from_range, scaled_range, steps_needed

# Above this many active columns their Gram matrix is not formed.
DENSE_UP_TO = 1000
# Relative error of the extreme eigenvalues above that; U depends on κ only by its square root.
EIGENVALUE_TOL = 1e-3
# Avoids a division by zero.
TINY = 1e-300


@dataclass(frozen=True)
class Recommendation:
    """How many probes and steps, and why.

    Attributes
    ----------
    n_probes : int
        K, for ``CoFEM(n_probes=K)``.
    cg_steps : int
        U: the steps after which every system is solved, for ``CoFEM(max_cg_steps=U)``.
    condition : float
        κ, the worst bound on the condition number among the supports that were drawn.
    reason : str
        How both numbers were chosen, in words.

    Examples
    --------
    >>> import cofem
    >>> advice = recommend(np.eye(20), n_active=3)
    >>> cofem.CoFEM(n_probes=advice.n_probes, max_cg_steps=max(advice.cg_steps, 100)).n_probes
    4
    """

    n_probes: int
    cg_steps: int
    condition: float
    reason: str


def recommend(
    phi: Any,
    n_active: int,
    *,
    accuracy: float = 0.25,
    rtol: float = 1e-6,
    n_supports: int = 5,
    seed: int = 0,
) -> Recommendation:
    """Return a number of probes K and of CG steps U for Φ, whatever the data are.

    K is the least number with a standard deviation of at most ``accuracy`` for every
    h_j = α_jΣ_jj, by :func:`assumption_free_std_bound`: it holds for every Φ. U solves
    every system to ``rtol`` under the Jacobi preconditioner, in the limit of EM, for the
    worst of a few random supports.

    Parameters
    ----------
    phi : operator or matrix (N, D)
        Φ, in any form that ``fit`` takes.
    n_active : int
        d, how many coordinates are expected to be active.
    accuracy : float
        The standard deviation of h_j, a number between 0 and 1, that is allowed.
    rtol : float
        Relative residual of the mean's system.
    n_supports : int
        How many supports are drawn. They are random: a structured support can be worse.
    seed : int
        Decides the draws.

    Returns
    -------
    Recommendation

    Examples
    --------
    >>> import cofem
    >>> phi = cofem.operators.DCT(512, rows=np.arange(0, 512, 3))
    >>> advice = recommend(phi, n_active=10)
    >>> advice.n_probes, advice.cg_steps < 100
    (4, True)
    """
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy must lie between 0 and 1, got {accuracy!r}")
    if backend.is_array(phi):
        phi = backend.to_numpy(phi)
    op = as_operator(phi)
    n_rows, n_columns = op.shape
    d = whole_number("n_active", n_active, least=1)
    if d > min(n_rows, n_columns):
        raise ValueError(
            f"n_active = {d} columns of a phi of shape {op.shape} are linearly dependent, and "
            "no number of steps is enough"
        )
    draws = whole_number("n_supports", n_supports, least=1)
    random = np.random.default_rng(whole_number("seed", seed, least=0))
    condition = 1.0
    for _ in range(draws):
        support = np.sort(random.choice(n_columns, size=d, replace=False))
        condition = max(condition, condition_from_range(*_range(op, support)))
    # round: 1/(4·0.25²) must be 4, not 4 + 1e-16
    K = math.ceil(round(1 / (4 * accuracy**2), ndigits=9))
    if math.isinf(condition):
        raise ValueError(
            f"phi has linearly dependent columns among {d} drawn at random: no number of "
            "steps is enough; fewer active coordinates may be"
        )
    U = steps_needed(condition, rtol)
    return Recommendation(K, U, condition, _reason(K, U, condition, accuracy, rtol, d, draws))


def _range(op: LinearOperator, support: np.ndarray) -> tuple[float, float]:
    """Return the extreme eigenvalues of the active Gram matrix scaled to a unit diagonal."""
    if support.size <= DENSE_UP_TO:
        gram = active_gram(op, support)[2]
        return scaled_range(gram, np.maximum(np.diag(gram).real, TINY))
    kind = np.complex128 if op.is_complex else np.float64
    norms = backend.to_numpy(op.column_norms_squared())[support]
    root = np.sqrt(np.maximum(norms, TINY))

    def product(v: np.ndarray) -> np.ndarray:
        row = np.zeros((1, op.shape[1]), dtype=kind)
        row[0, support] = v.ravel() / root
        return np.asarray(op.gram(row)[0, support] / root)

    matrix = scipy.sparse.linalg.LinearOperator(
        (support.size, support.size), matvec=product, dtype=kind
    )
    start = np.random.default_rng(0).standard_normal(support.size)
    low, high = (
        float(
            scipy.sparse.linalg.eigsh(
                matrix, k=1, which=end, v0=start, tol=EIGENVALUE_TOL, return_eigenvectors=False
            )[0]
        )
        for end in ("SA", "LA")
    )
    return max(low, 0.0), high


def _reason(
    K: int, U: int, condition: float, accuracy: float, rtol: float, d: int, draws: int
) -> str:
    return (
        f"K = {K}: probes scaled by √α estimate every h_j = α_jΣ_jj with a standard deviation "
        f"of at most 1/(2√K) = {0.5 / math.sqrt(K):.3g} (asked: {accuracy:g}), whatever Φ is. "
        f"U = {U}: of {draws} random supports with {d} active columns the worst has a condition "
        f"number of at most {condition:.3g} under the Jacobi preconditioner, and "
        f"2√κ((√κ−1)/(√κ+1))^U ≤ {rtol:g}. Usually fewer steps are taken: the solver stops at "
        "its tolerance."
    )
