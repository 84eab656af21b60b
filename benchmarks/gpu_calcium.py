"""``calcium.deconvolve`` on one GPU beside all cores of its host; a section of ``gpu.py``.

python benchmarks/gpu_calcium.py [--quick] [--stages]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np
import torch

from cofem import calcium
from cofem.calcium.at_once import fitting
from gpu_tables import DEVICE, header, peak_memory, pick, synchronize, table

FRAMERATE, FRAMES = 30.0, 10_000
# Different traces; more cells than that are these with noise of their own on top.
SIMULATED = 500
ON_THE_HOST = 320


def cells(number: int, frames: int = FRAMES) -> torch.Tensor:
    """Return fluorescence (number, frames) on the device, single precision."""
    dff, _ = calcium.simulate(min(number, SIMULATED), frames, framerate=FRAMERATE, seed=0)
    found = torch.tensor(dff, dtype=torch.float32, device=DEVICE)
    found = found.repeat(-(-number // len(found)), 1)[:number]
    torch.manual_seed(0)
    return found + 0.01 * torch.randn_like(found)


def timed(work: Any) -> tuple[float, Any]:
    synchronize()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work()
    synchronize()
    return time.perf_counter() - began, found


def deconvolution(scale: str) -> str:
    """Return the table: cells at once, on the GPU and on all cores."""
    rows, frames = [], pick(scale, FRAMES, FRAMES, 400)
    for number in pick(scale, (100, 1000, 10_000), (100, 1000), (2,)):
        dff = cells(number, frames)
        if not rows:
            first = timed(lambda dff=dff: calcium.deconvolve(dff, FRAMERATE))[0]
        took, found = timed(lambda dff=dff: calcium.deconvolve(dff, FRAMERATE))
        rows.append([f"{number:,} × {frames:,}", f"{took:.2f}", f"{1000 * took / number:.2f}",
                     f"{peak_memory():.1f}"])  # fmt: skip
        print(rows[-1], flush=True)
    host = dff[: pick(scale, ON_THE_HOST, ON_THE_HOST // 8, 2)].cpu().numpy()
    timed(lambda: calcium.deconvolve(host[:1], FRAMERATE))  # compiles
    spent, other = timed(lambda: calcium.deconvolve(host, FRAMERATE))
    each = spent / len(host)
    rows.append([f"{len(host)} on {os.cpu_count()} cores", f"{spent:.2f}", f"{1000 * each:.2f}",
                 "—"])  # fmt: skip
    same = np.mean([np.array_equal(a, b) for a, b in zip(
        found.tau_d[: len(host), None], other.tau_d[:, None], strict=True)])  # fmt: skip
    gap = np.abs(found.spikes[: len(host)] - other.spikes).max() / np.abs(other.spikes).max()
    return (
        '## `calcium.deconvolve`, method "jumps", constants of every cell searched\n\n'
        f"The first call compiles: {first:.1f} s. {number:,} cells on all cores would take "
        f"{each * number:.0f} s, {each * number / took:.1f} times as long. The same decay time is "
        f"found in {100 * same:.1f} % of the cells; the largest difference of a spike is "
        f"{gap:.1e} of the largest spike.\n\n"
        + table(["cells × frames", "s", "ms a cell", "peak memory (GB)"], rows)
    )


def stages(number: int) -> None:
    """Print where the time goes."""
    spent: dict[str, float] = {}

    def watched(name: str) -> None:
        work = getattr(fitting, name)

        def call(*arguments: Any, **options: Any) -> Any:
            synchronize()
            began = time.perf_counter()
            found = work(*arguments, **options)
            synchronize()
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began
            spent[f"{name}, calls"] = spent.get(f"{name}, calls", 0) + 1
            return found

        setattr(fitting, name, call)

    for name in ("prepared", "_searched", "build_tables", "log_evidence", "_in_pieces",
                 "assembled"):  # fmt: skip
        watched(name)
    took, _ = timed(lambda: calcium.deconvolve(cells(number), FRAMERATE))
    print(f"{number} cells, {took:.2f} s:", {k: round(v, 3) for k, v in spent.items()}, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stages", type=int, default=0, metavar="CELLS")
    options = parser.parse_args()
    print(header("gpu_calcium.py"))
    if options.stages:
        stages(64)
        stages(options.stages)
    else:
        print(deconvolution("quick" if options.quick else "full"))
