"""One CG step on a GPU against the floor: bare transforms, and passes at copy speed."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cofem import backend
from cofem.operators import DCT, LinearOperator
from cofem.solvers import ShiftedGram
from cofem.solvers.controller import Controller
from cofem.solvers.steps.array_steps import ArrayKernels
from cofem.solvers.steps.choice import steps_for
from gpu_tables import DEVICE, ON_CUDA, pick, synchronize, table

Q = 21  # the mean and 20 probes
PASSES = 12


def milliseconds(work: Callable[[], Any], repeats: int = 20, inner: int = 5) -> float:
    """Median time of a call by device events, warmed up."""
    if not ON_CUDA:
        began = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - began)
    for _ in range(3):
        work()
    synchronize()
    times = []
    for _ in range(repeats):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(inner):
            work()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / inner)
    return statistics.median(times)


def graphed(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return the replay of ``work`` captured as a CUDA graph."""
    if not ON_CUDA:
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return lambda: (graph.replay(), graph)


def steps(scale: str) -> str:
    sizes = pick(scale, (15, 18, 20), (15, 18), (8,))
    rows = [_step_row(1 << power, compiled=scale == "full") for power in sizes]
    columns = (
        "D", "rfft", "irfft", "one pass", "floor", "eager", "eager, graph", "compiled, graph",
        "fused", "fused, graph", "of the floor",
    )  # fmt: skip
    return (
        f"## One CG step, DCT, {Q} systems, float32 (ms)\n\n"
        f"Floor: the bare transform pair and {PASSES} passes over a {Q}×D array at copy speed. "
        "Eager: the array-API solver. Compiled: its vector passes through `torch.compile`. Fused: "
        "the Triton kernels, two real systems in one complex FFT. A fit uses the column "
        '"fused, graph".\n\n' + table(columns, rows)
    )


def _step_row(D: int, compiled: bool) -> list[str]:
    real = torch.randn(Q, D, device=DEVICE)
    spectrum = torch.fft.rfft(real)
    copy = torch.empty_like(real)
    forward = milliseconds(graphed(lambda: torch.fft.rfft(real)))
    inverse = milliseconds(graphed(lambda: torch.fft.irfft(spectrum, n=D)))
    one_pass = milliseconds(graphed(lambda: copy.copy_(real))) / 2  # it reads and writes
    floor = forward + inverse + PASSES * one_pass
    rows = np.sort(np.random.default_rng(0).choice(D, D // 3, replace=False))
    operator = DCT(D, rows)
    eager = _array_step(operator, real, _same)
    times = [milliseconds(eager), milliseconds(graphed(eager))]
    times.append(
        milliseconds(graphed(_array_step(operator, real, torch.compile))) if compiled else math.nan
    )
    times += fused_steps(operator, real)[:2]
    cells = [forward, inverse, one_pass, floor, *times]
    return [f"2^{D.bit_length() - 1}", *(f"{t:.4f}" for t in cells), f"{times[-1] / floor:.2f}"]


def _same(function: Any, **_: Any) -> Any:
    return function


def _array_step(operator: DCT, rhs: Any, compile_: Callable[..., Any]) -> Callable[[], Any]:
    """Return one step as the solver for any array library takes it."""
    kernels = ArrayKernels(backend.namespace(rhs))
    diagonal = torch.rand(rhs.shape[1], device=DEVICE) + 0.1
    inverse = 1 / (diagonal + 0.3)
    x, r, p = torch.zeros_like(rhs), rhs.clone(), inverse * rhs
    unit = kernels.weighted_norm_squared(r, inverse)

    def vectors(x: Any, r: Any, p: Any, g: Any) -> Any:
        g, curvature = kernels.curvature(p, g, diagonal)
        step = torch.where(curvature > 0, unit / curvature, 0.0)
        x, r, rho = kernels.descend(x, r, p, g, step, inverse)
        return x, r, kernels.turn(p, r, torch.where(rho > 0, unit / rho, 0.0), inverse)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler talks about caches of the array API
        vectors = compile_(vectors, dynamic=False)
        vectors(x, r, p, operator.gram(p))
    return lambda: vectors(x, r, p, operator.gram(p))


def fused_steps(operator: LinearOperator, rhs: Any) -> tuple[float, float, bool]:
    """Return the time of a step launched by hand and in a fit, and whether that is a graph."""
    diagonal = torch.rand(rhs.shape[1], device=DEVICE) + 0.1
    matrix = ShiftedGram(operator, 1.0, diagonal)
    rules: dict[str, Any] = {"joint": False, "keep_coefficients": False, "max_steps": 10**9}
    tolerance = np.full(rhs.shape[0], 1e-30)
    with steps_for(matrix, rhs, 1 / (diagonal + 0.3), None, False, 0) as steps:
        controller = Controller(steps, tolerance, np.zeros(rhs.shape[0]), **rules)
        controller._begin()
        number = steps.steps_between_looks
        launched = milliseconds(lambda: steps.step(False))
        controller._begin()
        name = ("steps", number)
        taken = milliseconds(lambda: steps.do(name, controller._advance, number, False))
        return launched, taken / number, getattr(steps, "graphed", False)
