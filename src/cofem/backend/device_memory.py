"""How much memory a computation takes on its device, and a limit to it."""

from __future__ import annotations

from typing import Any

from cofem.backend.launches import forget_engines


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
