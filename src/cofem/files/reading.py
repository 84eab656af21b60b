"""Arrays from files of unknown origin.

Nothing is unpickled, and what a header claims is compared with what the file holds before
any memory is asked for.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from cofem.files import headers, matlab, matrix_market, tables
from cofem.files.headers import RefusedError
from cofem.files.writing import path_of

ACCEPTED = (
    ".npy and .npz (NumPy, SciPy sparse), .mtx (Matrix Market), .mat (MATLAB, not -v7.3), and "
    ".csv, .tsv, .txt (tables of numbers)"
)
# Larger .npy files are mapped: 256 MiB, which any machine can still read into memory.
MAPPED_ABOVE = 1 << 28

_T = TypeVar("_T")


def read_array(path: str | os.PathLike[str], name: str) -> np.ndarray:
    """Read a dense array from a .npy, .npz, .mtx, .mat, .csv, .tsv or .txt file.

    A single column (N, 1) is read as (N,), and so is a single row of a .mat or a text
    file: these formats know no other vectors.

    Parameters
    ----------
    path : path
        An .npz or .mat holds one array, or one called ``name``.
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
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    knows_vectors = Path(path).suffix.lower() in (".npy", ".npz", ".mtx")
    return array if knows_vectors or array.shape[0] != 1 else array[0]


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

    return _named(path, name, read, "an .npz that cofem wrote")


def read_matlab(path: str | os.PathLike[str], name: str) -> dict[str, np.ndarray]:
    """Read all dense arrays of numbers of a .mat of level 5, each checked before it is read.

    Examples
    --------
    >>> import pathlib, scipy.io, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "t.mat")
    ...     scipy.io.savemat(path, {"dff": np.ones((2, 3)), "subject": "A"})
    ...     list(read_matlab(path, "dff"))
    ['dff']
    """
    file = path_of(path, name)
    return _named(path, name, lambda: matlab.read_all(file))


def read_matrix(path: str | os.PathLike[str], name: str) -> Any:
    """Read a matrix from any file that :func:`read_array` reads: dense, or SciPy's sparse.

    A .npy of more than 256 MiB is mapped, not read: its pages come into memory when they
    are used and may leave it again, so it may be larger than the memory.

    Parameters
    ----------
    path : path
        An .npz or .mat holds one array, or one called ``name``; an .npz may also be what
        ``scipy.sparse.save_npz`` wrote.
    name : str
        What the errors call the matrix.

    Returns
    -------
    np.ndarray or scipy.sparse array, two-dimensional
        A mapped array cannot be written to.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "phi.npz")
    ...     scipy.sparse.save_npz(path, scipy.sparse.eye_array(3))
    ...     scipy.sparse.issparse(read_matrix(path, "phi"))
    True
    """
    found = _read(path, name, mapped=True)
    if found.ndim != 2:
        raise ValueError(
            f"{name}: {path} holds an array of shape {found.shape}; expected a matrix (N, D)"
        )
    return found


def parsed(path: Path, name: str, read: Callable[[], _T]) -> _T:
    """Call a parser of files that others wrote; all that it may raise becomes one line.

    Pipes and devices are refused: reading them may wait, or never end.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".mat") as file:
    ...     parsed(pathlib.Path(file.name), "dff", lambda: {}["F"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: dff: ....mat is not a readable .mat file (KeyError: 'F')
    """
    if not path.is_file():
        raise ValueError(f"{name}: {path} is not a file")
    try:
        return read()
    except (ImportError, FileNotFoundError, PermissionError):
        raise
    except MemoryError:
        raise ValueError(f"{name}: {path} does not fit into memory") from None
    except Exception as error:
        why = " ".join(str(error).split())
        if isinstance(error, ValueError) and why.startswith(f"{name}:"):
            raise
        kind = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])
        told = why if isinstance(error, (ValueError, OSError)) and why else ""
        raise ValueError(
            f"{name}: {path} is not a readable {kind} file "
            f"({told or f'{type(error).__name__}: {why}'})"
        ) from None


# -- one function per format -----------------------------------------------------------


def _read(path: str | os.PathLike[str], name: str, mapped: bool = False) -> Any:
    file = path_of(path, name)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        kind = f"the ending {file.suffix}" if file.suffix else "no ending"
        raise ValueError(f"{name}: {path} has {kind}; accepted: {ACCEPTED}")
    if mapped and reader is _read_npy:
        reader = _map_npy
    if not file.exists():
        raise FileNotFoundError(f"{name}: {path} does not exist")
    if not file.is_file():
        raise ValueError(f"{name}: {path} is not a file")
    return _named(path, name, lambda: reader(file, name))


def _named(
    path: str | os.PathLike[str], name: str, read: Callable[[], _T], else_accepted: str = ACCEPTED
) -> _T:
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
    except Exception as error:  # a parser can fail in any way on damaged bytes
        why = " ".join(str(error).split()) or type(error).__name__
        kind = Path(path).suffix.lower()
        raise ValueError(
            f"{name}: {path} is not a readable {kind} file ({why}); accepted: {else_accepted}"
        ) from None


def _read_npy(file: Path, name: str) -> np.ndarray:
    with file.open("rb") as stream:
        headers.check_header(stream, file.stat().st_size)
        stream.seek(0)
        return np.asarray(np.load(stream, allow_pickle=False))


def _map_npy(file: Path, name: str) -> np.ndarray:
    """Map a large file; read a small one, so that later changes of the file have no effect."""
    if file.stat().st_size <= MAPPED_ABOVE:
        return _read_npy(file, name)
    with file.open("rb") as stream:
        headers.check_header(stream, file.stat().st_size, mapped=True)
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


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
    with np.load(file, allow_pickle=False) as parts:
        if {"indptr", "indices"} <= set(parts.files):  # SciPy builds the matrix without a check
            headers.check_pointers(parts["indptr"], len(np.atleast_1d(parts["indices"])))
    matrix = scipy.sparse.load_npz(file)
    if matrix.dtype.kind not in "biufc":
        raise RefusedError(f"holds values of type {matrix.dtype}; expected numbers")
    headers.check_indices(matrix)
    return matrix


def _read_mtx(file: Path, name: str) -> Any:
    return matrix_market.read(file)


def _read_table(file: Path, name: str) -> np.ndarray:
    return tables.read(file)


_READERS: dict[str, Callable[[Path, str], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".mat": matlab.read,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".txt": _read_table,
}
