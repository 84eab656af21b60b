"""Groups and coupling: what it is worth to know where non-zeros lie together."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.operators import Autoregressive, Smoothing
from common import Claim, Table
from models_common import error, fitted, median


def blocks(seed: int, N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three of twenty blocks of six."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(20), 6)
    z = np.where(np.isin(labels, rng.choice(20, 3, replace=False)), rng.normal(size=120), 0.0)
    phi = rng.normal(size=(N, 120)) / np.sqrt(N)
    return phi, phi @ z + 0.01 * rng.normal(size=N), z, labels


def success(N: int, seeds: range) -> list[float]:
    """Return the shares of problems recovered to 10 %: without groups, with them."""
    hits = np.zeros(2)
    for seed in seeds:
        phi, y, z, labels = blocks(seed, N)
        hits += [error(fitted(phi, y, 0.01, groups=g), z) < 10 for g in (None, labels)]
    return [float(share) for share in 100 * hits / len(seeds)]


def groups(seeds: range) -> tuple[list[Table], list[Claim]]:
    rows: list[list[float]] = [[N, *success(N, seeds)] for N in (20, 24, 28, 32, 40, 48)]
    need = [next((row[0] for row in rows if row[k] >= 90), np.inf) for k in (1, 2)]
    text = "groups: 90 % recovered from fewer measurements"
    return (
        [Table("Recovered to 10 %, of 120 unknowns in blocks of six, 18 not zero",
               ["measurements", "without groups %", "with groups %"], rows)],
        [Claim(text, need[1] < need[0], f"{need[1]:g} instead of {need[0]:g}")],
    )  # fmt: skip


def patches(seed: int, N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw an image of 20 × 20 with four patches of normal values."""
    rng = np.random.default_rng(seed)
    image = np.zeros((20, 20))
    for _ in range(4):
        h, w = rng.integers(3, 6, size=2)
        i, j = rng.integers(0, 20 - h), rng.integers(0, 20 - w)
        image[i : i + h, j : j + w] = rng.normal(size=(h, w))
    phi = rng.normal(size=(N, 400)) / np.sqrt(N)
    return phi, phi @ image.ravel() + 0.02 * rng.normal(size=N), image.ravel()


def spikes(seed: int, n: int = 400) -> tuple[Autoregressive, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.where(rng.random(n) < 0.05, 1 + rng.random(n), 0.0)
    phi = Autoregressive((0.9,), n)
    return phi, phi.forward(z) + 0.15 * rng.normal(size=n), z


def coupling(seeds: range) -> tuple[list[Table], list[Claim]]:
    few = seeds[:8]
    widths = (0.0, 0.4, 0.6, 1.0)
    rows: list[list[Any]] = []
    for N in (90, 120, 150):
        found = []
        for seed in few:
            phi, y, z = patches(seed, N)
            found.append([error(fitted(phi, y, 0.02, coupling=Smoothing((20, 20), s)), z)
                          for s in widths])  # fmt: skip
        rows.append([f"patches, {N} measurements of 400", *median(found)])
    found = []
    for seed in few:
        kernel, y, z = spikes(seed)
        found.append([error(fitted(kernel, y, 0.15, nonnegative=True,
                                   coupling=Smoothing(400, s)), z) for s in widths])  # fmt: skip
    rows.append(["spike train", *median(found)])
    columns = ["problem (8 of each)", *(f"sigma = {s:g}" for s in widths)]
    return [Table("NRMSE % by width of the coupling; 0 is none", columns, rows)], [
        Claim("coupling helps patches from few measurements", rows[0][3] < rows[0][1],
              f"{rows[0][1]:.0f} to {rows[0][3]:.0f} %"),
        Claim("coupling hurts spike trains", rows[-1][3] > rows[-1][1],
              f"{rows[-1][1]:.0f} to {rows[-1][3]:.0f} %"),
    ]  # fmt: skip
