"""Checks of arguments other than ordinary arrays: operators, weights and a known noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array, validate_data

from cofem.operators import LinearOperator, as_operator, check_adjoint


def is_operator(X: Any) -> bool:
    """Whether X is known by its products: cofem's, SciPy's or PyLops' operators.

    Examples
    --------
    >>> from cofem.operators import DCT
    >>> is_operator(DCT(4)), is_operator([[1.0, 2.0]])
    (True, False)
    """
    products = all(hasattr(X, name) for name in ("shape", "matvec", "rmatvec"))
    return isinstance(X, LinearOperator) or products


def refuse_text(values: Any, name: str) -> None:
    """Refuse strings and dates, also those that could be read as numbers.

    Examples
    --------
    >>> refuse_text([1, 2.5], "y")
    >>> refuse_text(["1", "2"], "y")
    Traceback (most recent call last):
        ...
    TypeError: y must hold numbers, got strings such as '1'
    """
    if scipy.sparse.issparse(values):  # these hold numbers only
        return
    array = np.asarray(values)
    if array.dtype.kind in "OSUT":
        word = next((v for v in array.flat if isinstance(v, (str, bytes))), None)
        if word is not None:
            shown = word if isinstance(word, bytes) else str(word)
            raise TypeError(f"{name} must hold numbers, got strings such as {shown!r}")
    if array.dtype.kind in "mMV":
        raise TypeError(f"{name} must hold numbers, got an array of type {array.dtype}")


def checked_data(model: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Return X and y for a regressor, which learns the number and the names of its features."""
    if is_operator(X):
        X, y = checked_operator(X, y)
        model.n_features_in_ = X.shape[1]
        model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        return X, y
    refuse_text(X, "X")
    refuse_text(y, "y")
    X, y = validate_data(
        model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32],
        multi_output=True, y_numeric=True, ensure_min_samples=2,
    )  # fmt: skip
    return X, y.astype(X.dtype, copy=False)


def checked_operator(X: Any, y: Any) -> tuple[LinearOperator, np.ndarray]:
    """Return X as a real operator whose adjoint is tested, and y as an array that fits it."""
    op = as_operator(X, "X")
    if op.is_complex:
        raise ValueError("X: complex operators are not for this estimator; use cofem.fit")
    if not op.trusted:
        check_adjoint(op, name="X")
    refuse_text(y, "y")
    y = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y")
    if y.ndim > 2 or y.shape[0] != op.shape[0]:
        raise ValueError(
            f"y must have shape ({op.shape[0]},) or ({op.shape[0]}, n_outputs) for an X of "
            f"shape {op.shape}, got {y.shape}"
        )
    if y.shape[0] < 2:
        raise ValueError("X has 1 sample; at least 2 are needed")
    return op, y


def weighted(
    X: Any, y: np.ndarray, sample_weight: Any, least: int
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return X and y without the samples of weight zero, and the weights of the others.

    An operator keeps all of its rows.
    """
    n = X.shape[0]
    if sample_weight is None:
        return X, y, np.ones(n)
    refuse_text(sample_weight, "sample_weight")
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if np.any(weights < 0):
        raise ValueError(f"sample_weight must not be negative, got {weights.min()}")
    total = float(np.sum(weights))
    if total == 0:
        raise ValueError("sample_weight is zero for every sample")
    if total < least:
        raise ValueError(
            f"sample_weight counts samples and sums to {total:g}; it must sum to at least "
            f"{least}. For relative weights pass w * len(w) / w.sum()"
        )
    used = weights > 0
    if not isinstance(X, LinearOperator) and not np.all(used):
        X, y, weights = X[used], y[used], weights[used]
    return X, y, weights


def known_noise(value: Any, n_outputs: int) -> np.ndarray | None:
    """Return the noise precision of every output, or None if it is to be estimated.

    Examples
    --------
    >>> known_noise(4.0, 2)
    array([4., 4.])
    """
    if value is None:
        return None
    beta = np.asarray(value)
    if beta.dtype.kind not in "iuf":
        raise TypeError(f"noise_precision must be a number or one per output, got {value!r}")
    if beta.shape not in ((), (n_outputs,)):
        raise ValueError(
            f"noise_precision must be one number or one per output ({n_outputs}), "
            f"got shape {beta.shape}"
        )
    if not np.all(np.isfinite(beta) & (beta > 0)):
        raise ValueError(f"noise_precision must be positive and finite, got {value!r}")
    return np.broadcast_to(beta.astype(np.float64), (n_outputs,)).copy()
