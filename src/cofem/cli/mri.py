"""``cofem mri``: images with error bars from undersampled k-space."""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cofem.cli import report
from cofem.cli.errors import warnings_as_lines
from cofem.cli.figure import check_pictures, save
from cofem.cli.mri_maps import combined, maps_of, several_sets, together
from cofem.files import check_writable, read_array


class Phase(enum.StrEnum):
    """What is assumed of the phase of complex images."""

    AUTO = "auto"
    SMOOTH = "smooth"
    NONE = "none"


class Model(enum.StrEnum):
    """What is learned."""

    IMAGE = "image"
    GRADIENT = "gradient"


def mri(
    kspace: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="k-space: ISMRMRD or fastMRI (.h5, .mrd), Siemens (.dat), BART (.cfl), MATLAB "
            "(.mat), .npy, or .npz with kspace, and if wanted mask, sensitivities, trajectory, "
            "coil_covariance. "
            "Arrays are (L, H, W), contrasts first; (H, W) is one contrast.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Where to write: .npz (everything), .nii or .nii.gz (magnitude, beside it "
            "OUT_phase and OUT_std), .cfl (BART), .mrd (ISMRMRD images).",
        ),
    ],
    mask: Annotated[
        Path | None,
        typer.Option(metavar="M", help="Mask of the samples; default: where INPUT is not zero."),
    ] = None,
    model: Annotated[
        Model,
        typer.Option(
            help="image (use this one); or gradient, the model of the paper, for comparison: it is "
            "less accurate and its intervals are too narrow."
        ),
    ] = Model.IMAGE,
    real: Annotated[
        bool, typer.Option("--real", help="The images are real: conjugate symmetry is used.")
    ] = False,
    coils: Annotated[
        bool,
        typer.Option(
            "--coils",
            help="The axis before the image axes is that of coils. Sensitivities are taken from "
            "INPUT's array sensitivities, or estimated by ESPIRiT.",
        ),
    ] = False,
    sets: Annotated[
        int,
        typer.Option(
            min=1,
            max=2,
            metavar="N",
            help="Sensitivities that ESPIRiT estimates for each pixel: 2 where the object is wider "
            "than the field of view. The two images are written to .npz; other outputs have "
            "their length, √(|x₁|² + |x₂|²).",
        ),
    ] = 1,
    phase: Annotated[
        Phase, typer.Option(help="Assumed phase of complex images: auto, smooth or none.")
    ] = Phase.AUTO,
    slice_: Annotated[
        int | None, typer.Option("--slice", help="Which slice, of several; default: the middle.")
    ] = None,
    report_page: Annotated[
        Path | None,
        typer.Option("--report", metavar="R.html", help="Also write a page with all images."),
    ] = None,
    fft_order: Annotated[
        bool,
        typer.Option("--fft-order", help="The zero frequency is first, not in the middle."),
    ] = False,
    noise_std: Annotated[
        float | None,
        typer.Option(metavar="S", help="Size of the complex noise on k-space; default: learned."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=2, metavar="N", help="Number of draws that std is computed from.")
    ] = 8,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same answer.")
    ] = 0,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="F.png", help="Also draw masks, images, std; with --truth errors too."
        ),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="T", help="The true images, to measure the error.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Reconstruct MR images of one or several contrasts, with a standard deviation for every pixel.

    Nothing has to be tuned: edges that the contrasts share, and the noise, are learned
    from the data.

    Example:

        cofem mri kspace.npz -o image.npz --figure image.png
    """
    from cofem.mri import nrmse, reconstruct
    from cofem.mri.files.scan import read_scan
    from cofem.mri.files.writing import write

    check_outputs(output, figure, kspace, report_page)
    scan = read_scan(kspace, coils=coils or None, index=slice_)
    if not json:
        typer.echo(f"{kspace.name}: {'; '.join((scan.summary(), *scan.notes))}", err=True)
    y = scan.kspace
    sampled = scan.mask if mask is None else read_array(mask, "mask")
    sensitivities = maps_of(scan, y, fft_order, sets)
    reference = None if truth is None else checked_truth(read_array(truth, "truth"), scan)
    start = time.perf_counter()
    with warnings_as_lines():
        found = reconstruct(
            y, sampled, model=model.value, sensitivities=sensitivities, real=real,
            trajectory=scan.trajectory, shape=scan.shape, phase=phase.value,
            coil_covariance=scan.coil_covariance if sensitivities is not None else None,
            centered=not fft_order, noise_std=noise_std, n_samples=samples, seed=seed,
            progress=True,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    shown = together(found, y, sensitivities)
    written = write(found if output.suffix == ".npz" else shown, output, scan.affine)
    if report_page is not None:
        page(report_page, shown, scan, sampled, sensitivities, not fft_order)
    if figure is not None:
        if scan.trajectory is not None:
            sampled = np.ones((1, 1), dtype=bool)  # a trajectory has no mask to draw
        draw(shown, y, sampled, reference, figure, fft_order)
    facts: dict[str, Any] = {
        "model": found.model,
        "shape": list(found.image.shape),
        "converged": found.converged,
        "iterations": len(found.history["iteration"]),
        "noise_std": found.noise_std,
        "seconds": seconds,
        "message": found.message,
        "phase": list(found.phase),
        "output": ", ".join(str(file) for file in written),
    }
    if reference is not None:
        facts["nrmse_percent"] = 100 * nrmse(shown.image, reference)
    if json:
        report.show_json(facts)
    else:
        show(facts)


def check_outputs(
    output: Path, figure: Path | None, source: Path, report_page: Path | None
) -> None:
    """Refuse what cannot be written, before the work is done."""
    from cofem.mri.files.writing import check_ending

    check_ending(output)
    check_writable(output, "output")
    if output.exists() and source.exists() and output.samefile(source):
        raise ValueError(f"output: {output} would overwrite the input")
    check_pictures(figure, report_page)


def checked_truth(reference: np.ndarray, scan: Any) -> np.ndarray:
    """Return the true images as (L, …); refuse other shapes before the work is done."""
    sides = scan.shape
    if scan.trajectory is None:
        sides = scan.kspace.shape[2 if scan.coils else 1 :]
    if sides is None:  # the sensitivities will say it
        return reference
    expected = (len(scan.kspace), *sides)
    if reference.shape == expected[1:]:
        reference = reference[None]
    if reference.shape != expected:
        raise ValueError(f"truth: {reference.shape} came, {expected} is expected")
    return reference


def page(
    path: Path, found: Any, scan: Any, mask: Any, maps: np.ndarray | None, centered: bool
) -> None:
    """Write the page: zero-filled, total variation and ours under one slider."""
    from cofem.cli.mri_report import write_report
    from cofem.mri import joint_total_variation, to_image

    layers: dict[str, np.ndarray] = {}
    if scan.trajectory is None:
        y, axes = scan.kspace, found.image.ndim - 1
        plain = to_image(y, n_axes=axes, centered=centered)
        layers["zero-filled"] = combined(plain, maps)
    if scan.trajectory is None and not several_sets(maps, y):  # the rival knows a single image
        weight = 0.3 * float(np.mean(found.noise_std))  # usual for noise of this size
        with warnings_as_lines():
            layers["total variation, λ = 0.3 σ"] = joint_total_variation(
                y, mask, weight=weight, real=not np.iscomplexobj(found.image),
                centered=centered, sensitivities=maps, max_iter=100,
            )  # fmt: skip
    layers["cofem"] = found.image
    facts = {"input": scan.summary(), "noise": ", ".join(f"{v:.3g}" for v in found.noise_std),
             "phase": ", ".join(found.phase) or "real images", "end": found.message}  # fmt: skip
    write_report(path, found, layers, path.stem, facts)


def draw(
    found: Any, y: np.ndarray, mask: Any, truth: np.ndarray | None, path: Path, fft_order: bool
) -> None:
    """Draw the figure."""
    from cofem.mri.figures import reconstruction_figure

    if mask is None:
        mask = y != 0 if y.ndim == found.image.ndim else (y != 0).any(axis=1)
    mask = np.broadcast_to(np.asarray(mask, dtype=bool), found.image.shape)
    if fft_order:  # people look for the zero frequency in the middle
        mask = np.fft.fftshift(mask, axes=tuple(range(1, mask.ndim)))
    save(reconstruction_figure(found, mask, truth), path)


def show(facts: dict[str, Any]) -> None:
    """Print the table."""
    rows = {
        "model": facts["model"],
        "contrasts and image": " × ".join(str(side) for side in facts["shape"]),
        "converged": "yes" if facts["converged"] else "no",
        "EM iterations": report.number(facts["iterations"]),
        "noise": report.number(list(facts["noise_std"]), 3),
        "time": f"{facts['seconds']:.1f} s",
        "written to": facts["output"],
    }
    if "nrmse_percent" in facts:
        rows["NRMSE"] = f"{facts['nrmse_percent']:.2f} %"
    report.show_table("Reconstruction", rows)
