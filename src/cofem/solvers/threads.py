"""Threads that are kept: starting new ones for every solve, with their memory, takes time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cofem import backend

Item = TypeVar("Item")
Value = TypeVar("Value")

_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def in_threads(
    function: Callable[[Item], Value], items: Sequence[Item], threads: int | None = None
) -> list[Value]:
    """Return the function of every item, computed by as many threads as there are cores.

    Meant for compiled work that lets go of Python's lock. The function must not call
    this one: it would wait for itself.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = backend.n_threads() if threads is None else threads
    if threads == 1 or len(items) <= 1:
        return [function(item) for item in items]
    pool = _pools.get(threads)
    if pool is None:
        # Two fits may come here at once; the pool that loses is dropped, unused.
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, "cofem"))
    return list(pool.map(function, items))


def as_done(
    function: Callable[[Item], Value], items: Sequence[Item], threads: int
) -> Iterator[Value]:
    """Yield the function of every item, in order and as soon as it is known.

    The threads are its own, so the function may itself use :func:`in_threads`. If it raises,
    items that have not begun are dropped.

    Examples
    --------
    >>> list(as_done(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    if threads == 1 or len(items) <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        try:
            yield from pool.map(function, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
