"""Which method fits a model, by name or by structure and size; what can be done with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.model.methods import EM, METHODS, Banded, CoFEM, Method, Woodbury
from cofem.model.model import Model
from cofem.operators import Autoregressive, Dense, LinearOperator, Sparse
from cofem.operators.centred import Centred
from cofem.solvers.compiled import compiled_here

# Operations of exact EM for every D³: Cholesky, the inverse of its factor and its square.
EM_OPERATIONS = 1.4
# Operations of a pair of fast transforms for every D log₂ D.
TRANSFORM_OPERATIONS = 20.0
# An iteration of CoFEM multiplies about 125 rows by ΦᴴΦ, at half the speed of a factorisation, and
# costs a millisecond or two besides: so many operations.
ROWS_PER_ITERATION, OVERHEAD = 250.0, 3e7
# Unknowns up to which exact EM is chosen with a sparsifier, for a matrix and for other operators.
EXACT_WITH_SPARSIFIER, EXACT_WITH_SPARSIFIER_IF_NOT_DENSE = 1000, 300
# A dense matrix is factorised even if that takes this many times the operations of CoFEM: a
# coherent matrix needs many more CG steps than the count assumes.
EXACT_FOR_DENSE = 5.0
# But only up to this many operations in an iteration, about a tenth of a second.
EXACT_LIMIT = 2e9
# Chains are run only if Φ has at most so many entries: then a sweep takes a few milliseconds.
LARGEST_MATRIX = 2_000_000
# Options of CoFEM for coherent columns.
COHERENT: dict[str, Any] = {"n_probes": 16, "probe_rtol": 1e-3, "shrinkage": False}


def choose_method(method: Any, model: Model) -> Method:
    """Turn a name or a dataclass into a method; ``"auto"`` picks by structure and size."""
    if isinstance(method, Method):
        chosen: Method = method
    elif isinstance(method, str) and method == "auto":
        chosen = _best_for(model)
    elif isinstance(method, str) and method in METHODS:
        chosen = METHODS[method]()
    elif isinstance(method, type) and method in METHODS.values():
        raise TypeError(f"method must be an instance: write cofem.{method.__name__}()")
    else:
        names = ", ".join(repr(n) for n in ("auto", *METHODS))
        kind = ValueError if isinstance(method, str) else TypeError
        raise kind(f"method must be one of {names} or a method object, got {method!r}")
    refuse_unfit(chosen, model)
    return chosen


def _best_for(model: Model) -> Method:
    operators = [task.operator for task in model.tasks]
    if model.sparsifier is None and all(map(is_banded, operators)):
        return Banded()
    first = operators[0]
    dense = isinstance(first.op if isinstance(first, Centred) else first, (Dense, Sparse))
    if model.sparsifier is not None:
        # Woodbury's formula would need the inverse of Rᴴ diag(α) R, and CoFEM needs several times
        # as many probes as without R.
        few = EXACT_WITH_SPARSIFIER if dense else EXACT_WITH_SPARSIFIER_IF_NOT_DENSE
        return EM() if operators[0].shape[1] <= few else CoFEM()
    return cheapest(*operators[0].shape, dense=dense)


def cheapest(n_rows: int, n_columns: int, *, dense: bool) -> Method:
    """Return exact EM where its factorisation costs less than CoFEM's products at that size.

    Examples
    --------
    >>> cheapest(50, 200, dense=True).name
    'woodbury'
    >>> cheapest(20_000, 60_000, dense=False).name
    'cofem'
    """
    exact_em = EM_OPERATIONS * n_columns**3
    exact_woodbury = 2.0 * n_rows**2 * n_columns + n_rows**3
    if not dense:
        per_row = TRANSFORM_OPERATIONS * n_columns * np.log2(n_columns + 2)
    else:
        per_row = min(4.0 * n_rows * n_columns, 2.0 * n_columns**2)
    covariance_free = ROWS_PER_ITERATION * per_row + OVERHEAD
    if dense:  # see EXACT_FOR_DENSE
        covariance_free = max(covariance_free, min(EXACT_FOR_DENSE * covariance_free, EXACT_LIMIT))
    if min(exact_em, exact_woodbury) > covariance_free:
        return CoFEM()
    return EM() if exact_em <= exact_woodbury else Woodbury()


def refuse_unfit(method: Method, model: Model) -> None:
    """Raise ValueError for what the method cannot fit; ``method.takes`` says what it can."""
    if method.name == Banded.name:
        _refuse_not_banded(model)
    asked = {
        "joint": ("joint tasks", len(model.tasks) > 1),
        "groups": ("groups", model.tie.labels is not None),
        "coupling": ("a coupling", model.tie.coupling is not None),
        "nonnegative": ("nonnegative=True", model.nonnegative),
        "sparsifier": ("a sparsifier", model.sparsifier is not None),
    }
    for feature, (words, wanted) in asked.items():
        if wanted and feature not in method.takes:
            raise ValueError(f'method "{method.name}" does not take {words}; use "cofem"')


def careful(method: Method, model: Model) -> Method:
    """Return what takes CoFEM's place where columns are coherent; other methods are exact.

    If expectation propagation fails on the columns, one number for all cavities is wrong for them,
    and a few probes do not find out which of several similar columns are non-zero. Exact moments
    do, and where "auto" would choose them they also cost less. Elsewhere 16 probes, solved to 1e-3
    and without shrinkage, give the answers of exact EM (``docs/notes/probes.md``). Options that the
    user has changed are not replaced.
    """
    own, usual = vars(method), vars(CoFEM())
    same = method.name == CoFEM.name and all(
        isinstance(own[name], type(value)) and own[name] == value for name, value in usual.items()
    )
    if not same:
        return method
    chosen = choose_method("auto", model)
    return CoFEM(**COHERENT) if chosen.name == CoFEM.name else chosen


def can_sample(model: Model) -> bool:
    """Whether chains are made for this model: one task, real, a matrix that is not large."""
    rows, columns = model.tasks[0].operator.shape
    return (
        model.is_plain
        and not backend.is_complex(model.like)
        and not model.tasks[0].operator.splits_rows
        and min(rows, columns) > 2
        and rows * columns <= LARGEST_MATRIX
        and compiled_here()
    )


def is_banded(operator: LinearOperator) -> bool:
    """Whether there are exact recursions in linear time for this Φ."""
    return isinstance(operator, Autoregressive) and len(operator.coefficients) <= 2


def _refuse_not_banded(model: Model) -> None:
    unfit = [t.operator for t in model.tasks if not is_banded(t.operator)]
    if unfit and any(t.intercept is not None or t.weights is not None for t in model.tasks):
        raise ValueError(
            'method "banded" takes neither intercept=True nor noise that differs between rows; '
            'use "cofem" or "auto"'
        )
    if unfit:
        raise ValueError(
            'method "banded" needs phi to be an operators.Autoregressive of order 1 or 2, '
            f"got {unfit[0]!r}"
        )
