"""Ten thousand problems of a thousand unknowns on one GPU, together and one by one."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

import cofem
from cofem import operators
from cofem.many import running
from gpu_tables import DEVICE, ON_CUDA, pick, synchronize, table

ITERATIONS, BETA = 30, 1e4
# Noise from a hundredth to a tenth of the coefficients' size, another one for every problem.
NOISES = (0.01, 0.1)


def many_problems(scale: str) -> str:
    """Return both tables: the time of a problem, and how far the answers are apart."""
    if not ON_CUDA:  # tensors on a host are taken for tensors on a device
        running.on_device = torch.is_tensor
    random, D = np.random.default_rng(0), pick(scale, 1024, 1024, 64)
    rows = np.sort(random.choice(D, D // 3, replace=False))
    matrix = torch.asarray(random.standard_normal((D // 2, D)) / (D // 2) ** 0.5, device=DEVICE)
    known, learned = [], []
    for name, phi in (("DCT", operators.DCT(D, rows)), ("dense", operators.Dense(matrix.float()))):
        for number in pick(scale, (100, 1000, 10_000), (100, 1000), (6,)):
            known.append(
                _row(
                    name,
                    phi,
                    number,
                    random,
                    {"noise_precision": BETA, "prior": "ard", "max_iter": ITERATIONS, "tol": 0.0},
                )
            )
            learned.append(_row(name, phi, number, random, {}))  # fmt: skip
    columns = ("Φ", "problems", "together (s)", "each (ms)", "one by one, each (ms)",
               "NRMSE together (%)", "NRMSE one by one (%)", "the same prior")  # fmt: skip
    return (
        f"## `fit_many`: problems of D = {D}, single precision\n\n"
        f'`prior="ard"`, the noise given, {ITERATIONS} iterations. One by one: `cofem.fit` on the '
        "same GPU, median of 5 of the problems after the first. Second call of each kind. NRMSE: "
        "median over problems.\n\n"
        + table(columns, known)
        + "\nPrior and noise learned for every row, to convergence; σ from "
        f"{NOISES[0]} to {NOISES[1]}.\n\n" + table(columns, learned)
    )


def _row(
    name: str, phi: Any, number: int, random: np.random.Generator, options: dict[str, Any]
) -> list[str]:
    D = phi.shape[1]
    Z = random.standard_normal((number, D)) * np.sqrt(5) * (random.random((number, D)) < 0.1)
    truth = torch.asarray(Z, device=DEVICE, dtype=torch.float32)
    Y = phi.forward(truth)
    ends = np.log(NOISES)
    sigma = np.exp(random.uniform(*ends, (number, 1))) if not options else BETA**-0.5
    Y = Y + torch.asarray(sigma, device=DEVICE, dtype=torch.float32) * torch.randn_like(Y)
    options = {"method": "cofem", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            synchronize()
            began = time.perf_counter()
            many = cofem.fit_many(phi, Y, **options)
            took = time.perf_counter() - began
        times, singles = [], []
        for p in range(6):
            began = time.perf_counter()
            singles.append(cofem.fit(phi, Y[p], **options))
            synchronize()
            times.append(time.perf_counter() - began)
    means = np.stack([post.mean.cpu().numpy() for post in singles])
    same = sum(post.prior == many.prior[p] for p, post in enumerate(singles) if any(many.prior))
    return [name, f"{number:,}", f"{took:.3f}", f"{1e3 * took / number:.3f}",
            f"{1e3 * float(np.median(times[1:])):.1f}", f"{_error(many.mean, Z):.3f}",
            f"{_error(means, Z[:6]):.3f}", f"{same} of 6" if any(many.prior) else "—"]  # fmt: skip


def _error(mean: np.ndarray, Z: np.ndarray) -> float:
    return 100 * float(np.median(np.linalg.norm(mean - Z, axis=1) / np.linalg.norm(Z, axis=1)))
