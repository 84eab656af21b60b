"""How a file knows its operator again: a few sums of products with fixed random vectors.

Two vectors v of fixed random normal numbers are multiplied by Φ; the entries of Φv, each times
another fixed normal number, are added up in eight sums. With the two ‖Φv‖ these
are eighteen numbers, complex ones where Φ is.

How sure is it? The sums of two unrelated matrices differ by about their own size, so that another
matrix passes with a probability near (10⁻⁴)¹⁶. A matrix Φ + Δ is told from Φ if ‖Δ‖ exceeds some
10⁻⁴ of ‖Φ‖ (Frobenius norms): other rows, other columns, another order or sign of them. A smaller
change can pass, as of a single column among 10⁸, or of columns that are faint beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cofem import backend
from cofem.model.model import Task
from cofem.operators import LinearOperator
from cofem.operators.row_split import RowSplit

PRODUCTS, SUMS = 2, 8
# Relative to ‖Φv‖. Single precision is off by 1e-7 and a bit for long sums, finufft in single
# precision by 1e-6; nothing that rounds comes near this.
TOLERANCE = 1e-4


def fingerprints(tasks: Sequence[Task]) -> np.ndarray | None:
    """Return one row for every task; None if there are none, or they are on several machines.

    A product of an operator whose rows are spread over processes is made by all of them
    together, and a file is often written by one alone.
    """
    if not tasks or any(_is_spread(task.operator) for task in tasks):
        return None
    made: dict[int, np.ndarray] = {}
    for task in tasks:
        if id(task.operator) not in made:  # tasks alike share their operator
            made[id(task.operator)] = fingerprint(task.operator, task.y)
    return np.stack([made[id(task.operator)] for task in tasks])


def fingerprint(op: LinearOperator, like: Any) -> np.ndarray:
    """Return the numbers of an operator, for arrays of the kind of ``like``.

    Examples
    --------
    >>> from cofem.operators import DCT
    >>> once, again = fingerprint(DCT(64), np.zeros(64)), fingerprint(DCT(64), np.zeros(64, "f"))
    >>> once.shape, bool(np.allclose(once, again, rtol=0, atol=1e-5 * once.max()))
    ((36,), True)
    """
    rows, columns = op.shape
    xp = backend.namespace(like)
    single = backend.real_dtype(like.dtype, xp) == xp.float32
    numbers: list[float] = []
    for k in range(PRODUCTS):
        # This generator's numbers are the same in every version of NumPy, by its promise.
        random = np.random.RandomState(20_080 + k)
        v = random.standard_normal(columns).astype("float32" if single else "float64")
        image = backend.to_numpy(op.forward(backend.from_numpy(v, like)))
        weighted = image * random.standard_normal(rows)
        sums = [complex(np.sum(weighted[first::SUMS])) for first in range(SUMS)]
        size = float(np.linalg.norm(image))
        numbers += [size, 0.0, *(part for s in sums for part in (s.real, s.imag))]
    return np.asarray(numbers)


def refuse_another(path: Any, tasks: Sequence[Task], known: Any) -> None:
    """Refuse operators that are not those of the file; without tasks there is nothing to do."""
    found = None if known is None else fingerprints(tasks)
    if found is None:
        return
    if known.shape != found.shape or known.dtype.kind != "f" or not np.all(np.isfinite(known)):
        raise ValueError(f"{path} is damaged: its fingerprint of phi is not one")
    length = found.shape[1] // PRODUCTS
    for i, (a, b) in enumerate(zip(known, found, strict=True)):
        pairs = zip(a.reshape(PRODUCTS, length), b.reshape(PRODUCTS, length), strict=True)
        apart = max(_distance(one, other) for one, other in pairs)
        if not apart <= TOLERANCE:
            which = f" of task {i}" if len(found) > 1 else ""
            raise ValueError(
                f"phi{which} is not the one that the posterior was fitted with: it has the right "
                f"shape, but its products with fixed vectors differ by {apart:.1e} of their size, "
                f"where rounding leaves at most {TOLERANCE:.0e}"
            )


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference over the norm of the product, which comes first."""
    size = max(one[0], other[0])
    return float(np.max(np.abs(one - other)) / size) if size > 0 else 0.0


def _is_spread(op: Any) -> bool:
    """Whether an operator is one of rows on several machines, or made of one."""
    if isinstance(op, RowSplit):
        return True
    parts = vars(op).values() if isinstance(op, LinearOperator) else ()
    inner = [p for v in parts for p in (v if isinstance(v, (list, tuple)) else (v,))]
    return any(_is_spread(p) for p in inner if isinstance(p, LinearOperator))
