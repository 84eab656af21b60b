"""Whether a fit will fit into memory, said before it starts rather than hours later."""

from __future__ import annotations

import os

from cofem import backend
from cofem.inference.methods import EM, Banded, CoFEM, Method, Sequential, Woodbury
from cofem.inference.model import Model
from cofem.operators import Dense


def refuse_too_large(model: Model, method: Method) -> None:
    """Raise MemoryError if the method needs more than this machine has.

    Only work on the host is judged: a device reports its own memory when it is full.
    """
    most = physical_memory()
    if most is None or not backend.is_numpy(model.like):
        return
    need = bytes_needed(model, method)
    if need <= most:
        return
    raise MemoryError(
        f'method "{method.name}" needs about {_size(need)} for {_what(model, method)}, and this '
        f"machine has {_size(most)}: {_way_out(model, method)}"
    )


def bytes_needed(model: Model, method: Method) -> float:
    """Return about how many bytes a fit holds at its peak, its input not counted."""
    unknowns, tasks = model.n_unknowns, len(model.tasks)
    numbers = model.n_precisions
    item = 16 if backend.is_complex(model.like) else 8  # exact methods work in double
    rows = max(task.operator.shape[0] for task in model.tasks)
    dense = sum(
        0 if isinstance(family.operator, Dense) else family.operator.shape[0] * unknowns
        for family in model.families
    )
    families = len(model.families)
    if isinstance(method, EM):
        # The Gram matrix, its sum with the prior, the factor and its inverse.
        return item * (dense + unknowns**2 * (families + 3) + 2 * numbers * unknowns * (
            model.sparsifier is not None
        ))
    if isinstance(method, Woodbury):
        return item * (dense + 3 * rows * unknowns + 3 * rows**2)
    if isinstance(method, CoFEM):
        block = method.block or backend.rows_at_once(model.like, unknowns)
        systems = min(block, max(method.n_probes, method.report_probes)) + tasks
        narrow = backend.namespace(model.like).finfo(model.like.dtype).bits // 8
        width = 2 * narrow if backend.is_complex(model.like) else narrow
        return float(width * 6 * systems * max(unknowns, numbers))
    if isinstance(method, Banded):
        return float(item * 20 * tasks * unknowns)
    if isinstance(method, Sequential):
        return float(item * 30 * unknowns)  # and d² for what it finds
    return float(item * 20 * max(unknowns, rows))


def physical_memory() -> float | None:
    """Return the bytes of memory this machine has, or None where it does not tell.

    Examples
    --------
    >>> found = physical_memory()
    >>> found is None or found > 1e8
    True
    """
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _what(model: Model, method: Method) -> str:
    d, n = model.n_unknowns, max(task.operator.shape[0] for task in model.tasks)
    if isinstance(method, EM):
        return f"matrices of {d:,} × {d:,}"
    if isinstance(method, Woodbury):
        return f"matrices of {n:,} × {d:,}"
    return f"vectors of {max(d, model.n_precisions):,}"


def _way_out(model: Model, method: Method) -> str:
    if isinstance(method, (EM, Woodbury)):
        return 'use method="cofem", which holds a few vectors'
    if isinstance(method, CoFEM) and method.block != 1:
        return "lower block (cofem.CoFEM(block=1)), or pass float32 data"
    return "pass float32 data, or use a machine with more memory"


def _size(count: float) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> _size(3.2e10)
    '32 GB'
    """
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} bytes"
