"""Reconstructions as files: .npz, NIfTI, BART, ISMRMRD."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from cofem import backend
from cofem.files import atomic_write
from cofem.mri.files.mrd import ismrmrd_or_refuse, write_mrd
from cofem.mri.result import Reconstruction

ENDINGS = (".npz", ".nii", ".nii.gz", ".cfl", ".mrd", ".h5")


def check_ending(path: Path) -> str:
    """Return the ending of a file that can be written; refuse others."""
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            if ending.startswith(".nii"):
                nibabel_or_refuse()
            if ending in (".mrd", ".h5"):
                ismrmrd_or_refuse()
            return ending
    raise ValueError(f"output: {path} does not end in {', '.join(ENDINGS)}")


def write(found: Reconstruction, path: Path, affine: np.ndarray | None = None) -> list[Path]:
    """Write a reconstruction; return the files.

    .npz: everything (:meth:`Reconstruction.save`). .nii, .nii.gz: the magnitude, and beside it
    NAME_phase where images are complex, and NAME_std, all with ``affine``. .cfl: BART's pair of
    files, and NAME_std. .mrd, .h5: two series of an ISMRMRD file.
    """
    ending = check_ending(path)
    if ending == ".npz":
        found.save(path)
        return [path]
    image, std = backend.to_numpy(found.image), backend.to_numpy(found.std)
    stem = path.name[: -len(ending)]
    if ending in (".mrd", ".h5"):
        write_mrd(path, image, std)
        return [path]
    if ending == ".cfl":
        files = [path, path.with_name(f"{stem}_std.cfl")]
        for file, x in zip(files, (image, std), strict=True):
            _write_bart(file, x)
        return files
    parts = {stem: np.abs(image) if np.iscomplexobj(image) else image, f"{stem}_std": std}
    if np.iscomplexobj(image):
        parts[f"{stem}_phase"] = np.angle(image)
    files = []
    for name, x in parts.items():
        files.append(path.with_name(name + ending))
        _write_nifti(files[-1], x, np.eye(4) if affine is None else affine)
    return files


def _write_nifti(path: Path, x: np.ndarray, affine: np.ndarray) -> None:
    # NIfTI's axes are those of the affine, then the contrasts: (row, column, slice, contrast).
    volume = np.moveaxis(x, 0, -1).astype(np.float32)
    # Of volumes the slices come first here.
    volume = volume[:, :, None, :] if x.ndim == 3 else np.moveaxis(volume, 0, 2)
    picture = nibabel_or_refuse().Nifti1Image(volume, affine)
    picture.header.set_xyzt_units("mm")
    data = picture.to_bytes()
    with atomic_write(path) as stream:
        stream.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _write_bart(path: Path, x: np.ndarray) -> None:
    """BART's dimension 5 is that of echoes, which contrasts are; the first runs fastest."""
    sides = [*x.shape[1:], *[1] * (3 - (x.ndim - 1))]
    dims = [*sides, 1, 1, len(x), *[1] * 10]
    header = "# Dimensions\n" + " ".join(map(str, dims)) + "\n"
    with atomic_write(path.with_suffix(".hdr"), "w") as stream:
        stream.write(header)
    with atomic_write(path) as stream:
        moved = np.moveaxis(x, 0, -1).astype(np.complex64)
        stream.write(moved.tobytes(order="F"))


def nibabel_or_refuse() -> Any:
    """Return the module, or say how to get it."""
    try:
        import nibabel
    except ImportError:
        raise ValueError("NIfTI files need nibabel: pip install nibabel") from None
    return nibabel
