"""Column norms and the spectral norm of operators whose entries are not known, from products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators.base import LinearOperator

# Up to this many rows or columns the norms are computed exactly, from unit vectors.
EXACT_UP_TO = 512
# Estimates of weighted norms are raised to at least this share of their mean. With 16 probes a
# smaller value is an accident, and it would make a bad preconditioner.
LEAST_OF_MEAN = 0.1
# Numbers in one block of vectors: 128 MiB in float64.
BLOCK = 1 << 24


def norms_are_exact(shape: tuple[int, int]) -> bool:
    """Whether :func:`estimate_column_norms_squared` is exact for operators of this shape.

    Examples
    --------
    >>> norms_are_exact((10_000, 300)), norms_are_exact((10_000, 3000))
    (True, False)
    """
    return min(shape) <= EXACT_UP_TO


def estimate_column_norms_squared(
    op: LinearOperator, like: Array, n_probes: int = 64, seed: int = 0
) -> Array:
    """Return ‖φ_j‖² for every column through products only.

    Exact, through unit vectors, when N or D is at most 512. Otherwise the mean of
    |Φᴴq|² over random signs q (unit-modulus numbers for complex operators).

    How good it is: never negative, right on average, and for column φ of relative
    standard deviation √(2(1 − Σφ_i⁴/‖φ‖⁴)/n_probes) (without the 2 for complex
    operators). So a column of one entry is exact, and a dense one is known to
    √(2/64) = 18 %: two of three columns within 18 %, one in 5,000 wrong by more than
    a factor of two. Norms are square roots of it, and twice as good. The same seed gives
    the same estimate in the same library, whatever the memory of the machine.

    Parameters
    ----------
    op : LinearOperator of shape (N, D)
    like : array
        Its library, device and precision are used.
    n_probes : int
        Number of random vectors.
    seed : int
        Seed of the random vectors; vector k has a stream of its own.

    Returns
    -------
    array of shape (D,), real

    Examples
    --------
    >>> from cofem.operators import Dense
    >>> op = Dense(np.array([[3.0, 0.0], [4.0, 1.0]]))
    >>> estimate_column_norms_squared(op, np.empty(0))
    array([25.,  1.])
    """
    n, d = op.shape
    home = _argument(op, like)
    if d <= EXACT_UP_TO:
        return _from_unit_columns(op, home)
    exact = n <= EXACT_UP_TO
    total = n if exact else n_probes
    block = max(1, BLOCK // max(n, d))
    norms: Any = 0.0
    for start in range(0, total, block):
        rows = min(block, total - start)
        q = _unit_rows(n, start, rows, home) if exact else _probes(seed, start, rows, n, home)
        xp = backend.namespace(q)
        norms = norms + xp.sum(backend.abs_squared(op.adjoint(q)), axis=0)
    return norms if exact else norms / n_probes


def estimate_weighted_norms(
    op: LinearOperator, weights: Array, n_probes: int = 16, seed: int = 0
) -> Array:
    """Estimate Σ_i w_i |Φ_ij|² for every column, shape (D,).

    The mean of |Φᴴ(√w∘q)|² over random signs q, with the accuracy of
    :func:`estimate_column_norms_squared`: 35 % a column for 16 probes. Values that are small by
    accident would make a bad preconditioner, so none is below a tenth of the mean.

    Examples
    --------
    >>> from cofem.operators import Diagonal
    >>> estimate_weighted_norms(Diagonal(np.array([1.0, 3.0])), np.array([2.0, 1.0]))
    array([2., 9.])
    """
    home = _argument(op, weights)
    xp = backend.namespace(home)
    q = _probes(seed, 0, n_probes, op.shape[0], home)
    squares = backend.abs_squared(op.adjoint(q * xp.sqrt(weights)))
    norms = xp.mean(squares, axis=0)
    return xp.maximum(norms, LEAST_OF_MEAN * xp.mean(norms))


def norm_squared(
    op: LinearOperator, like: Array | None = None, n_iter: int = 30, seed: int = 0
) -> float:
    """Return ‖Φ‖², the largest eigenvalue of ΦᴴΦ, by power iteration.

    The result is a slight underestimate: ‖ΦᴴΦx‖ of a unit vector x never exceeds
    the largest eigenvalue. Multiply by 1.05 or so where an upper bound is needed.

    Parameters
    ----------
    op : LinearOperator of shape (N, D)
    like : array, optional
        Its library, device and precision are used; NumPy in float64 by default.
    n_iter : int
        Number of products with ΦᴴΦ.
    seed : int
        Seed of the starting vector.

    Returns
    -------
    float

    Examples
    --------
    >>> from cofem.operators import Diagonal
    >>> round(norm_squared(Diagonal(np.array([1.0, 3.0, 2.0]))), 6)
    9.0
    """
    home = _argument(op, np.empty(0) if like is None else like)
    x = backend.Random(seed).normal((op.shape[1],), home)
    x = x / _length(x)
    estimate = 0.0
    for _ in range(n_iter):
        x = op.gram(x)
        estimate = _length(x)
        if estimate == 0.0 or not math.isfinite(estimate):
            break
        x = x / estimate
    return estimate


def _argument(op: LinearOperator, like: Array) -> Array:
    """Return an empty array of the kind of ``like``, complex exactly if the operator is."""
    xp = backend.namespace(like)
    convert = backend.complex_dtype if op.is_complex else backend.real_dtype
    return xp.empty((0,), dtype=convert(like.dtype, xp), device=backend.device_of(like))


def _probes(seed: int, first: int, rows: int, n: int, home: Array) -> Array:
    """Return random vectors number ``first`` … of a seed, the same in blocks of any size."""
    xp = backend.namespace(home)
    draws = [backend.Random(seed, first + k).signs((n,), home) for k in range(rows)]
    return xp.stack(draws, axis=0)


def _unit_rows(n: int, start: int, rows: int, home: Array) -> Array:
    xp = backend.namespace(home)
    return xp.eye(rows, n, k=start, dtype=home.dtype, device=backend.device_of(home))


def _from_unit_columns(op: LinearOperator, home: Array) -> Array:
    n, d = op.shape
    xp = backend.namespace(home)
    block = max(1, BLOCK // max(n, d))
    parts = [
        xp.sum(
            backend.abs_squared(op.forward(_unit_rows(d, start, min(block, d - start), home))),
            axis=-1,
        )
        for start in range(0, d, block)
    ]
    return xp.concat(parts, axis=0)


def _length(x: Array) -> float:
    return math.sqrt(float(backend.namespace(x).sum(backend.abs_squared(x))))
