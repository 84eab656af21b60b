"""The learned prior on a grid of matrices, laws and noise: error, noise, statements, cost.

    python benchmarks/grid.py [--seeds 0 10] [--kinds …] [--statements]

Beside it exact EM that is told the noise, and least squares on the true support; with --statements
neither, which takes a quarter of the time: only what the fits say, beside the truth.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise

import numpy as np
from scipy.fft import idct
from scipy.linalg import cho_factor, cho_solve, toeplitz

import cofem

MATRICES = {"dct": 0.10, "normal": 0.06, "corr": 0.06, "convolution": 0.12, "ill": 0.06}
LAWS = ("normal", "sign", "t", "lognormal", "two")
NOISE = (0.01, 0.1, 0.3)


def values(law, k, rng):
    if law == "normal":
        return rng.normal(0, 2.2, k)
    if law == "sign":
        return rng.choice([-1.0, 1.0], k)
    if law == "t":
        return rng.standard_t(2, k)
    if law == "lognormal":
        return rng.choice([-1, 1], k) * np.exp(1.5 * rng.normal(size=k))
    return np.where(rng.random(k) < 0.15, 30.0, 1.0) * rng.normal(size=k)


def matrix(kind, n, rng):
    if kind == "dct":
        rows = np.sort(rng.choice(n, n // 3, replace=False))
        return idct(np.eye(n), norm="ortho", axis=0)[rows]
    if kind == "normal":
        return rng.normal(size=(n // 3, n)) / np.sqrt(n // 3)
    if kind == "convolution":
        return toeplitz(0.96 ** np.arange(n), np.zeros(n))
    if kind == "corr":  # neighbours correlate by 0.9
        root = np.linalg.cholesky(toeplitz(0.9 ** np.arange(n)))
        return rng.normal(size=(n // 2, n)) @ root.T / np.sqrt(n // 2)
    u, _, vt = np.linalg.svd(rng.normal(size=(n // 2, n)), full_matrices=False)
    s = np.logspace(0, -3, n // 2)
    return u @ ((s / np.linalg.norm(s) * np.sqrt(n))[:, None] * vt)


def problem(kind, law, noise, seed, n=512):
    """Return z, Φ, y and the noise precision; the noise is relative to the rms of Φz."""
    rng = np.random.default_rng(seed)
    k = int(MATRICES[kind] * n)
    z = np.zeros(n)
    drawn = values(law, k, rng)
    z[rng.choice(n, k, replace=False)] = drawn
    phi = matrix(kind, n, rng)
    clean = phi @ z
    sigma = noise * np.sqrt(np.mean(clean**2))
    return z, phi, clean + sigma * rng.normal(size=len(clean)), 1 / sigma**2


def exact_em(phi, y, beta, iterations=100):
    """Sparse Bayesian learning by N × N systems, in the textbook's form."""
    n, d = phi.shape
    theta = np.sum(phi**2, axis=0)
    alpha = theta * d / max(y @ y - n / beta, 0.1 * (y @ y))
    for t in range(iterations):
        scaled = phi / alpha
        factor = cho_factor(np.eye(n) / beta + scaled @ phi.T, lower=True)
        mean = scaled.T @ cho_solve(factor, y)
        if t < iterations - 1:
            variance = 1 / alpha - np.sum(scaled * cho_solve(factor, scaled), axis=0)
            alpha = 1 / (mean**2 + np.maximum(variance, 1 / (alpha + beta * theta)))
    return mean


def least_squares(phi, y, where):
    mean = np.zeros(phi.shape[1])
    mean[where] = np.linalg.lstsq(phi[:, where], y, rcond=None)[0]
    return mean


def relative(mean, z):
    return float(np.linalg.norm(mean - z) / np.linalg.norm(z))


