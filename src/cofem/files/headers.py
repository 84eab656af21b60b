"""What the header of a file promises, compared with what the file can hold.

Nothing is read into memory before these checks have passed.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from typing import IO, Any

import numpy as np

from cofem.backend import physical_memory

# Deflate cannot expand one byte to more than 1032; other methods are refused.
MOST_EXPANSION = 1032
# Data that expand a hundredfold are mostly zeros. Up to this many bytes of them are accepted; more
# may be a decompression bomb.
SUSPICIOUS_EXPANSION, MOST_SUSPICIOUS_BYTES = 100, 1 << 30
# For systems that do not tell how much memory they have: 64 TiB, more than any.
LARGEST_MEMORY = 1 << 46


class RefusedError(Exception):
    """A file that is refused; the message follows the file's name."""


def refuse_more_than_memory(size: int, where: str = "") -> None:
    """Refuse what is larger than the memory of this machine.

    Examples
    --------
    >>> refuse_more_than_memory(8 * 10**15)
    Traceback (most recent call last):
    cofem.files.headers.RefusedError: does not fit into memory: it holds 8000000.0 GB
    """
    memory = physical_memory()
    if size > (LARGEST_MEMORY if memory is None else memory):
        raise RefusedError(f"does not fit into memory{where}: it holds {size / 1e9:.1f} GB")


def array_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays in an .npz.

    Two of one name are refused (``y`` and ``y.npy`` are one name to NumPy): one would be
    checked and the other read.
    """
    names = [member.removesuffix(".npy") for member in archive.namelist()]
    twins = [name for name, times in Counter(names).items() if times > 1]
    if twins:
        raise RefusedError(f"holds {twins[0]} twice")
    return names


def check_member(archive: zipfile.ZipFile, key: str, file_size: int, kinds: str = "biufc") -> None:
    """Refuse a member of an .npz that is no array, or larger than it can be."""
    member = f"{key}.npy"
    if member not in archive.namelist():
        raise RefusedError(f"holds {key}, which is not an array")
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RefusedError(f"holds {key} in an unknown compression")
    if info.compress_size > file_size or info.file_size > MOST_EXPANSION * info.compress_size:
        raise RefusedError(f"promises more of {key} than its compressed bytes can hold")
    suspicious = info.file_size > SUSPICIOUS_EXPANSION * info.compress_size
    if suspicious and info.file_size > MOST_SUSPICIOUS_BYTES:
        raise RefusedError(
            f"would expand to {info.file_size / 1e9:.1f} GB in {key}, more than a hundred times "
            "its size; if that is wanted, save it uncompressed"
        )
    try:
        with archive.open(info) as stream:
            check_header(stream, info.file_size, f" in {key}", kinds)
    except (zlib.error, EOFError) as error:
        raise RefusedError(f"is damaged in {key} ({error})") from None


def check_header(
    stream: IO[bytes], size: int, where: str = "", kinds: str = "biufc", mapped: bool = False
) -> None:
    """Refuse objects, and an array larger than the ``size`` bytes it is said to lie in.

    A memory-mapped array (``mapped``) need not fit into memory.
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # 3.0 exists for the field names of structured arrays only
        raise RefusedError(f"has an .npy format {version}{where} that no array of numbers needs")
    if dtype.kind not in kinds or dtype.hasobject:
        raise RefusedError(f"holds values of type {dtype}{where}; expected numbers")
    needed, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if any(side < 0 for side in shape) or needed > there:
        raise RefusedError(
            f"is cut short{where}: its header promises {shape} {dtype}, {needed} bytes, "
            f"and {there} are there"
        )
    if not mapped:
        refuse_more_than_memory(needed, where)


def check_pointers(pointers: np.ndarray, entries: int) -> None:
    """Refuse row or column pointers that lead outside the entries of a sparse matrix.

    Neighbours are compared, not subtracted: the difference of two 32-bit pointers may overflow,
    and SciPy, which subtracts, then reads and writes outside its arrays.
    """
    if pointers.ndim != 1 or pointers.dtype.kind not in "iu" or len(pointers) == 0:
        raise RefusedError("is damaged: the pointers of a sparse matrix are no row of integers")
    if pointers[0] != 0 or np.any(pointers[1:] < pointers[:-1]):
        raise RefusedError("is damaged: the pointers of a sparse matrix do not increase")
    if pointers[-1] > entries:
        raise RefusedError("is damaged: the pointers of a sparse matrix lead beyond its entries")


def check_indices(matrix: Any) -> None:
    """Refuse a SciPy sparse array whose indices lead outside it: products would crash.

    SciPy's own check leaves out the pointers of a matrix that claims to be empty.
    """
    if hasattr(matrix, "indptr"):
        check_pointers(matrix.indptr, len(matrix.indices))
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
