"""Libraries that only some files need, and what to install when one is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cofem.files import require_hdf5


def hdf5_file(path: Path) -> Any:
    """Open an HDF5 file for reading."""
    try:
        import h5py
    except ImportError:
        raise ImportError(f"{path} is HDF5, which needs h5py: pip install h5py") from None
    require_hdf5(path, "dff")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"dff: {path} is no readable HDF5 file ({error})") from None


def pynwb_module(path: Path) -> Any:
    """Return pynwb."""
    try:
        import pynwb
    except ImportError:
        raise ImportError(f"{path} is NWB, which needs pynwb: pip install pynwb") from None
    return pynwb


def zarr_module(path: Path) -> Any:
    """Return zarr."""
    try:
        import zarr
    except ImportError:
        raise ImportError(f"{path} is zarr, which needs zarr: pip install zarr") from None
    return zarr
