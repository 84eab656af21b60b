"""CUDA graphs: what is done more than once to the same arrays becomes one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Graphs:
    """Work that is done again and again on arrays that stay where they are.

    Parameters
    ----------
    wanted : bool
        Whether to capture anything; without it all work is done as it comes.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._pool = torch.cuda.graph_pool_handle() if wanted else None
        self._graphs: dict[Any, Any] = {}

    def do(self, name: Any, work: Callable[..., None], *arguments: Any) -> None:
        """Do it; from the second time that ``name`` comes as a graph.

        The first time compiles the kernels and lets the FFT library plan, which a
        capture could not.
        """
        if not self._wanted:
            work(*arguments)
            return
        if name not in self._graphs:
            self._graphs[name] = None
            work(*arguments)
            return
        if self._graphs[name] is None:
            self._graphs[name] = captured(lambda: work(*arguments), self._pool)[0]
        self._graphs[name].replay()

    def forget(self) -> None:
        """Record all work anew."""
        self._graphs.clear()


class Recording:
    """A captured graph, and the arrays that it reads: they must not be freed before it."""

    def __init__(self, graph: Any, read: list[Any]) -> None:
        self._graph, self._read = graph, read

    def replay(self) -> None:
        """Do the work again, on the same addresses."""
        self._graph.replay()


def captured(work: Callable[[], Any], pool: Any = None) -> tuple[Recording, Any]:
    """Return the graph of ``work``, not run yet, and what ``work`` returned."""
    graph = torch.cuda.CUDAGraph()
    watched = _ArraysRead()
    # Other threads may go on with work of their own meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"), watched:
        found = work()
    return Recording(graph, watched.read()), found


def plain_hook(mode: type) -> type:
    """Give a dispatch mode its method ``hook``, as it is.

    What stands as ``__torch_dispatch__`` in the body of a class is wrapped by torch in a function
    of ``torch._dynamo``, whose import takes seconds at the first call.
    """
    setattr(mode, "__torch_dispatch__", mode.hook)  # type: ignore[attr-defined]  # noqa: B010
    return mode


@plain_hook
class _ArraysRead(TorchDispatchMode):  # type: ignore[misc]
    """Notes which arrays operations read that were there before.

    An operator may make a table, keep it for a while and drop it for a newer one. The graph
    would go on reading where it was.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: set[int] = set()
        self._read: dict[int, Any] = {}

    def hook(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Do the operation."""
        given = _storages([arguments, options or {}])
        for place, tensor in given.items():
            if place not in self._made:
                self._read[place] = tensor
        found = function(*arguments, **(options or {}))
        self._made.update(place for place in _storages(found) if place not in self._read)
        return found

    def read(self) -> list[Any]:
        """Return the arrays."""
        return list(self._read.values())


def _storages(things: Any) -> dict[int, Any]:
    leaves = torch.utils._pytree.tree_leaves(things)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return {t.untyped_storage()._cdata: t for t in tensors if t.layout == torch.strided}
