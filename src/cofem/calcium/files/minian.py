"""Minian's results: C and YrA in zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.calcium.files.extras import zarr_module
from cofem.calcium.files.reading import Traces
from cofem.files.headers import RefusedError, refuse_more_than_memory


def read_minian(folder: Path) -> Traces:
    """Read C + YrA (C alone where there is no YrA) of all units, in the movie's own unit.

    Minian keeps every variable in a zarr store of its own (``C.zarr``), with an array of the
    same name and the dimensions unit_id × frame; an older layout has all in one store.
    """
    zarr = zarr_module(folder)
    calcium = _variable(zarr, folder, "C")
    if calcium is None:
        raise ValueError(f"dff: {folder} has no C.zarr: it is no result of Minian")
    residual = _variable(zarr, folder, "YrA")
    together = residual is not None and residual.shape == calcium.shape
    traces = calcium + residual if together and residual is not None else calcium
    note = f"Minian: {'C + YrA' if together else 'C'}, not divided by a baseline"
    return Traces(traces, None, np.arange(len(traces)), len(traces), note)


def _variable(zarr: Any, folder: Path, name: str) -> np.ndarray | None:
    """Return unit_id × frame of a variable, None if it is not there."""
    for place in (folder / f"{name}.zarr", folder / name, folder):
        if not place.is_dir():
            continue
        try:
            held = zarr.open(str(place), mode="r")
        except Exception:  # a folder that is no store
            continue
        array = held if hasattr(held, "ndim") else held.get(name) if hasattr(held, "get") else None
        if array is not None and getattr(array, "ndim", 0) == 2:
            return _values(place, array)
    return None


def _values(place: Path, array: Any) -> np.ndarray:
    """Return unit_id × frame; what zarr raises for a damaged store becomes one line."""
    try:
        refuse_more_than_memory(array.nbytes)
        dimensions = _dimensions(array)
        values = np.asarray(array[:], dtype=np.float64)
    except (RefusedError, MemoryError) as error:
        raise ValueError(f"dff: {place} {error or 'does not fit into memory'}") from None
    except Exception as error:
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(f"dff: {place} is not a readable zarr store ({told})") from None
    return values.T if dimensions and dimensions[0] == "frame" else values


def _dimensions(array: Any) -> tuple[str, ...]:
    """Return the names of the dimensions, as xarray keeps them in zarr."""
    kept = dict(array.attrs).get("_ARRAY_DIMENSIONS")
    if kept is None:
        kept = getattr(array.metadata, "dimension_names", None)
    return tuple(str(name) for name in kept or ())
