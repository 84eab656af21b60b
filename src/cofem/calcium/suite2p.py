"""suite2p's folders: F.npy, Fneu.npy, iscell.npy and ops.npy to dF/F."""

from __future__ import annotations

import math
import pickletools
from pathlib import Path
from typing import IO, Any, NamedTuple

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
        there, tells the frame rate; it is a pickle, and is searched for it without being
        unpickled.
    all_rois : bool
        Take all regions, not only those that iscell.npy calls cells.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "F.npy"), np.full((2, 50), 100.0))
    ...     np.save(Path(folder, "Fneu.npy"), np.zeros((2, 50)))
    ...     np.save(Path(folder, "iscell.npy"), np.array([[1, 0.9], [0, 0.2]]))
    ...     found = read_suite2p(folder)
    >>> found.dff.shape, found.cells, found.n_rows, found.framerate
    ((1, 50), array([0]), 2, None)
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
    for name, array in (("F", fluorescence), ("Fneu", neuropil)):
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{folder}: {name}.npy holds {array.dtype} of shape {array.shape}; expected "
                "real numbers (n_regions, n_frames)"
            )
    if fluorescence.shape != neuropil.shape:
        raise ValueError(
            f"{folder}: F.npy has shape {fluorescence.shape}, Fneu.npy {neuropil.shape}"
        )
    cells = np.arange(len(fluorescence))
    if not all_rois:
        iscell = read_array(folder / "iscell.npy", "iscell")
        if iscell.ndim not in (1, 2) or 0 in iscell.shape or iscell.dtype.kind not in "biuf":
            raise ValueError(
                f"{folder}: iscell.npy holds {iscell.dtype} of shape {iscell.shape}; expected "
                "(n_regions, 2)"
            )
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
            rate = _number_after(stream, "fs")
    except Exception as error:  # foreign bytes can fail in any way
        raise ValueError(
            f"{path} is not a readable ops.npy ({' '.join(str(error).split())}); give the frame "
            "rate and take ops.npy out of the folder"
        ) from None
    return rate if rate is not None and math.isfinite(rate) and rate > 0 else None


def _number_after(stream: IO[bytes], key: str) -> float | None:
    """Return the plain number that follows ``key`` in a pickled dictionary, if one does.

    ops.npy is a pickle, and a pickle can run any code or ask for any memory. So it is
    not unpickled: its instructions are read as a list, and one of them is the number.
    """
    follows = False
    for instruction, value, _ in pickletools.genops(stream):
        if follows and value is not None and instruction.name in _NUMBERS:
            return float(value)
        if instruction.name not in _NOTES:
            follows = instruction.name in _TEXTS and value == key
    return None


_NUMBERS = frozenset({"BINFLOAT", "FLOAT", "BININT", "BININT1", "BININT2", "INT", "LONG1"})
_TEXTS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "UNICODE"})
# What a pickler writes between a key and its value: where it keeps the key.
_NOTES = frozenset({"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "FRAME"})
