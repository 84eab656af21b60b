"""What happens on a GPU that has no room: said before the start, or a clear error on the way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import cofem
from gpu_tables import DEVICE, ON_CUDA, empty_cache, pick, table

TOO_MANY = 3 * 10**9  # unknowns
LEFT = 1 << 30  # bytes that are left to a fit which has begun


def no_room(scale: str) -> str:
    """Return the table: what was tried, what was said, and whether a fit works afterwards."""
    rows = []
    for what, work in (("before the start", _too_large), ("after two iterations", _filled)):
        said = "tried on a GPU only"
        if ON_CUDA:
            try:
                work()
                said = "NOTHING: it went through"
            except MemoryError as error:
                said = str(error)
        empty_cache()
        rows.append([what, said, _works(pick(scale, 1 << 15, 1 << 15, 64))])
    columns = ("no room", "MemoryError", "a fit afterwards")
    return (
        f"## No room\n\nFirst {TOO_MANY:,} unknowns; then 2^24 of them, where something else takes "
        "all but a gigabyte of the device after two iterations.\n\n" + table(columns, rows)
    )


def _too_large() -> None:
    y = torch.zeros(TOO_MANY, device=DEVICE)
    y[:9] = 1.0
    cofem.fit(cofem.operators.DCT(TOO_MANY), y, noise_precision=1e4, prior="ard")


def _filled() -> None:
    held: list[Any] = []

    def fill(state: Any) -> None:
        if state.iteration == 2:
            empty_cache()
            free = torch.cuda.mem_get_info()[0]
            held.append(torch.empty(free - LEFT, dtype=torch.uint8, device=DEVICE))

    phi, y = _problem(1 << 24)
    cofem.fit(phi, y, noise_precision=1e4, prior="ard", method="cofem", callback=fill)


def _works(D: int) -> str:
    phi, y = _problem(D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = cofem.fit(phi, y, noise_precision=1e4, method="cofem")
    return "yes" if bool(torch.isfinite(post.mean).all()) else "NO"


def _problem(D: int) -> tuple[Any, torch.Tensor]:
    rows = np.sort(np.random.default_rng(0).choice(D, D // 3, replace=False))
    torch.manual_seed(0)
    z = torch.randn(D, device=DEVICE) * (torch.rand(D, device=DEVICE) < 0.1)
    phi = cofem.operators.DCT(D, rows)
    return phi, phi.forward(z) + 0.01 * torch.randn(len(rows), device=DEVICE)
