"""MATLAB's .mat files (level 5, which MATLAB writes by default): their arrays of numbers.

SciPy's reader ends the whole process on some damaged files. This one is plain Python: it
reads numbers and sparse matrices, passes over everything else, and takes no length from a
file without comparing it with the bytes that are there.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from cofem.files.headers import (
    MOST_EXPANSION,
    MOST_SUSPICIOUS_BYTES,
    SUSPICIOUS_EXPANSION,
    RefusedError,
    check_indices,
    check_pointers,
    refuse_more_than_memory,
)

HEADER = 128
HDF5 = (b"MATLAB 7.3", b"\x89HDF")
MATRIX, COMPRESSED = 14, 15
# Types of stored numbers, and classes of MATLAB's arrays, by their numbers in the format.
STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
SPARSE, LOGICAL, COMPLEX = 5, 0x200, 0x800


@dataclass(frozen=True)
class Variable:
    """What the beginning of an array says: its name, shape and class, and the parts to come."""

    name: str
    shape: tuple[int, ...]
    kind: int
    flags: int
    parts: Iterator[np.ndarray]

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.kind == SPARSE or self.kind in CLASSES


def is_hdf5(file: Path) -> bool:
    """Whether a .mat is of version 7.3, which is HDF5."""
    with file.open("rb") as stream:
        return stream.read(len(HDF5[0])).startswith(HDF5)


def read(file: Path, name: str) -> Any:
    """Return the array called ``name``, or the only one of numbers: dense, or a coo_array.

    Examples
    --------
    >>> import pathlib, scipy.io, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.mat")
    ...     scipy.io.savemat(path, {"phi": np.eye(2), "subject": "A"})
    ...     read(path, "y")
    array([[1., 0.],
           [0., 1.]])
    """
    variables = _variables(file)
    numeric = [variable for variable in variables if variable.is_numeric]
    called = [variable for variable in numeric if variable.name == name]
    if len(called) != 1 and len(numeric) != 1:
        held = ", ".join(sorted(variable.name for variable in variables)) or "nothing"
        raise RefusedError(f"holds {held}; expected one array of numbers, or one called {name}")
    chosen = called[0] if len(called) == 1 else numeric[0]
    return _sparse(chosen) if chosen.kind == SPARSE else _dense(chosen)


def read_all(file: Path) -> dict[str, np.ndarray]:
    """Return all dense arrays of numbers by name; everything else is passed over."""
    variables = _variables(file)
    return {v.name: _dense(v) for v in variables if v.name and v.kind in CLASSES}


def _variables(file: Path) -> list[Variable]:
    refuse_more_than_memory(file.stat().st_size)
    data = file.read_bytes()
    order = _byte_order(data)
    return [_variable(body, order) for body in _matrices(data, order)]


def _byte_order(data: bytes) -> str:
    if data.startswith(HDF5):
        raise RefusedError(
            "is a MATLAB 7.3 file, which is HDF5 and not read; save it in MATLAB with -v7, or in "
            "Python as .npy"
        )
    order = {b"IM": "<", b"MI": ">"}.get(data[HEADER - 2 : HEADER])
    if order is None:
        raise RefusedError("is no MATLAB file of level 5; save it in MATLAB with -v7")
    return order


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and bytes of the elements that stand one after the other in ``data``."""
    at = 0
    while at + 8 <= len(data):
        kind, length = struct.unpack_from(order + "II", data, at)
        start = at + 8
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, length, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + length > len(data) or (start == at + 4 and length > 4):
            raise RefusedError(f"is cut short: {length} bytes are promised where it ends")
        yield kind, data[start : start + length]
        # All but compressed elements begin at multiples of eight bytes.
        end = start + length
        at = end if kind == COMPRESSED else -(-end // 8) * 8


def _matrices(data: bytes, order: str) -> Iterator[memoryview]:
    for kind, body in _elements(memoryview(data)[HEADER:], order):
        if kind == COMPRESSED:
            inside = next(_elements(memoryview(_expanded(body, order)), order), None)
            if inside is not None and inside[0] == MATRIX:
                yield inside[1]
        elif kind == MATRIX:
            yield body


def _expanded(body: memoryview, order: str) -> bytes:
    """Decompress one element, as many bytes as it says it has."""
    stream = zlib.decompressobj()
    start = stream.decompress(body, 8)
    if len(start) < 8:
        raise RefusedError("is damaged: a compressed array is empty")
    length = struct.unpack(order + "II", start)[1]
    if length > MOST_EXPANSION * len(body):
        raise RefusedError("promises more of an array than its compressed bytes can hold")
    if length > MOST_SUSPICIOUS_BYTES and length > SUSPICIOUS_EXPANSION * len(body):
        raise RefusedError(f"would expand to {length / 1e9:.1f} GB, a hundred times its size")
    refuse_more_than_memory(length)
    return start + stream.decompress(stream.unconsumed_tail, max(length, 1))


def _variable(body: memoryview, order: str) -> Variable:
    elements = _elements(body, order)
    parts = (_numbers(kind, part, order) for kind, part in elements)
    try:
        flags, shape = int(next(parts)[0]), tuple(int(side) for side in next(parts))
        name = next(elements)[1].tobytes().decode("latin-1")
    except (StopIteration, IndexError):
        raise RefusedError("is damaged: an array has no beginning") from None
    return Variable(name, shape, flags & 0xFF, flags, parts)


def _numbers(kind: int, part: memoryview, order: str) -> np.ndarray:
    dtype = STORED.get(kind)
    if dtype is None or len(part) % int(dtype[1]):
        raise RefusedError(f"is damaged: {len(part)} bytes of an unknown type {kind}")
    return np.frombuffer(part, dtype=np.dtype(order + dtype))


def _values(variable: Variable, count: int, dtype: str) -> np.ndarray:
    """Return the next ``count`` values, complex if the array is; MATLAB stores them compactly."""
    halves = []
    for _ in range(2 if variable.flags & COMPLEX else 1):
        stored = next(variable.parts, None)
        if stored is None or stored.size < count:
            there = 0 if stored is None else stored.size
            raise RefusedError(
                f"is cut short in {variable.name}: {count} values are promised, {there} are there"
            )
        halves.append(stored[:count].astype(dtype))
    return halves[0] if len(halves) == 1 else halves[0] + 1j * halves[1]


def _dense(variable: Variable) -> np.ndarray:
    if any(side < 0 for side in variable.shape):
        raise RefusedError(f"is damaged: {variable.name} has the shape {variable.shape}")
    dtype = "?" if variable.flags & LOGICAL else CLASSES[variable.kind]
    values = _values(variable, math.prod(variable.shape), dtype)
    return np.ascontiguousarray(values.reshape(variable.shape, order="F"))


def _sparse(variable: Variable) -> scipy.sparse.coo_array:
    rows, starts = next(variable.parts, None), next(variable.parts, None)
    if rows is None or starts is None or len(variable.shape) != 2 or starts.size == 0:
        raise RefusedError(f"is damaged: {variable.name} is no sparse matrix")
    count = int(starts[-1])
    if starts.size != variable.shape[1] + 1 or not 0 <= count <= rows.size:
        raise RefusedError(f"is damaged: the columns of {variable.name} do not fit")
    check_pointers(starts, count)  # SciPy trusts them while it builds the matrix
    values = _values(variable, count, "f8")
    matrix = scipy.sparse.csc_array(
        (values, rows[:count].astype(np.int64), starts.astype(np.int64)), shape=variable.shape
    )
    check_indices(matrix)
    return matrix.tocoo()
