"""Few launches on a GPU: recorded functions, found without importing torch before it is needed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import threading
from collections.abc import Callable, Iterator

import array_api_compat as compat

from cofem.backend.arrays import Array

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
