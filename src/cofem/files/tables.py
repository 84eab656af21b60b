"""Tables of numbers as text: .csv, .tsv, .txt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cofem.files.headers import RefusedError, refuse_more_than_memory
from cofem.files.writing import atomic_write

# The shortest entry is a digit and its separator, and becomes eight bytes.
BYTES_PER_CHARACTER = 4
# Rows that are converted at a time: Python's numbers need ten times the memory of an array.
ROWS_AT_ONCE = 10_000


def read(file: Path) -> np.ndarray:
    r"""Return the numbers in a text file, shape (rows, columns).

    Columns are separated by commas, semicolons, tabs or spaces, whichever the first line
    of numbers has. A first line that is not numbers is a heading and is passed over, as
    are lines that begin with #. Complex numbers are written 1+2j.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "phi.csv")
    ...     _ = path.write_text("first,second\n1,2\n3,4.5\n")
    ...     read(path)
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    refuse_more_than_memory(BYTES_PER_CHARACTER * file.stat().st_size)
    data = file.read_bytes()
    if b"\0" in data:
        raise RefusedError("is not a text file: it contains null bytes")
    text = data.decode("utf-8-sig")  # spreadsheets write a byte-order mark
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    if lines and _is_heading(lines[0]):
        lines = lines[1:]
    if not lines:
        raise RefusedError("holds no numbers")
    kind = complex if any("j" in line for line in lines) else float
    table = np.loadtxt(lines, dtype=kind, delimiter=_separator(lines[0]), ndmin=2)
    return np.asarray(table)


def _separator(line: str) -> str | None:
    """Return what stands between the columns; None for any run of spaces."""
    return next((mark for mark in ("\t", ";", ",") if mark in line), None)


def _is_heading(line: str) -> bool:
    """Whether a first line names the columns; what could be either is refused."""
    mark = _separator(line)
    cells = [cell.strip(' "') for cell in line.split(mark)]
    if len(cells) > 1 and cells == [str(k) for k in range(len(cells))]:
        raise RefusedError(
            "begins with 0, 1, 2, …, which may be numbers or names of columns; write the table "
            "without names (pandas: header=False, index=False)"
        )
    if all(_is_number(cell) for cell in cells):
        return False
    if not cells[0] and mark is not None:
        raise RefusedError(
            "has a first column without a name, which looks like an index; write the table "
            "without it (pandas: index=False)"
        )
    if any(cell[:1].isdigit() or cell[:1] in "+-." for cell in cells if cell):
        raise RefusedError(f"begins with {line[:40]!r}, which is neither numbers nor a heading")
    return True


def _is_number(cell: str) -> bool:
    try:
        complex(cell)
    except ValueError:
        return False
    return True


def write_table(path: str | os.PathLike[str], columns: Mapping[str, np.ndarray]) -> None:
    """Write columns of numbers under their names as a .csv, whole or not at all.

    Parameters
    ----------
    path : path
    columns : mapping of names to arrays of shape (n,)
        Real numbers, integers or booleans; booleans are written as 0 and 1. Every number
        is written with as many digits as give it back exactly.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "z.csv")
    ...     write_table(path, {"index": np.arange(2), "mean": np.array([0.5, 0.1])})
    ...     print(path.read_text())
    index,mean
    0,0.5
    1,0.1
    <BLANKLINE>
    """
    arrays = [np.asarray(column) for column in columns.values()]
    lengths = {array.size for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"columns must be equally long, got lengths {sorted(lengths)}")
    with atomic_write(path, "w") as stream:
        stream.write(",".join(columns) + "\n")
        for start in range(0, lengths.pop(), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            for row in zip(*(_plain(array[block]) for array in arrays), strict=True):
                stream.write(",".join(map(repr, row)) + "\n")


def _plain(column: np.ndarray) -> list[float | int]:
    """Return Python's numbers, whose text is short and exact; booleans as 0 and 1."""
    numbers: list[float | int] = (column + 0 if column.dtype == bool else column).tolist()
    return numbers
