"""The core figures of the cofem that is on the path, whatever its age: prints one JSON object.

Problems are drawn here and not by ``cofem.simulate``, so that all ages meet the same ones.
"""

from __future__ import annotations

import inspect
import json
import time
import warnings
from typing import Any

import numpy as np

import cofem

SIZE, KEPT, NON_ZERO = 512, 205, 0.08
NOISE_STD = 0.05
SEEDS = (0, 1, 2)
PRODUCT_REPEATS, TIME_REPEATS = 200, 3
ROWS = 20  # right-hand sides of the bare product: what one E-step works on at once


def problem(seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return rows of a DCT, data and the truth."""
    rng = np.random.default_rng([seed, 20])
    rows = np.sort(rng.choice(SIZE, KEPT, replace=False))
    z = np.where(rng.random(SIZE) < NON_ZERO, rng.standard_normal(SIZE), 0.0)
    phi = cofem.operators.DCT(SIZE, rows=rows)
    return phi, phi.forward(z) + NOISE_STD * rng.standard_normal(KEPT), z


def fit(phi: Any, y: np.ndarray, **options: Any) -> Any:
    """Fit with the options that this age knows; before there was a choice the prior was "ard"."""
    known = inspect.signature(cofem.fit).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cofem.fit(phi, y, **{name: v for name, v in options.items() if name in known})


def error(post: Any, z: np.ndarray) -> float:
    """Return the relative error of the mean."""
    return float(np.linalg.norm(np.asarray(post.mean) - z) / np.linalg.norm(z))


def counted(phi: Any) -> tuple[Any, list[int]]:
    """Return the operator as functions of a user, and the right-hand sides it has met so far."""
    met: list[int] = []

    def forward(x: np.ndarray) -> np.ndarray:
        met.append(int(np.prod(np.shape(x)[:-1])))
        return np.asarray(phi.forward(x))

    return cofem.operators.from_functions(forward, phi.adjoint, (KEPT, SIZE), float), met


def bare(phi: Any) -> float:
    """Return the processor seconds of one product with ΦᴴΦ for one right-hand side."""
    x = np.random.default_rng(0).standard_normal((ROWS, SIZE))
    found = []
    for _ in range(TIME_REPEATS):
        began = time.process_time()
        for _ in range(PRODUCT_REPEATS):
            phi.adjoint(phi.forward(x))
        found.append((time.process_time() - began) / PRODUCT_REPEATS / ROWS)
    return min(found)


def seconds(phi: Any, y: np.ndarray, options: dict[str, Any]) -> float:
    """Return the processor seconds of a fit; the code is compiled already."""
    found = []
    for _ in range(TIME_REPEATS):
        began = time.process_time()
        fit(phi, y, **options)
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Measure, and print the medians over the problems."""
    told = {"noise_precision": NOISE_STD**-2, "prior": "ard"}
    rows = []
    for seed in SEEDS:
        phi, y, z = problem(seed)
        exact = error(fit(phi, y, method="em", **told), z)
        post = fit(phi, y, method="cofem", **told)
        plain = fit(phi, y)
        watched, met = counted(phi)
        fit(watched, y, method="cofem", **told)
        products = float(sum(met))
        rows.append({
            "products": products,
            "CG steps": float(np.sum(post.history["cg_steps"])),
            "error over exact EM": error(post, z) / exact,
            "nothing told: error over exact EM told the noise": error(plain, z) / exact,
            "time over that of the products": seconds(phi, y, {"method": "cofem", **told})
            / (products * bare(phi)),
        })  # fmt: skip
    print(json.dumps({name: float(np.median([r[name] for r in rows])) for name in rows[0]}))


if __name__ == "__main__":
    main()
