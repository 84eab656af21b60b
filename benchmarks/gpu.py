"""One GPU against its own floor: a CG step, whole fits, and exact EM beside them.

    python benchmarks/gpu.py [--quick] [--output benchmarks/results/gpu.md]

Needs torch with CUDA (and Triton, which comes with it on Linux). Prints Markdown.
Times are medians: of device events for steps, of whole calls for fits.
"""

from __future__ import annotations

import argparse
import datetime
import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cofem
from cofem import backend, simulate
from cofem.linalg.kernels import ArrayKernels
from cofem.operators import DCT, Fourier

CUDA = torch.device("cuda")
Q = 21  # the mean and 20 probes
PASSES = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute in all")
    parser.add_argument("--output", type=Path, help="write the Markdown there too")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: this benchmark needs an NVIDIA GPU and torch with CUDA")
    text = [header(options.quick)]
    sections = [steps, fits, rivals] if options.quick else [steps, fits, rivals, hundred_million]
    for section in sections:
        began = time.perf_counter()
        text.append(section(options.quick))
        text[-1] += f"\n({time.perf_counter() - began:.0f} s for this section)\n"
        print("\n".join(text[-1:]) if len(text) > 2 else "\n".join(text), flush=True)
        torch.cuda.empty_cache()
    if options.output:
        options.output.write_text("\n".join(text), encoding="utf-8")


