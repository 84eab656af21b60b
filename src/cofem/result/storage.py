"""Posteriors on disk: one .npz of plain arrays, no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from cofem import backend
from cofem.files import atomic_write, read_archive
from cofem.model.data_arguments import Noise
from cofem.model.methods import METHODS
from cofem.model.model import Task
from cofem.model.preparation import Preparation
from cofem.operators import LinearOperator, as_operator
from cofem.operators.realified import Realified
from cofem.result import storage_marginals
from cofem.result.fingerprint import fingerprints, refuse_another
from cofem.result.posterior import Posterior
from cofem.result.storage_checks import ARRAYS, FIRST_PRIOR, SCALARS, first_fault, is_count

FORMAT = "cofem posterior 1"


def save_posterior(post: Posterior, path: Any) -> None:
    """Write ``post`` to ``path``; a reader never sees half a file."""
    arrays: dict[str, np.ndarray] = {name: backend.to_numpy(getattr(post, name)) for name in ARRAYS}
    # Not needed here: for readers of the file without this library.
    arrays["mean"] = backend.to_numpy(post.mean)
    arrays["variance"] = backend.to_numpy(post.variance)
    arrays["noise_precision"] = np.asarray(post.noise_precision)
    for name in SCALARS:
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
    known = fingerprints(post.tasks)
    if known is not None:
        arrays["fingerprint"] = known
    about = {
        "format": FORMAT,
        "method": post.method,
        # Options that held a function are a dict after loading.
        "options": _plain(post.options if isinstance(post.options, dict) else asdict(post.options)),
        "converged": post.converged,
        "message": post.message,
        "nonnegative": post.nonnegative,
        "sparsified": post.sparsifier is not None
        or post.precision.shape[0] != post.gaussian_mean.shape[-1],
        "real": any(isinstance(task.operator, Realified) for task in post.tasks),
        "prior": post.prior,
        "settings": post.settings,
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
        ``predict`` and ``variance_of`` need it. Another Φ of the same shape is refused if it
        differs by more than some 10⁻⁴ of its Frobenius norm (:mod:`cofem.result.fingerprint`);
        files of earlier versions have no fingerprint and are not checked.
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
    tasks = () if phi is None else _tasks(arrays, phi, about.get("real", False))
    refuse_another(path, tasks, arrays.get("fingerprint"))
    prior = about.get("prior", FIRST_PRIOR)
    learned = storage_marginals.there(arrays)
    return Posterior(
        **{name: arrays[name] for name in ARRAYS},
        log_evidence=float(arrays["log_evidence"]),
        log_evidence_error=float(arrays["log_evidence_error"]),
        noise_precision=float(beta) if beta.ndim == 0 else beta,
        history=history,
        converged=about["converged"],
        message=about["message"],
        method=about["method"],
        options=_options(path, about["method"], about["options"]),
        settings=about.get("settings", {}),
        nonnegative=about["nonnegative"],
        prior=prior,
        marginals=(storage_marginals.unpacked(arrays, about["nonnegative"]) if learned else None),
        pull=arrays.get(storage_marginals.PULL) if learned else None,
        site_precision=arrays.get(storage_marginals.SITES) if learned else None,
        intercept=_number(arrays.get("intercept")),
        intercept_std=_number(arrays.get("intercept_std")),
        tasks=tasks,
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
    """Return the arrays and the facts; refuse a file that is not a posterior."""
    try:
        arrays: dict[str, Any] = read_archive(path, "posterior")
        about = json.loads(str(arrays.pop("about")))
        found = about.get("format")
    except KeyError as error:
        raise ValueError(f"{path} is not a posterior saved by cofem: it has no {error}") from None
    except (AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not a posterior saved by cofem ({error})") from None
    if found != FORMAT:
        raise ValueError(f"{path} has format {found!r}, expected {FORMAT!r}")
    wrong = first_fault(arrays, about)
    if wrong:
        raise ValueError(f"{path} is not a posterior saved by cofem, or is damaged: {wrong}")
    return arrays, about


def _operators(phi: Any) -> list[LinearOperator]:
    """Return the operators given: one, or a list of them, but not a matrix in rows."""
    many = isinstance(phi, (list, tuple)) and bool(phi) and not isinstance(phi[0], (list, tuple))
    return [as_operator(p) for p in (phi if many else [phi])]


def _at_home(arrays: dict[str, Any], phi: Any) -> None:
    """Move what was read to the library and device of a stored matrix phi."""
    matrix: Any = getattr(_operators(phi)[0], "matrix", None)
    if not backend.is_array(matrix) or backend.is_numpy(matrix):
        return
    moved = (*ARRAYS, *storage_marginals.AT_HOME)
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
    constant = int("intercept" in arrays)  # projecting it out removed one row
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
    return [int(v) for v in values] if is_count(name) else values.tolist()


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
