"""One door for all files: what kind it is, and its traces.

Every reader returns the same: dF/F or fluorescence, cells × frames, the frame rate if the
file tells it, and what was done to the traces on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cofem.files import parsed, read_array

ACCEPTED = (
    ".npy; .npz (one array, or one called dff); .csv (with or without a header); .mat (v5 or "
    "v7.3); .nwb; CaImAn's .hdf5; a Minian folder (C.zarr); a suite2p folder (F.npy), plane0 or "
    "the folder above it"
)


class Traces(NamedTuple):
    """Traces of cells.

    Attributes
    ----------
    dff : ndarray (n_cells, n_frames)
        dF/F as a fraction, or fluorescence in the file's own unit where ``note`` says so.
    framerate : float or None
        Frames per second, if the file tells it.
    cells : ndarray of int (n_cells,)
        Where the cells are among the file's regions.
    n_rows : int
        How many regions the file has.
    note : str
        What was read and what was done to it.
    """

    dff: np.ndarray
    framerate: float | None
    cells: np.ndarray
    n_rows: int
    note: str


def read_traces(source: Any, all_rois: bool = False, variable: str | None = None) -> Traces:
    r"""Read traces from any of the files that are known.

    Parameters
    ----------
    source : path
        A file or folder; the error names all kinds.
    all_rois : bool
        Take suite2p's and CaImAn's regions that are no cells too.
    variable : str, optional
        Which array of a .mat file, or which series of an .nwb, where there are several.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "traces.csv")
    ...     _ = path.write_text("cell 1,cell 2\n0.1,0.2\n0.3,0.4\n0.5,0.6\n")
    ...     read_traces(path).dff
    array([[0.1, 0.3, 0.5],
           [0.2, 0.4, 0.6]])
    """
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"dff: {path} does not exist")
    if path.is_dir():
        return _folder(path, all_rois)
    readers: dict[str, Callable[[], Traces]] = {
        ".npy": lambda: plain(read_array(path, "dff"), path),
        ".npz": lambda: plain(read_array(path, "dff"), path),
        ".csv": lambda: _csv(path),
        ".mat": lambda: _matlab(path, variable),
        ".nwb": lambda: _nwb(path, variable),
        ".hdf5": lambda: _caiman(path, all_rois),
        ".h5": lambda: _caiman(path, all_rois),
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"dff: {path} is of no known kind; expected {ACCEPTED}")
    return parsed(path, "dff", reader)


def plain(array: np.ndarray, path: Path, framerate: float | None = None, note: str = "") -> Traces:
    """Return an array as traces, one cell per row, or refuse its shape."""
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(
            f"dff: {path} holds {array.dtype} of shape {array.shape}; expected real numbers "
            "(n_cells, n_frames)"
        )
    rows = np.atleast_2d(array)
    return Traces(rows, framerate, np.arange(len(rows)), len(rows), note)


def _folder(path: Path, all_rois: bool) -> Traces:
    if any((path / name).exists() for name in ("C.zarr", "C")) or path.suffix == ".zarr":
        from cofem.calcium.files.minian import read_minian

        return read_minian(path)
    from cofem.calcium.files.suite2p import read_suite2p

    found = read_suite2p(path, all_rois)
    note = f"suite2p: F − {found.coefficient:g} Fneu, divided by its baseline over 60 s"
    if len(found.without_baseline):
        note += (
            f" (in {len(found.without_baseline)} cells neuropil takes more than there is: divided "
            "by the baseline of F)"
        )
    return Traces(found.dff, found.framerate, found.cells, found.n_rows, note)


def _csv(path: Path) -> Traces:
    from cofem.calcium.files.tables import read_csv

    return read_csv(path)


def _matlab(path: Path, variable: str | None) -> Traces:
    from cofem.calcium.files.matlab import read_traces_of_matlab

    return read_traces_of_matlab(path, variable)


def _nwb(path: Path, variable: str | None) -> Traces:
    from cofem.calcium.files.nwb import read_nwb

    return read_nwb(path, variable)


def _caiman(path: Path, all_rois: bool) -> Traces:
    from cofem.calcium.files.caiman import read_caiman

    return read_caiman(path, all_rois)
