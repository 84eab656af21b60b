"""A hundred million unknowns on one GPU."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import torch

import cofem
from cofem.operators import DCT, Fourier
from gpu_tables import DEVICE, empty_cache, forget_peak, peak_memory, pick, synchronize, table


def hundred_million(scale: str) -> str:
    rows = []
    for name, make, block in (("DCT", _large_dct, 7), ("Fourier 500×500×400", _large_fourier, 3)):
        empty_cache()
        forget_peak()
        phi, y, z = make(pick(scale, 1, 1, 50))
        synchronize()
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = cofem.fit(phi, y, noise_precision=1e4, max_iter=30, tol=0.0, prior="ard",
                             method=cofem.CoFEM(block=block))  # fmt: skip
        synchronize()
        took = time.perf_counter() - began
        peak = peak_memory()
        error = 100 * float(torch.linalg.norm(post.mean - z) / torch.linalg.norm(z))
        rows.append([name, f"{took:.1f}", f"{peak:.1f}", int(sum(post.history["cg_steps"])),
                     f"{error:.3f}", post.message])  # fmt: skip
        del phi, y, z, post
    columns = ("Φ", "seconds", "peak memory (GB)", "CG steps", "NRMSE (%)", "message")
    return (
        "## D = 10^8 in single precision, 30 iterations, 4 probes, report with 32\n\n"
        "A third of the samples, 12 % spikes (complex ones for Fourier), σ = 0.01.\n\n"
        + table(columns, rows)
    )


def _chosen(D: int, share: float) -> Any:
    generator = torch.Generator(device=DEVICE).manual_seed(0)
    return torch.rand(D, device=DEVICE, generator=generator) < share


def _large_dct(shrink: int) -> tuple[Any, Any, Any]:
    D = 10**8 // shrink**3
    phi = DCT(D, rows=_chosen(D, 1 / 3).cpu().numpy())
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    z = torch.randn(D, device=DEVICE, generator=generator) * math.sqrt(5)
    z *= torch.rand(D, device=DEVICE, generator=generator) < 0.12
    y = phi.forward(z)
    y += 0.01 * torch.randn(y.shape, device=DEVICE, generator=generator)
    return phi, y, z


def _large_fourier(shrink: int) -> tuple[Any, Any, Any]:
    shape = (500 // shrink, 500 // shrink, 400 // shrink)
    D = math.prod(shape)
    phi = Fourier(shape, mask=_chosen(D, 1 / 3).cpu().numpy().reshape(shape))
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    z = torch.randn(D, device=DEVICE, generator=generator, dtype=torch.complex64) * math.sqrt(5)
    z *= torch.rand(D, device=DEVICE, generator=generator) < 0.12
    y = phi.forward(z)
    y += 0.01 * torch.randn(y.shape, device=DEVICE, generator=generator, dtype=torch.complex64)
    return phi, y, z
