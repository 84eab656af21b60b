"""What the machine offers: threads, memory, devices, and how much work a device wants at once."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import threadpoolctl

from cofem.backend.arrays import Array, device_of, is_numpy

# Measured on an H200 with D = 10^8: X, R and P, right-hand sides and solutions, starts,
# spectra and the work space of the FFT.
ARRAYS_OF_A_BATCH = 14


def n_threads() -> int:
    """How many threads to use on a CPU: ``COFEM_NUM_THREADS``, or the cores we may run on."""
    asked = os.environ.get("COFEM_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> float | None:
    """Return the bytes of memory this machine has, or None where it does not tell.

    Examples
    --------
    >>> found = physical_memory()
    >>> found is None or found > 1e8
    True
    """
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def steps_between_looks(x: Array) -> int:
    """How many solver steps to queue before asking the device whether it is done."""
    return 1 if is_numpy(x) or "cpu" in str(device_of(x)).lower() else 8


def rows_at_once(x: Array, n_columns: int) -> int:
    """How many systems of ``n_columns`` unknowns to solve together, like ``x``.

    A CPU works row by row and gains nothing from more; a GPU wants as many as its
    memory holds, with :data:`ARRAYS_OF_A_BATCH` arrays of its size alive at a time.

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
    size = ARRAYS_OF_A_BATCH * n_columns * x.dtype.itemsize
    return int(min(64, max(1, 0.8 * memory // size)))


class _OneBlasThread:
    """One BLAS thread as long as anybody wants it.

    The number of BLAS threads belongs to the process. If every fit put back what it had
    found, the last of several in threads would put back the limit of another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limited: Any = None

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._limited = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limited.restore_original_limits()


_one_blas_thread = _OneBlasThread()


def few_blas_threads(entries: int) -> contextlib.AbstractContextManager[None]:
    """Keep BLAS to one thread while matrices of that many entries are worked on.

    Threads that share a small product spend more time waiting for each other than
    they save, and many times more when another program wants the same cores.
    """
    return contextlib.nullcontext() if entries > 1 << 19 else _one_blas_thread.wanted()


@dataclass(frozen=True)
class Device:
    """A device of an array library.

    Attributes
    ----------
    name : str
        Library and device, for people.
    put : function
        Moves a NumPy array there.
    wait : function
        Waits until an array there has been computed.
    """

    name: str
    put: Callable[[np.ndarray], Array]
    wait: Callable[[Array], Any]


def devices() -> list[Device]:
    """Return what the array libraries that are installed can compute on.

    Examples
    --------
    >>> devices()[0].name.startswith("numpy")
    True
    """
    found = [Device(f"numpy, {n_threads()} threads", np.asarray, lambda x: None)]
    if importlib.util.find_spec("torch") is not None:
        found += _torch_devices()
    if importlib.util.find_spec("jax") is not None:
        import jax

        for device in jax.devices():
            put = _bound(jax.device_put, device=device)
            found.append(Device(f"jax, {device}", put, jax.block_until_ready))
    return found


def _torch_devices() -> list[Device]:
    import torch

    found = [Device("torch, cpu", _bound(torch.asarray, device="cpu"), lambda x: None)]
    for i in range(torch.cuda.device_count()):
        put = _bound(torch.asarray, device=f"cuda:{i}")
        name = f"torch, cuda:{i} ({torch.cuda.get_device_name(i)})"
        found.append(Device(name, put, lambda x: torch.cuda.synchronize(x.device)))
    return found


def _bound(function: Callable[..., Array], **options: Any) -> Callable[[np.ndarray], Array]:
    return lambda x: function(x, **options)
