"""``mri.reconstruct`` on one GPU: three contrasts, and a volume of eight coils.

python benchmarks/gpu_mri.py [--side 256] [--profile]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cofem import mri
from gpu_tables import (
    DEVICE,
    empty_cache,
    forget_peak,
    header,
    peak_memory,
    pick,
    seconds,
    synchronize,
    table,
)

ATLAS = "sri24_pd_t2_t1_200x200.npz"


def contrasts(name: str = ATLAS) -> tuple[np.ndarray, np.ndarray, str]:
    """Return images (3, 200, 200), a mask, and what they are: the atlas, or a phantom."""
    for folder in (os.environ.get("COFEM_DATA", ""), ".gpu/data"):
        for path in (Path(folder) / name, Path(folder) / "mri" / name):
            if path.is_file():
                with np.load(path) as held:
                    mask = np.fft.fftshift(held["masks_r4_seed0_50lines"], axes=(1, 2))
                    return held["images"], mask, "atlas"
    return phantom(200)


def phantom(side: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the same of a phantom."""
    truth = mri.phantom((side, side))
    return truth, mri.power_rule_mask(truth.shape, factor=4, power=4, seed=0), "phantom"


def images(scale: str) -> str:
    """Return the table of three contrasts, real and complex, on the device and on the host."""
    truth, mask, kind = phantom(32) if scale == "tiny" else contrasts()
    rng, rows = np.random.default_rng(0), []
    y = mri.to_kspace(truth)
    y = y + 0.005 * np.abs(truth).max() * (rng.normal(size=y.shape) + 1j * rng.normal(size=y.shape))
    y = (y * mask).astype(np.complex64)
    there, where = (torch.asarray(x, device=DEVICE) for x in (y, mask))

    def error(image: np.ndarray) -> float:
        return 100 * mri.nrmse(np.abs(image), np.abs(truth))

    for real, folds in ((True, 2), (True, 0), (False, 2)):
        options = mri.ImageOptions(folds=folds)

        def run(
            y: Any = there, mask: Any = where, real: bool = real, options: Any = options
        ) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return mri.reconstruct(y, mask, real=real, options=options)

        first, median, found = seconds(run, pick(scale, 3, 1, 1))
        row = ["real" if real else "complex", folds, f"{first:.2f}", f"{median:.3f}", "—",
               len(found.history["iteration"]), f"{error(found.image.cpu().numpy()):.2f}",
               "—"]  # fmt: skip
        if real:  # complex images take minutes there
            began = time.perf_counter()
            other = run(y=y, mask=mask)
            row[4], row[7] = f"{time.perf_counter() - began:.2f}", f"{error(other.image):.2f}"
        rows.append(row)
        print(rows[-1], flush=True)
    columns = ("images", "folds", "first call (s)", "s", f"{os.cpu_count()} cores (s)",
               "iterations", "error (%)", "error there (%)")  # fmt: skip
    return (
        f"## `mri.reconstruct`, three contrasts of 200 × 200 ({kind}), a quarter of the samples\n\n"
        "Learning, noise, and intervals; folds are fits without some samples, which widen the "
        "intervals. Random draws of a device are not the host's, so that the errors differ a "
        "little.\n\n" + table(columns, rows)
    )


def volume(side: int, coils: int = 8, most: int = 6) -> str:
    """Return how long a volume takes, and what memory."""
    grid = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, side, device=DEVICE)] * 3,
                                      indexing="ij"))  # fmt: skip
    image = torch.zeros((side,) * 3, device=DEVICE)
    for i, (size, level) in enumerate(((0.9, 1.0), (0.6, -0.4), (0.25, 0.5), (0.1, 0.8))):
        centre = torch.tensor([0.1, -0.1, 0.15], device=DEVICE).roll(i) * (i > 0)
        image += level * (((grid - centre[:, None, None, None]) ** 2).sum(0) < size**2)
    angle = torch.arange(coils, device=DEVICE) * (2 * torch.pi / coils)
    at = torch.stack([torch.cos(angle), torch.sin(angle), 0.5 * torch.cos(2 * angle)])
    maps = torch.stack([torch.exp(-((grid - at[:, c, None, None, None]) ** 2).sum(0) / 2) *
                        torch.exp(1j * angle[c]) for c in range(coils)])  # fmt: skip
    maps = maps / maps.abs().square().sum(0).sqrt()
    mask = torch.rand((1, 1, side, side), device=DEVICE) < 0.2
    near = grid[1:, 0].abs().amax(0) < 0.1
    mask = (mask | near).expand(1, side, side, side)
    axes = (-3, -2, -1)
    y = torch.fft.fftshift(torch.fft.fftn(
        torch.fft.ifftshift(maps * image, dim=axes), dim=axes, norm="ortho"), dim=axes)  # fmt: skip
    y = y + 0.01 * torch.randn_like(y)
    y = (y * mask).to(torch.complex64)[None]
    rows = []
    for real in (True, False)[: 2 if side < 200 else 1]:  # the host's part takes minutes
        empty_cache()
        forget_peak()

        def told(state: Any, began: float = time.perf_counter()) -> None:
            if state.iteration in (1, most):
                print(f"  {state.iteration}: {time.perf_counter() - began:.1f} s", flush=True)

        synchronize()
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = mri.reconstruct(
                y, mask, sensitivities=maps.to(torch.complex64), real=real, phase="none",
                options=mri.ImageOptions(folds=0), max_iter=most, n_samples=2, callback=told,
            )  # fmt: skip
        synchronize()
        took = time.perf_counter() - began
        learned = found.history["seconds"][-1]
        error = float((found.image[0].abs() - image).norm() / image.norm())
        peak = peak_memory()
        rows.append([f"{side}³, {coils} coils", "real" if real else "complex",
                     len(found.history["iteration"]), f"{learned:.1f}", f"{took:.1f}",
                     f"{peak:.1f}", f"{100 * error:.2f}"])  # fmt: skip
        print(rows[-1], flush=True)
        del found
    columns = ("volume", "images", "iterations", "learning (s)", "whole call (s)",
               "peak memory (GB)", "error (%)")  # fmt: skip
    return (
        "## `mri.reconstruct`, a volume\n\nA fifth of the lines and the centre; no folds, two "
        f"draws, at most {most} iterations.\n\n" + table(columns, rows)
    )


def profile() -> None:
    """Print where the host and the device spend their time."""
    import cProfile
    import pstats

    truth, mask, _ = contrasts()
    y = torch.asarray((mri.to_kspace(truth) * mask).astype(np.complex64), device=DEVICE)
    for real in (True, False):
        for _ in range(2):
            mri.reconstruct(y, mask, real=real)
        profiler = cProfile.Profile()
        profiler.enable()
        mri.reconstruct(y, mask, real=real)
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    with torch.profiler.profile() as seen:
        mri.reconstruct(y, mask, real=True)
        synchronize()
    print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=18,
                                    max_name_column_width=50))  # fmt: skip


def reconstruction(scale: str) -> str:
    """Return both tables."""
    return images(scale) + "\n" + volume(pick(scale, 256, 64, 16), most=pick(scale, 6, 6, 2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=0, help="of the volume; 0: images")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(header("gpu_mri.py"))
    if options.profile:
        profile()
    else:
        print(volume(options.side) if options.side else images("full"))
