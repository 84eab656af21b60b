"""Whether somebody else's product may become part of a CUDA graph: tried, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cofem.backend import launches
from cofem.backend._torch.graphs import captured, plain_hook

# A replayed product may differ by rounding from the same product without a graph, because the
# library may choose another algorithm. A difference of this many units of rounding is accepted.
ROUNDINGS = 1e4
# Operations that wait for numbers: their results have shapes or values on the host.
_LOOKS = ("_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "unique_dim")

# Where entries are chosen by a condition, how many they are is a number too.
_CHOOSES = ("index", "index_put", "index_put_")


def can_be_replayed(product: Callable[[Any], Any], like: Any) -> bool:
    """Whether ``product`` of rows like these gives the same when it is recorded and replayed.

    It does not if it reads numbers on the host, takes numbers from there, or computes outside of
    torch. This is noticed in one of three ways: such an operation is called, the capture fails, or
    the replay gives the result for other rows.
    """
    rows = torch.randn_like(like)
    product(rows)  # makes tables and plans, which a capture could not
    try:
        with launches.as_if_recording(), _OnTheDevice():
            product(rows)
    except _LeavesTheDevice:
        return False
    try:
        graph, found = captured(lambda: product(rows))
    except Exception:  # whatever went wrong: from now on the function is called without a graph
        torch.cuda.synchronize()
        captured(lambda: rows.copy_(rows))  # ends what the failed capture has left open
        return False
    for _ in range(2):
        rows.copy_(torch.randn_like(like))
        graph.replay()
        wanted = product(rows)
        gap = torch.linalg.vector_norm(found - wanted)
        allowed = ROUNDINGS * torch.finfo(like.dtype).eps * torch.linalg.vector_norm(wanted)
        if not bool(gap <= allowed):
            return False
    return True


class _LeavesTheDevice(Exception):  # noqa: N818
    """What is asked for needs the host."""


@plain_hook
class _OnTheDevice(TorchDispatchMode):  # type: ignore[misc]
    """Refuses operations that look at numbers, or bring some from elsewhere.

    A capture that fails half-way leaves torch's random numbers unusable, so that most of
    the failures are found before.
    """

    def hook(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Do the operation, or refuse."""
        name = function.overloadpacket.__name__
        if name in _LOOKS or (name in _CHOOSES and _has_condition(arguments[1])):
            raise _LeavesTheDevice
        found = function(*arguments, **(options or {}))
        leaves = torch.utils._pytree.tree_leaves([arguments, options, found])
        # A number without axes is part of the launch.
        places = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.ndim}
        if len(places) > 1:
            raise _LeavesTheDevice
        return found


def _has_condition(indices: Any) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)
