"""MATLAB's files: v5 by our own checked reader, v7.3 (HDF5) by h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.calcium.files.extras import hdf5_file
from cofem.calcium.files.reading import Traces, plain
from cofem.files import is_hdf5, read_matlab

# What people call dF/F, and the frame rate, in the order in which they are looked for.
TRACES = ("dff", "df_f", "dfof", "deltaf", "f_dff", "traces", "c_raw", "f")
RATES = ("framerate", "frame_rate", "fs", "fr", "fps", "rate")


def read_traces_of_matlab(path: Path, variable: str | None = None) -> Traces:
    """Read the array called ``variable``, or dff and the like, or the only one there is.

    Examples
    --------
    >>> import tempfile
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.mat")
    ...     savemat(file, {"dff": np.ones((2, 30)), "fs": 20.0})
    ...     found = read_traces_of_matlab(file)
    >>> found.dff.shape, found.framerate
    ((2, 30), 20.0)
    """
    held = _numbers(path)
    by_name = {name.lower(): name for name in held}
    tables = {name: array for name, array in held.items() if array.size > 1 and array.ndim == 2}
    if variable is not None:
        if variable not in tables:
            raise ValueError(f"dff: {path} has no table {variable!r}; it has {_listed(tables)}")
        chosen = variable
    else:
        named = [by_name[name] for name in TRACES if by_name.get(name) in tables]
        if not named and len(tables) != 1:
            raise ValueError(
                f"dff: {path} has {_listed(tables)}; name one of them (--variable), or call it dff"
            )
        chosen = named[0] if named else next(iter(tables))
    rates = [held[by_name[name]] for name in RATES if name in by_name]
    rate = next((value for value in rates if value.size == 1), None)
    array = tables[chosen]
    array = array.T if array.shape[1] == 1 else array
    framerate = None if rate is None else float(rate.ravel()[0])
    return plain(array, path, framerate, f"the variable {chosen}")


def _listed(tables: dict[str, Any]) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in tables.items()) or "no table"


def _numbers(path: Path) -> dict[str, np.ndarray]:
    """Return all plain arrays of numbers, MATLAB's way round."""
    if is_hdf5(path):
        with hdf5_file(path) as file:
            import h5py

            # MATLAB writes columns first, so that HDF5 shows the transpose.
            return {
                name: np.asarray(item[()]).T
                for name, item in file.items()
                if isinstance(item, h5py.Dataset) and item.dtype.kind in "biuf"
            }
    held = read_matlab(path, "dff")
    return {name: array for name, array in held.items() if array.dtype.kind in "biuf"}
