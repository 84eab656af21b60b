"""Whether a fit needs more memory than there is: checked before it starts, not hours later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cofem import backend
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Model
from cofem.operators import Dense

# Arrays that conjugate gradients hold for every row: x, r, p, the product, the right-hand side,
# and what the operator needs to compute the product.
CG_ARRAYS = 6


def refuse_too_large(model: Model, method: Method) -> None:
    """Raise MemoryError if the method needs more than this machine has, or its GPU has left."""
    on_host = backend.is_numpy(model.like)
    most = backend.physical_memory() if on_host else backend.device_memory_left(model.like)
    if most is None:
        return
    need = bytes_needed(model, method)
    needs = NEEDS[method.name]
    if need <= most:
        return
    raise MemoryError(
        f'method "{method.name}" needs about {_size(need)} for {needs.what(model)}, and '
        f"{'this machine has' if on_host else _device(model) + ' has left'} {_size(most)}: "
        f"{needs.way_out(method)}"
    )


def bytes_needed(model: Model, method: Method) -> float:
    """Return about how many bytes a fit holds at its peak, its input not counted."""
    return float(NEEDS[method.name].bytes(model, method))


@dataclass(frozen=True)
class Needs:
    """The memory of a method: how many bytes, for which arrays, and what to do against it."""

    bytes: Callable[[Model, Any], float]
    what: Callable[[Model], str]
    way_out: Callable[[Any], str]


def _item(model: Model) -> int:
    return 16 if backend.is_complex(model.like) else 8  # exact methods work in double


def _rows(model: Model) -> int:
    return max(task.operator.shape[0] for task in model.tasks)


def _made_dense(model: Model) -> int:
    """Return the number of entries of the operators that are turned into matrices."""
    return sum(
        0 if isinstance(family.operator, Dense) else family.operator.shape[0] * model.n_unknowns
        for family in model.families
    )


def _cholesky_bytes(model: Model, _: Method) -> float:
    # The Gram matrix, its sum with the prior, the factor and its inverse.
    squares = model.n_unknowns**2 * (len(model.families) + 3)
    images = 2 * model.n_precisions * model.n_unknowns * (model.sparsifier is not None)
    return float(_item(model) * (_made_dense(model) + squares + images))


def _woodbury_bytes(model: Model, _: Method) -> float:
    rows = _rows(model)
    return _item(model) * (_made_dense(model) + 3 * rows * model.n_unknowns + 3 * rows**2)


def _covariance_free_bytes(model: Model, method: CoFEM) -> float:
    block = method.block or backend.rows_at_once(model.like, model.n_unknowns)
    systems = min(block, max(method.n_probes, method.report_probes)) + len(model.tasks)
    narrow = backend.namespace(model.like).finfo(model.like.dtype).bits // 8
    width = 2 * narrow if backend.is_complex(model.like) else narrow
    arrays = CG_ARRAYS if backend.is_numpy(model.like) else backend.ARRAYS_OF_A_BATCH
    return float(width * arrays * systems * max(model.n_unknowns, model.n_precisions))


def _device(model: Model) -> str:
    return f"device {backend.device_of(model.like)}"


def _vectors(model: Model) -> str:
    return f"vectors of {max(model.n_unknowns, model.n_precisions):,}"


def _use_cofem(_: Method) -> str:
    return 'use method="cofem", which holds a few vectors'


def _lower_block(method: CoFEM) -> str:
    if method.block == 1:
        return _other_machine(method)
    return "lower block (cofem.CoFEM(block=1)), or pass float32 data"


def _other_machine(_: Method) -> str:
    return "pass float32 data, or use a machine with more memory"


def _some_vectors(count: int) -> Needs:
    return Needs(
        lambda model, _: _item(model) * count * max(model.n_unknowns, _rows(model)),
        _vectors,
        _other_machine,
    )


NEEDS = {
    "em": Needs(
        _cholesky_bytes, lambda m: f"matrices of {m.n_unknowns:,} × {m.n_unknowns:,}", _use_cofem
    ),
    "woodbury": Needs(
        _woodbury_bytes, lambda m: f"matrices of {_rows(m):,} × {m.n_unknowns:,}", _use_cofem
    ),
    "cofem": Needs(_covariance_free_bytes, _vectors, _lower_block),
    "banded": Needs(
        lambda model, _: _item(model) * 20 * len(model.tasks) * model.n_unknowns,
        _vectors,
        _other_machine,
    ),
    "sequential": _some_vectors(30),  # and d² for the d coordinates that it finds
    "amp": _some_vectors(20),
    "vi": _some_vectors(20),
}


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
