"""A matrix whose rows lie on several machines."""

from __future__ import annotations

from typing import Any, final

from cofem.backend import Array
from cofem.backend.distributed import ALONE, Group, TorchGroup, gather_rows
from cofem.operators.adapters import as_operator
from cofem.operators.base import LinearOperator


@final
class RowSplit(LinearOperator):
    """The operator whose rows are spread over the processes of a group.

    Every process holds some consecutive rows of Φ, in the order of the ranks, and all of
    y and z. A Gram product costs one all-reduce of D numbers a row; everything else in a
    fit runs on every process alike.

    Parameters
    ----------
    local : array or operator (N_r, D)
        This process's rows.
    process_group : torch.distributed.ProcessGroup or None
        None: this process has all rows.

    Examples
    --------
    >>> import numpy as np
    >>> RowSplit(np.eye(2), None).forward(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    # All processes must make collective calls in the same order, so only one thread may.
    splits_rows = False
    exact_row_norms = False

    def __init__(self, local: Any, process_group: Any) -> None:
        self.local = as_operator(local, "local")
        self._group: Group = ALONE if process_group is None else TorchGroup(process_group)
        shapes = self._group.gather(self.local.shape)
        widths = sorted({shape[1] for shape in shapes})
        if len(widths) != 1:
            raise ValueError(f"local must have as many columns on every process, got {widths}")
        counts = [shape[0] for shape in shapes]
        self._first = sum(counts[: self._group.rank])
        self.shape = (sum(counts), widths[0])
        self.is_complex = any(self._group.gather(self.local.is_complex))
        self.trusted = all(self._group.gather(self.local.trusted))
        self.exact_column_norms = self.local.exact_column_norms

    def _forward(self, x: Array) -> Array:
        return gather_rows(self._group, self.local.forward(x))

    def _adjoint(self, y: Array) -> Array:
        mine = y[..., self._first : self._first + self.local.shape[0]]
        return self._group.sum(self.local.adjoint(mine))

    def _gram(self, x: Array) -> Array:
        return self._group.sum(self.local.gram(x))

    def _column_norms_squared(self, like: Array) -> Array:
        return self._group.sum(self.local.column_norms_squared(like))

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a RowSplit operator belongs to its process and cannot be pickled")
