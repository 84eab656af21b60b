"""Files: written whole or not at all, and read with suspicion.

``read_array`` and ``read_matrix`` are the doors for data from a disk. They never
unpickle, and they compare what a header claims with what the file holds before any
memory is asked for.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import scipy.sparse

from cofem import headers, matrix_market
from cofem.headers import RefusedError

ENDINGS = (".npy", ".npz", ".mtx")

_T = TypeVar("_T")


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
        raise FileNotFoundError(
            f"{name}: the directory {target.parent} does not exist"
        ) from None
    except NotADirectoryError:
        raise NotADirectoryError(f"{name}: {target.parent} is not a directory") from None
    except OSError as error:
        why = error.strerror or error
        raise OSError(f"{name}: cannot write {target}: {why}") from None


def path_of(path: Any, name: str) -> Path:
    """Return a path, or say which argument is none.

    Examples
    --------
    >>> path_of(3, "output")
    Traceback (most recent call last):
    TypeError: output must be a path, got int
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {type(path).__name__}")
    return Path(path)


def read_array(path: str | os.PathLike[str], name: str) -> np.ndarray:
    """Read a dense array from a .npy, .npz or .mtx file.

    A single column (N, 1) is read as (N,): Matrix Market and MATLAB know no other
    vectors.

    Parameters
    ----------
    path : path
        An .npz holds one array, or one called ``name``.
    name : str
        What the errors call the array.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "y.npy")
    ...     np.save(path, [[1.0], [2.0]])
    ...     read_array(path, "y")
    array([1., 2.])
    """
    found = _read(path, name)
    if scipy.sparse.issparse(found):
        found = _named(path, name, lambda: _dense(found))
    array = np.asarray(found)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def read_archive(path: str | os.PathLike[str], name: str) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz, numbers and texts, each checked before it is read.

    Parameters
    ----------
    path : path
        What the file is called does not matter.
    name : str
        What the errors call the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "p.npz")
    ...     np.savez(path, mean=np.ones(2), about="a test")
    ...     sorted(read_archive(path, "posterior"))
    ['about', 'mean']
    """
    file = path_of(path, name)
    if not file.exists():
        raise FileNotFoundError(f"{name}: {path} does not exist")
    if not file.is_file():
        raise ValueError(f"{name}: {path} is not a file")

    def read() -> dict[str, np.ndarray]:
        size = file.stat().st_size
        with zipfile.ZipFile(file) as archive:
            keys = headers.array_names(archive)
            for key in keys:
                headers.check_member(archive, key, size, kinds="biufcSU")
            headers.refuse_more_than_memory(sum(info.file_size for info in archive.infolist()))
        with np.load(file, allow_pickle=False) as stored:
            return {key: np.asarray(stored[key]) for key in keys}

    return _named(path, name, read)


def read_matrix(path: str | os.PathLike[str], name: str) -> Any:
    """Read a matrix from a .npy, .npz or .mtx file: a NumPy array, or SciPy's sparse.

    Parameters
    ----------
    path : path
        An .npz holds one array, or one called ``name``, or is what
        ``scipy.sparse.save_npz`` wrote.
    name : str
        What the errors call the matrix.

    Returns
    -------
    np.ndarray or scipy.sparse array, two-dimensional

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "phi.npz")
    ...     scipy.sparse.save_npz(path, scipy.sparse.eye_array(3))
    ...     scipy.sparse.issparse(read_matrix(path, "phi"))
    True
    """
    found = _read(path, name)
    if found.ndim != 2:
        raise ValueError(
            f"{name}: {path} holds an array of shape {found.shape}; expected a matrix (N, D)"
        )
    return found


# -- one function per format -----------------------------------------------------------


def _read(path: str | os.PathLike[str], name: str) -> Any:
    file = Path(path)
    readers = {".npy": _read_npy, ".npz": _read_npz, ".mtx": _read_mtx}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise ValueError(f"{name}: {path} does not end in {', '.join(ENDINGS)}")
    if not file.exists():
        raise FileNotFoundError(f"{name}: {path} does not exist")
    if not file.is_file():
        raise ValueError(f"{name}: {path} is not a file")
    return _named(path, name, lambda: reader(file, name))


def _named(path: str | os.PathLike[str], name: str, read: Callable[[], _T]) -> _T:
    """Call ``read``; whatever goes wrong becomes one line that names the file."""
    try:
        return read()
    except RefusedError as refused:
        why = " ".join(str(refused).split())  # a name in an archive may hold anything
        raise ValueError(f"{name}: {path} {why}") from None
    except PermissionError:
        raise PermissionError(f"{name}: {path} cannot be read: permission denied") from None
    except MemoryError:
        raise ValueError(f"{name}: {path} does not fit into memory") from None
    except Exception as error:  # a parser of foreign bytes can fail in any way
        why = " ".join(str(error).split()) or type(error).__name__
        kind = Path(path).suffix.lower()
        raise ValueError(f"{name}: {path} is not a readable {kind} file ({why})") from None


def _read_npy(file: Path, name: str) -> np.ndarray:
    with file.open("rb") as stream:
        headers.check_header(stream, file.stat().st_size)
        stream.seek(0)
        return np.asarray(np.load(stream, allow_pickle=False))


def _read_npz(file: Path, name: str) -> Any:
    size = file.stat().st_size
    with zipfile.ZipFile(file) as archive:
        keys = headers.array_names(archive)
        if {"format", "shape", "data"} <= set(keys):
            for key in keys:
                headers.check_member(archive, key, size, kinds="biufcSU")
            return _read_sparse(file)
        if name in keys:
            key = name
        elif len(keys) == 1:
            key = keys[0]
        else:
            held = ", ".join(sorted(keys)) or "nothing"
            raise RefusedError(
                f"holds {held}; expected one array, an array called {name}, "
                "or a SciPy sparse matrix"
            )
        headers.check_member(archive, key, size)
    with np.load(file, allow_pickle=False) as arrays:
        return np.asarray(arrays[key])


def _dense(matrix: Any) -> np.ndarray:
    headers.refuse_more_than_memory(math.prod(matrix.shape) * matrix.dtype.itemsize)
    return np.asarray(matrix.toarray())


def _read_sparse(file: Path) -> Any:
    matrix = scipy.sparse.load_npz(file)
    if matrix.dtype.kind not in "biufc":
        raise RefusedError(f"holds values of type {matrix.dtype}; expected numbers")
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # an index out of range would crash the product
    return matrix


def _read_mtx(file: Path, name: str) -> Any:
    return matrix_market.read(file)


def _refuse_target(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    # Replacing /dev/null or a pipe by a file would surprise the whole machine.
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is not a regular file")
