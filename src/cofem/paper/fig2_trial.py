"""One run of figure 2, in the process that is measured."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend, simulate
from cofem.paper.contestants import ALL, SEQUENTIAL
from cofem.paper.isolated import DONE, peak_memory

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
) -> dict[str, Any]:
    """Fit one problem and return its time, memory and error.

    ``iterations`` None: until the NRMSE is below ``target`` per cent.
    """
    # Compilation and the first calls of libraries are not what the figure shows.
    _fit(getattr(simulate, dictionary)(128, 0, sparsity=sparsity), method, 0, device, 3, None)
    _reset_memory(device)
    before = peak_memory()
    problem = getattr(simulate, dictionary)(D, seed, sparsity=sparsity)
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
        "peak_bytes": _device_memory(device) or max(0, peak_memory() - before),
        "nrmse": error,
        "iterations": len(post.history["iteration"]),
        "products": int(post.history["products"][-1]),
        "threads": backend.n_threads(),
    }


def _fit(
    problem: simulate.Problem, method: str, seed: int, device: str, most: int, target: float | None
) -> tuple[float, Any]:
    import cofem

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
            problem.phi, y, noise_precision=problem.noise_precision, seed=seed,
            method=ALL[method].make(problem), max_iter=most, tol=0.0, callback=watch,
        )  # fmt: skip
        float(post.mean[0])  # a GPU answers when it is done
        return time.perf_counter() - began, post


def on_device(x: np.ndarray, device: str) -> Any:
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
            f"device {device!r} needs PyTorch, which is not installed: pip install cofem[torch]"
        ) from None
    try:
        return xp.asarray(x, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {error}") from None


def _reset_memory(device: str) -> None:
    if device != "cpu":
        sys.modules["torch"].cuda.reset_peak_memory_stats()


def _device_memory(device: str) -> int:
    if device == "cpu":
        return 0
    return int(sys.modules["torch"].cuda.max_memory_allocated())
