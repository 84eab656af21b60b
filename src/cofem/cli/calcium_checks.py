"""What ``cofem calcium`` refuses, before the work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cofem.cli.figure import check_pictures
from cofem.files import check_writable


def check_outputs(
    source: Path, output: Path, figure: Path | None, page: Path | None, into_nwb: bool
) -> None:
    """Refuse what cannot be written, before the work is done."""
    if output.suffix.lower() != ".npz":
        raise ValueError(f"output: {output} does not end in .npz")
    check_writable(output, "output")
    check_writable(output.with_name(f"{output.stem}.spks.npy"), "output")
    if output.exists() and source.exists() and output.samefile(source):
        raise ValueError(f"output: {output} would overwrite the input")
    check_pictures(figure, page)
    if into_nwb:
        if source.suffix.lower() != ".nwb":
            raise ValueError(f"--into-nwb: the input {source} is no .nwb file")
        check_writable(source, "--into-nwb")


def check_options(
    dff: np.ndarray, framerate: float, options: dict[str, Any], cell: int | None
) -> None:
    """Refuse what the deconvolution would refuse, and a cell that is not there."""
    from cofem.calcium.arguments import settings_of, traces_of

    settings_of(framerate, **options)
    traces_of(dff)
    if cell is not None and cell >= len(dff):
        raise ValueError(f"--cell {cell}: there are {len(dff)} cells, from 0 to {len(dff) - 1}")
