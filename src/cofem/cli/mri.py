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
from cofem.cli.figure import check_figure, save
from cofem.files import atomic_write, check_writable, read_array


class Model(enum.StrEnum):
    """What is learned."""

    IMAGE = "image"
    GRADIENT = "gradient"


def mri(
    kspace: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="k-space, complex: .npy, or .npz with one array or one called kspace, and if "
            "wanted mask and sensitivities. (L, H, W), contrasts first; (H, W) is one contrast.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT",
            help="Where to write: an .npz with image, std, precision, noise_std; or .nii or "
            ".nii.gz (the image, and beside it OUT_std), which needs nibabel.",
        ),
    ],
    mask: Annotated[
        Path | None,
        typer.Option(metavar="M", help="What was measured; without it, where INPUT is not zero."),
    ] = None,
    model: Annotated[Model, typer.Option(help="image, or gradient: the paper's.")] = Model.IMAGE,
    real: Annotated[
        bool, typer.Option("--real", help="The images are real: conjugate symmetry is used.")
    ] = False,
    coils: Annotated[
        bool,
        typer.Option(
            "--coils",
            help="The axis before the image axes is that of coils. Sensitivities are taken from "
            "INPUT's array sensitivities, or estimated by ESPIRiT (needs SigPy).",
        ),
    ] = False,
    fft_order: Annotated[
        bool,
        typer.Option("--fft-order", help="The zero frequency is first, not in the middle."),
    ] = False,
    noise_std: Annotated[
        float | None,
        typer.Option(metavar="S", help="Of the complex noise on k-space; learned without it."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=2, metavar="N", help="Posterior draws behind std.")
    ] = 8,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same answer.")
    ] = 0,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="F.png", help="Draw masks, images, std; with a truth errors and calibration."
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
    """
    from cofem.mri import coil_sensitivities, nrmse, reconstruct

    check_outputs(output, figure, kspace)
    y = read_array(kspace, "kspace")
    wanted = 4 if coils else 3
    if y.ndim == wanted - 1:
        y = y[None]
    sampled = _member(kspace, "mask") if mask is None else read_array(mask, "mask")
    sensitivities = None
    if coils:
        sensitivities = _member(kspace, "sensitivities")
        if sensitivities is None:
            sensitivities = coil_sensitivities(y if not fft_order else _centred(y))
            if fft_order:
                sensitivities = np.fft.ifftshift(sensitivities, (-2, -1))
    reference = None if truth is None else read_array(truth, "truth")
    start = time.perf_counter()
    with warnings_as_lines():
        found = reconstruct(
            y, sampled, model=model.value, sensitivities=sensitivities, real=real,
            centered=not fft_order, noise_std=noise_std, n_samples=samples, seed=seed,
            progress=True,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    if reference is not None and reference.ndim == found.image.ndim - 1:
        reference = reference[None]
    write(found, output)
    if figure is not None:
        draw(found, y, sampled, reference, figure, fft_order)
    facts: dict[str, Any] = {
        "model": found.model,
        "shape": list(found.image.shape),
        "converged": found.converged,
        "iterations": len(found.history["iteration"]),
        "noise_std": found.noise_std,
        "seconds": seconds,
        "output": str(output),
    }
    if reference is not None:
        facts["nrmse_percent"] = 100 * nrmse(found.image, reference)
    if json:
        report.show_json(facts)
    else:
        show(facts)


def check_outputs(output: Path, figure: Path | None, source: Path) -> None:
    """Refuse what cannot be written, before the work is done."""
    if not output.name.lower().endswith((".npz", ".nii", ".nii.gz")):
        raise ValueError(f"output: {output} does not end in .npz, .nii or .nii.gz")
    if not output.name.lower().endswith(".npz"):
        _nibabel()
    check_writable(output, "output")
    if output.exists() and source.exists() and output.samefile(source):
        raise ValueError(f"output: {output} would overwrite the input")
    if figure is not None:
        check_figure(figure)


def write(found: Any, output: Path) -> None:
    """Write an .npz, or NIfTI files."""
    if output.name.lower().endswith(".npz"):
        with atomic_write(output) as stream:
            np.savez(
                stream, image=found.image, std=found.std, precision=found.precision,
                noise_std=found.noise_std,
            )  # fmt: skip
        return
    nibabel = _nibabel()
    ending = ".nii.gz" if output.name.lower().endswith(".nii.gz") else ".nii"
    stem = output.name[: -len(ending)]
    for name, array in ((stem, found.image), (f"{stem}_std", found.std)):
        kind = np.complex64 if np.iscomplexobj(array) else np.float32
        # NIfTI's axes are x, y, z, then the contrasts.
        volume = np.moveaxis(array, 0, -1).astype(kind)
        if array.ndim == 3:
            volume = volume[:, :, None, :]
        picture = nibabel.Nifti1Image(volume, np.eye(4))
        with atomic_write(output.with_name(name + ending)) as stream:
            data = picture.to_bytes()
            stream.write(_zipped(data) if ending == ".nii.gz" else data)


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


def _member(path: Path, name: str) -> np.ndarray | None:
    """Read an array of an .npz that may or may not be there."""
    if path.suffix.lower() != ".npz":
        return None
    with np.load(path, allow_pickle=False) as archive:
        there = name in archive.files
    return read_array(path, name) if there else None


def _centred(y: np.ndarray) -> np.ndarray:
    """Return k-space in FFT order as that of the centred image, centred."""
    axes = (-2, -1)
    image = np.fft.fftshift(np.fft.ifft2(y, norm="ortho"), axes)
    k = np.fft.fft2(np.fft.ifftshift(image, axes), norm="ortho")
    return np.asarray(np.fft.fftshift(k, axes))


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError:
        raise ValueError("output: NIfTI files need nibabel: pip install nibabel") from None
    return nibabel


def _zipped(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)
