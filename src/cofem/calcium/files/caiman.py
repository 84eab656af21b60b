"""CaImAn's results: estimates/F_dff if they were computed, otherwise C + YrA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.calcium.files.extras import hdf5_file
from cofem.calcium.files.reading import Traces


def read_caiman(path: Path, all_rois: bool = False) -> Traces:
    """Read the traces of the accepted components.

    ``F_dff`` is dF/F. Without it C + YrA is fluorescence with the noise; with the background's
    part unknown it is left in its own unit, in which the model of jumps works as well.

    Parameters
    ----------
    path : path
        As ``cnmf.save`` writes it.
    all_rois : bool
        Rejected components too.
    """
    with hdf5_file(path) as file:
        if "estimates" not in file:
            raise ValueError(
                f"dff: {path} has no group estimates: it is no result of CaImAn; it has "
                f"{', '.join(file) or 'nothing'}"
            )
        estimates = file["estimates"]
        traces = _array(estimates, "F_dff")
        note = "CaImAn: F_dff"
        if traces is None:
            raw, residual = _array(estimates, "C"), _array(estimates, "YrA")
            if raw is None:
                raise ValueError(f"dff: {path} has neither estimates/F_dff nor estimates/C")
            traces = raw if residual is None or residual.shape != raw.shape else raw + residual
            note = "CaImAn: C + YrA, not divided by a baseline, in the movie's own unit"
        accepted = _array(estimates, "idx_components")
        framerate = _framerate(file)
    cells = np.arange(len(traces))
    if accepted is not None and not all_rois and accepted.dtype.kind in "iu":
        cells = accepted.ravel().astype(np.int64)
        if len(cells) and cells.max() >= len(traces):  # F_dff of the chosen ones alone
            cells = np.arange(len(traces))
    return Traces(traces[cells].astype(np.float64), framerate, cells, len(traces), note)


def _array(group: Any, name: str) -> np.ndarray | None:
    """Return a table of numbers, None where CaImAn kept its None."""
    item = group.get(name)
    if item is None or not hasattr(item, "dtype") or item.dtype.kind not in "biuf":
        return None
    array = np.asarray(item[()])
    return array if array.ndim >= 1 and array.size else None


def _framerate(file: Any) -> float | None:
    item = file.get("params/data/fr")
    if item is None or item.dtype.kind not in "biuf" or item.size != 1:
        return None
    rate = float(np.asarray(item[()]).ravel()[0])
    return rate if rate > 0 else None
