"""What the machine offers: threads, devices, and how much work a device wants at once."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import threadpoolctl

from cofem.backend.arrays import Array, device_of, is_numpy


def n_threads() -> int:
    """How many threads to use on a CPU: ``COFEM_NUM_THREADS``, or the cores we may run on."""
    asked = os.environ.get("COFEM_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def steps_between_looks(x: Array) -> int:
    """How many solver steps to queue before asking the device whether it is done."""
    return 1 if is_numpy(x) or "cpu" in str(device_of(x)).lower() else 8


def rows_at_once(x: Array, n_columns: int) -> int:
    """How many systems of ``n_columns`` unknowns to solve together, like ``x``.

    A CPU works row by row and gains nothing from more; a GPU wants as many as its
    memory holds, with about 14 arrays of the batch's size alive at a time.

    Examples
    --------
    >>> import numpy as np
    >>> rows_at_once(np.zeros(1), 10**6)
    16
    """
    device = device_of(x)
    if getattr(device, "type", "") != "cuda":
        return 16
    import torch

    memory = torch.cuda.get_device_properties(device).total_memory
    return int(min(64, max(1, 0.8 * memory // (14 * n_columns * x.itemsize))))


def few_blas_threads(entries: int) -> contextlib.AbstractContextManager[Any]:
    """Keep BLAS to one thread while matrices of that many entries are worked on.

    Threads that share a small product spend more time waiting for each other than
    they save, and many times more when another program wants the same cores.
    """
    if entries > 1 << 19:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any]
    limited = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    return limited
