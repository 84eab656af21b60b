"""Processor time: complex beside real images, and 15 coils beside SigPy's wavelets with one λ.

Run: python benchmarks/mri_time.py [--side N] [--coils C] [--only complex coils]
Both are seconds of processor time of one thread. Without SigPy its row is left out. The images are
the atlas (complex: with a phase of zero; coils: enlarged to 320 × 320).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

from scipy import ndimage

from cofem import mri
from common import Result, Table, note, print_result
from mri_data import Truth, coil_maps, load, mask, measured
from mri_scores import error_percent

NOISE, LAMBDA = 0.005, 1e-3


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=320)
    parser.add_argument("--coils", type=int, default=15)
    parser.add_argument("--only", nargs="*", default=["complex", "coils"])
    asked = parser.parse_args()
    atlas = load("atlas")
    if atlas is None:
        print("the atlas is not here")
        return 0
    began, rows = time.perf_counter(), []
    if "complex" in asked.only:
        rows += complex_beside_real(atlas)
    if "coils" in asked.only:
        rows += many_coils(atlas, asked.side, asked.coils)
    table = Table("Processor time", ["what", "seconds", "beside the first", "NRMSE in %"], rows)
    print_result(Result("MRI, time", [table], []), time.perf_counter() - began)
    return 0


def timed(what: str, truth: Truth, work: Callable[[], Any]) -> tuple[str, float, float]:
    """Return seconds of processor time, and the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        image = work()
    seconds = time.process_time() - began
    note(f"{what}: {seconds:.1f} s")
    return what, seconds, error_percent(image, truth)


def beside_first(rows: list[tuple[str, float, float]]) -> list[list[Any]]:
    """Add how many times the first one's seconds."""
    return [[what, s, s / rows[0][1], error] for what, s, error in rows]


def complex_beside_real(atlas: Truth) -> list[list[Any]]:
    """Reconstruct three contrasts of 200 × 200 told that they are real, and not told."""
    rows = []
    for kind in ("power", "lines"):
        sampled = mask(kind, atlas.images.shape, 4, 0)
        y = measured(atlas, sampled, NOISE, 0)
        mri.reconstruct(y[:, :64, :64], real=True, max_iter=2)  # compiles
        rows += beside_first([
            timed(f"{kind}, real={real}", atlas,
                  lambda y=y, m=sampled, r=real: mri.reconstruct(y, m, real=r).image)
            for real in (True, False)
        ])  # fmt: skip
    return rows


def many_coils(atlas: Truth, side: int, coils: int) -> list[list[Any]]:
    """Reconstruct one contrast seen by many coils."""
    image = ndimage.zoom(atlas.images[1], side / atlas.images.shape[1], order=1)
    truth = Truth(image[None].astype(complex), {})
    maps = coil_maps(image.shape, coils)
    sampled = mask("lines", truth.images.shape, 4, 0)
    y = measured(truth, sampled, NOISE, 0, maps)
    rows = []
    try:
        from sigpy.mri.app import L1WaveletRecon

        rows.append(timed(f"SigPy's wavelets, {coils} coils", truth, lambda: L1WaveletRecon(
            y[0], maps, lamda=LAMBDA, show_pbar=False).run()[None]))  # fmt: skip
    except ImportError:
        note("SigPy is not here")
    rows.append(timed(f"cofem, {coils} coils", truth, lambda: mri.reconstruct(
        y, sampled, sensitivities=maps).image))  # fmt: skip
    return beside_first(rows)


if __name__ == "__main__":
    raise SystemExit(main())
