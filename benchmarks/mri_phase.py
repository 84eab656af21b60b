"""Complex images with a strong phase beside their real twins.

The phantom, and where it is there a part of the atlas, times exp(iφ) with a smooth φ of its
own for every contrast. Run: python benchmarks/mri_phase.py [--seeds N]
With --choice: what phase="auto" chooses, beside the errors of "none" and "smooth", for every
contrast.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from cofem import mri
from common import Claim, Result, Table, print_result
from mri_data import ATLAS as FILE
from mri_data import data_file, load
from mri_data import mask as sampling

CASES = ((2, 1.0), (4, 0.7))  # waves across the picture, radians
NOISE = (0.0, 0.03)
SIDE = 128


def run(seeds: int) -> Result:
    """Measure every object, noise and phase."""
    rows = [row for seed in range(seeds) for row in measured(seed)]
    columns = ["object", "σ", "waves", "radians", "seed", "complex", "real twin", "ratio"]
    columns += ["CG steps", "seconds"]
    table = Table("NRMSE in %", columns, rows)
    ratios = [row[7] for row in rows]
    notes = [f"median ratio {np.median(ratios):.2f}, largest {np.max(ratios):.2f}"]
    return Result("Complex images and their real twins", [table], [], notes)


def measured(seed: int) -> Iterator[list[Any]]:
    """Yield the rows of a seed: it decides the phase, the mask and the noise."""
    for name, magnitude in objects().items():
        mask = mri.power_rule_mask(magnitude.shape, 4, 5, seed=seed)
        for sigma in NOISE:
            real = samples(magnitude, mask, sigma, seed)
            twin = 100 * mri.nrmse(mri.reconstruct(real, mask, real=True).image, magnitude)
            for waves, radians in CASES:
                truth = magnitude * np.exp(1j * phases(magnitude.shape, waves, radians, seed))
                began = time.process_time()
                found = mri.reconstruct(samples(truth, mask, sigma, seed), mask)
                seconds = time.process_time() - began
                error = 100 * mri.nrmse(found.image, truth)
                yield [
                    name, sigma, waves, radians, seed, error, twin, error / twin,
                    sum(found.history["cg_steps"]), seconds,
                ]  # fmt: skip


def choice(seeds: int) -> Result:
    """Compare the three settings of the phase on measured and simulated phases."""
    rows: list[list[Any]] = []
    for seed in range(seeds):
        for name, truth, mask, sigma in with_phases(seed):
            y = samples(truth, mask, sigma, seed)
            found = {p: mri.reconstruct(y, mask, phase=p) for p in ("none", "smooth", "auto")}
            for i, chosen in enumerate(found["auto"].phase):
                errors = [
                    100 * mri.nrmse(x.image[i : i + 1], truth[i : i + 1]) for x in found.values()
                ]
                ratio = errors[2] / min(errors[:2])
                rows.append([name, seed, i, *errors, chosen, ratio])
    columns = ["images", "seed", "contrast", "none", "smooth", "auto", "chosen", "auto / better"]
    worst = max(row[-1] for row in rows)
    claim = Claim("auto within 5 % of the better, every contrast", worst <= 1.05, f"{worst:.3f}")
    return Result("The choice of the phase", [Table("NRMSE in %", columns, rows)], [claim], [])


def with_phases(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, float]]:
    """Yield names, complex images, masks and noises."""
    for name in ("sagittal", "echoes"):
        truth = load(name)
        if truth is not None:
            for kind in ("lines", "power"):
                shape = truth.images.shape
                yield f"{name}, {kind}", truth.images, sampling(kind, shape, 3, seed), 0.0
    for name, magnitude in objects().items():
        for waves, radians in CASES:
            turned = magnitude * np.exp(1j * phases(magnitude.shape, waves, radians, seed))
            mask = sampling("lines", turned.shape, 3, seed)
            yield f"{name}, {waves} waves", turned, mask, 0.01


def objects() -> dict[str, np.ndarray]:
    """Return the real images, by name."""
    found = {"phantom": mri.phantom((SIDE, SIDE))}
    path = data_file(FILE)
    if path is not None:
        with np.load(path) as atlas:
            inside = slice(36, 36 + SIDE)
            found["atlas"] = atlas["images"][:, inside, inside]
    return found


def phases(shape: tuple[int, ...], waves: int, radians: float, seed: int) -> np.ndarray:
    """Return a smooth random field for every contrast."""
    random = np.random.default_rng([seed, waves])
    frequencies = [np.fft.fftfreq(side, 1 / side) for side in shape[1:]]
    squares = frequencies[0][:, None] ** 2 + frequencies[1][None, :] ** 2
    low = np.exp(-0.5 * squares / waves**2)
    fields = np.fft.ifft2(np.fft.fft2(random.standard_normal(shape)) * low).real
    return np.asarray(radians * fields / fields.std(axis=(1, 2), keepdims=True))


def samples(image: np.ndarray, mask: np.ndarray, sigma: float, seed: int) -> np.ndarray:
    """Return k-space with complex white noise, E|ε|² = σ²."""
    random = np.random.default_rng([seed, 1])
    noise = random.standard_normal(image.shape) + 1j * random.standard_normal(image.shape)
    return np.asarray((mri.to_kspace(image) + noise * sigma / 2**0.5) * mask)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choice", action="store_true")
    asked, start = parser.parse_args(), time.perf_counter()
    result = choice(asked.seeds) if asked.choice else run(asked.seeds)
    print_result(result, time.perf_counter() - start)
