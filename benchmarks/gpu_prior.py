"""The learned prior on one GPU, noise unknown: whole fits to convergence.

    python benchmarks/gpu_prior.py [--sizes 12 15 18 20] [--profile]

Needs torch with CUDA. Prints Markdown; times are medians of whole calls after a first one.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch

import cofem
from gpu import seconds
from gpu_tables import header, table


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
    return phi, torch.tensor(y, dtype=torch.float32, device="cuda"), z, 1 / sigma**2


def row(kind: str, power: int, repeats: int, **options):
    phi, y, z, beta = problem(kind, power)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, median, post = seconds(lambda: cofem.fit(phi, y, method="cofem", **options), repeats)
    mean = post.mean.cpu().numpy()
    return [
        kind, f"2^{power}", options.get("prior", "auto"), post.prior, f"{first:.2f}",
        f"{median:.3f}", str(len(post.history["iteration"])), str(post.history["products"][-1]),
        f"{100 * np.linalg.norm(mean - z) / np.linalg.norm(z):.2f}",
        f"{post.noise_precision / beta:.2f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[12, 15, 18, 20])
    parser.add_argument("--kinds", nargs="*", default=["dct", "convolution"])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(header(False).replace("gpu.py", "gpu_prior.py"))
    names = ["matrix", "D", "asked", "prior", "first s", "s", "iterations", "products",
             "NRMSE %", "β̂/β"]  # fmt: skip
    rows = [row(kind, p, 3) for kind in options.kinds for p in options.sizes]
    print(table(names, rows))
    if options.profile:
        phi, y, _, _ = problem("dct", 18)
        with torch.profiler.profile() as profile:
            cofem.fit(phi, y, method="cofem")
            torch.cuda.synchronize()
        print(profile.key_averages().table(sort_by="cpu_time_total", row_limit=18,
                                           max_name_column_width=40))


if __name__ == "__main__":
    main()