def measure(kind, law, noise, seed, beside=True, **options):
    """Return one row: a dict of what was found, exact EM and the oracle beside it or not."""
    z, phi, y, beta = problem(kind, law, noise, seed)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(phi, y, **options)
    seconds = time.perf_counter() - began
    low, high = post.interval(0.95)
    inside, chosen = (low <= z) & (z <= high), post.support()
    return {
        "kind": kind, "law": law, "noise": noise, "seed": seed,
        "error": relative(post.mean, z),
        "em": relative(exact_em(phi, y, beta), z) if beside else np.nan,
        "oracle": relative(least_squares(phi, y, z != 0), z) if beside else np.nan,
        "beta": post.noise_precision / beta,
        "prior": post.prior, "warned": len(caught) > 0, "seconds": seconds,
        "chosen": int(chosen.sum()), "false": int((z[chosen] == 0).sum()),
        "inside_chosen": int(inside[chosen].sum()), "inside": float(inside.mean()),
        "inside_nonzero": float(inside[z != 0].mean()),
        "probability": post.probability, "nonzero": z != 0,
    }  # fmt: skip


def summary(rows):
    ratio = np.array([r["error"] / r["em"] for r in rows])
    beta = np.array([r["beta"] for r in rows])
    within = [np.mean(np.maximum(beta, 1 / beta) <= f) for f in (3, 1.5)]
    certified = np.mean([r["prior"] == "mixture" for r in rows])
    quantiles = np.quantile(ratio, [0.5, 0.95, 0.99])
    if not np.any(np.isnan(ratio)):
        print(
            f"{len(rows)} problems: error beside exact EM that knows the noise: median "
            f"{quantiles[0]:.2f}, 95 % {quantiles[1]:.2f}, 99 % {quantiles[2]:.2f}"
        )
    print(
        f"noise within 3: {within[0]:.1%}, within 1.5: {within[1]:.1%}; certified "
        f"{certified:.1%}; warned {np.mean([r['warned'] for r in rows]):.1%}"
    )
    for law in ("sign", "normal"):
        own = [r["error"] / r["oracle"] for r in rows if r["law"] == law and r["noise"] == 0.01]
        if own and not np.any(np.isnan(own)):
            print(f"beside the oracle, noise .01, {law}: median {np.median(own):.2f}")


def statements(rows):
    print("\nmatrix: false in support | coverage in support, overall, non-zeros | said: was (n)")
    for kind in MATRICES:
        own = [r for r in rows if r["kind"] == kind and r["probability"] is not None]
        if not own:
            continue
        chosen = sum(r["chosen"] for r in own)
        p = np.concatenate([r["probability"] for r in own])
        true = np.concatenate([r["nonzero"] for r in own])
        classes = []
        edges = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.1)
        for low, high in pairwise(edges):
            which = (p >= low) & (p < high)
            if which.sum() >= 200:
                classes.append(f"{p[which].mean():.2f}: {true[which].mean():.2f} ({which.sum()})")
        print(
            f"{kind:12s} {sum(r['false'] for r in own) / max(chosen, 1):.3f} | "
            f"{sum(r['inside_chosen'] for r in own) / max(chosen, 1):.3f}, "
            f"{np.mean([r['inside'] for r in own]):.3f}, "
            f"{np.mean([r['inside_nonzero'] for r in own]):.3f} | {'; '.join(classes)}"
        )


def worst(rows, n=12):
    print("\nworst beside EM:")
    for r in sorted(rows, key=lambda r: -r["error"] / r["em"])[:n]:
        print(
            f"  {r['kind']} {r['law']} {r['noise']} seed {r['seed']}: {r['error']:.3f} "
            f"(EM {r['em']:.3f}, oracle {r['oracle']:.3f}), β {r['beta']:.2f}, {r['prior']}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10))
    parser.add_argument("--kinds", nargs="*", default=list(MATRICES))
    parser.add_argument("--prior", default="auto")
    parser.add_argument("--statements", action="store_true", help="without exact EM and oracle")
    arguments = parser.parse_args()
    rows = []
    began = time.time()
    for seed in range(*arguments.seeds):
        for kind in arguments.kinds:
            rows += [
                measure(kind, law, noise, seed, not arguments.statements, prior=arguments.prior)
                for law in LAWS
                for noise in NOISE
            ]
    summary(rows)
    statements(rows)
    if not arguments.statements:
        worst(rows)
    print(f"{time.time() - began:.0f} s, of which fits {sum(r['seconds'] for r in rows):.0f} s")


if __name__ == "__main__":
    main()
