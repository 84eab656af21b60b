"""Ten thousand problems of a thousand unknowns on one GPU, together and one by one."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

import cofem
from cofem import operators
from gpu_tables import CUDA, table

D, ITERATIONS, BETA = 1024, 30, 1e4


def many_problems(quick: bool) -> str:
    """Return the table: the time of a problem, and how far the answers are apart."""
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(D, D // 3, replace=False))
    matrix = torch.asarray(random.standard_normal((D // 2, D)) / (D // 2) ** 0.5, device=CUDA)
    cells = []
    for name, phi in (("DCT", operators.DCT(D, rows)), ("dense", operators.Dense(matrix.float()))):
        for number in (100, 1000) if quick else (100, 1000, 10_000):
            cells.append(_row(name, phi, number, random))
    columns = ("Φ", "problems", "together (s)", "each (ms)", "one by one, each (ms)",
               "NRMSE together (%)", "NRMSE one by one (%)")  # fmt: skip
    return (
        f"## `fit_many`: problems of D = {D}, {ITERATIONS} iterations, single precision\n\n"
        "One by one: `cofem.fit` on the same GPU, median of 5 of the problems. Second call of "
        "each kind.\n\n" + table(columns, cells)
    )


def _row(name: str, phi: Any, number: int, random: np.random.Generator) -> list[str]:
    Z = random.standard_normal((number, D)) * np.sqrt(5) * (random.random((number, D)) < 0.1)
    truth = torch.asarray(Z, device=CUDA, dtype=torch.float32)
    Y = phi.forward(truth)
    Y = Y + BETA**-0.5 * torch.randn(Y.shape, device=CUDA)
    options: dict[str, Any] = {"noise_precision": BETA, "prior": "ard", "max_iter": ITERATIONS,
                               "tol": 0.0, "method": "cofem"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            torch.cuda.synchronize()
            began = time.perf_counter()
            many = cofem.fit_many(phi, Y, **options)
            took = time.perf_counter() - began
        times, singles = [], []
        for p in range(6):
            began = time.perf_counter()
            singles.append(cofem.fit(phi, Y[p], **options).mean.cpu().numpy())
            times.append(time.perf_counter() - began)
    error = 100 * np.linalg.norm(many.mean - Z) / np.linalg.norm(Z)
    alone = 100 * np.linalg.norm(np.stack(singles) - Z[:6]) / np.linalg.norm(Z[:6])
    return [name, f"{number:,}", f"{took:.3f}", f"{1e3 * took / number:.3f}",
            f"{1e3 * float(np.median(times[1:])):.1f}", f"{error:.3f}", f"{alone:.3f}"]  # fmt: skip
