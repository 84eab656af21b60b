"""The few numerical routines that the array API standard does not carry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.arrays import Array, device_of, from_numpy, is_numpy, namespace, to_numpy
from cofem.backend.batches import has_engine


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


FieldSums = Callable[[Array, Array, float], tuple[float, float]]


def field_sums(alpha: Array, theta: Array, c: float) -> tuple[float, float]:
    """Return Σ h and Σ h(1 − h) for h = α/(α + cθ): what a trace and its slope need.

    In double precision, and with one transfer from a device.

    Examples
    --------
    >>> field_sums(np.array([1.0, 3.0]), np.ones(2), 1.0)
    (1.25, 0.4375)
    """
    if has_engine(alpha):
        from cofem.backend._torch import sums

        return sums.field_sums(alpha, theta, c)
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

        if alpha.shape[0] <= sums.ONE_PROGRAM:
            return sums.field_factor(alpha, theta, top, trace)
    trace = float(trace)
    low, high, t = -45.0, 0.0, 0.0  # t = log(c/top): from nothing to top
    if trace >= alpha.shape[0]:
        return top * math.exp(low)
    for _ in range(60):
        total, slope = (sums_of or field_sums)(alpha, theta, top * math.exp(t))
        excess = total - trace
        if t == 0.0 and excess >= 0:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        # Newton's step, and half the bracket where that leaves it.
        following = t + excess / slope if slope > 0 else math.inf
        if not low < following < high:
            following = (low + high) / 2
        moved, t = abs(following - t), following
        if moved <= 1e-6:
            break
    return top * math.exp(t)
