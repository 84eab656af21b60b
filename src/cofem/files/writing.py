"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when it is complete.

    The data go to a temporary file in the same directory, which is flushed to the disk
    and then takes the place of ``path``. After any exception, ``KeyboardInterrupt``
    included, the temporary file is gone and ``path`` is as it was.

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
        raise


def check_writable(path: str | os.PathLike[str], name: str = "output") -> None:
    """Refuse a path that cannot be written, before hours are spent on what goes there.

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
        raise OSError(f"{name}: cannot write {target}: {why}") from None


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


def _refuse_target(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    # Never replace a device such as /dev/null, or a pipe, by a file.
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is not a regular file")
