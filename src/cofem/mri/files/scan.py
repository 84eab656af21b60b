"""K-space from the files that scanners, BART, fastMRI and MATLAB leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cofem.files import (
    is_hdf5,
    parsed,
    path_of,
    read_archive,
    read_array,
    read_matlab,
    require_hdf5,
)
from cofem.mri.files.mrd import read_mrd
from cofem.mri.files.twix import read_twix

NUMBERS = "biufc"  # NumPy's kinds of dtype that hold numbers


@dataclass(frozen=True)
class Scan:
    """What a file holds, in the shapes that :func:`cofem.mri.reconstruct` takes.

    Attributes
    ----------
    kspace : array (L, H, W) or (L, coils, H, W), centred; with a trajectory (L, [coils,] N)
    coils : bool
        Whether the second axis is that of coils.
    mask, sensitivities, trajectory : arrays, or None
    coil_covariance : array (coils, coils), or None
        From noise samples in the file.
    affine : array (4, 4)
        From indices (row, column, slice) to millimetres; the identity where it is unknown.
    notes : tuple of str
        What was understood, and what was left out.
    shape : tuple of int, or None
        Of the images, with a trajectory.
    calibration : array (coils, H, W), or None
        Separate k-space for the sensitivities, zero where nothing was measured.

    Examples
    --------
    >>> scan = Scan(np.ones((1, 4, 2, 2)), coils=True)
    >>> scan.summary()
    '1 contrast, 4 coils, 2 × 2, 100 % of k-space'
    """

    kspace: np.ndarray
    coils: bool
    mask: np.ndarray | None = None
    sensitivities: np.ndarray | None = None
    trajectory: np.ndarray | None = None
    coil_covariance: np.ndarray | None = None
    affine: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    calibration: np.ndarray | None = None

    def summary(self) -> str:
        """Say in a line what was understood."""
        count = len(self.kspace)
        parts = [f"{count} contrast" + ("s" if count > 1 else "")]
        if self.coils:
            parts.append(f"{self.kspace.shape[1]} coils")
        if self.trajectory is not None:
            sides = self.shape or ()
            parts += [f"{self.kspace.shape[-1]} samples along a trajectory",
                      " × ".join(map(str, sides)) or "size unknown"]  # fmt: skip
        else:
            sides = self.kspace.shape[2 if self.coils else 1 :]
            there = self.kspace != 0 if self.mask is None else np.asarray(self.mask, bool)
            parts += [" × ".join(map(str, sides)), f"{100 * there.mean():.0f} % of k-space"]
        if self.coil_covariance is not None:
            parts.append("the noise of its coils")
        return ", ".join(parts)


def read_scan(path: Any, *, coils: bool | None = None, index: int | None = None) -> Scan:
    """Read k-space: .npy, .npz, ISMRMRD or fastMRI .h5, Siemens .dat, BART .cfl, .mat.

    Parameters
    ----------
    path : path
    coils : bool, optional
        Whether the axis before the image axes is that of coils, for arrays that do not say
        so (.npy, .npz, .mat).
    index : int, optional
        Which slice of several; the middle one by default.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "k.npy"
    ...     np.save(file, np.ones((2, 8, 8), complex))
    ...     read_scan(file).summary()
    '2 contrasts, 8 × 8, 100 % of k-space'
    """
    file = path_of(path, "path")
    name = file.name.lower()
    readers: dict[str, Callable[[], Scan]] = {
        ".npy": lambda: _array(read_array(file, "kspace"), {}, coils),
        ".npz": lambda: _archive(file, coils),
        ".cfl": lambda: _bart(file),
        ".hdr": lambda: _bart(file),
        ".mat": lambda: _matlab(file, coils),
        ".h5": lambda: _hdf5(file, index),
        ".mrd": lambda: Scan(**read_mrd(file, index)),
        ".dat": lambda: Scan(**read_twix(file, index)),
        ".nii": lambda: _nifti(file, index),
        ".nii.gz": lambda: _nifti(file, index),
    }
    for ending, reader in readers.items():
        if name.endswith(ending):
            if not file.is_file():
                raise ValueError(f"path: {file} is not there")
            found = parsed(file, "path", reader)
            if found.kspace.dtype.kind not in NUMBERS:
                raise ValueError(f"path: the k-space in {file} has entries {found.kspace.dtype}; "
                                 "complex numbers are expected")  # fmt: skip
            return found
    raise ValueError(f"path: {file} ends in none of {', '.join(readers)}")


def _array(y: np.ndarray, others: dict[str, np.ndarray], coils: bool | None) -> Scan:
    if y.ndim < 2:
        raise ValueError(f"path: the k-space has shape {y.shape}; (H, W) or (L, H, W) is expected")
    maps = others.get("sensitivities")
    several = bool(coils) or (coils is None and maps is not None)
    axes = y.ndim
    if axes == (3 if several else 2):
        y = y[None]
    return Scan(
        y, several, others.get("mask"), maps, others.get("trajectory"),
        others.get("coil_covariance"),
    )  # fmt: skip


def _archive(file: Path, coils: bool | None) -> Scan:
    arrays = read_archive(file, "path")
    y = arrays.get("kspace")
    if y is None:
        complex_ones = [a for a in arrays.values() if np.iscomplexobj(a)]
        if len(complex_ones) != 1 and len(arrays) != 1:
            raise ValueError(f"path: {file} has no array kspace; it has {', '.join(arrays)}")
        y = complex_ones[0] if complex_ones else next(iter(arrays.values()))
    return _array(y, arrays, coils)


def _bart(file: Path) -> Scan:
    """BART's dimensions: readout, phase 1, phase 2, coils, maps, echoes, …; first runs fastest."""
    header, data = file.with_suffix(".hdr"), file.with_suffix(".cfl")
    for part in (header, data):
        if not part.is_file():
            raise ValueError(f"path: {part} is not there; BART keeps .hdr and .cfl together")
    words = [line for line in header.read_text().splitlines() if not line.startswith("#")]
    try:
        dims = [int(word) for word in words[0].split()]
    except (IndexError, ValueError):
        raise ValueError(f"path: {header} has no line of dimensions") from None
    dims += [1] * (16 - len(dims))
    if min(dims) < 1 or data.stat().st_size != 8 * int(np.prod(dims)):
        raise ValueError(
            f"path: {data} has {data.stat().st_size} bytes; its header says {dims}, "
            f"{8 * int(np.prod(dims))} bytes"
        )
    x = np.fromfile(data, dtype=np.complex64).reshape(dims, order="F")
    image = [n for n in dims[:3] if n > 1]
    x = x.reshape(*dims[:4], -1, order="F")
    y = np.moveaxis(x, (4, 3), (0, 1)).reshape(-1, dims[3], *image)
    several = dims[3] > 1
    return Scan(y if several else y[:, 0], several, notes=(f"BART dimensions {dims}",))