def header(quick: bool) -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in ("torch", "triton", "numpy"))
    command = "python benchmarks/gpu.py" + (" --quick" if quick else "")
    return (
        "# On one GPU\n\n"
        f"{datetime.date.today().isoformat()}, {torch.cuda.get_device_name()}, "
        f"Python {platform.python_version()}, {versions}, CUDA {torch.version.cuda}. "
        f"Command: `{command}`.\n"
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def milliseconds(work: Callable[[], Any], repeats: int = 20, inner: int = 5) -> float:
    """Median time of a call by device events, warmed up."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
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


# -- one step ------------------------------------------------------------------------


def steps(quick: bool) -> str:
    sizes = (15, 18) if quick else (15, 18, 20)
    rows = [_step_row(1 << power, compiled=not quick) for power in sizes]
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
    real = torch.randn(Q, D, device=CUDA)
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
        milliseconds(graphed(_array_step(operator, real, torch.compile)))
        if compiled
        else math.nan
    )
    times += _fused_steps(operator, real)
    cells = [forward, inverse, one_pass, floor, *times]
    return [f"2^{D.bit_length() - 1}", *(f"{t:.4f}" for t in cells), f"{times[-1] / floor:.2f}"]


def _same(function: Any, **_: Any) -> Any:
    return function


def _array_step(operator: DCT, rhs: Any, compile_: Callable[..., Any]) -> Callable[[], Any]:
    """Return one step as the solver for any array library takes it."""
    kernels = ArrayKernels(backend.namespace(rhs))
    diagonal = torch.rand(rhs.shape[1], device=CUDA) + 0.1
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


def _fused_steps(operator: DCT, rhs: Any) -> list[float]:
    engine = backend.engine_for(operator.masked_transform(rhs), rhs)
    diagonal = torch.rand(rhs.shape[1], device=CUDA) + 0.1

    def load() -> None:
        tolerance = np.full(Q, 1e-30)
        engine.load(rhs, None, 1 / (diagonal + 0.3), diagonal, tolerance, np.zeros(Q))

    load()
    launched = milliseconds(lambda: engine.steps.step(engine.state, False))
    load()
    replayed = milliseconds(lambda: engine.advance(3)) / 3
    return [launched, replayed]


# -- whole fits ----------------------------------------------------------------------


def seconds(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the first call's time, the median of the others, and the last result."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        found = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return times[0], statistics.median(times[1:]), found


def fits(quick: bool) -> str:
    rows = []
    for power, probes in ((15, 20), (15, 4), (18, 20), (18, 4), (20, 20)):
        if quick and power > 15:
            continue
        problem = simulate.dct(1 << power, seed=0)
        y = torch.asarray(problem.y, device=CUDA, dtype=torch.float32)
        method = cofem.CoFEM(n_probes=probes, block=32)

        def fit(problem: Any = problem, y: Any = y, method: Any = method) -> Any:
            return cofem.fit(problem.phi, y, noise_precision=problem.noise_precision,
                             method=method, max_iter=30, tol=0.0)  # fmt: skip

        first, median, post = seconds(fit, 5)
        waits = _waits(fit) / 30
        if power < 20:
            reference = cofem.fit(problem.phi, problem.y, method=method, max_iter=30, tol=0.0,
                                  noise_precision=problem.noise_precision)  # fmt: skip
            double = f"{simulate.nrmse(reference.mean, problem.z):.3f}"
        else:
            double = "—"
        single = f"{simulate.nrmse(post.mean, problem.z):.3f}"
        steps_taken = sum(post.history["cg_steps"])
        rows.append([f"2^{power}", probes, f"{first:.3f}", f"{median:.4f}", int(steps_taken),
                     f"{waits:.1f}", single, double])  # fmt: skip
    columns = ("D", "probes", "first fit (s)", "median of 5 (s)", "CG steps",
               "waits per iteration", "NRMSE, float32 (%)", "NumPy, float64 (%)")  # fmt: skip
    return (
        "## Whole fits, DCT, 30 iterations and the report with 32 probes, float32\n\n"
        "A third of the samples, 12 % spikes, σ = 0.01. The first fit compiles kernels and "
        "captures graphs. A wait is a call that stops the host until the device is done, as "
        "torch's own check sees it; the looks of the solver come on top, one in three steps.\n\n"
        + table(columns, rows)
    )


def _waits(work: Callable[[], Any]) -> int:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA" in str(w.message) for w in seen)


# -- exact EM ------------------------------------------------------------------------


def rivals(quick: bool) -> str:
    rows = []
    for D in (512, 2048) if quick else (512, 2048, 8192, 16384):
        problem = simulate.gaussian(D, seed=0)
        phi = torch.asarray(problem.phi.matrix, device=CUDA)
        y = torch.asarray(problem.y, device=CUDA)
        row: list[Any] = [D, D // 4]
        for method in ("em", "woodbury", cofem.CoFEM(block=32)):
            single = method not in ("em", "woodbury")
            cast = torch.float32 if single else torch.float64

            def fit(method: Any = method, cast: Any = cast, phi: Any = phi, y: Any = y) -> Any:
                return cofem.fit(phi.to(cast), y.to(cast), noise_precision=1e4, method=method,
                                 max_iter=20, tol=0.0)  # fmt: skip

            _, median, post = seconds(fit, 2)
            row += [f"{median:.3f}", f"{simulate.nrmse(post.mean, problem.z):.3f}"]
        rows.append(row)
    columns = ("D", "N", "EM (s)", "NRMSE (%)", "Woodbury (s)", "NRMSE (%)", "CoFEM (s)",
               "NRMSE (%)")  # fmt: skip
    return (
        "## Dense Gaussian matrices, 20 iterations\n\n"
        "EM and Woodbury factorise in double precision, CoFEM runs in single.\n\n"
        + table(columns, rows)
    )


# -- a hundred million ----------------------------------------------------------------


def hundred_million(quick: bool) -> str:
    rows = []
    for name, make, block in (("DCT", _large_dct, 8), ("Fourier 500×500×400", _large_fourier, 4)):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        phi, y, z = make()
        torch.cuda.synchronize()
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = cofem.fit(phi, y, noise_precision=1e4, max_iter=30, tol=0.0,
                             method=cofem.CoFEM(block=block))  # fmt: skip
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() / 2**30
        error = 100 * float(torch.linalg.norm(post.mean - z) / torch.linalg.norm(z))
        rows.append([name, f"{took:.1f}", f"{peak:.1f}", int(sum(post.history["cg_steps"])),
                     f"{error:.3f}", post.message])  # fmt: skip
        del phi, y, z, post
    columns = ("Φ", "seconds", "peak memory (GiB)", "CG steps", "NRMSE (%)", "message")
    return (
        "## D = 10^8 in single precision, 30 iterations, 4 probes, report with 32\n\n"
        "A third of the samples, 12 % spikes (complex ones for Fourier), σ = 0.01.\n\n"
        + table(columns, rows)
    )


def _chosen(D: int, share: float) -> Any:
    generator = torch.Generator(device=CUDA).manual_seed(0)
    return torch.rand(D, device=CUDA, generator=generator) < share


def _large_dct() -> tuple[Any, Any, Any]:
    D = 10**8
    phi = DCT(D, rows=_chosen(D, 1 / 3).cpu().numpy())
    generator = torch.Generator(device=CUDA).manual_seed(1)
    z = torch.randn(D, device=CUDA, generator=generator) * math.sqrt(5)
    z *= torch.rand(D, device=CUDA, generator=generator) < 0.12
    y = phi.forward(z)
    y += 0.01 * torch.randn(y.shape, device=CUDA, generator=generator)
    return phi, y, z


def _large_fourier() -> tuple[Any, Any, Any]:
    shape = (500, 500, 400)
    D = math.prod(shape)
    phi = Fourier(shape, mask=_chosen(D, 1 / 3).cpu().numpy().reshape(shape))
    generator = torch.Generator(device=CUDA).manual_seed(1)
    z = torch.randn(D, device=CUDA, generator=generator, dtype=torch.complex64) * math.sqrt(5)
    z *= torch.rand(D, device=CUDA, generator=generator) < 0.12
    y = phi.forward(z)
    y += 0.01 * torch.randn(y.shape, device=CUDA, generator=generator, dtype=torch.complex64)
    return phi, y, z


if __name__ == "__main__":
    main()
