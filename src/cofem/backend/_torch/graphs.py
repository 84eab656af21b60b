"""CUDA graphs: what is done more than once to the same arrays becomes one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


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


def captured(work: Callable[[], Any], pool: Any = None) -> tuple[Any, Any]:
    """Return the graph of ``work``, not run yet, and what ``work`` returned."""
    graph = torch.cuda.CUDAGraph()
    # Other threads may go on with work of their own meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        found = work()
    return graph, found
