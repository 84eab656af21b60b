"""A real scan with eight coils: reconstructed from its Poisson-disc samples, and drawn.

The k-space is that of the SigPy MRI tutorial (BSD-3-Clause), looked for in the folder that
COFEM_DATA names, else in ../shared/data beside the repository. There is no full reference:
the held-out samples tell how good it is.
Run: python benchmarks/mri_coils.py [FIGURE.png]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cofem import mri
from mri_data import data_file

FILE = "brain_8coil_230x180_kspace_undersampled.npz"
HELD_OUT = 0.1  # of the samples outside the calibration block
CALIBRATION = 24


def main(figure: Path | None) -> int:
    """Reconstruct, print what was found, and draw it."""
    path = data_file(FILE)
    if path is None:
        print(f"{FILE} is not here")
        return 0
    with np.load(path) as scan:
        kspace = scan["kspace"].astype(complex)
    sampled = np.any(kspace != 0, axis=0)
    coils = mri.coil_sensitivities(kspace, CALIBRATION)
    found, seconds = reconstructed(kspace, sampled, coils)
    print(f"{kspace.shape} samples {sampled.mean():.1%}, {seconds:.1f} s, {found}")
    rows = prediction_errors(kspace, sampled, coils)
    for name, error in rows.items():
        print(f"held-out k-space, error beside its size: {name} {error:.3f}")
    if figure is not None:
        draw(found, kspace, sampled, coils).savefig(figure, dpi=130)
        print(f"drawn: {figure}")
    return 0


def reconstructed(
    kspace: np.ndarray, sampled: np.ndarray, coils: np.ndarray
) -> tuple[mri.Reconstruction, float]:
    """Return the image, and the seconds that it took."""
    began = time.perf_counter()
    found = mri.reconstruct((kspace * sampled)[None], sampled, sensitivities=coils)
    return found, time.perf_counter() - began


def prediction_errors(
    kspace: np.ndarray, sampled: np.ndarray, coils: np.ndarray
) -> dict[str, float]:
    """Leave samples out, and compare them with what is predicted for them."""
    random = np.random.default_rng(0)
    centre = np.zeros_like(sampled)
    box = tuple(slice((n - CALIBRATION) // 2, (n + CALIBRATION) // 2) for n in sampled.shape)
    centre[box] = True
    left_out = sampled & ~centre & (random.random(sampled.shape) < HELD_OUT)
    found, _ = reconstructed(kspace, sampled & ~left_out, coils)
    predicted = mri.to_kspace(found.image[0] * coils)
    true = kspace[:, left_out]
    size = float(np.linalg.norm(true))
    noise = float(found.noise_std[0]) * true.size**0.5
    return {
        "image": float(np.linalg.norm(predicted[:, left_out] - true)) / size,
        "the noise that was found": noise / size,
        "nothing": 1.0,
    }


def draw(
    found: mri.Reconstruction, kspace: np.ndarray, sampled: np.ndarray, coils: np.ndarray
) -> Figure:
    """Draw samples, zero-filled, image, std, phase, and the coils."""
    zero = np.sum(coils.conj() * mri.to_image(kspace * sampled), axis=0)
    image, std = found.image[0], found.std[0]
    inside = np.any(coils != 0, axis=0)
    top = np.quantile(np.abs(image), 0.998)
    pictures: list[tuple[str, Any, dict[str, Any]]] = [
        (f"samples, {sampled.mean():.1%}", sampled, {"cmap": "gray"}),
        ("zero-filled", np.abs(zero), {"cmap": "gray", "vmin": 0}),
        ("image", np.abs(image), {"cmap": "gray", "vmin": 0, "vmax": top}),
        ("standard deviation", std, {"cmap": "gray", "vmin": 0}),
        ("phase", np.where(inside, np.angle(image), np.nan),
         {"cmap": "twilight", "vmin": -np.pi, "vmax": np.pi}),
    ]  # fmt: skip
    figure = Figure(figsize=(12.5, 3.6), layout="constrained")
    for axis, (title, picture, look) in zip(
        figure.subplots(1, len(pictures)), pictures, strict=True
    ):
        shown = axis.imshow(picture, interpolation="nearest", **look)
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
        if title in ("standard deviation", "image"):
            figure.colorbar(shown, ax=axis, shrink=0.7)
    return figure


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
