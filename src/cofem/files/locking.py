"""One process at a time writes to an output; a second one is told so."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def only_writer(path: str | os.PathLike[str], name: str = "output") -> Iterator[None]:
    """Hold the lock of a file or folder that exists; refuse if another run holds it.

    The system takes the lock away from a process that dies, and nothing is left in the folder.
    Where the system or the file system has no such locks, this does nothing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, only_writer(folder, "store"):
    ...     with only_writer(folder, "store"):  # doctest: +ELLIPSIS
    ...         pass
    Traceback (most recent call last):
    BlockingIOError: store: another run is writing to ...; wait for it or give another path
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"{name}: another run is writing to {os.fspath(path)}; "
                "wait for it or give another path"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(descriptor)
