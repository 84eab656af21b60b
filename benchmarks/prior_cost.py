"""The cost of not telling the noise: products of ``fit(phi, y)`` beside "ard" that is told it.

DCT, N = D/3, a share .10 of normal values; products are rows multiplied by Φ or Φᴴ. They do not
depend on the machine, and hardly on D.
"""

from __future__ import annotations

from functools import cache

import numpy as np

import cofem
from cofem import operators
from common import Claim, Result, Table, median, note

SHARE, AT_MOST = 0.10, 1.3
NOISE = (0.01, 0.1)
SIZES, QUICK_SIZES = (2**12, 2**13, 2**14, 2**15, 2**16, 2**17, 2**18), (2**10, 2**12)
# Problems of a size; of the largest fewer, which take minutes each.
SEEDS, SEEDS_IF_LARGE, LARGE = 3, 1, 2**16


def problem(d: int, noise: float, seed: int):
    """Return z, Φ, y and the noise precision; the noise is relative to the rms of Φz."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(d, d // 3, replace=False))
    phi = operators.DCT(d, rows)
    z = np.zeros(d)
    z[rng.choice(d, int(SHARE * d), replace=False)] = rng.normal(size=int(SHARE * d))
    clean = phi.forward(z)
    sigma = noise * np.sqrt(np.mean(clean**2))
    return z, phi, clean + sigma * rng.normal(size=len(clean)), sigma**-2


@cache
def counts(d: int, noise: float, seed: int) -> tuple[float, ...]:
    """Return products and errors of both, and β̂ over the true one."""
    z, phi, y, beta = problem(d, noise, seed)
    found = cofem.fit(phi, y, method="cofem")
    told = cofem.fit(phi, y, method="cofem", prior="ard", noise_precision=beta)

    def error(post) -> float:
        return float(np.linalg.norm(post.mean - z) / np.linalg.norm(z))

    return (
        found.history["products"][-1], told.history["products"][-1], error(found), error(told),
        float(found.noise_precision) / beta,
    )  # fmt: skip


def run(quick: bool) -> Result:
    """Count the products of both at every size."""
    rows, ratios = [], []
    for d in QUICK_SIZES if quick else SIZES:
        for noise in NOISE:
            note(f"prior_cost: D = {d}, noise {noise}")
            seeds = 1 if quick or d > LARGE else SEEDS
            ours, told, error, told_error, beta = zip(
                *(counts(d, noise, seed) for seed in range(seeds)), strict=True
            )
            each = [a / b for a, b in zip(ours, told, strict=True)]
            ratios += each
            rows.append([d, noise, seeds, median(ours), median(told), median(each), max(each),
                         100 * median(error), 100 * median(told_error), median(beta)])  # fmt: skip
    columns = ["D", "noise", "seeds", "fit(phi, y)", '"ard", noise given', "ratio, median", "worst",
               "error %", "error of ard %", "β̂/β"]  # fmt: skip
    claim = Claim(
        f'at most {AT_MOST} times the products of "ard" that is told the noise',
        max(ratios) <= AT_MOST,
        f"worst of {len(ratios)} problems: {max(ratios):.2f}",
    )
    title = "Rows multiplied by Φ or Φᴴ to convergence, DCT"
    return Result("The cost of a learned prior and noise", [Table(title, columns, rows)], [claim])
