"""Numbers on their way from a device to the host, so that one wait serves several."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.arrays import Array, to_numpy


class Later:
    """An array whose numbers the host will want: under way at once, waited for when asked.

    From a CUDA device the copy is queued behind the work that makes the numbers, and the host
    goes on. What was queued before a wait is there after it: the other numbers then come free.

    Examples
    --------
    >>> Later(np.ones(2)).numpy()
    array([1., 1.])
    """

    waits = 0
    """How often the host has waited for a device here; for benchmarks."""

    def __init__(self, x: Array) -> None:
        self._ready: Any = None
        if not (compat.is_torch_array(x) and x.device.type == "cuda"):
            self._held: Any = to_numpy(x)
            return
        import torch

        self._held = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        self._held.copy_(x, non_blocking=True)
        self._ready = torch.cuda.Event()
        self._ready.record(torch.cuda.current_stream(x.device))

    def numpy(self) -> np.ndarray:
        """Wait until the numbers are there, and return them."""
        if self._ready is not None:
            if not self._ready.query():
                Later.waits += 1
                self._ready.synchronize()
            self._ready = None
        held: np.ndarray = to_numpy(self._held)
        return held
