"""How much memory a device has left, what a computation takes of it, and a limit to that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cofem.backend.arrays import Array
from cofem.backend.launches import forget_engines, has_engine


def device_memory_left(x: Array) -> float | None:
    """Return how many bytes the device of ``x`` can still give, or None where it does not tell.

    Examples
    --------
    >>> import numpy as np
    >>> device_memory_left(np.zeros(2)) is None
    True
    """
    if not has_engine(x):
        return None
    import torch

    free, _ = torch.cuda.mem_get_info(x.device)
    # What torch keeps for itself and does not use is as good as free.
    idle = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
    return float(free + idle)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a library says with ``error`` that its device's memory is full.

    Examples
    --------
    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    True
    >>> is_out_of_memory(RuntimeError("shapes differ"))
    False
    """
    # torch's, CuPy's and JAX's own exceptions, and what cuFFT says when it has no work space.
    words = ("out of memory", "OutOfMemory", "RESOURCE_EXHAUSTED", "CUFFT_ALLOC_FAILED")
    return any(word in f"{type(error).__name__}: {error}" for word in words)


@contextlib.contextmanager
def named_if_full(work: str, advice: str) -> Iterator[None]:
    """Turn a library's error about a device's full memory into a MemoryError that names the work.

    What is kept for later solves is let go: it stands in the way of trying again.

    Examples
    --------
    >>> with named_if_full("10 cells", "pass fewer"):
    ...     raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
    Traceback (most recent call last):
    MemoryError: the device's memory is full: no room for 10 cells; pass fewer
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or not is_out_of_memory(error):
            raise
        forget_engines()
        raise MemoryError(f"the device's memory is full: no room for {work}; {advice}") from error


class DeviceMemory:
    """The memory that torch takes on a CUDA device, counted from now on.

    Parameters
    ----------
    device : str
        "cuda", or "cuda:1".
    limit : float
        Bytes: whoever asks for more gets torch's error "out of memory".
    """

    def __init__(self, device: str, limit: float) -> None:
        import torch

        index = torch.device(device).index
        self._device = torch.cuda.current_device() if index is None else index
        forget_engines()
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(self._device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(limit / total, 1.0), self._device)
        self._cuda: Any = torch.cuda
        self._before = int(torch.cuda.memory_allocated(self._device))
        self.reset()

    def reset(self) -> None:
        """Forget the peaks so far."""
        self._cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """Return the largest amount of memory in use since the last reset, in bytes."""
        return int(self._cuda.max_memory_allocated(self._device)) - self._before
