"""``cofem bench``: what this machine has, and how near a solver's step is to its floor."""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofem.cli import report

if TYPE_CHECKING:
    import numpy as np

    from cofem.backend import Device

SYSTEMS = 9  # the mean and eight probes
PASSES = 12
# Steps that are timed, and how often; the median counts.
STEPS, REPEATS = 40, 5
# About the squared norm of a column, for the preconditioner; and a tolerance that no step reaches.
THETA, UNREACHED = 0.3, 1e-30


@dataclass(frozen=True)
class Measured:
    """One backend on one device: milliseconds for a CG step, and for the least it could take."""

    name: str
    step: float
    floor: float


def bench(
    size: Annotated[
        int, typer.Option(min=64, help="Number of unknowns D of the problem.")
    ] = 65_536,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Time one step of the solver on every backend and device that is here.

    A step of conjugate gradients for nine DCT systems is compared with the machine's own
    floor: the bare pair of transforms on the same batch, and twelve passes over it at the
    speed of a copy. The last lines say what to install or set to go faster.

    Example:

        cofem bench --size 16384 --json
    """
    from cofem import backend

    measured = [_measured(device, size) for device in backend.devices()]
    advice = _advice(measured)
    if json:
        report.show_json(
            {
                "unknowns": size,
                "systems": SYSTEMS,
                "versions": _versions(),
                "backends": [vars(m) for m in measured],
                "advice": advice,
            }
        )
        return
    report.show_table(
        f"One CG step, {SYSTEMS} DCT systems of {size:,} unknowns, against the floor",
        {
            m.name: f"{m.step:.3f} ms, floor {m.floor:.3f} ms, ratio {m.step / m.floor:.2f}"
            for m in measured
        },
    )
    report.show_table("Installed", _versions())
    for line in advice:
        typer.echo(f"- {line}")


def _versions() -> dict[str, str]:
    found = {}
    for name in ("numpy", "scipy", "numba", "torch", "triton", "jax", "cupy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "—"
    return found


def _problem(size: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return Φ, right-hand sides and the diagonal of A, on the host."""
    import numpy as np

    from cofem.operators import DCT

    random = np.random.default_rng(0)
    phi = DCT(size, np.sort(random.choice(size, size // 3, replace=False)))
    rhs = random.standard_normal((SYSTEMS, size)).astype(np.float32)
    return phi, rhs, random.uniform(0.1, 1.1, size).astype(np.float32)


def _measured(device: Device, size: int) -> Measured:
    """Time a step and its floor on one device."""
    import scipy.fft

    from cofem import backend

    phi, rhs, alpha = _problem(size)
    rows, diagonal = device.put(rhs), device.put(alpha)
    if backend.is_numpy(rows):
        options = {"norm": "ortho", "workers": backend.n_threads()}
        pair = _median_ms(lambda: scipy.fft.dct(scipy.fft.idct(rows, **options), **options), device)
    else:
        fft = backend.fft_module(rows)
        spectrum = fft.rfft(rows)
        pair = _median_ms(lambda: fft.rfft(rows), device)
        pair += _median_ms(lambda: fft.irfft(spectrum, n=size), device)
    xp = backend.namespace(rows)
    one_pass = _median_ms(lambda: xp.asarray(rows, copy=True), device) / 2  # reads and writes
    step = _milliseconds_per_step(phi, rows, diagonal, device)
    return Measured(device.name, step, pair + PASSES * one_pass)


def _milliseconds_per_step(phi: Any, rhs: Any, alpha: Any, device: Device) -> float:
    """Time a solve of 41 steps less one of a single step, so that only steps are counted."""
    from cofem.solvers import ShiftedGram, solve

    def steps(number: int) -> float:
        began = time.perf_counter()
        found = solve(ShiftedGram(phi, 1.0, alpha), rhs, preconditioner=alpha + THETA,
                      rtol=UNREACHED, max_steps=number)  # fmt: skip
        device.wait(found.x)
        return time.perf_counter() - began

    many = STEPS + 1
    for number in (many, many, 1, 1):  # compiled, planned and captured before it is timed
        steps(number)
    return 1e3 * statistics.median(steps(many) - steps(1) for _ in range(REPEATS)) / STEPS


def _median_ms(work: Callable[[], Any], device: Device) -> float:
    times = []
    for _ in range(12):
        began = time.perf_counter()
        device.wait(work())
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[2:])


def _advice(measured: list[Measured]) -> list[str]:
    """Say what would make it faster here."""
    from cofem import backend

    lines = []
    cores = os.cpu_count() or 1
    if backend.n_threads() < cores:
        lines.append(
            f"{backend.n_threads()} of {cores} cores are used: set COFEM_NUM_THREADS, or let the "
            "process run on more of them"
        )
    on_gpu = [m for m in measured if "cuda" in m.name]
    if not any(m.name.startswith("torch") for m in measured):
        lines.append("for an NVIDIA GPU install torch: pip install torch")
    elif not on_gpu:
        lines.append(
            "torch sees no GPU: with an NVIDIA card, install torch built for its CUDA version"
        )
    elif importlib.util.find_spec("triton") is None:
        lines.append(
            "triton is missing, so GPU steps are not fused: it comes with torch on Linux "
            "(pip install triton)"
        )
    fastest = min(measured, key=lambda m: m.step)
    lines.append(
        f"the fastest here is {fastest.name}; pass arrays of that library and device to cofem.fit"
    )
    return lines
