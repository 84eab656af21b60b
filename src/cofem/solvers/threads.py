"""Threads that stay: starting them for every solve costs time, and their memory with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cofem import backend

Item = TypeVar("Item")
Value = TypeVar("Value")

_pools: dict[int, ThreadPoolExecutor] = {}
_inside = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def in_threads(
    function: Callable[[Item], Value], items: Sequence[Item], most: int | None = None
) -> list[Value]:
    """Return the function of every item, computed by as many threads as there are cores.

    Meant for compiled work that lets go of Python's lock; ``most`` limits the threads
    where there is little of it. What such a thread asks for in turn it does itself.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = min(backend.n_threads(), len(items) if most is None else most)
    if threads <= 1 or len(items) == 1 or getattr(_inside, "pool", False):
        return [function(item) for item in items]
    threads = backend.n_threads() if most is None else threads
    pool = _pools.get(threads)
    if pool is None:
        # Two fits may come here at once; the pool that loses is dropped, unused.
        made = ThreadPoolExecutor(threads, "cofem", initializer=_enter)
        pool = _pools.setdefault(threads, made)
    return list(pool.map(function, items))


def _enter() -> None:
    _inside.pool = True
