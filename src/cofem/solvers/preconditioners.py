"""Diagonal preconditioners M = diag(βθ + α)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator

NAMES = ("jacobi", "identity", "none")


def preconditioner_diagonal(choice: Any, operator: LinearOperator, like: Array) -> Array | None:
    """Return θ of M = diag(βθ + α), shape (D,), or None for no preconditioner.

    Parameters
    ----------
    choice : {"jacobi", "identity", "none"} or array of shape (D,)
        ``"jacobi"``: θ_j = ‖φ_j‖², so that M is the diagonal of the matrix.
        ``"identity"``: θ = 1, the paper's choice. ``"none"``: plain CG.
        An array: any positive θ.
    operator : LinearOperator
        Φ, shape (N, D).
    like : array
        Library, device and precision of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Dense
    >>> preconditioner_diagonal("jacobi", Dense(np.array([[3.0, 1.0], [4.0, 0.0]])), np.zeros(2))
    array([25.,  1.])
    """
    xp = backend.namespace(like)
    dtype = backend.real_dtype(like.dtype, xp)
    if isinstance(choice, str):
        if choice == "none":
            return None
        if choice == "identity":
            return xp.ones(operator.shape[1], dtype=dtype, device=backend.device_of(like))
        if choice == "jacobi":
            return operator.column_norms_squared(like)
        raise ValueError(
            f"preconditioner must be one of {', '.join(map(repr, NAMES))} or an array, "
            f"got {choice!r}"
        )
    try:
        theta = choice if backend.is_array(choice) else np.asarray(choice, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"preconditioner must be a name or a vector, got {choice!r}") from None
    if tuple(theta.shape) != (operator.shape[1],):
        raise ValueError(
            f"preconditioner must have shape ({operator.shape[1]},), got {tuple(theta.shape)}"
        )
    if backend.is_numpy(theta):
        theta = backend.from_numpy(theta, like)
    theta = xp.astype(theta, dtype)
    if not bool(xp.all(xp.isfinite(theta))) or not bool(xp.all(theta > 0)):
        raise ValueError("preconditioner must be positive and finite in every entry")
    return theta
