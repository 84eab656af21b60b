"""Few launches and few waits on a GPU, without importing torch before it is needed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import threading
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.arrays import Array, to_numpy

_forgetters: list[Callable[[], None]] = []
_trial = threading.local()


def has_engine(x: Array) -> bool:
    """Whether arrays like ``x`` have fused kernels and graphs.

    That needs torch on CUDA, and Triton, which torch brings along on Linux.
    """
    return bool(compat.is_torch_array(x)) and x.device.type == "cuda" and _triton_is_there()


@functools.cache
def _triton_is_there() -> bool:
    return importlib.util.find_spec("triton") is not None


def is_recording(x: Array) -> bool:
    """Whether operations on ``x`` are being recorded, so that nobody may look at its numbers.

    Examples
    --------
    >>> import numpy as np
    >>> is_recording(np.zeros(2))
    False
    """
    if getattr(_trial, "on", False):
        return True
    if not has_engine(x):
        return False
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


@contextlib.contextmanager
def as_if_recording() -> Iterator[None]:
    """Let code in this thread behave as it does in a recording, to see whether it can be one."""
    _trial.on = True
    try:
        yield
    finally:
        _trial.on = False


def on_forget(forget: Callable[[], None]) -> None:
    """Have :func:`forget_engines` call ``forget`` as well."""
    _forgetters.append(forget)


def forget_engines() -> None:
    """Let go of the arrays and graphs that are kept for later on a GPU."""
    for forget in _forgetters:
        forget()


def in_one_launch(
    function: Callable[..., tuple[Array, ...]], like: Array
) -> Callable[..., tuple[Array, ...]]:
    """Return ``function``, which on a GPU is done at once from its second call on.

    For functions of many small operations that are called again and again with arrays of
    the same shapes: the operations are recorded and later launched together, since
    launching each takes longer than doing it. Elsewhere it is the function itself.

    Parameters
    ----------
    function : function of a module
        Pure: new arrays from its arguments, by operations that are the same whatever the
        numbers are. It may not look at one, nor bring any from the host. What it is given by
        name is hashable and decides the operations: each value is recorded apart.
    like : array
        Decides whether there is a GPU.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.ones(2)
    >>> in_one_launch(lambda x, y, times: (times * x + y,), x)(x, x, times=3)
    (array([4., 4.]),)
    """
    if not has_engine(like):
        return function
    from cofem.backend._torch import recorded

    return functools.partial(recorded.in_one_launch, function)


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
