"""suite2p's folders: F.npy, Fneu.npy, iscell.npy and ops.npy (or settings.npy) to dF/F."""

from __future__ import annotations

import math
import pickletools
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from cofem.calcium.traces import NEUROPIL_COEFFICIENT, to_dff
from cofem.files import read_array

# What suite2p calls its options, in the order of its versions, and the numbers we need.
OPTIONS = ("ops.npy", "settings.npy", "db.npy")
RATE_KEYS, COEFFICIENT_KEYS = ("fs",), ("neucoeff", "neuropil_coefficient")
# suite2p's own default of frames per second, where its options do not say.
USUAL_RATE = 10.0


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
        ``fs`` of ops.npy or settings.npy, if one is there and can be read.
    coefficient : float
        The weight of the neuropil that was subtracted.
    without_baseline : ndarray of int
        Rows of ``dff`` in which neuropil takes more than there is: F − coefficient·Fneu has a
        baseline at or below zero. They are above their baseline but divided by that of F alone.
    """

    dff: np.ndarray
    cells: np.ndarray
    n_rows: int
    framerate: float | None
    coefficient: float
    without_baseline: np.ndarray


def read_suite2p(folder: Any, all_rois: bool = False) -> Suite2pFolder:
    """Read fluorescence, subtract neuropil, divide by the baseline.

    dF/F = (F − w Fneu − F₀)/F₀ with F₀ the maximin baseline over 60 s of F − w Fneu, and w
    suite2p's own neuropil coefficient (0.7 if its options do not tell).

    Parameters
    ----------
    folder : path
        With F.npy and Fneu.npy, and iscell.npy unless ``all_rois``; or the folder above, if it
        has one plane (plane0, suite2p/plane0, combined). ops.npy or settings.npy tell frame
        rate and neuropil coefficient; they are pickles, and are searched without being
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
    >>> found.coefficient
    0.7
    """
    folder = plane_in(Path(folder))
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
    framerate = _option(folder, RATE_KEYS)
    given = _option(folder, COEFFICIENT_KEYS, zero=True)
    coefficient = NEUROPIL_COEFFICIENT if given is None else given
    made = [
        to_dff(f, framerate or USUAL_RATE, n, coefficient)
        for f, n in zip(fluorescence[cells], neuropil[cells], strict=True)
    ]
    lost = np.flatnonzero([not whole for _, whole in made])
    dff = np.stack([row for row, _ in made])
    return Suite2pFolder(dff, cells, len(fluorescence), framerate, coefficient, lost)


def plane_in(folder: Path) -> Path:
    """Return the folder with F.npy: the given one, or the only plane below it."""
    if (folder / "F.npy").is_file():
        return folder
    planes = sorted(
        path.parent
        for pattern in ("plane*/F.npy", "suite2p/plane*/F.npy", "*/suite2p/plane*/F.npy")
        for path in folder.glob(pattern)
    )
    if len(planes) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in planes)
        raise ValueError(f"{folder} has several planes ({names}); give one of them")
    return planes[0] if planes else folder


def _option(folder: Path, keys: tuple[str, ...], zero: bool = False) -> float | None:
    """Return a number out of suite2p's options, whatever the version calls the file."""
    for name in OPTIONS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            for key in keys:
                with path.open("rb") as stream:
                    np.lib.format.read_magic(stream)
                    np.lib.format.read_array_header_1_0(stream)
                    found = _number_after(stream, key)
                if found is not None and math.isfinite(found) and (found > 0 or zero):
                    return found
        except Exception as error:  # foreign bytes can fail in any way
            raise ValueError(
                f"{path} is not a readable {name} ({' '.join(str(error).split())}); give the "
                f"frame rate and take {name} out of the folder"
            ) from None
    return None


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
