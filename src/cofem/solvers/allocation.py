"""Where large arrays are placed: in memory that the process already has, at shifted addresses."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

# The largest threshold of glibc's rule on 64-bit machines is 32 MiB.
LARGEST = (32 << 20) - (1 << 16)

# Bytes between arrays that are read together, a few lines of the cache.
APART = 320


@cache
def keep_freed_memory() -> None:
    """Have arrays of a few megabytes come from memory that is already there.

    glibc returns freed memory to the system from some size on, and the next array pays a
    page fault for every four kilobytes: at D = 2^17 a tenth of a fit. How much it keeps it
    learns: up to twice the largest block that was ever mapped and freed (mallopt(3),
    M_MMAP_THRESHOLD). So we map and free one, once; nothing is written to it. Where malloc
    follows another rule nothing happens.
    """
    np.empty(LARGEST, np.uint8)


def staggered(count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[np.ndarray]:
    """Return arrays, not initialised, that lie at different places of a memory page.

    Large arrays all begin at the same place, and if D is a power of two the same entry of
    each competes for the same lines of the cache: a pass over five of them is a quarter
    slower than over arrays that are shifted against each other.

    Examples
    --------
    >>> first, second = staggered(2, (4, 1024), np.dtype(np.float32))
    >>> (second.ctypes.data - first.ctypes.data) % 4096
    320
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(count * (size + APART), np.uint8)
    return [memory[i * (size + APART) :][:size].view(dtype).reshape(shape) for i in range(count)]
