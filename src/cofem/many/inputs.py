"""What comes into ``fit_many``, and how to know it again."""

from __future__ import annotations

import hashlib
import inspect
import numbers
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.operators import Dense, LinearOperator, as_operator, check_adjoint

NOT_FOR_MANY = ("callback", "checkpoint")
# Rows of Y read at a time.
BLOCK = 256


def operator_of(phi: Any) -> LinearOperator:
    """Return phi as an operator on NumPy's arrays, its adjoint tested."""
    if isinstance(phi, (list, tuple)) and phi and isinstance(phi[0], LinearOperator):
        raise TypeError("phi must be one operator: fit_many fits every row of Y with the same")
    op = as_operator(phi)
    matrix = getattr(op, "matrix", None)
    if backend.is_array(matrix) and not backend.is_numpy(matrix):
        op = Dense(on_host(matrix, "phi"))
    if not op.trusted:
        check_adjoint(op)
    return op


def problems_of(Y: Any, op: LinearOperator) -> np.ndarray:
    """Return Y as a NumPy array (P, N); a memory-mapped one stays on the disk."""
    if backend.is_array(Y) and not backend.is_numpy(Y):
        Y = on_host(Y, "Y")
    try:
        Y = np.asanyarray(Y)
    except ValueError:
        raise ValueError("Y must be a table of numbers (P, N), got ragged lists") from None
    if Y.dtype.kind not in "biufc":
        raise TypeError(f"Y must hold numbers, got dtype {Y.dtype}")
    if Y.ndim != 2 or 0 in Y.shape:
        raise ValueError(f"Y must have shape (P, N), one problem in every row, got {Y.shape}")
    if Y.shape[1] != op.shape[0]:
        hint = "; is it transposed?" if Y.shape[0] == op.shape[0] else ""
        raise ValueError(
            f"Y has rows of {Y.shape[1]} entries and phi has {op.shape[0]} rows (its shape is "
            f"{op.shape}); they must agree{hint}"
        )
    return np.asarray(Y)


def on_host(x: Any, name: str) -> np.ndarray:
    """Return an array of another library as NumPy's; one on a device is refused.

    Rows travel to worker processes, and results to files: both are the host's.
    """
    if "cpu" not in str(backend.device_of(x)).lower():
        raise TypeError(
            f"{name} is a {backend.library(x)} array on device {backend.device_of(x)}; fit_many "
            "works in processes on the host: move it there, or call cofem.fit for every row"
        )
    return backend.to_numpy(x)


def check_options(options: dict[str, Any]) -> None:
    """Refuse what :func:`cofem.fit` does not know, and what makes no sense for many fits."""
    known = [
        name
        for name, parameter in inspect.signature(fitting.fit).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in NOT_FOR_MANY
    ]
    for name in options:
        if name in NOT_FOR_MANY:
            raise TypeError(f"{name} is an option of single fits, not of fit_many")
        if name not in known:
            raise TypeError(f"fit_many has no option {name!r}; there are {', '.join(known)}")


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of processes."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be a whole number or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: 1 is one process, -1 all cores, None joblib's own")


def noise_of(options: dict[str, Any], problems: int) -> Any:
    """Take the noise out of the options: a precision per problem as an array, or as it is."""
    value, std = options.pop("noise_precision", None), options.pop("noise_std", None)
    name = "noise_precision" if std is None else "noise_std"
    if std is not None:
        if value is not None:
            raise ValueError("noise_std and noise_precision say the same thing: give one of them")
        value = std
    if value is None or (np.ndim(value) == 0 and std is None):
        return value
    given = np.asarray(value)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got dtype {given.dtype}")
    if given.shape not in ((), (problems,)):
        raise ValueError(
            f"{name} must be one number or one per problem ({problems}), got shape {given.shape}"
        )
    given = given.astype(np.float64)
    if std is None:
        return given
    if not np.all(given > 0):
        raise ValueError(f"noise_std must be positive and finite, got {std!r}")
    beta = given**-2.0
    return beta if beta.ndim else float(beta)


def fingerprint(op: LinearOperator, Y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    """Return what tells these problems from others: hashes, and two numbers for phi.

    Examples
    --------
    >>> print_of = fingerprint(as_operator(np.eye(2)), np.ones((1, 2)), {"tol": 0.1})
    >>> sorted(print_of), len(print_of["phi"])
    (['Y', 'options', 'phi'], 4)
    """
    digest = hashlib.blake2b(repr((Y.shape, Y.dtype.str)).encode(), digest_size=16)
    for first in range(0, len(Y), BLOCK):
        digest.update(np.ascontiguousarray(Y[first : first + BLOCK]).tobytes())
    # A fixed vector without symmetry: another Φ gives another image.
    x = np.cos(np.arange(1.0, op.shape[1] + 1) ** 1.5)
    image = np.asarray(op.forward(x))
    turned = complex(np.sum(image * np.cos(np.arange(1.0, op.shape[0] + 1) ** 1.4)))
    phi = [*map(float, op.shape), float(np.linalg.norm(image)), abs(turned)]
    return {"Y": digest.hexdigest(), "phi": phi, "options": _text(options)}


def _text(value: Any) -> str:
    """Return options as text that is the same in every process."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(value[k])}" for k in sorted(value)) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return type(value).__name__ + _text(parts)
    if isinstance(value, LinearOperator):
        return f"{value!r} {fingerprint(value, np.zeros((1, 1)), {})['phi']}"
    if backend.is_array(value):
        array = np.ascontiguousarray(backend.to_numpy(value))
        return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    return repr(value)
