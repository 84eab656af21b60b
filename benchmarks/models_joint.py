"""Joint tasks: what tasks with a common support gain from each other, and their cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.operators import DCT, Autoregressive, LinearOperator
from common import Claim, Table
from models_common import error, fitted

TASKS = (1, 2, 4, 8)


def common_support(seed: int, shared: bool) -> tuple[list[LinearOperator], list[Any], np.ndarray]:
    """Eight tasks, 40 samples each of 128 coefficients, 16 of them not zero."""
    rng = np.random.default_rng(seed)
    z = np.zeros((8, 128))
    z[:, rng.choice(128, 16, replace=False)] = rng.normal(size=(8, 16))
    phis = [DCT(128, rows=np.sort(rng.choice(128, 40, replace=False))) for _ in range(8)]
    phis = phis[:1] * 8 if shared else phis
    ys = [p.forward(x) + 0.02 * rng.normal(size=40) for p, x in zip(phis, z, strict=True)]
    return phis, ys, z


def joint(seeds: range) -> tuple[list[Table], list[Claim]]:
    rows, claims = [], []
    for shared in (False, True):
        found = joint_study(seeds, shared)
        middle = np.median(found, axis=0)
        name = "one for all" if shared else "one for each"
        rows += [[name, L, *middle[i]] for i, L in enumerate(TASKS)]
        first = middle[:, 2]
        falls = np.all(np.diff(first) < 0) and np.all(middle[1:, 0] < middle[1:, 1])
        claims.append(Claim(
            f"joint tasks, operators {name}: a task's error falls with the number of tasks beside "
            "it, and joint fits beat separate ones", bool(falls),
            ", ".join(f"{value:.1f} %" for value in first),
        ))  # fmt: skip
    columns = ["operators", "tasks", "joint, NRMSE %", "separate, NRMSE %", "joint, first task"]
    title = f"Joint tasks with a common support ({len(found)} problems)"
    return [Table(title, columns, rows)], claims


def joint_study(seeds: range, shared: bool) -> np.ndarray:
    """Measure twice as many problems as elsewhere; of shape (problems, TASKS, 3).

    The page's table and its figure both come from here.
    """
    return np.array([joint_errors(seed, shared) for seed in range(2 * len(seeds))])


def joint_errors(seed: int, shared: bool) -> list[tuple[float, float, float]]:
    """Return, for every L, the errors of joint and separate fits, and of the first task's."""
    phis, ys, z = common_support(seed, shared)
    alone = [fitted(p, y, 0.02).mean for p, y in zip(phis, ys, strict=True)]
    together = [fitted(phis[:L], ys[:L], 0.02).mean for L in TASKS]

    def average(means: Any) -> float:
        return float(np.mean([error(mean, x) for mean, x in zip(means, z, strict=False)]))

    return [
        (average(means), average(alone[: len(means)]), error(means[0], z[0])) for means in together
    ]


def identical(seeds: range) -> tuple[list[Table], list[Claim]]:
    """Three identical tasks against one, and the products of L different ones."""
    rows, claims = [], []
    for method in ("cofem", "em", "woodbury", "banded", "sequential"):
        off = []
        for seed in seeds[:5]:
            phis, ys, z = common_support(seed, shared=True)
            phi, y = phis[0], ys[0]
            if method == "banded":
                phi = Autoregressive((0.9,), 128)
                y = phi.forward(z[0]) + 0.02 * np.random.default_rng(seed).normal(size=128)
            one = fitted(phi, y, 0.02, method=method, max_iter=20)
            three = fitted(phi, np.stack([y] * 3), 0.02, method=method, max_iter=20)
            off.append(float(np.max(np.abs(three.mean - one.mean)) / np.max(np.abs(one.mean))))
        rows.append([method, max(off)])
        claims.append(Claim(f"three identical tasks are one to 1e-9: {method}", max(off) < 1e-9,
                            f"{max(off):.1e}"))  # fmt: skip
    cost = np.median([products(seed) for seed in seeds[:5]], axis=0)
    table = [[L, *cost[i], cost[i][0] / cost[i][1]] for i, L in enumerate(TASKS)]
    return [
        Table("Three identical tasks against one (5 problems)", ["method", "largest difference"],
              rows),
        Table("Products with Φ and Φᴴ, one operator, 20 iterations (5 problems)",
              ["tasks", "joint", "separate", "ratio"], table),
    ], claims  # fmt: skip


def products(seed: int) -> list[tuple[float, float]]:
    phis, ys, _ = common_support(seed, shared=True)

    def count(y: Any) -> float:
        return fitted(phis[0], y, 0.02, method="cofem", max_iter=20).history["products"][-1]

    alone = [count(y) for y in ys]
    return [(count(np.stack(ys[:L])), sum(alone[:L])) for L in TASKS]
