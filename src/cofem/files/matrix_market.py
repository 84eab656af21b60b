"""Matrix Market files, looked through before SciPy's parser sees them.

SciPy's parser is fast compiled code. It ends the whole process where a line has no end
(a zero byte, or a last line that goes on after its number), where a matrix that is
called symmetric is not square, or where one without rows has values; and it fills up a
short symmetric array with zeros.
"""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from cofem.files.headers import RefusedError

# Newer versions of SciPy warn until they are told which of its two sparse classes is wanted.
_TAKES_SPMATRIX = "spmatrix" in inspect.signature(scipy.io.mmread).parameters
_CLASS = {"spmatrix": False} if _TAKES_SPMATRIX else {}


def read(file: Path) -> Any:
    r"""Return the matrix in a file: dense, or a sparse coo_array.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 0.5"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "phi.mtx")
    ...     _ = path.write_text(text)
    ...     read(path).toarray()
    array([[0. , 0. ],
           [0.5, 0. ]])
    """
    text = file.read_bytes()
    if b"\0" in text:
        raise RefusedError("is not a text file: it contains null bytes")
    if not text.endswith(b"\n"):
        text += b"\n"
    rows, columns, entries, layout, field, symmetry = scipy.io.mminfo(io.BytesIO(text))
    if rows == 0 or columns == 0:
        raise RefusedError(f"is empty: its header says {rows} × {columns}")
    if symmetry != "general" and rows != columns:
        raise RefusedError(f"calls a matrix of {rows} × {columns} {symmetry}")
    if layout == "array":
        diagonal = 0 if symmetry == "skew-symmetric" else columns
        half = columns * (columns - 1) // 2 + diagonal
        entries = rows * columns if symmetry == "general" else half
        shortest = 2  # a digit and a line end
    else:
        shortest = 4 if field == "pattern" else 6  # two or three numbers and what parts them
    if entries * shortest > len(text):
        raise RefusedError(
            f"is cut short: its header promises {entries} entries, more than {len(text)} "
            "bytes can hold"
        )
    if layout == "array" and symmetry != "general" and _lines(text) != entries:
        raise RefusedError(f"has {_lines(text)} values; its header promises {entries}")
    found = scipy.io.mmread(io.BytesIO(text), **_CLASS)
    return scipy.sparse.coo_array(found) if scipy.sparse.issparse(found) else np.asarray(found)


def _lines(text: bytes) -> int:
    """Count the lines that hold values."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith(b"%")) - 1  # the sizes
