"""ISMRMRD (MRD) files: acquisitions to k-space, images back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.files import require_hdf5
from cofem.mri.files.grid import Readout, calibration_on_grid, on_grid, scanner_affine
from cofem.mri.scanner.coils import noise_covariance

ROUNDING = 1e-6  # of trajectories, which are kept in single precision
# Of three directions of length one at right angles it is 1; some converters leave zeros.
LEAST_VOLUME = 0.5


def read_mrd(file: Path, index: int | None = None) -> dict[str, Any]:
    """Return what :class:`cofem.mri.files.scan.Scan` is made of.

    Noise acquisitions give the covariance of the coils. Readouts are put where their encoding
    steps say, and readout oversampling is cut away in the image. Acquisitions with a
    trajectory are kept along it. Samples that the file says to discard are left out; readouts
    that are for calibration alone are kept apart.
    """
    ismrmrd = ismrmrd_or_refuse()
    require_hdf5(file, "path")
    try:
        dataset = ismrmrd.Dataset(str(file), "dataset", create_if_needed=False, mode="r")
    except TypeError:  # before ismrmrd 1.14
        dataset = ismrmrd.Dataset(str(file), "dataset", create_if_needed=False)
    try:
        header = ismrmrd.xsd.CreateFromDocument(dataset.read_xml_header())
        lines = [dataset.read_acquisition(i) for i in range(dataset.number_of_acquisitions())]
    except Exception as error:
        raise ValueError(f"path: {file} is no ISMRMRD file ({error})") from None
    finally:
        dataset.close()
    noise = [a for a in lines if a.is_flag_set(ismrmrd.ACQ_IS_NOISE_MEASUREMENT)]
    skipped = (ismrmrd.ACQ_IS_NOISE_MEASUREMENT, ismrmrd.ACQ_IS_NAVIGATION_DATA,
               ismrmrd.ACQ_IS_PHASECORR_DATA)  # fmt: skip
    kept = [a for a in lines if not any(a.is_flag_set(flag) for flag in skipped)]
    apart = [a for a in kept if a.is_flag_set(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)]
    kept = [a for a in kept if not a.is_flag_set(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)]
    slices = sorted({a.idx.slice for a in kept})
    if not slices:
        raise ValueError(f"path: {file} has no imaging acquisitions")
    chosen = slices[len(slices) // 2] if index is None else index
    kept = [a for a in kept if a.idx.slice == chosen]
    if not kept:
        raise ValueError(f"index: {file} has no slice {chosen}; it has {slices}")
    notes = [f"slice {chosen} of {len(slices)}", f"{len(kept)} readouts"]
    found: dict[str, Any] = {"affine": _affine(header, kept[0])}
    if noise:
        samples = np.concatenate([_valid(a)[0] for a in noise], axis=1)
        found["coil_covariance"] = noise_covariance(samples)
        notes.append(f"{len(noise)} noise readouts")
    encoding = header.encoding[0]
    if kept[0].traj is not None and kept[0].traj.size:
        found |= _along_trajectory(kept, encoding)
    else:
        found |= _cartesian(kept, encoding)
        apart = [a for a in apart if a.idx.slice == chosen]
        if apart:
            found["calibration"] = calibration_on_grid(
                _readouts(apart, encoding), _measured(encoding), found["kspace"].shape[-1]
            )
            notes.append(f"{len(apart)} readouts of a separate calibration")
        wider = found["kspace"].shape[-1] - encoding.reconSpace.matrixSize.x
        found["affine"][:3, 3] -= found["affine"][:3, 1] * (wider // 2)  # oversampling was kept
    return found | {"notes": tuple(notes)}


def _valid(line: Any) -> tuple[np.ndarray, int]:
    """Return the samples (coils, n) that are not to be discarded, and how many were before."""
    first, last = int(line.discard_pre), line.data.shape[1] - int(line.discard_post)
    return line.data[:, first:last], first


def _cartesian(lines: list[Any], encoding: Any) -> dict[str, Any]:
    return on_grid(
        _readouts(lines, encoding), _measured(encoding), encoding.reconSpace.matrixSize.x
    )


def _measured(encoding: Any) -> tuple[int, int, int]:
    size = encoding.encodedSpace.matrixSize
    return int(size.z), int(size.y), int(size.x)


def _readouts(lines: list[Any], encoding: Any) -> list[Readout]:
    middle = encoding.encodedSpace.matrixSize.x // 2
    echoes = sorted({a.idx.contrast for a in lines})
    placed = []
    for a in lines:
        data, before = _valid(a)
        column = middle - a.center_sample + before  # a partial echo starts late
        place = (a.idx.kspace_encode_step_2, a.idx.kspace_encode_step_1, column)
        placed.append(Readout(echoes.index(a.idx.contrast), *place, data))
    return placed


def _along_trajectory(lines: list[Any], encoding: Any) -> dict[str, Any]:
    size = encoding.reconSpace.matrixSize
    axes = lines[0].traj.shape[1]
    sides = (size.y, size.x) if axes == 2 else (size.z, size.y, size.x)
    first = max(int(a.discard_pre) for a in lines)
    last = min(a.data.shape[1] - int(a.discard_post) for a in lines)
    k = np.stack([a.traj[first:last, ::-1] for a in lines]).astype(float)  # x first in the file
    if np.abs(k).max() <= 0.5 + ROUNDING:  # cycles a pixel: the convention of most converters
        k = k * np.asarray(sides)
    y = np.stack([a.data[:, first:last] for a in lines], axis=1)[None].astype(complex)
    several = y.shape[1] > 1
    return {"kspace": y if several else y[:, 0], "coils": several, "trajectory": k, "shape": sides}


def _affine(header: Any, line: Any) -> np.ndarray:
    """Return the affine (row, column, slice) to millimetres."""
    space = header.encoding[0].reconSpace
    matrix, field = space.matrixSize, space.fieldOfView_mm
    steps = (field.y / matrix.y, field.x / matrix.x, field.z / max(matrix.z, 1))
    directions = np.array([line.phase_dir, line.read_dir, line.slice_dir], dtype=float)
    if np.abs(np.linalg.det(directions)) < LEAST_VOLUME:
        directions = np.eye(3)
    sides = (matrix.y, matrix.x, matrix.z)
    return scanner_affine(sides, steps, directions, np.array(line.position))


def write_mrd(path: Path, image: np.ndarray, std: np.ndarray) -> None:
    """Write images (L, H, W) and their std as two series of an ISMRMRD file."""
    ismrmrd = ismrmrd_or_refuse()
    if path.exists():
        path.unlink()
    dataset = ismrmrd.Dataset(str(path), "dataset", create_if_needed=True)
    for name, stack in (("image", image), ("std", std)):
        kind = np.complex64 if np.iscomplexobj(stack) else np.float32
        for contrast, picture in enumerate(stack):
            one = ismrmrd.Image.from_array(picture.astype(kind), transpose=False)
            one.contrast = contrast
            dataset.append_image(name, one)
    dataset.close()


def ismrmrd_or_refuse() -> Any:
    """Return the module, or say how to get it."""
    try:
        import ismrmrd
    except ImportError:
        raise ImportError("ISMRMRD files need ismrmrd: pip install ismrmrd") from None
    return ismrmrd
