"""Trajectories: a golden-angle radial phantom, a spiral with coils, and the time of ΦᴴΦ.

Run: python benchmarks/mri_trajectory.py [--side N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import mri
from cofem.mri.scanner.trajectory import checked_trajectory
from cofem.operators import NUFFT
from common import Result, Table, best_of, print_result
from mri_data import coil_maps

NOISE = 0.01


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=96)
    side = parser.parse_args().side
    began = time.perf_counter()
    tables = [products(side), reconstructions(side)]
    print_result(Result("Trajectories", tables, []), time.perf_counter() - began)
    return 0


def radial(spokes: int, side: int) -> np.ndarray:
    """Return golden-angle spokes, (spokes, side, 2)."""
    angles = np.arange(spokes) * np.pi * (5**0.5 - 1) / 2
    along = np.linspace(-0.5, 0.5, side, endpoint=False) * side
    return np.stack([np.outer(np.sin(angles), along), np.outer(np.cos(angles), along)], axis=-1)


def spiral(arms: int, side: int) -> np.ndarray:
    """Return interleaved Archimedean spirals, (arms, samples, 2)."""
    t = np.linspace(0, 1, 8 * side)
    turn = 2 * np.pi * side / (2 * arms) * t
    turns = turn[None] + 2 * np.pi * np.arange(arms)[:, None] / arms
    return np.stack([np.sin(turns), np.cos(turns)], axis=-1) * (0.499 * side * t)[None, :, None]


def products(side: int) -> Table:
    """Compare the Gram with both products in turn, and its time with others'."""
    k = radial(side, side)
    op = NUFFT((side, side), k)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(side**2) + 1j * rng.standard_normal(side**2)
    y = rng.standard_normal(op.shape[0]) + 1j * rng.standard_normal(op.shape[0])
    both = op.adjoint(op.forward(x))
    gram = float(np.linalg.norm(op.gram(x) - both) / np.linalg.norm(both))
    left, right = np.vdot(y, op.forward(x)), np.vdot(op.adjoint(y), x)
    ways: dict[str, Callable[[], Any]] = {
        "cofem, Toeplitz": lambda: op.gram(x),
        "cofem, both products": lambda: op.adjoint(op.forward(x)),
    }
    ways |= others(k, x.reshape(side, side))
    rows = [[name, 1e3 * best_of(5, work)[0]] for name, work in ways.items()]
    rows += [["Gram's error, relative", gram],
             ["adjoint's error, relative", float(abs(left - right) / abs(left))]]  # fmt: skip
    return Table(f"ΦᴴΦ of {side} spokes × {side}, ms", ["way", "ms"], rows)


def others(k: np.ndarray, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return the same product by SigPy and mri-nufft, where they are there."""
    ways: dict[str, Callable[[], Any]] = {}
    try:
        import sigpy

        ways["SigPy"] = lambda: sigpy.nufft_adjoint(sigpy.nufft(x, k), k, x.shape)
    except ImportError:
        pass
    try:
        import mrinufft

        make = mrinufft.get_operator("finufft")
        places = (k / x.shape[0]).astype(np.float32).reshape(-1, 2)
        other = make(places, x.shape, n_coils=1, squeeze_dims=True)
        single = x.astype(np.complex64)
        ways["mri-nufft (finufft, single)"] = lambda: other.adj_op(other.op(single))
    except (ImportError, ValueError):
        pass
    return ways


def reconstructions(side: int) -> Table:
    """Reconstruct the phantom, from spokes, and from spirals with four coils."""
    truth = mri.phantom((side, side))
    rng = np.random.default_rng(1)
    rows = []
    for name, k, maps in (
        ("golden-angle radial", radial(side // 3, side), None),
        ("spiral, 4 coils", spiral(max(side // 16, 2), side), coil_maps((side, side), 4)),
    ):
        op = NUFFT((side, side), k)
        images = truth if maps is None else truth[:, None] * maps
        y = op.forward(images.reshape(*images.shape[:-2], -1))
        y = y + NOISE * (rng.standard_normal(y.shape) + 1j * rng.standard_normal(y.shape)) / 2**0.5
        y = y.reshape(*images.shape[:-2], *k.shape[:2])
        began = time.perf_counter()
        found = mri.reconstruct(y, trajectory=k, shape=(side, side), sensitivities=maps, real=True)
        seconds = time.perf_counter() - began
        first = checked_trajectory(y, k, (side, side), maps, np.empty(0)).first_image().real
        inside = np.any(truth > 0, axis=0)
        covered = (np.abs(found.image - truth) < 1.96 * found.std)[:, inside].mean()
        errors = [100 * mri.nrmse(x.reshape(truth.shape), truth) for x in (found.image, first)]
        rows.append([name, k.shape[0] * k.shape[1] / side**2, *errors, covered, seconds])
    columns = ["trajectory", "samples a pixel", "NRMSE %", "gridded %", "covered", "s"]
    return Table(f"The phantom, {side} × {side}, noise {NOISE}", columns, rows)


if __name__ == "__main__":
    raise SystemExit(main())
