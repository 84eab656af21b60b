"""Trials in a CSV file, one line each, kept through interruptions."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cofem.files import explained_if_full

Row = dict[str, Any]


class TrialFile:
    """A CSV that grows by whole lines.

    A line is written with one call and flushed to the disk, so an interrupted run loses
    at most the trials that were under way. A last line without its end is discarded when
    the file is opened again.

    Parameters
    ----------
    path : path
        Made, with its header, if it is not there.
    columns : mapping of name to type
        ``int``, ``float`` or ``str`` for each column, in order.
    key : sequence of names
        The columns that tell one trial from another.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trials.csv")
    ...     TrialFile(path, {"trial": int, "error": float}, ["trial"]).append(
    ...         {"trial": 0, "error": 0.5})
    ...     _ = path.write_bytes(path.read_bytes() + b"1,0.")  # cut off
    ...     TrialFile(path, {"trial": int, "error": float}, ["trial"]).rows
    [{'trial': 0, 'error': 0.5}]
    """

    def __init__(self, path: Path, columns: Mapping[str, type], key: Sequence[str]) -> None:
        self.path, self._columns, self._key = path, dict(columns), tuple(key)
        self.rows: list[Row] = []
        self._one_at_a_time = threading.Lock()
        header = _line(self._columns)
        if path.exists() and not path.is_file():  # a pipe would wait, /dev/zero never ends
            raise ValueError(f"{path} is not a file; move it away or choose another folder")
        whole = _whole_lines(path)
        if not whole:
            with explained_if_full(f"{path} was not written"):
                path.write_bytes(header)
        elif not whole.startswith(header):
            raise ValueError(
                f"{path} has other columns than this version writes; "
                "move it away or choose another folder"
            )
        else:
            if len(whole) < path.stat().st_size:
                os.truncate(path, len(whole))
            self.rows = list(self._parsed(whole.decode("utf-8")))
        self._done = {self._identity(row) for row in self.rows}

    def append(self, row: Row) -> None:
        """Add a finished trial."""
        line = _line([_written(row[name]) for name in self._columns])
        with (
            self._one_at_a_time,
            explained_if_full(f"{self.path} holds the {len(self.rows)} trials before this one"),
        ):
            _append(self.path, line)
            self.rows.append({name: row[name] for name in self._columns})
            self._done.add(self._identity(row))

    def has(self, row: Row) -> bool:
        """Whether the trial with this key is there."""
        return self._identity(row) in self._done

    def select(self, keys: Iterable[Row]) -> list[Row]:
        """Return the trials that a run asked for, and not those of other runs."""
        wanted = {self._identity(key) for key in keys}
        return [row for row in self.rows if self._identity(row) in wanted]

    def _identity(self, row: Row) -> tuple[str, ...]:
        return tuple(_written(self._columns[name](row[name])) for name in self._key)

    def _parsed(self, text: str) -> Iterable[Row]:
        lines = csv.reader(io.StringIO(text))
        fields: list[str] = []
        try:
            next(lines)
            for fields in lines:
                yield {
                    name: kind(field)
                    for (name, kind), field in zip(self._columns.items(), fields, strict=True)
                }
        except (ValueError, csv.Error) as error:
            why = fields if isinstance(error, ValueError) else error
            raise ValueError(
                f"{self.path}, line {lines.line_num}: not a trial: {why}; "
                "mend the line, or move the file away"
            ) from None


def _append(path: Path, line: bytes) -> None:
    """Add a line, or nothing if there is no place for all of it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    before = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, line) < len(line):  # what a disk does that is nearly full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)


def _whole_lines(path: Path) -> bytes:
    """Return the file up to its last line end."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _line(fields: Iterable[str]) -> bytes:
    stream = io.StringIO()
    # No field holds a line end, so a line of the file is a trial.
    csv.writer(stream, lineterminator="\n").writerow(" ".join(f.splitlines()) for f in fields)
    return stream.getvalue().encode("utf-8")


def _written(value: Any) -> str:
    """Write a number so that reading it gives it back."""
    if isinstance(value, bool):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)