def _matlab(file: Path, coils: bool | None) -> Scan:
    if is_hdf5(file):  # its axes are the other way round
        with _hdf5_file(file) as archive:
            arrays = {k: _complex(v[()]).T for k, v in archive.items() if hasattr(v, "shape")}
    else:
        arrays = read_matlab(file, "path")
    numbers = {k: v for k, v in arrays.items() if getattr(v, "dtype", None) is not None
               and v.dtype.kind in NUMBERS and v.ndim >= 2}  # fmt: skip
    names = [k for k in numbers if k.lower() == "kspace"] or [
        k for k, v in numbers.items() if np.iscomplexobj(v)
    ]
    if len(names) != 1:
        raise ValueError(
            f"path: {file} needs one array kspace, or one complex array; it has "
            f"{', '.join(numbers) or 'none'}"
        )
    return _array(numbers[names[0]], {k.lower(): v for k, v in numbers.items()}, coils)


def _hdf5(file: Path, index: int | None) -> Scan:
    """ISMRMRD where a group has a header, fastMRI where there is a dataset kspace."""
    with _hdf5_file(file) as archive:
        is_fastmri = "kspace" in archive
    if not is_fastmri:
        return Scan(**read_mrd(file, index))
    with _hdf5_file(file) as archive:
        data = archive["kspace"]
        slices = data.shape[0]
        chosen = slices // 2 if index is None else index
        if not 0 <= chosen < slices:
            raise ValueError(f"index must be from 0 to {slices - 1}, the slices, got {chosen}")
        y = _complex(data[chosen])
        mask = archive["mask"][()].astype(bool) if "mask" in archive else None
    several = y.ndim == 3
    note = f"fastMRI, slice {chosen} of {slices}"
    return Scan(y[None], several, mask, notes=(note,))


def _nifti(file: Path, index: int | None) -> Scan:
    """Return the k-space of a magnitude image, fully sampled."""
    from cofem.mri.files.writing import nibabel_or_refuse
    from cofem.mri.transform import to_kspace

    picture = nibabel_or_refuse().load(file)
    x = np.asarray(picture.dataobj)
    x = x.reshape(*x.shape, *[1] * (4 - x.ndim))
    chosen = x.shape[2] // 2 if index is None else index
    images = np.moveaxis(x[:, :, chosen], -1, 0)
    note = f"NIfTI holds images, not k-space: slice {chosen}, transformed"
    return Scan(to_kspace(images), False, affine=np.asarray(picture.affine), notes=(note,))


def _complex(x: np.ndarray) -> np.ndarray:
    """Return pairs (real, imag), as MATLAB and h5py store them, as complex numbers."""
    if x.dtype.names and set(x.dtype.names) >= {"real", "imag"}:
        return np.asarray(x["real"] + 1j * x["imag"])
    if x.dtype.names and set(x.dtype.names) >= {"r", "i"}:
        return np.asarray(x["r"] + 1j * x["i"])
    return x


def _hdf5_file(file: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise ImportError("this file needs h5py: pip install h5py") from None
    require_hdf5(file, "path")
    return h5py.File(file, "r")
