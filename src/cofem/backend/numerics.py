"""The few numerical routines that the array API standard does not carry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.arrays import (
    Array,
    conj,
    device_of,
    from_numpy,
    is_numpy,
    namespace,
    real,
    to_numpy,
)
from cofem.backend.launches import has_engine


def group_means(x: Array, labels: np.ndarray, sizes: np.ndarray) -> Array:
    """Replace every entry of ``x`` by the mean over the entries with its label."""
    if compat.is_torch_array(x):
        import torch

        index = torch.as_tensor(labels, device=x.device)
        sums = torch.zeros(len(sizes), dtype=x.dtype, device=x.device).index_add_(0, index, x)
        return (sums / torch.as_tensor(sizes, dtype=x.dtype, device=x.device))[index]
    values = to_numpy(x)
    means = np.bincount(labels, weights=values) / sizes
    return from_numpy(means[labels].astype(values.dtype), x)


def places_of(index: np.ndarray, n: int, like: Array) -> list[Array]:
    """For each of n entries the place of its r-th choice in ``index`` (M if none), for every r.

    Integer arrays (n,) of the library and device of ``like``; torch sorts on its device.

    Examples
    --------
    >>> places_of(np.array([2, 0, 2]), 3, np.zeros(1))
    [array([1, 3, 0]), array([3, 3, 2])]
    """
    if compat.is_torch_array(like):
        import torch

        xp, on, where = torch, torch.as_tensor(index, device=like.device), {"device": like.device}
    else:
        xp, on, where = np, index, {}
    order = xp.argsort(on, stable=True)
    ranked = on[order]
    choice = xp.arange(len(index), **where) - xp.searchsorted(ranked, ranked)
    places = []
    for r in range(int(choice.max()) + 1):
        place = xp.full((n,), len(index), dtype=xp.int64, **where)
        place[ranked[choice == r]] = order[choice == r]
        places.append(place)
    return places if xp is not np else [from_numpy(place, like) for place in places]


def inverse_cholesky(matrix: Array) -> Array:
    """Return L⁻¹ for the Cholesky factor L of a Hermitian positive definite matrix."""
    if is_numpy(matrix):
        from scipy.linalg import cholesky, lapack

        try:
            factor = cholesky(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"the posterior's precision is not positive definite in {matrix.dtype}: "
                "noise_precision is too large beside the prior's precision"
            ) from None
        (invert,) = lapack.get_lapack_funcs(("trtri",), (factor,))
        inverse, info = invert(factor, lower=1, overwrite_c=1)
        if info:
            raise np.linalg.LinAlgError("a triangular factor is singular")
        return inverse
    xp = namespace(matrix)
    factor = xp.linalg.cholesky(matrix)
    eye = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device_of(matrix))
    if compat.is_torch_array(matrix):
        return xp.linalg.solve_triangular(factor, eye, upper=False)
    return xp.linalg.solve(factor, eye)


def erfcx(x: Array) -> Array:
    """Scaled complementary error function exp(x²) erfc(x)."""
    import scipy.special

    if is_numpy(x):
        return scipy.special.erfcx(x)
    if compat.is_torch_array(x):
        import torch

        return torch.special.erfcx(x)
    return from_numpy(scipy.special.erfcx(to_numpy(x)), x)


def probe_sums(
    p: Array, x: Array, scaling: Array, finished: bool = False
) -> tuple[Array, Array]:
    """Return Σ e and Σ e² over the rows of e = Re(p̄∘x)∘scaling.

    ``finished``: the mean of the rows and their sample variance (zero of one row).

    Examples
    --------
    >>> p, x = np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([[3.0, -2.0], [5.0, 4.0]])
    >>> probe_sums(p, x, np.ones(2))
    (array([8., 6.]), array([34., 20.]))
    >>> probe_sums(p, x, np.ones(2), finished=True)
    (array([4., 3.]), array([2., 2.]))
    """
    if has_engine(x):
        from cofem.backend._torch import sums

        return sums.probe_sums(p, x, scaling, finished)
    xp, n = namespace(x), x.shape[0]
    one = real(conj(p) * x) * scaling
    total, squares = xp.sum(one, axis=0), xp.sum(one * one, axis=0)
    return sample_variance(total, squares, n) if finished else (total, squares)


def sample_variance(total: Array, squares: Array, n: int) -> tuple[Array, Array]:
    """Return the mean and the sample variance from n numbers' sum and sum of squares.

    Examples
    --------
    >>> sample_variance(np.array([8.0]), np.array([34.0]), 2)
    (array([4.]), array([2.]))
    """
    xp = namespace(total)
    mean = total / n
    spread = xp.clip(squares / n - mean**2, min=0.0)  # which rounding could make negative
    return mean, spread * (n / max(n - 1, 1))


# The first steps towards a field's factor are made with every so many coordinates.
THINNED = 16
FieldSums = Callable[[Array, Array, float], tuple[float, float]]


def field_sums(alpha: Array, theta: Array, c: float) -> tuple[float, float]:
    """Return Σ h and Σ h(1 − h) for h = α/(α + cθ): what a trace and its slope need.

    In double precision, and with one transfer from a device.

    Examples
    --------
    >>> field_sums(np.array([1.0, 3.0]), np.ones(2), 1.0)
    (1.25, 0.4375)
    """
    xp = namespace(alpha)
    below = c * theta
    h, rest = alpha / (alpha + below), below / (alpha + below)  # 1 − h would cancel
    pair = xp.stack([xp.sum(h, dtype=xp.float64), xp.sum(h * rest, dtype=xp.float64)])
    total, spread = to_numpy(pair)
    return float(total), float(spread)


def field_factor(
    alpha: Array, theta: Array, top: float, trace: Any, sums_of: FieldSums | None = None
) -> Any:
    """Return c in [0, top] with Σ α/(α + cθ) = trace, as near as those limits allow.

    A number, or a scalar array that stays on its device; ``trace`` may be one too.
    ``sums_of`` is a faster :func:`field_sums`, for arrays that have one.

    Examples
    --------
    >>> round(field_factor(np.array([1.0, 3.0]), np.ones(2), 10.0, 1.25), 6)
    1.0
    """
    if has_engine(alpha):
        from cofem.backend._torch import sums

        return sums.field_factor(alpha, theta, top, trace)
    trace, n = float(trace), alpha.shape[0]
    low, high = -45.0, 0.0  # of t = log(c/top): from nothing to top
    if trace >= n:
        return top * math.exp(low)
    t, top_tried = 0.0, True
    if sums_of is not None and n > 100 * THINNED:
        # Most of the way with a few of the coordinates.
        few = alpha[::THINNED].copy()
        share = trace * len(few) / n
        t = math.log(field_factor(few, theta[::THINNED].copy(), top, share, sums_of) / top)
        top_tried = t == 0.0
    for _ in range(60):
        total, slope = (sums_of or field_sums)(alpha, theta, top * math.exp(t))
        excess = total - trace
        if t == 0.0 and excess >= 0:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        # Newton's step, and half the bracket where that leaves it.
        following = t + excess / slope if slope > 0 else math.inf
        newton = low < following < high
        if not newton:
            following = (low + high) / 2 if top_tried or following < high else 0.0
            top_tried = top_tried or following == 0.0
        moved, t = abs(following - t), following
        if moved <= 1e-3 and newton:  # the next step would be about its square
            break
    return top * math.exp(t)
