"""Text tables: with a header a column is a cell, without one a row is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cofem.calcium.files.reading import Traces

# A first column of these names, or one that rises by equal steps, is time.
TIME_NAMES = frozenset({"time", "t", "seconds", "time_s", "time (s)", "frame", "frames"})


def read_csv(path: Path) -> Traces:
    r"""Read numbers separated by commas, tabs or semicolons; an empty field is a missing frame.

    Beside tabs and semicolons a comma is a decimal point, as spreadsheets of many countries write.
    A header of names says that columns are cells; a column of time tells the frame rate.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.csv")
    ...     _ = file.write_text("time,a\n0.0,1\n0.1,2\n0.2,3\n")
    ...     found = read_csv(file)
    >>> found.dff, round(found.framerate, 6)
    (array([[1., 2., 3.]]), 10.0)
    """
    try:
        lines = [x for x in path.read_text(encoding="utf-8-sig").splitlines() if x.strip()]
    except UnicodeDecodeError as error:
        raise ValueError(f"dff: {path} is not a table of numbers ({error})") from None
    mark = next((x for x in "\t;" if lines and x in lines[0]), ",")
    lines = [x if mark == "," else x.replace(",", ".") for x in lines]
    header = _header(lines[0], mark) if lines else None
    try:
        rows = [[float(item.strip() or "nan") for item in line.split(mark)]
                for line in (lines if header is None else lines[1:])]  # fmt: skip
    except ValueError as error:
        raise ValueError(f"dff: {path} is not a table of numbers ({error})") from None
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError(f"dff: the rows of {path} are not equally long, or there are none")
    table = np.array(rows)
    framerate = None
    if header is None:  # a row is a cell; a single column is a cell too
        table = table.T if table.shape[1] == 1 else table
    else:
        table = table.T
        if header[0] in TIME_NAMES and len(table) > 1:
            framerate = _rate(table[0], header[0])
            table = table[1:]
    note = "" if header is None else "columns are cells, as there is a header"
    return Traces(table, framerate, np.arange(len(table)), len(table), note)


def _header(line: str, mark: str) -> list[str] | None:
    names = [item.strip().strip('"').lower() for item in line.split(mark)]
    try:
        for name in names:
            float(name or "nan")
    except ValueError:
        return names
    return None


def _rate(time: np.ndarray, name: str) -> float | None:
    steps = np.diff(time)
    if name.startswith("frame") or len(steps) == 0 or not np.all(steps > 0):
        return None
    return float(1 / np.median(steps))
