"""One run of figure 2, in the process that is measured."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend, simulate
from cofem.backend.device_memory import DeviceMemory
from cofem.operators import Dense
from cofem.paper.contestants import ALL, SEQUENTIAL
from cofem.paper.isolated import DONE, peak_memory
from cofem.solvers.cg import warm_up

MOST_ITERATIONS = 300
NOT_REACHED = "not reached"


def trial(
    dictionary: str,
    sparsity: float,
    D: int,
    seed: int,
    method: str,
    device: str,
    iterations: int | None,
    target: float,
    memory_limit: float = math.inf,
) -> dict[str, Any]:
    """Fit one problem and return its time, memory and error.

    ``iterations`` None: until the NRMSE is below ``target`` per cent. ``memory_limit`` is
    for the memory of a GPU.
    """

    def make(D: int, seed: int) -> simulate.Problem:
        problem: simulate.Problem = getattr(simulate, dictionary)(D, seed, sparsity=sparsity)
        return problem

    # Compilation, the first calls of libraries and their own memory are not what the figure
    # shows. Kernels of a GPU are compiled for a size, those of a CPU for any.
    _fit(make(128, 0), method, 0, device, 3, None)
    warm_up()
    memory = _memory(device, memory_limit)
    if device != "cpu":
        _fit(make(D, 0), method, 0, device, 3, None)
        memory.reset()
    problem = make(D, seed)
    most = iterations or (MOST_ITERATIONS if method != SEQUENTIAL.name else 1000)
    wanted = None if iterations else target
    worked = time.process_time()
    seconds, post = _fit(problem, method, seed, device, most, wanted)
    worked = time.process_time() - worked
    error = simulate.nrmse(post.mean, problem.z)
    reached = wanted is None or error <= target
    return {
        "status": DONE if reached else NOT_REACHED,
        "wall_seconds": seconds,
        "cpu_seconds": worked,
        "peak_bytes": max(0, memory.peak()),
        "nrmse": error,
        "iterations": len(post.history["iteration"]),
        "products": int(post.history["products"][-1]),
        "threads": backend.n_threads(),
    }


class _HostMemory:
    """The resident memory of this process above that at the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._before = peak_memory()

    def peak(self) -> int:
        return peak_memory() - self._before


def _memory(device: str, limit: float) -> _HostMemory | DeviceMemory:
    if device == "cpu":
        return _HostMemory()
    on_device(np.zeros(1), device)  # says what is missing
    return DeviceMemory(device, limit)


def _fit(
    problem: simulate.Problem, method: str, seed: int, device: str, most: int, target: float | None
) -> tuple[float, Any]:
    import cofem

    phi = problem.phi
    if isinstance(phi, Dense):
        phi = Dense(on_device(phi.matrix, device))
    y = on_device(problem.y, device)
    truth = on_device(problem.z, device)
    xp = backend.namespace(truth)
    goal = (target or 0.0) / 100 * float(np.linalg.norm(problem.z))

    def close_enough(state: Any) -> bool:
        return bool(float(xp.linalg.vector_norm(state.mean - truth)) <= goal)

    watch: Callable[[Any], bool] | None = None if target is None else close_enough
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        began = time.perf_counter()
        post = cofem.fit(
            phi, y, noise_precision=problem.noise_precision, seed=seed,
            method=ALL[method].make(problem), prior="ard", max_iter=most, tol=0.0,
            callback=watch,
        )  # fmt: skip
        float(post.mean[0])  # a GPU answers when it is done
        return time.perf_counter() - began, post


def on_device(x: Any, device: str) -> Any:
    """Return an array on "cpu" (NumPy) or "cuda" (torch).

    Examples
    --------
    >>> on_device(np.zeros(2), "cpu")
    array([0., 0.])
    """
    if device == "cpu":
        return x
    try:
        import array_api_compat.torch as xp
    except ImportError:
        raise ValueError(
            f"device {device!r} needs PyTorch, which is not installed: pip install torch"
        ) from None
    try:
        return xp.asarray(x, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {error}") from None
