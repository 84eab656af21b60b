"""suite2p's folders: F.npy, Fneu.npy, iscell.npy and ops.npy to dF/F."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cofem.calcium.traces import maximin_baseline
from cofem.files import read_array

# suite2p's own weight of the neuropil.
NEUROPIL_COEFFICIENT = 0.7


class Suite2pFolder(NamedTuple):
    """What a suite2p folder holds.

    Attributes
    ----------
    dff : ndarray (n_cells, n_frames)
        dF/F of the cells, as a fraction.
    cells : ndarray of int (n_cells,)
        Their rows in F.npy.
    n_rows : int
        How many rows F.npy has, cells or not.
    framerate : float or None
        ``fs`` of ops.npy, if that is there and can be read.
    """

    dff: np.ndarray
    cells: np.ndarray
    n_rows: int
    framerate: float | None


def read_suite2p(folder: Any, all_rois: bool = False) -> Suite2pFolder:
    """Read fluorescence, subtract neuropil, divide by the baseline.

    dF/F = (F − 0.7 Fneu − F₀)/F₀ with F₀ the maximin baseline over 60 s of F − 0.7 Fneu.

    Parameters
    ----------
    folder : path
        With F.npy and Fneu.npy, and iscell.npy unless ``all_rois``. ops.npy, if it is
        there, tells the frame rate; it is a pickle, of which only plain values are read.
    all_rois : bool
        Take all regions, not only those that iscell.npy calls cells.
    """
    folder = Path(folder)
    needed = ["F.npy", "Fneu.npy"] + ([] if all_rois else ["iscell.npy"])
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} is no complete suite2p folder: {', '.join(missing)} missing"
        )
    fluorescence = np.atleast_2d(read_array(folder / "F.npy", "F"))
    neuropil = np.atleast_2d(read_array(folder / "Fneu.npy", "Fneu"))
    if fluorescence.shape != neuropil.shape:
        raise ValueError(
            f"{folder}: F.npy has shape {fluorescence.shape}, Fneu.npy {neuropil.shape}"
        )
    cells = np.arange(len(fluorescence))
    if not all_rois:
        iscell = read_array(folder / "iscell.npy", "iscell")
        if len(iscell) != len(fluorescence):
            raise ValueError(
                f"{folder}: iscell.npy has {len(iscell)} rows, F.npy {len(fluorescence)}"
            )
        cells = np.flatnonzero(iscell[:, 0] if iscell.ndim == 2 else iscell)
        if len(cells) == 0:
            raise ValueError(f"{folder}: iscell.npy calls no region a cell (all_rois takes all)")
    framerate = _framerate(folder / "ops.npy")
    corrected = fluorescence[cells] - NEUROPIL_COEFFICIENT * neuropil[cells]
    dff = np.stack([_dff(row, framerate or 10.0) for row in corrected.astype(np.float64)])
    return Suite2pFolder(dff, cells, len(fluorescence), framerate)


def _dff(trace: np.ndarray, framerate: float) -> np.ndarray:
    baseline = maximin_baseline(trace, framerate)
    # A baseline at or below zero has no dF/F: neuropil took more than there was.
    return np.asarray((trace - baseline) / np.where(baseline > 0, baseline, np.nan))


def _framerate(path: Path) -> float | None:
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            np.lib.format.read_magic(stream)
            np.lib.format.read_array_header_1_0(stream)
            ops = _PlainUnpickler(stream).load()
        while isinstance(ops, np.ndarray):
            ops = ops.item()
        rate = float(ops["fs"])
    except Exception as error:  # foreign bytes can fail in any way
        raise ValueError(
            f"{path} is not a readable ops.npy ({' '.join(str(error).split())}); give the frame "
            "rate and take ops.npy out of the folder"
        ) from None
    return rate if rate > 0 else None


class _PlainUnpickler(pickle.Unpickler):
    """Unpickles dictionaries, numbers and arrays, and refuses everything else.

    ops.npy is a pickled dictionary; a pickle can run any code, so only the constructors
    of arrays are let through. Other objects in it become None.
    """

    ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy.core.multiarray", "scalar"),
            ("numpy._core.multiarray", "scalar"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.ALLOWED:
            return super().find_class(module, name)
        return _Nothing


class _Nothing:
    """Stands for an object that is not read."""

    def __new__(cls, *args: Any, **options: Any) -> _Nothing:
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        pass
