"""Joint tasks of unequal and unknown noise: a clean one beside a noisy one."""

from __future__ import annotations

from typing import Any

import numpy as np

import cofem
from cofem.operators import DCT, Dense, LinearOperator
from common import Claim, Table
from models_common import error

LEVELS = (0.01, 0.1)
CASES = (("DCT", 512, 0.12), ("Gaussian", 512, 0.12), ("DCT", 1024, 0.08), ("Gaussian", 1024, 0.08))


def unequal_noise(seeds: range) -> tuple[list[Table], list[Claim]]:
    rows, claims = [], []
    for dictionary, D, sparsity in CASES:
        found = np.array([_errors(dictionary, D, sparsity, seed) for seed in seeds])
        middle = np.median(found, axis=0)
        rows.append([f"{dictionary}, {100 * sparsity:g} % non-zeros", D, *middle[:6]])
        ratios = found[:, 6:]
        claims += [
            Claim(
                f"{dictionary}, D = {D}: joint beats alone, for the clean and the noisy task",
                bool(np.all(middle[:2] < middle[2:4])),
                f"{np.sum(found[:, :2] < found[:, 2:4])} of {2 * len(found)} tasks",
            ),
            Claim(
                f"{dictionary}, D = {D}: both noise precisions within a factor 3",
                bool(np.all((ratios > 1 / 3) & (ratios < 3))),
                f"{ratios.min():.2f} to {ratios.max():.2f} times the truth",
            ),
        ]
    columns = ["dictionary", "D", "joint, clean %", "joint, noisy %", "alone, clean %",
               "alone, noisy %", "true β, clean %", "true β, noisy %"]  # fmt: skip
    title = f"Two tasks, σ = 0.01 and 0.1, noise unknown ({len(seeds)} problems)"
    return [Table(title, columns, rows)], claims


def _errors(dictionary: str, D: int, sparsity: float, seed: int) -> list[float]:
    """Return errors of both tasks joint, alone and with the true β, and β found over β."""
    phis, ys, z = _problem(dictionary, D, sparsity, seed)
    options: dict[str, Any] = {"method": "cofem", "max_iter": 100}
    joint = cofem.fit(phis, ys, **options)
    alone = [cofem.fit(phi, y, **options) for phi, y in zip(phis, ys, strict=True)]
    true = cofem.fit(phis, ys, noise_precision=[s**-2 for s in LEVELS], **options)
    tasks = range(len(LEVELS))
    return [
        *(error(joint.mean[i], z[i]) for i in tasks),
        *(error(alone[i].mean, z[i]) for i in tasks),
        *(error(true.mean[i], z[i]) for i in tasks),
        *(float(joint.noise_precision[i]) * LEVELS[i] ** 2 for i in tasks),
    ]


def _problem(
    dictionary: str, D: int, sparsity: float, seed: int
) -> tuple[list[LinearOperator], list[np.ndarray], np.ndarray]:
    """Draw two tasks of D/3 data each, with one support."""
    rng = np.random.default_rng(1000 + seed)
    n = D // 3
    support = rng.choice(D, int(sparsity * D), replace=False)
    z = np.zeros((len(LEVELS), D))
    z[:, support] = rng.normal(size=(len(LEVELS), len(support)))
    phis: list[LinearOperator] = []
    ys = []
    for row, sigma in zip(z, LEVELS, strict=True):
        if dictionary == "DCT":
            phis.append(DCT(D, rows=np.sort(rng.choice(D, n, replace=False))))
        else:
            phis.append(Dense(rng.normal(size=(n, D)) / np.sqrt(n)))
        ys.append(phis[-1].forward(row) + sigma * rng.normal(size=n))
    return phis, ys, z
