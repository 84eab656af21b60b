"""NWB: traces in, results back as a processing module that NWB's tools show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.calcium.files.extras import pynwb_module
from cofem.calcium.files.reading import Traces
from cofem.files import require_hdf5

# Where traces lie: DfOverF before Fluorescence, for it needs no baseline.
CONTAINERS = ("DfOverF", "Fluorescence")
MODULE = "cofem"


def read_nwb(path: Path, variable: str | None = None) -> Traces:
    """Read the series called ``variable``, or the first DfOverF, or the first Fluorescence."""
    pynwb = pynwb_module(path)
    with _opened(pynwb, path, "r") as io:
        name, series = _series(io.read(), path, variable)
        # NWB has time first.
        traces = np.asarray(series.data[:], dtype=np.float64)
        traces = traces[None] if traces.ndim == 1 else traces.T
        return Traces(
            traces, _rate(series), np.arange(len(traces)), len(traces),
            f"NWB: {name}" + ("" if "DfOverF" in name else ", in its own unit"),
        )  # fmt: skip


def write_nwb(path: Path, result: Any, variable: str | None = None) -> str:
    """Append a result of ``deconvolve`` to the file its traces came from.

    A processing module "cofem" gets, as series over the same regions: ``spikes``,
    ``spike_counts``, ``probability`` and ``denoised``; and a table of the events.

    Returns
    -------
    str
        What was written, for people.
    """
    pynwb = pynwb_module(path)
    with _opened(pynwb, path, "a") as io:
        file = io.read()
        if MODULE in file.processing:
            raise ValueError(f"output: {path} has a processing module {MODULE!r} already")
        _, source = _series(file, path, variable)
        module = file.create_processing_module(MODULE, "Spikes from calcium traces, by cofem")
        container = pynwb.ophys.Fluorescence(name="deconvolution")
        module.add(container)
        kept = {
            "spikes": (result.spikes, "dF/F"),
            "spike_counts": (result.spike_counts, "spikes"),
            "probability": (result.prob_active, "probability"),
            "denoised": (result.denoised, "dF/F"),
        }
        for name, (array, unit) in kept.items():
            timing: dict[str, Any] = {"timestamps": source.timestamps}
            if source.timestamps is None:
                timing = {"rate": source.rate, "starting_time": source.starting_time or 0.0}
            container.add_roi_response_series(
                pynwb.ophys.RoiResponseSeries(
                    name=name, data=np.atleast_2d(array).T, unit=unit, rois=source.rois, **timing
                )
            )
        module.add(_events(pynwb, result))
        io.write(file)
    return f"{path}, processing module {MODULE}"


def _events(pynwb: Any, result: Any) -> Any:
    table = pynwb.core.DynamicTable(name="events", description="Events with their probability")
    for name in ("cell", "time", "amplitude", "low", "high", "probability"):
        table.add_column(name=name, description=name)
    for row in result.events():
        table.add_row(**{name: row[name].item() for name in row.dtype.names})
    return table


def _opened(pynwb: Any, path: Path, mode: str) -> Any:
    require_hdf5(path, "dff")
    try:
        return pynwb.NWBHDF5IO(str(path), mode)
    except Exception as error:  # foreign bytes can fail in any way
        raise ValueError(f"dff: {path} is no readable NWB file ({error})") from None


def _series(file: Any, path: Path, variable: str | None) -> tuple[str, Any]:
    found = {}
    for module in file.processing.values():
        for kind in CONTAINERS:
            for container in module.data_interfaces.values():
                if type(container).__name__ == kind and module.name != MODULE:
                    for name, series in container.roi_response_series.items():
                        found[f"{module.name}/{container.name}/{name}"] = (kind, series)
    if variable is not None:
        for name, (_, series) in found.items():
            if variable in (name, name.rsplit("/", 1)[-1]):
                return name, series
    elif found:
        order = sorted(found, key=lambda name: CONTAINERS.index(found[name][0]))
        return order[0], found[order[0]][1]
    wanted = "RoiResponseSeries in a DfOverF or Fluorescence" if variable is None else variable
    raise ValueError(f"dff: {path} has no {wanted}; it has {', '.join(found) or 'none'}")


def _rate(series: Any) -> float | None:
    if series.rate is not None:
        return float(series.rate)
    if series.timestamps is None or len(series.timestamps) < 2:
        return None
    return float(1 / np.median(np.diff(np.asarray(series.timestamps[:]))))
