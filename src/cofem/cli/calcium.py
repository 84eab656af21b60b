"""``cofem calcium``: spikes with probabilities from the traces of a microscope."""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cofem.cli import report
from cofem.cli.calcium_checks import check_options, check_outputs
from cofem.cli.errors import warnings_as_lines
from cofem.cli.figure import new_figure, save
from cofem.files import atomic_write, fingerprint, only_writer, read_array
from cofem.progress import ProgressBar

# Cells in one file of partial results, from which an interrupted run goes on.
BATCH = 50


def calcium(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="Traces, cells × frames: .npy, .npz (one array, or one called dff), .csv "
            "(columns are cells if there is a header, rows if not), .mat, .nwb, CaImAn's .hdf5, "
            "a Minian folder, or a suite2p folder (plane0, or the one above).",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.npz",
            help="Where to write the result. OUT.spks.npy, in suite2p's format, is written too.",
        ),
    ],
    framerate: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="Frames per second; not needed if INPUT contains it."),
    ] = None,
    indicator: Annotated[
        str | None, typer.Option(metavar="NAME", help="GCaMP6f, GCaMP6s, jGCaMP8m, OGB-1, …")
    ] = None,
    tau_d: Annotated[
        float | None,
        typer.Option(metavar="S", help="Decay time in seconds; default: the most probable."),
    ] = None,
    tau_r: Annotated[
        float | None, typer.Option(metavar="S", help="Rise time in seconds: a kernel with rise.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="P", help="Set spikes to zero that are less probable than this."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="F.png", help="Also draw one cell into this file.")
    ] = None,
    cell: Annotated[
        int | None,
        typer.Option(min=0, metavar="I", help="Which cell to draw; default: the most active."),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="T.npy", help="True spike times of that cell in seconds."),
    ] = None,
    report_path: Annotated[
        Path | None,
        typer.Option("--report", metavar="R.html", help="Also write a page with all cells."),
    ] = None,
    into_nwb: Annotated[
        bool, typer.Option("--into-nwb", help="Also write the result back into the .nwb INPUT.")
    ] = False,
    variable: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the array (.mat) or of the series (.nwb)."),
    ] = None,
    all_rois: Annotated[
        bool, typer.Option("--all-rois", help="All regions of suite2p or CaImAn, not only cells.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=-1, metavar="N", help="Cells at the same time; -1: all processors.")
    ] = -1,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Find spikes in calcium traces: when, how big and how sure, without a λ to tune.

    The result holds the estimate per frame, its standard deviation, the probability of
    an event, the fit, the baseline, and noise and decay time of every cell;
    `cofem.calcium.load_deconvolution("OUT.npz")` gives it back in Python. A run that
    was interrupted goes on where it was when the same command is given again.

    Example:

        cofem calcium suite2p/plane0 -o spikes.npz --report cells.html
    """
    began = time.perf_counter()
    from cofem.calcium.files import read_traces

    spks = output.with_name(f"{output.stem}.spks.npy")
    check_outputs(source, output, figure, report_path, into_nwb)
    traces = read_traces(source, all_rois, variable)
    rate = framerate if framerate is not None else traces.framerate
    if rate is None:
        raise ValueError("--framerate is needed: frames per second")
    spike_times = None if truth is None else read_array(truth, "truth").astype(np.float64).ravel()
    options = {"indicator": indicator, "tau_d": tau_d, "tau_r": tau_r, "threshold": threshold}
    check_options(traces.dff, rate, options, cell)
    with folder_of_parts(output, len(traces.dff) > BATCH) as parts:
        with warnings_as_lines():
            # Batches would number their own cells, and warn for each other batch again.
            warnings.filterwarnings("ignore", "cells with problems")
            result = deconvolve_in_batches(traces.dff, rate, options, jobs, parts)
        warn_of_cells(result.messages, traces.cells)
        result.save(output)
        write_spks(spks, result.spikes, (traces.cells, traces.n_rows))
    written = [str(output), str(spks)]
    if figure is not None:
        draw(result, figure, cell, spike_times)
        written.append(str(figure))
    if report_path is not None:
        write_report(report_path, result, source.name, traces.cells)
        written.append(str(report_path))
    if into_nwb:
        from cofem.calcium.files.nwb import write_nwb

        written.append(write_nwb(source, result, variable))
    facts = summarise(result) | {
        "seconds": time.perf_counter() - began,
        "input": traces.note,
        "output": str(output),
        "spks": str(spks),
        "written": written,
    }
    if json:
        report.show_json(facts)
    else:
        show(facts)


def warn_of_cells(messages: dict[int, str], cells: np.ndarray) -> None:
    """Say in one line what is doubtful in a field, by the numbers that cells have in the file."""
    from cofem.calcium.jumps.doubts import in_a_field

    if messages:
        told = f"{in_a_field(messages, cells.tolist())}; --report lists them all"
        print(f"cofem: warning: {told}", file=sys.stderr)


def write_report(path: Path, result: Any, title: str, cells: np.ndarray) -> None:
    """Write the page with all cells."""
    from cofem.calcium.report import report_page

    with atomic_write(path) as stream:
        stream.write(report_page(result, title, cells).encode("utf-8"))


@contextlib.contextmanager
def folder_of_parts(output: Path, needed: bool) -> Iterator[Path | None]:
    """Keep finished batches beside the output until that is written; one run at a time."""
    if not needed:
        yield None
        return
    folder = output.with_name(f".{output.name}.parts")
    folder.mkdir(exist_ok=True)
    with only_writer(folder, "output"):
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def deconvolve_in_batches(
    dff: np.ndarray, framerate: float, options: dict[str, Any], jobs: int, folder: Path | None
) -> Any:
    """Deconvolve cell by cell, with a bar; finished batches are kept in the folder."""
    from cofem.calcium import deconvolve
    from cofem.calcium.storage import join, load_deconvolution

    key = name_of_task(dff, framerate, options)
    parts = []
    with ProgressBar("cells", len(dff)) as bar:
        for start in range(0, len(dff), BATCH):
            batch = dff[start : start + BATCH]
            advance = functools.partial(_advance, bar, start)
            kept = folder / f"{key}-{start}.npz" if folder else None
            if kept and kept.is_file():
                part = load_deconvolution(kept, batch)
            else:
                part = deconvolve(batch, framerate, n_jobs=jobs, callback=advance, **options)
                if kept:
                    part.save(kept)
            parts.append(part)
            advance(len(batch))
    return join(parts)


def _advance(bar: ProgressBar, before: int, done: int) -> None:
    bar.show(before + done)


def name_of_task(dff: np.ndarray, framerate: float, options: dict[str, Any]) -> str:
    """Return a name for this very task: the same data with the same options."""
    return fingerprint([dff, (dff.shape, dff.dtype.str, framerate, sorted(options.items()))])[:16]


def write_spks(path: Path, spikes: np.ndarray, rows: tuple[np.ndarray, int]) -> None:
    """Write spikes as suite2p's spks.npy: float32, a row for every region of the file."""
    cells, n_rows = rows
    out = np.zeros((n_rows, spikes.shape[1]), np.float32)
    out[cells] = spikes
    with atomic_write(path) as stream:
        np.save(stream, out)


def summarise(result: Any) -> dict[str, Any]:
    """Collect what the table and the JSON object tell."""
    table = result.events()
    minutes = result.spikes.shape[-1] / result.framerate / 60
    return {
        "n_cells": result.n_cells,
        "n_frames": int(result.spikes.shape[-1]),
        "n_events": len(table),
        "events_per_cell_and_minute": len(table) / result.n_cells / minutes,
        "median_noise_std": float(np.nanmedian(result.noise_std)),
        "median_tau_d": float(np.nanmedian(result.tau_d)),
        "median_latency": float(np.nanmedian(result.latency)),
        "median_spikes_per_second": float(
            np.nanmedian(result.spike_counts.sum(axis=1)) / minutes / 60
        ),
        "n_decay_at_limit": int(np.count_nonzero(result.at_limit)),
        "n_problems": len(result.messages),
    }


def show(facts: dict[str, Any]) -> None:
    """Print the table."""
    report.show_table(
        "Deconvolution",
        {
            "cells": report.number(facts["n_cells"]),
            "frames": report.number(facts["n_frames"]),
            "events (probability above ½)": report.number(facts["n_events"]),
            "events per cell and minute": report.number(facts["events_per_cell_and_minute"], 3),
            "noise (median)": report.number(facts["median_noise_std"], 3),
            "decay time (median)": f"{facts['median_tau_d']:.2f} s",
            "… not told by the trace": report.number(facts["n_decay_at_limit"]),
            "spikes per second (median)": report.number(facts["median_spikes_per_second"], 3),
            "events advanced by": f"{1000 * facts['median_latency']:.0f} ms",
            "cells with problems": report.number(facts["n_problems"]),
            "time": f"{facts['seconds']:.1f} s",
            "input": facts["input"] or "as it is",
            "written to": ", ".join(facts["written"]),
        },
    )


def draw(result: Any, path: Path, cell: int | None, truth: np.ndarray | None) -> None:
    """Draw one cell: the given one, or that with most events."""
    from cofem.calcium.drawing import draw_cell

    if cell is None:
        counts = np.bincount(result.events()["cell"], minlength=result.n_cells)
        cell = int(np.argmax(counts))
    figure = new_figure(height=5)
    axes = figure.subplots(2, 1, height_ratios=(3, 2))
    draw_cell(result, cell, axes, truth)
    axes[0].set_title(f"cell {cell}", fontsize=10, loc="left")
    save(figure, path)
