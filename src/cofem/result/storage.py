"""Posteriors on disk: one .npz of plain arrays, no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from cofem import backend
from cofem.files import atomic_write, read_archive
from cofem.learning.loop import empty_history
from cofem.model.methods import METHODS
from cofem.model.model import Task
from cofem.model.noise_arguments import Noise
from cofem.model.preparation import Preparation
from cofem.operators import LinearOperator, as_operator
from cofem.operators.realified import Realified
from cofem.result import storage_marginals
from cofem.result.posterior import Posterior

FORMAT = "cofem posterior 1"
_ARRAYS = ("gaussian_mean", "gaussian_variance", "variance_error", "precision")
_SCALARS = ("log_evidence", "log_evidence_error")
_HISTORY = tuple(empty_history())
# Files without a prior are from when there was only this one.
_FIRST_PRIOR = "ard"
# What the description must hold, and what it may.
_NEEDED = ("method", "options", "converged", "message", "nonnegative")
_ABOUT: dict[str, type] = {
    "method": str, "options": dict, "converged": bool, "message": str, "nonnegative": bool,
    "sparsified": bool, "real": bool, "prior": str,
}  # fmt: skip


def save_posterior(post: Posterior, path: Any) -> None:
    """Write ``post`` to ``path``; a reader never sees half a file."""
    arrays: dict[str, np.ndarray] = {
        name: backend.to_numpy(getattr(post, name)) for name in _ARRAYS
    }
    # For readers without this library: what most of them look for.
    arrays["mean"] = backend.to_numpy(post.mean)
    arrays["variance"] = backend.to_numpy(post.variance)
    arrays["noise_precision"] = np.asarray(post.noise_precision)
    for name in _SCALARS:
        arrays[name] = np.asarray(getattr(post, name))
    for name, values in post.history.items():
        arrays[f"history_{name}"] = np.asarray(values, dtype=np.float64)
    if post.intercept is not None:
        arrays["intercept"] = np.asarray(post.intercept)
        arrays["intercept_std"] = np.asarray(post.intercept_std)
    for i, task in enumerate(post.tasks):
        arrays[f"y_{i}"] = backend.to_numpy(task.y)
        if task.weights is not None:
            arrays[f"weights_{i}"] = task.weights
        if task.intercept is not None:
            arrays[f"level_{i}"] = np.asarray(task.intercept.level)
    arrays.update(storage_marginals.packed(post))
    about = {
        "format": FORMAT,
        "method": post.method,
        # Options that held a function come back from a file as a dict.
        "options": _plain(post.options if isinstance(post.options, dict) else asdict(post.options)),
        "converged": post.converged,
        "message": post.message,
        "nonnegative": post.nonnegative,
        "sparsified": post.sparsifier is not None
        or post.precision.shape[0] != post.gaussian_mean.shape[-1],
        "real": any(isinstance(task.operator, Realified) for task in post.tasks),
        "prior": post.prior,
    }
    arrays["about"] = np.asarray(json.dumps(about))
    with atomic_write(path) as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def load(path: Any, phi: Any = None, sparsifier: Any = None) -> Posterior:
    """Read a posterior that :meth:`Posterior.save` wrote.

    Parameters
    ----------
    path : path
    phi : operator, optional
        Φ (a list for joint tasks). A file does not hold it; ``sample``,
        ``predict`` and ``variance_of`` need it.
    sparsifier : operator, optional
        R, where the fit had one; needed with ``phi``.

    Examples
    --------
    >>> import numpy as np, cofem, pathlib, tempfile
    >>> phi = np.eye(3)
    >>> post = cofem.posterior(phi, np.ones(3), precision=np.ones(3), noise_precision=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "p.npz")
    ...     post.save(path)
    ...     again = cofem.load(path, phi)
    >>> again.mean
    array([0.5, 0.5, 0.5])
    """
    arrays, about = _read(path)
    history = {
        name.removeprefix("history_"): _column(name, values)
        for name, values in arrays.items()
        if name.startswith("history_")
    }
    beta = arrays["noise_precision"]
    image = None if sparsifier is None else as_operator(sparsifier, "sparsifier")
    if phi is not None:
        _at_home(arrays, phi)
        _check_sparsifier(image, arrays, about.get("sparsified", False))
    learned = about.get("prior", _FIRST_PRIOR) == "mixture"
    return Posterior(
        **{name: arrays[name] for name in _ARRAYS},
        **{name: float(arrays[name]) for name in _SCALARS},
        noise_precision=float(beta) if beta.ndim == 0 else beta,
        history=history,
        converged=about["converged"],
        message=about["message"],
        method=about["method"],
        options=_options(path, about["method"], about["options"]),
        nonnegative=about["nonnegative"],
        prior="mixture" if learned else "ard",
        marginals=(
            storage_marginals.unpacked(arrays, about["nonnegative"]) if learned else None
        ),
        pull=arrays.get(storage_marginals.PULL) if learned else None,
        site_precision=arrays.get(storage_marginals.SITES) if learned else None,
        intercept=_number(arrays.get("intercept")),
        intercept_std=_number(arrays.get("intercept_std")),
        tasks=() if phi is None else _tasks(arrays, phi, about.get("real", False)),
        sparsifier=image,
    )


def _check_sparsifier(
    image: LinearOperator | None, arrays: dict[str, Any], sparsified: bool
) -> None:
    rows, columns = arrays["precision"].shape[0], arrays["gaussian_mean"].shape[-1]
    if image is None and sparsified:
        raise ValueError("sparsifier must be given: the posterior was fitted with one")
    if image is not None and image.shape != (rows, columns):
        raise ValueError(f"sparsifier must have shape ({rows}, {columns}), got {image.shape}")


def _read(path: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the description, or say that this is something else."""
    try:
        arrays: dict[str, Any] = read_archive(path, "posterior")
        about = json.loads(str(arrays.pop("about")))
        found = about.get("format")
    except (KeyError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not a posterior saved by cofem ({error})") from None
    if found != FORMAT:
        raise ValueError(f"{path} has format {found!r}, expected {FORMAT!r}")
    wrong = _first_fault(arrays, about)
    if wrong:
        raise ValueError(f"{path} is not a posterior saved by cofem, or is damaged: {wrong}")
    return arrays, about


def _first_fault(arrays: dict[str, Any], about: dict[str, Any]) -> str:
    """Say what is wrong with what a file holds; nothing, if nothing is."""
    for name in (*_ARRAYS, *_SCALARS, "noise_precision", *(f"history_{n}" for n in _HISTORY)):
        if name not in arrays:
            return f"it has no {name}"
    for name, kind in _ABOUT.items():
        if not isinstance(about.get(name, None if name in _NEEDED else kind()), kind):
            return f"{name} is not a {kind.__name__}"
    mean, precision = arrays["gaussian_mean"], arrays["precision"]
    if mean.ndim not in (1, 2) or mean.dtype.kind not in "fc":
        return f"gaussian_mean is {mean.dtype} of shape {mean.shape}"
    for name in ("gaussian_variance", "variance_error"):
        if arrays[name].shape != mean.shape or arrays[name].dtype.kind != "f":
            return f"{name} is {arrays[name].dtype} of shape {arrays[name].shape}"
    if np.any(arrays["gaussian_variance"] < 0):
        return "gaussian_variance is negative"
    if precision.ndim != 1 or precision.dtype.kind != "f" or not np.all(precision > 0):
        return "precision is not a vector of positive numbers"
    beta = arrays["noise_precision"]
    shape = () if mean.ndim == 1 else (len(mean),)
    if beta.shape != shape or beta.dtype.kind not in "iuf" or not np.all(beta > 0):
        return f"noise_precision is not positive of shape {shape}"
    for name in _SCALARS:
        if arrays[name].shape != () or arrays[name].dtype.kind != "f":
            return f"{name} is not a number"
    columns = {name: a for name, a in arrays.items() if name.startswith("history_")}
    for name, values in columns.items():
        if values.dtype.kind != "f" or values.shape != (len(columns["history_iteration"]),):
            return f"{name} is {values.dtype} of shape {values.shape}"
        if _is_count(name) and not np.all(np.isfinite(values)):
            return f"{name} is not finite"
    wrong = _faulty_constant(arrays, shape)
    if wrong:
        return wrong
    data = sum(name.startswith("y_") for name in arrays)
    for i in range(data):
        y = arrays.get(f"y_{i}", np.empty(0))
        if y.ndim != 1 or y.dtype.kind not in "fc" or not len(y):
            return f"y_{i} is not a vector of numbers"
    return _fault_of_prior(arrays, about)


def _fault_of_prior(arrays: dict[str, Any], about: dict[str, Any]) -> str:
    prior = about.get("prior", _FIRST_PRIOR)
    if prior not in ("mixture", "ard"):
        return f"prior is {prior!r}"
    if prior == "ard":
        return ""
    if about.get("sparsified", False):
        return "the learned prior does not go with a sparsifier"
    return storage_marginals.first_fault(arrays, arrays["gaussian_mean"])


def _faulty_constant(arrays: dict[str, Any], shape: tuple[int, ...]) -> str:
    """Say what is wrong with the intercept or the row weights, where there are any."""
    value, std = arrays.get("intercept"), arrays.get("intercept_std")
    if (value is None) != (std is None):
        return "it has only one of intercept and intercept_std"
    if value is not None and std is not None:
        kinds = value.dtype.kind in "fc" and std.dtype.kind == "f"
        if not kinds or value.shape != shape or std.shape != shape:
            return f"intercept is {value.dtype} of shape {value.shape}"
    for i in range(sum(name.startswith("y_") for name in arrays)):
        level = arrays.get(f"level_{i}", np.empty(0) if value is not None else np.zeros(()))
        if level.shape != () or level.dtype.kind not in "fc":
            return f"level_{i} is not a number"
        weights = arrays.get(f"weights_{i}", np.ones(1))
        if weights.ndim != 1 or weights.dtype.kind != "f" or not np.all(weights > 0):
            return f"weights_{i} is not a vector of positive numbers"
    return ""


def _operators(phi: Any) -> list[LinearOperator]:
    """Return the operators given: one, or a list of them, but not a matrix in rows."""
    many = isinstance(phi, (list, tuple)) and bool(phi) and not isinstance(phi[0], (list, tuple))
    return [as_operator(p) for p in (phi if many else [phi])]


def _at_home(arrays: dict[str, Any], phi: Any) -> None:
    """Move what was read to the library and device of a stored matrix phi."""
    matrix = getattr(_operators(phi)[0], "matrix", None)
    if not backend.is_array(matrix) or backend.is_numpy(matrix):
        return
    moved = (*_ARRAYS, *storage_marginals.AT_HOME)
    for name in [n for n in arrays if n in moved or n.startswith("y_")]:
        arrays[name] = backend.from_numpy(arrays[name], matrix)


def _tasks(arrays: dict[str, Any], phi: Any, real: bool) -> tuple[Task, ...]:
    operators = _operators(phi)
    data = [arrays[f"y_{i}"] for i in range(sum(name.startswith("y_") for name in arrays))]
    if not data:
        raise ValueError("phi: the file holds no data to go with it (it was saved without phi)")
    if len(operators) == 1:
        operators = operators * len(data)
    if len(operators) != len(data):
        raise ValueError(f"phi: {len(data)} tasks were saved, got {len(operators)} operators")
    beta = np.broadcast_to(arrays["noise_precision"], (len(data),))
    unknowns = arrays["gaussian_mean"].shape[-1]
    constant = int("intercept" in arrays)  # it took a row with it
    prepared, tasks = Preparation(bool(constant), real), []
    for i, (op, y) in enumerate(zip(operators, data, strict=True)):
        # Complex data were saved in their stacked real form.
        stacked = real and len(y) == 2 * (op.shape[0] - constant)
        rows = (len(y) // 2 if stacked else len(y)) + constant
        if op.shape != (rows, unknowns):
            many = f"{rows}"
            if real:
                many += f" (real data) or {len(y) // 2 + constant} (complex)"
            raise ValueError(f"phi must have {many} rows and {unknowns} columns, got {op.shape}")
        noise = Noise(float(beta[i]), arrays.get(f"weights_{i}"))
        level = _number(arrays.get(f"level_{i}"))
        tasks.append(prepared.again(op, y, noise, level, stacked=stacked))
    return tuple(tasks)


def _number(value: Any) -> Any:
    """Return a number as Python's, an array as it is."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _column(name: str, values: np.ndarray) -> list[float]:
    """Return a column of the history; counts are whole numbers again."""
    return [int(v) for v in values] if _is_count(name) else values.tolist()


def _is_count(name: str) -> bool:
    return name.removeprefix("history_") in ("iteration", "cg_steps", "products")


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON: arrays as lists, functions by their name."""
    out = {}
    for name, value in options.items():
        if backend.is_array(value):
            value = backend.to_numpy(value).tolist()
        elif callable(value):
            value = {"function": getattr(value, "__name__", "unknown")}
        out[name] = value
    return out


def _options(path: Any, method: str, options: dict[str, Any]) -> Any:
    """Return the method's dataclass, or the dict where a function could not be stored."""
    if any(isinstance(v, dict) for v in options.values()) or method not in METHODS:
        return options
    try:
        return METHODS[method](**options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or from another version: its options of method {method!r} are "
            f"not valid ({error})"
        ) from None
