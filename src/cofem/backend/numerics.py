"""The few numerical routines that the array API standard does not carry."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.array_types import SameArray
from cofem.backend.arrays import (
    Array,
    device_of,
    from_numpy,
    is_numpy,
    namespace,
    to_numpy,
)


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


def inverse_cholesky(matrix: SameArray) -> SameArray:
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
    xp: Any = namespace(matrix)
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
