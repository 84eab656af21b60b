"""Ends a process inside a write, an fsync or a rename, by SIGKILL: no handler, no clean-up.

A job runs in a fork of a warm process, with the functions that write replaced there. Nothing of
this is in the library.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code (negative: a signal), and what passed before.

    ``moments`` are calls that write; ``units`` are the iterations, fits, batches or trials that
    the job finished in this process.
    """

    code: int
    moments: int
    units: int
    error: str


class Injector:
    """Counts the moments at which a process can die, and ends it, or fails it, at one of them."""

    def __init__(self, at: int, full: bool, pipe: int) -> None:
        self.at, self.full, self.pipe, self.count = at, full, pipe, 0
        self._write = os.write

    def moment(self, half: Callable[[], Any] = lambda: None) -> None:
        """Pass a moment; at the chosen one do half of the work and die, or find the disk full."""
        self.count += 1
        if self.count == self.at and self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.count == self.at:
            half()
            os.kill(os.getpid(), signal.SIGKILL)
        self._write(self.pipe, b".")

    def unit(self) -> None:
        """Say that a unit of the work is finished."""
        self._write(self.pipe, b"u")

    def install(self) -> None:
        """Replace what writes, in this process."""
        moment, opened, write = self.moment, io.open, os.write

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                data = memoryview(data).cast("B")
                moment(lambda: io.FileIO.write(self, data[: len(data) // 2]))
                return io.FileIO.write(self, data)  # type: ignore[return-value]

        def open_(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if isinstance(file, int) or "opener" in options or not set(mode) & set("wxa"):
                return opened(file, mode, *args, **options)
            plain = mode.replace("b", "").replace("t", "")
            buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(Raw(file, plain))
            if "b" in mode:
                return buffered
            return io.TextIOWrapper(buffered, encoding=options.get("encoding") or "utf-8")

        def write_(descriptor: int, data: bytes) -> int:
            if descriptor > 2:  # not what is printed
                moment(lambda: write(descriptor, data[: len(data) // 2]))
            return write(descriptor, data)

        builtins.open = io.open = open_  # type: ignore[assignment]
        os.write = write_  # type: ignore[assignment]
        for name in ("fsync", "replace", "rename", "unlink", "truncate"):
            setattr(os, name, self._before(getattr(os, name)))
        np.memmap.flush = self._before(np.memmap.flush)  # type: ignore[method-assign]

        def set_rows(array: Any, rows: Any, values: Any) -> None:
            plain = array.view(np.ndarray)

            def half() -> None:
                plain[rows].ravel()[:1] = np.asarray(values).ravel()[:1]

            moment(half)
            plain[rows] = values

        np.memmap.__setitem__ = set_rows  # type: ignore[method-assign]

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.moment()
            return function(*args, **options)

        return call


def run(job: Callable[[Callable[[], None]], None], at: int = 0, full: bool = False) -> Ended:
    """Run a job in a fork that ends at its ``at``-th moment (0: never).

    The job gets a function to call after every unit of its work.
    """
    moments, ours = os.pipe()
    said, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(moments)
        os.close(said)
        code = 1
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(theirs, 2)
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), write_through=True)
            injector = Injector(at, full, ours)
            injector.install()
            job(injector.unit)
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    os.close(ours)
    os.close(theirs)
    passed, error = _drained(moments), _drained(said)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, passed.count(b"."), passed.count(b"u"), error.decode(errors="replace"))


def _drained(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()
