"""Fits where z has no zeros, or few of them: errors, and how many intervals hold the truth.

    python benchmarks/dense_z.py [--seeds 0 4] [--size 128]

Beside the fit a ridge regression that is told the noise and the variance of z: for normal z and
unit noise ratio nothing is better.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.fft import idct

import cofem

SHAPES = (0.25, 0.5, 1.0, 2.0)  # N/D
LAWS = {"normal": 1.0, "sign": 1.0, "t": 1.0, "normal, half are zero": 0.5}
NOISE = 0.1


def matrix(kind, n, d, rng):
    """Independent entries, neighbours that correlate by .9, or rows of a DCT."""
    if kind == "dct":
        return idct(np.eye(d), norm="ortho", axis=0)[np.sort(rng.choice(d, n, replace=False))]
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    for j in range(1, d if kind == "corr" else 0):
        phi[:, j] = 0.9 * phi[:, j - 1] + np.sqrt(1 - 0.9**2) * phi[:, j]
    return phi


def problem(kind, law, n, d, seed):
    """Return Φ, y, z and the noise variance; the noise is relative to the rms of Φz."""
    rng = np.random.default_rng([60, seed])
    phi = matrix(kind, n, d, rng)
    if law.startswith("normal"):
        z = rng.normal(size=d)
    else:
        z = rng.choice([-1.0, 1.0], d) if law == "sign" else rng.standard_t(3, d)
    z *= rng.random(d) < LAWS[law]
    clean = phi @ z
    sigma = NOISE * np.sqrt(np.mean(clean**2))
    return phi, clean + sigma * rng.normal(size=n), z, sigma**2


def ridge(phi, y, variance, power):
    """Return the best linear estimate."""
    n = len(y)
    return power * phi.T @ np.linalg.solve(power * phi @ phi.T + variance * np.eye(n), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 4))
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--kinds", nargs="*", default=["gaussian", "corr", "dct"])
    asked = parser.parse_args()
    d, seeds = asked.size, range(*asked.seeds)
    print("| matrix | z | N/D | error | of the ridge that is told | covered, % | lowest | warned |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in asked.kinds:
        for law in LAWS:
            for ratio in SHAPES[:2] if kind == "dct" else SHAPES:
                rows = []
                for seed in seeds:
                    phi, y, z, variance = problem(kind, law, int(ratio * d), d, seed)
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        post = cofem.fit(phi, y)
                    low, high = post.interval(0.95)
                    best, size = ridge(phi, y, variance, np.mean(z**2)), np.linalg.norm(z)
                    rows.append([
                        np.linalg.norm(post.mean - z) / size, np.linalg.norm(best - z) / size,
                        100 * np.mean((low <= z) & (z <= high)), len(caught) > 0,
                    ])  # fmt: skip
                error, told, covered, warned = np.array(rows).T
                print(
                    f"| {kind} | {law} | {ratio:g} | {error.mean():.3f} | {told.mean():.3f} | "
                    f"{covered.mean():.1f} | {covered.min():.0f} | {int(warned.sum())} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
