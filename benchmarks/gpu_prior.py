"""The learned prior on one GPU, noise unknown: whole fits to convergence.

A section of ``gpu.py``; called by itself it prints a profile.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch

import cofem
from gpu_tables import DEVICE, pick, seconds, synchronize, table, waits_of


def problem(kind: str, power: int, noise: float = 0.01):
    """Return operator, data on the device in single precision, and the truth."""
    rng = np.random.default_rng(power)
    n = 2**power
    z = np.zeros(n)
    z[rng.choice(n, n // 10, replace=False)] = rng.normal(0, 2.2, n // 10)
    if kind == "dct":
        phi = cofem.operators.DCT(n, rows=np.sort(rng.choice(n, n // 3, replace=False)))
    else:
        phi = cofem.operators.Convolution(0.96 ** np.arange(200), n)
    clean = phi.forward(z)
    sigma = noise * np.sqrt(np.mean(clean**2))
    y = clean + sigma * rng.normal(size=len(clean))
    return phi, torch.tensor(y, dtype=torch.float32, device=DEVICE), z, 1 / sigma**2


def row(kind: str, power: int, repeats: int, **options):
    phi, y, z, beta = problem(kind, power)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, median, post = seconds(lambda: cofem.fit(phi, y, method="cofem", **options), repeats)
    mean = post.mean.cpu().numpy()
    waits = waits_of(lambda: cofem.fit(phi, y, method="cofem", **options))
    return [
        kind, f"2^{power}", post.prior, f"{first:.2f}",
        f"{median:.3f}", str(len(post.history["iteration"])), str(post.history["products"][-1]),
        f"{waits / len(post.history['iteration']):.1f}",
        f"{100 * np.linalg.norm(mean - z) / np.linalg.norm(z):.2f}",
        f"{post.noise_precision / beta:.2f}",
    ]  # fmt: skip


def prior(scale: str) -> str:
    """Return the table: the learned prior and the noise, to convergence."""
    names = ["matrix", "D", "prior", "first call s", "s", "iterations", "products",
             "waits an iteration", "NRMSE %",
             "β̂/β"]  # fmt: skip
    sizes = pick(scale, (12, 15, 18, 20), (12, 15), (8,))
    rows = [row(kind, p, 3) for kind in ("dct", "convolution") for p in sizes]
    return (
        "## `fit(phi, y)`, noise and prior learned, single precision\n\n"
        "Whole calls to convergence: learning, certificate, variances, evidence. One problem a "
        "size, median of three calls after the first.\n\n" + table(names, rows)
    )


def profile() -> None:
    """Print where the host's time goes."""
    phi, y, _, _ = problem("dct", 18)
    cofem.fit(phi, y, method="cofem")
    with torch.profiler.profile() as seen:
        cofem.fit(phi, y, method="cofem")
        synchronize()
    print(
        seen.key_averages().table(sort_by="cpu_time_total", row_limit=18, max_name_column_width=40)
    )


if __name__ == "__main__":
    profile()
