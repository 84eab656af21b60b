"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# A temporary file that nobody has written to for so many seconds is of a process that was killed:
# a single write to a disk does not take an hour.
LEFT_BEHIND = 3600.0
# No space on the device, or the user's quota is used up (Windows has no such number).
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when it is complete.

    The data go to a temporary file in the same directory, which is flushed to the disk
    and then takes the place of ``path``. After any exception, ``KeyboardInterrupt``
    included, the temporary file is gone and ``path`` is as it was. Temporary files of processes
    that were killed are removed by the next write of the same file, an hour later.

    Parameters
    ----------
    path : path
        Its directory must exist. A symbolic link is followed.
    mode : {"wb", "w"}
        Binary, or text in UTF-8.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     with atomic_write(path, "w") as stream:
    ...         _ = stream.write("all or nothing")
    ...     path.read_text()
    'all or nothing'
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode must be 'wb' or 'w', got {mode!r}")
    target = Path(os.path.realpath(path))
    _refuse_target(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    encoding = None if "b" in mode else "utf-8"
    _remove_left_behind(target)
    try:
        # Plain open, not mkstemp: the file gets the permissions that the umask gives.
        with open(temporary, mode.replace("w", "x"), encoding=encoding) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        state = "is as it was" if target.exists() else "was not written"
        with explained_if_full(f"{target} {state}"):
            raise


class DiskFullError(OSError):
    """No space left, with what to do about it."""


@contextlib.contextmanager
def explained_if_full(state: str) -> Iterator[None]:
    """Say what is left and what to do when a disk is full.

    Parameters
    ----------
    state : str
        What the output holds now: "p.npz is as it was".

    Examples
    --------
    >>> with explained_if_full("p.npz was not written"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    cofem.files.writing.DiskFullError: [Errno 28] No space left on device: p.npz was not written; \
free some space or choose another folder, then run the same again
    """
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFullError(
            error.errno,
            f"{error.strerror or 'no space left'}: {state}; "
            "free some space or choose another folder, then run the same again",
        ) from error


def check_writable(path: str | os.PathLike[str], name: str = "output") -> None:
    """Raise an error if a path cannot be written; call it before a long computation.

    Examples
    --------
    >>> check_writable("no/such/folder/p.npz")
    Traceback (most recent call last):
    FileNotFoundError: output: the directory no/such/folder does not exist
    """
    target = path_of(path, name)
    try:
        _refuse_target(target)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except FileNotFoundError:
        raise FileNotFoundError(f"{name}: the directory {target.parent} does not exist") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"{name}: {target.parent} is not a directory") from None
    except OSError as error:
        why = error.strerror or error
        raise OSError(f"{name}: cannot write {target.absolute()}: {why}") from None


def path_of(path: Any, name: str) -> Path:
    """Return a path; an error names the argument.

    Examples
    --------
    >>> path_of(3, "output")
    Traceback (most recent call last):
    TypeError: output must be a path, got int
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {type(path).__name__}")
    return Path(path)


def _remove_left_behind(target: Path) -> None:
    """Remove the temporary files of earlier writes of ``target`` that were killed."""
    oldest = time.time() - LEFT_BEHIND
    middle = "[0-9a-f]" * 8
    pattern = f".{glob.escape(target.name)}.{middle}.tmp"
    with contextlib.suppress(OSError):  # another process may have removed one already
        for left in target.parent.glob(pattern):
            if left.is_file() and left.stat().st_mtime < oldest:
                left.unlink()


def _refuse_target(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    # Never replace a device such as /dev/null, or a pipe, by a file.
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is not a regular file")
