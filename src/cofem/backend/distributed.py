"""Several processes on one problem, through torch.distributed (gloo on CPUs, NCCL on GPUs)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from cofem.backend.arrays import Array, from_numpy, is_numpy, namespace, to_numpy

T = TypeVar("T")


class Group(Protocol):
    """The processes that share a piece of work."""

    rank: int
    size: int

    def sum(self, x: Array) -> Array:
        """Return the sum of ``x`` over all processes, the same bits on each."""
        ...

    def gather(self, thing: T) -> list[T]:
        """Return what every process has, by rank. For small things."""
        ...


class Alone:
    """One process: the work is not shared.

    Examples
    --------
    >>> Alone().gather(3)
    [3]
    """

    rank = 0
    size = 1

    def sum(self, x: Array) -> Array:
        """Return x."""
        return x

    def gather(self, thing: T) -> list[T]:
        """Return the one thing."""
        return [thing]


ALONE = Alone()


class TorchGroup:
    """The processes of a torch.distributed process group.

    Parameters
    ----------
    process_group : torch.distributed.ProcessGroup
        ``torch.distributed.group.WORLD`` for all of them.

    Attributes
    ----------
    bytes_reduced : int
        Size of all arrays that were added up so far: a ring moves twice that per process.
    """

    def __init__(self, process_group: Any) -> None:
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "process_group: torch.distributed is not initialised; start the program with "
                "torchrun and call torch.distributed.init_process_group first"
            )
        if not isinstance(process_group, dist.ProcessGroup):
            raise TypeError(
                "process_group must be a torch.distributed.ProcessGroup, such as "
                f"torch.distributed.group.WORLD, got {type(process_group).__name__}"
            )
        self._group = process_group
        self.rank = int(dist.get_rank(process_group))
        self.size = int(dist.get_world_size(process_group))
        self.bytes_reduced = 0

    def sum(self, x: Array) -> Array:
        """Return the sum over all processes; on CPUs through host memory."""
        import torch
        import torch.distributed as dist

        tensor: Any = x if not is_numpy(x) and torch.is_tensor(x) else torch.from_numpy(to_numpy(x))
        tensor = tensor.clone()
        # gloo has no complex sums.
        flat = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        with _explained():
            dist.all_reduce(flat, group=self._group)
        self.bytes_reduced += flat.numel() * flat.element_size()
        if is_numpy(x):
            return tensor.numpy()
        return tensor if torch.is_tensor(x) else from_numpy(tensor.numpy(), x)

    def gather(self, thing: T) -> list[T]:
        """Return what every process has."""
        import torch.distributed as dist

        everything: list[Any] = [None] * self.size
        with _explained():
            dist.all_gather_object(everything, thing, group=self._group)
        return everything


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what to do when a process of the group has died: torch only tells of its connections."""
    try:
        yield
    except RuntimeError as error:  # what torch.distributed raises, or its subclasses
        why = str(error).strip().splitlines() or ["no reason given"]
        raise RuntimeError(
            "process_group: another process has ended or cannot be reached; start all of them "
            f"again (with checkpoint= they go on where they were): {why[0]}"
        ) from error


def gather_rows(group: Group, x: Array) -> Array:
    """Return the processes' parts (…, n_r) side by side, (…, Σ n_r)."""
    if group.size == 1:
        return x
    parts = group.gather(to_numpy(x))
    xp = namespace(x)
    return xp.concat([from_numpy(part, x) for part in parts], axis=-1)
