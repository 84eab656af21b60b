"""How many non-zeros can be recovered: the learned prior, EM, AMP and the lasso beside the limit.

    python benchmarks/phase_transition.py [--size 4096] [--ratios 0.333 …] [--trials 10]
                                          [--methods fit EM AMP FISTA] [--write FILE.md]

Random rows of an orthonormal DCT, a share N/D of them, normal values, noise of σ = .002. A problem
is solved if the error is below 5 %. What is printed is the share f of non-zeros at which half of
the problems are solved, by linear interpolation between the shares tried. The limit is that of the
state evolution of vector approximate message passing with the true prior (Rangan, Schniter &
Fletcher 2019): no algorithm of polynomial time is known that does better.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

import cofem
from common import Claim, Result, Table, describe_machine, finish

SIGMA, SOLVED = 0.002, 0.05
# Shares tried, as multiples of the limit.
TRIED = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
# Weights of the lasso, relative to the smallest that gives zero.
WEIGHTS = np.geomspace(0.1, 1e-4, 10)


# The square of a standard normal on a grid, real and complex, and how probable it is.
NODES = (np.arange(1200) + 0.5) * 9 / 1200
SQUARES = NODES**2
DENSITY = {
    half: weight / np.sum(weight)
    for half, weight in ((0.5, np.exp(-SQUARES / 2)), (1.0, NODES * np.exp(-SQUARES)))
}


# -- the limit -----------------------------------------------------------------


def scalar_error(gamma, f, half=0.5):
    """Return E var(x | x + N(0, 1/γ)) for x = 0 with probability 1 − f, else standard normal.

    ``half`` is ½, or 1 for complex x and noise, both circular.
    """
    # The observation r is normal with variance 1/γ or 1 + 1/γ: integrate over both.
    total = 0.0
    for share, variance in ((1 - f, 1 / gamma), (f, 1 + 1 / gamma)):
        square = variance * SQUARES
        gain = half * (square * gamma**2 / (1 + gamma) - np.log1p(gamma))
        p = 1 / (1 + np.exp(-np.clip(np.log(f / (1 - f)) + gain, -700, 700)))
        mean = (gamma / (1 + gamma)) ** 2 * square  # its square
        total += share * np.sum(DENSITY[half] * (p * (1 / (1 + gamma) + mean) - p**2 * mean))
    return total


def limit_error(f, ratio, beta, iterations=2000, half=0.5):
    """Return the mean squared error at the fixed point, relative to that of zero."""
    gamma = 1e-3
    for _ in range(iterations):
        error = scalar_error(gamma, f, half)
        gamma2 = max(1 / error - gamma, 1e-12)
        seen = ratio / (gamma2 + beta) + (1 - ratio) / gamma2
        new = max(1 / seen - gamma2, 1e-12)
        if abs(np.log(new / gamma)) < 1e-7:
            break
        gamma = new
    return error / f


def limit(ratio, half=0.5):
    """Return the largest f that state evolution solves, by halving."""
    low, high = 0.01 * ratio, ratio
    for _ in range(12):
        middle = (low + high) / 2
        solved = limit_error(middle, ratio, 1 / SIGMA**2, half=half) < SOLVED**2
        low, high = (middle, high) if solved else (low, middle)
    return low


# -- methods -------------------------------------------------------------------


def fit(phi, y, z):
    return cofem.fit(phi, y).mean


def em(phi, y, z):
    return cofem.fit(phi, y, noise_precision=1 / SIGMA**2, prior="ard").mean


def amp(phi, y, z):
    return cofem.fit(phi, y, noise_precision=1 / SIGMA**2, method="amp").mean


def fista(phi, y, z, steps=400):
    """Return the lasso with the weight that the truth chooses; rows are orthonormal: ‖Φ‖ = 1."""
    top = np.max(np.abs(phi.adjoint(y)))
    x, best, error = np.zeros_like(z), np.zeros_like(z), np.inf
    for weight in WEIGHTS * top:
        momentum, t = x.copy(), 1.0
        for _ in range(steps):
            moved = momentum + phi.adjoint(y - phi.forward(momentum))
            new = np.sign(moved) * np.maximum(np.abs(moved) - weight, 0)
            t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
            momentum, x, t = new + (t - 1) / t_new * (new - x), new, t_new
        if np.linalg.norm(x - z) < error:
            best, error = x.copy(), np.linalg.norm(x - z)
    return best


METHODS = {"fit": fit, "EM": em, "AMP": amp, "FISTA": fista}


# -- measurement ---------------------------------------------------------------


def problem(size, ratio, f, seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(size, round(ratio * size), replace=False))
    z = np.zeros(size)
    where = rng.choice(size, round(f * size), replace=False)
    z[where] = rng.normal(size=len(where))
    phi = cofem.operators.DCT(size, rows)
    return phi, phi.forward(z) + SIGMA * rng.normal(size=len(rows)), z


def half_solved(shares, solved):
    """Return where the share solved falls through one half, between the shares tried."""
    for (a, p), (b, q) in pairwise(zip(shares, solved, strict=True)):
        if p >= 0.5 > q:
            return a + (p - 0.5) / (p - q) * (b - a)
    return shares[-1] if solved[-1] >= 0.5 else float("nan")


def curve(name, size, ratio, top, trials, tried):
    shares, solved = [], []
    for multiple in tried:
        f, count = multiple * top, 0
        for seed in range(trials):
            phi, y, z = problem(size, ratio, f, 1000 * round(1000 * ratio) + seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = METHODS[name](phi, y, z)
            count += np.linalg.norm(found - z) < SOLVED * np.linalg.norm(z)
        shares.append(f)
        solved.append(count / trials)
        print(f"  N/D {ratio:.3f}, {name}: f = {f:.4f}, {count} of {trials}", file=sys.stderr,
              flush=True)  # fmt: skip
        if solved[-1] == 0:
            break
    return half_solved(shares, solved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--ratios", type=float, nargs="*", default=[0.1, 0.2, 1 / 3, 0.45, 0.6])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--tried", type=float, nargs="*", default=TRIED)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    machine, began = describe_machine(), time.perf_counter()
    rows, claims = [], []
    for ratio in asked.ratios:
        top = limit(ratio)
        found = [curve(name, asked.size, ratio, top, asked.trials, asked.tried)
                 for name in asked.methods]  # fmt: skip
        rows.append([f"{ratio:.3f}", top, *found])
        if abs(ratio - 1 / 3) < 1e-3 and "fit" in asked.methods:
            half = found[asked.methods.index("fit")]
            words = "half solved at f ≥ .165 with N = D/3"
            claims.append(Claim(words, half >= 0.165, f"{half:.4f}"))
    title = f"Share of non-zeros at which half of {asked.trials} are solved, D = {asked.size}"
    table = Table(title, ["N/D", "limit", *asked.methods], rows)
    result = Result("Phase transition", [table], claims)
    finish(result, began, machine, asked.write)


if __name__ == "__main__":
    main()
