"""Functions of arrays that are called again and again, on CUDA: one launch for each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cofem.backend import launches
from cofem.backend._torch.graphs import captured

LARGEST = 1 << 27
"""Bytes of arguments: beside passes over more, launching operations costs nothing."""
MOST = 24
"""Recordings that are kept: a fit needs a handful."""

_recordings: dict[tuple[Any, ...], _Recording | None] = {}
_lock = threading.Lock()


class _Recording:
    """A function's operations on arguments of one kind, ready to be replayed."""

    def __init__(self, work: Callable[..., tuple[Any, ...]], arguments: Sequence[Any]) -> None:
        self._inputs = [torch.empty_like(a, memory_format=torch.contiguous_format)
                        for a in arguments]  # fmt: skip
        self._graph, self._outputs = captured(lambda: work(*self._inputs))

    def __call__(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        torch._foreach_copy_(self._inputs, list(arguments))
        self._graph.replay()
        # The next call overwrites the outputs.
        found = [torch.empty_like(kept) for kept in self._outputs]
        torch._foreach_copy_(found, self._outputs)
        return tuple(found)


def in_one_launch(
    function: Callable[..., tuple[Any, ...]], *arguments: Any, **constants: Any
) -> tuple[Any, ...]:
    """Return ``function(*arguments, **constants)``, see :func:`cofem.backend.in_one_launch`."""
    if sum(a.numel() * a.element_size() for a in arguments) > LARGEST:
        return function(*arguments, **constants)
    kinds = tuple((tuple(a.shape), a.dtype, a.device) for a in arguments)
    stream = torch._C._cuda_getCurrentRawStream(arguments[0].device.index)
    key = (function, kinds, tuple(constants.items()), stream)
    with _lock:  # one caller has it at a time
        known = key in _recordings
        recording = _recordings.pop(key, None)
    if not known:  # the first time compiles, which a capture could not
        found = function(*arguments, **constants)
    else:
        if recording is None:
            recording = _Recording(lambda *inputs: function(*inputs, **constants), arguments)
        found = recording(arguments)
    with _lock:
        _recordings[key] = recording
        while len(_recordings) > MOST:
            _recordings.pop(next(iter(_recordings)))
    return found


def forget() -> None:
    """Let go of all recordings."""
    with _lock:
        _recordings.clear()


launches.on_forget(forget)
