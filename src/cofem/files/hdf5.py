"""What is no HDF5 file is refused here, before the HDF5 library sees it.

The library keeps much state of its own in a process. After very many files that it refused it has
ended the process on one that it refuses in words when it is the first.
"""

from __future__ import annotations

from pathlib import Path

# The signature lies at 0, 512, 1024, 2048, … (HDF5 File Format Specification 3.0, II.A): anything
# may stand before it, as MATLAB's header does.
SIGNATURE, FIRST = b"\x89HDF\r\n\x1a\n", 512


def require_hdf5(path: Path, name: str) -> None:
    """Refuse a file without the signature of HDF5 where the format has it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".h5") as file:
    ...     require_hdf5(Path(file.name), "dff")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: dff: ....h5 is no HDF5 file: it does not have the signature of one
    """
    size, offset = path.stat().st_size, 0
    with path.open("rb") as stream:
        while offset + len(SIGNATURE) <= size:
            stream.seek(offset)
            if stream.read(len(SIGNATURE)) == SIGNATURE:
                return
            offset = max(FIRST, 2 * offset)
    raise ValueError(f"{name}: {path} is no HDF5 file: it does not have the signature of one")
