"""From the arguments of ``fit`` to tasks, ties and operators that agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cofem import backend
from cofem.arguments import flag, numbers
from cofem.backend import Array
from cofem.model.data_arguments import (
    array_or_list,
    noise_from,
    refuse_columns,
    refuse_unsquarable,
    refuse_unsquarable_columns,
)
from cofem.model.model import Model, Task, Tie
from cofem.model.preparation import Preparation
from cofem.operators import Dense, LinearOperator, Sparse, as_operator, check_adjoint


def tasks_from(
    phi: Any,
    y: Any,
    noise_precision: Any,
    noise_std: Any = None,
    weights: Any = None,
    *,
    intercept: bool = False,
    real: bool = False,
) -> tuple[tuple[Task, ...], bool]:
    """Turn phi and y into tasks that agree in shape, library, device and precision.

    Returns the tasks (with NaN for a noise precision that is not given) and
    whether they were given jointly.
    """
    operators, data, joint = _paired(phi, y)
    noise = noise_from(noise_precision, noise_std, weights, [int(v.shape[0]) for v in data], joint)
    prepared = Preparation(flag("intercept", intercept), flag("real", real))
    home = [(f"y[{i}]" if joint else "y", a) for i, a in enumerate(data)]
    for i, op in enumerate(operators):
        matrix = getattr(op, "matrix", None)
        if matrix is not None and backend.is_array(matrix):
            home.append((f"phi[{i}]" if joint else "phi", matrix))
    backend.require_same_home(home)
    single = all(_is_single(a) for _, a in home)
    xp = backend.namespace(data[0])
    tasks: list[Task] = []
    for i, (op, values) in enumerate(zip(operators, data, strict=True)):
        where = f"[{i}]" if joint else ""
        if op.shape[0] != values.shape[0]:
            turned = op.shape[1] == values.shape[0] and op.shape[0] != op.shape[1]
            raise ValueError(
                f"y{where} has {values.shape[0]} entries and phi{where} has {op.shape[0]} rows "
                f"(its shape is {op.shape}); they must agree"
                + ("; is phi transposed?" if turned else "")
            )
        if getattr(values, "requires_grad", False):
            values = values.detach()  # the posterior is not differentiated through
        if op.shape[1] != operators[0].shape[1]:
            raise ValueError(
                f"phi[{i}] has {op.shape[1]} columns and phi[0] has {operators[0].shape[1]}; "
                "joint tasks share their unknowns"
            )
        if not op.trusted:
            check_adjoint(op, values, name=f"phi{where}")
        if op.field == "undecided" and not real:
            raise ValueError(
                f"phi{where} is linear over the reals only (PyLops: clinear=False), so complex "
                "unknowns have no meaning; pass real=True if z is real"
            )
        if not single:
            convert = backend.complex_dtype if backend.is_complex(values) else backend.real_dtype
            values = xp.astype(values, convert(xp.float64, xp), copy=False)
        refuse_unsquarable(values, f"y{where}")
        if isinstance(op, (Dense, Sparse)):
            refuse_unsquarable_columns(op, values, f"phi{where}")
        tasks.append(prepared.task(op, values, noise[i]))
    return tuple(tasks), joint


def _paired(phi: Any, y: Any) -> tuple[list[LinearOperator], list[Any], bool]:
    y = array_or_list(y)
    many_phi = isinstance(phi, (list, tuple)) and bool(phi) and not _is_row(phi[0])
    if many_phi:
        if not isinstance(y, (list, tuple)) and not (backend.is_array(y) and y.ndim == 2):
            raise TypeError(
                f"phi is a list of {len(phi)} operators, one for each joint task, so y must be a "
                f"list of {len(phi)} data vectors; for a single task pass phi[0]"
            )
        if len(y) != len(phi):
            raise ValueError(f"phi has {len(phi)} tasks and y has {len(y)}; they must agree")
        made: dict[int, LinearOperator] = {}  # an object that is listed twice is converted once
        for i, p in enumerate(phi):
            if id(p) not in made:
                made[id(p)] = as_operator(p, f"phi[{i}]")
        operators = [made[id(p)] for p in phi]
        return operators, [_vector(v, f"y[{i}]") for i, v in enumerate(y)], True
    if getattr(phi, "ndim", 2) == 1 and getattr(y, "ndim", 1) == 2:
        raise ValueError("phi is 1-D and y is 2-D: were they swapped? It is fit(phi, y)")
    op = as_operator(phi)
    if backend.is_array(y) and y.ndim == 2:
        refuse_columns(tuple(y.shape), op)
        rows = numbers(y, "y", 2)
        return [op] * rows.shape[0], [rows[i, :] for i in range(rows.shape[0])], True
    if isinstance(y, (list, tuple)) and len(y) and _is_vector(y[0]):
        if len({len(v) for v in y if _is_vector(v)}) == 1:
            refuse_columns((len(y), len(y[0])), op)
        return [op] * len(y), [_vector(v, f"y[{i}]") for i, v in enumerate(y)], True
    return [op], [_vector(y, "y")], False


def _is_row(x: Any) -> bool:
    """Whether a list is a matrix written out rather than a list of operators."""
    written = isinstance(x, (list, tuple, int, float, complex, np.number))
    return written or (isinstance(x, np.ndarray) and x.ndim < 2)


def _is_vector(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or (backend.is_array(x) and x.ndim > 0)


def _vector(y: Any, name: str) -> Array:
    if y is None or isinstance(y, (str, bytes, dict)):
        raise TypeError(f"{name} must be an array of numbers, got {type(y).__name__}")
    if isinstance(y, Iterator):
        raise TypeError(f"{name} must be an array of numbers, got a {type(y).__name__}")
    if not backend.is_array(y):
        try:
            y = np.asarray(y)
        except ValueError:
            raise ValueError(f"{name} must be a vector of numbers, got ragged lists") from None
    return numbers(y, name, 1)


def _is_single(x: Array) -> bool:
    xp = backend.namespace(x)
    return x.dtype in (xp.float32, xp.complex64)


def model_from(
    tasks: tuple[Task, ...],
    nonnegative: bool,
    sparsifier: Any,
    groups: Any = None,
    coupling: Any = None,
) -> Model:
    """Return the model of these tasks; refuse options that cannot be combined."""
    positive = flag("nonnegative", nonnegative)
    image = sparsifier_from(sparsifier, tasks)
    size = tasks[0].operator.shape[1] if image is None else image.shape[0]
    model = Model(tasks, tie_from(groups, coupling, size), positive, image)
    if model.nonnegative and backend.is_complex(model.like):
        raise ValueError(
            "nonnegative needs real unknowns; data or phi are complex (real=True if z is real)"
        )
    if model.nonnegative and image is not None:
        raise ValueError("nonnegative is for z itself and cannot be combined with a sparsifier")
    return model


def sparsifier_from(sparsifier: Any, tasks: tuple[Task, ...]) -> LinearOperator | None:
    """Check R, whose columns are the unknowns."""
    if sparsifier is None:
        return None
    op = as_operator(sparsifier, "sparsifier")
    unknowns = tasks[0].operator.shape[1]
    if op.shape[1] != unknowns:
        raise ValueError(f"sparsifier must have {unknowns} columns, got shape {op.shape}")
    real = not any(t.operator.is_complex or backend.is_complex(t.y) for t in tasks)
    if op.is_complex and real:
        raise ValueError("sparsifier is complex and the unknowns are real")
    if not op.trusted:
        check_adjoint(op, tasks[0].y, name="sparsifier")
    return op


def tie_from(groups: Any, coupling: Any, n_unknowns: int) -> Tie:
    """Check ``groups`` and ``coupling`` and return the tie they make."""
    labels = None
    if groups is not None:
        try:
            labels = backend.to_numpy(groups) if backend.is_array(groups) else np.asarray(groups)
        except ValueError:
            raise ValueError("groups must be one label per coordinate, got ragged lists") from None
        if labels.shape != (n_unknowns,):
            raise ValueError(
                f"groups must have shape ({n_unknowns},), got {labels.shape}: one label for every "
                "coordinate"
            )
        if labels.dtype.kind not in "iu":
            raise TypeError(
                f"groups must be integer labels, got dtype {labels.dtype}; "
                "np.unique(groups, return_inverse=True)[1] turns names into integers"
            )
        if labels.min() < 0:
            raise ValueError("groups must be non-negative labels")
    if coupling is not None:
        coupling = as_operator(coupling, "coupling")
        if coupling.shape != (n_unknowns, n_unknowns):
            raise ValueError(
                f"coupling must have shape ({n_unknowns}, {n_unknowns}), got {coupling.shape}"
            )
        if coupling.is_complex:
            raise ValueError("coupling must be real and non-negative; it is complex")
        stored: Any = getattr(coupling, "matrix", None)
        entries: Any = stored.data if isinstance(coupling, Sparse) else stored
        if backend.is_array(entries) and bool(backend.namespace(entries).any(entries < 0)):
            raise ValueError("coupling must be non-negative; it has negative weights")
    return Tie(labels, coupling)


def prior_precision(value: Any, n_unknowns: int, like: Array) -> Array:
    """Check α given by the user."""
    alpha = value if backend.is_array(value) else np.asarray(value)
    if alpha.ndim == 0:
        alpha = backend.namespace(alpha).broadcast_to(alpha, (n_unknowns,))
    alpha = numbers(alpha, "precision", 1)
    if alpha.shape[0] != n_unknowns:
        raise ValueError(f"precision must have shape ({n_unknowns},), got {tuple(alpha.shape)}")
    if backend.is_numpy(alpha):
        alpha = backend.from_numpy(np.array(alpha), like)
    backend.require_same_home([("y", like), ("precision", alpha)])
    xp = backend.namespace(like)
    if backend.is_complex(alpha) or not bool(xp.all(alpha > 0)):
        raise ValueError("precision must be real and positive in every entry")
    return xp.astype(alpha, backend.real_dtype(like.dtype, xp))
