"""What the parts of the GPU benchmark share: the device, its description, and tables."""

from __future__ import annotations

import datetime
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, TypeVar

import torch

from cofem.backend import Later

ON_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_CUDA else "cpu")
# "tiny" is for trying the whole script without a GPU: its figures say nothing.
SCALES = ("full", "quick", "tiny")
Item = TypeVar("Item")


def pick(scale: str, full: Item, quick: Item, tiny: Item) -> Item:
    """Return what belongs to the scale.

    >>> pick("quick", 3, 2, 1)
    2
    """
    return (full, quick, tiny)[SCALES.index(scale)]


def synchronize() -> None:
    """Wait for the device."""
    if ON_CUDA:
        torch.cuda.synchronize()


def empty_cache() -> None:
    """Give back what torch keeps of the device's memory."""
    if ON_CUDA:
        torch.cuda.empty_cache()


def forget_peak() -> None:
    """Begin to look for the most memory anew."""
    if ON_CUDA:
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> float:
    """Return the most memory that was allocated on the device, in GB."""
    return torch.cuda.max_memory_allocated() / 1e9 if ON_CUDA else float("nan")


def header(command: str) -> str:
    """Return a title, and what was measured: date, device and versions."""
    names = ("torch", "triton", "numpy", "jax", "cupy", "array-api-strict")
    versions = ", ".join(f"{name} {_version(name)}" for name in names)
    device = torch.cuda.get_device_name() if ON_CUDA else platform.machine()
    return (
        f"# {'On one GPU' if ON_CUDA else 'Without a GPU'}\n\n"
        f"{datetime.date.today().isoformat()}, {device}, "
        f"Python {platform.python_version()}, {versions}, CUDA {torch.version.cuda}. "
        f"Command: `python benchmarks/{command}`.\n"
    )


def _version(name: str) -> str:
    # CuPy's packages are named after the CUDA they are made for.
    packages = metadata.packages_distributions().get(name.replace("-", "_"), [name])
    try:
        return metadata.version(packages[0])
    except metadata.PackageNotFoundError:
        return "missing"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def seconds(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the first call's time, the median of the others, and the last result."""
    times = []
    for _ in range(repeats + 1):
        synchronize()
        began = time.perf_counter()
        found = work()
        synchronize()
        times.append(time.perf_counter() - began)
    return times[0], statistics.median(times[1:]), found


def waits_of(work: Callable[[], Any]) -> int:
    """Return how often the host waits for the device: by torch's own check, and by ours."""
    if not ON_CUDA:
        work()
        return 0
    before = Later.waits
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    checked = sum("synchronizing CUDA" in str(w.message) for w in seen)
    return checked + Later.waits - before
