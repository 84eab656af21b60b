"""The arguments of ``fit_many``: checks, and digests by which a store recognises its problems."""

from __future__ import annotations

import inspect
import itertools
import numbers
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.files import fingerprint
from cofem.operators import Dense, LinearOperator, as_operator, check_adjoint

NOT_FOR_MANY = ("callback", "checkpoint")
# Rows of Y read at a time.
BLOCK = 256
# Exponents in the two fixed vectors that distinguish operators: any numbers that are not whole.
# Stores hold the products with these vectors, so the exponents must not change.
POWERS = (1.5, 1.4)
# These products differ by less between machines: rounding, with room for long sums.
SAME_PHI = 1e-6


def operator_of(phi: Any) -> LinearOperator:
    """Return phi as an operator on NumPy arrays; its adjoint is tested."""
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

    Rows are sent to worker processes and results are written to files: both need host memory.
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
    """Refuse a number of processes that is not a whole number, or zero."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be a whole number or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: 1 is one process, -1 all cores, None joblib's own")


def noise_of(options: dict[str, Any], problems: int) -> Any:
    """Remove the noise from the options; return one precision per problem, or one for all."""
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


def identity(op: LinearOperator, Y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    """Return what distinguishes these problems from others: digests, and two numbers for phi.

    Examples
    --------
    >>> known = identity(as_operator(np.eye(2)), np.ones((1, 2)), {"tol": 0.1})
    >>> sorted(known), len(known["phi"])
    (['Y', 'options', 'phi'], 4)
    """
    rows = (Y[first : first + BLOCK] for first in range(0, len(Y), BLOCK))
    digest = fingerprint(itertools.chain([(Y.shape, Y.dtype.str)], rows), "blake2b")
    # Fixed vectors without symmetry: another Φ gives other products with them.
    of_columns, of_rows = POWERS
    x = np.cos(np.arange(1.0, op.shape[1] + 1) ** of_columns)
    image = np.asarray(op.forward(x))
    turned = complex(np.sum(image * np.cos(np.arange(1.0, op.shape[0] + 1) ** of_rows)))
    phi = [*map(float, op.shape), float(np.linalg.norm(image)), abs(turned)]
    return {"Y": digest, "phi": phi, "options": _text(options)}


def refuse_another(path: Any, there: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a store whose :func:`identity` is not the wanted one."""
    for what, value in wanted.items():
        same = there.get(what) == value
        if what == "phi" and not same:  # products differ in their last digits between machines
            try:
                a, b = np.array(there.get(what)), np.array(value)
                same = a.shape == b.shape and bool(np.allclose(a, b, rtol=SAME_PHI, atol=0))
            except (TypeError, ValueError):  # no numbers: damaged
                same = False
        if not same:
            raise ValueError(
                f"store: {path} holds results for another {what}; resume=False starts again "
                "and deletes them"
            )


def _text(value: Any) -> str:
    """Return options as text that is the same in every process."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(value[k])}" for k in sorted(value)) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return type(value).__name__ + _text(parts)
    if isinstance(value, LinearOperator):
        return f"{value!r} {identity(value, np.zeros((1, 1)), {})['phi']}"
    if backend.is_array(value):
        return fingerprint([backend.to_numpy(value)], "blake2b")
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    return repr(value)
