"""Files: written completely or not at all, and checked before they are read.

``read_array`` and ``read_matrix`` are the doors for data from a disk. They never
unpickle, and they compare what a header claims with what the file holds before any
memory is asked for.
"""

from cofem.files.fingerprints import fingerprint
from cofem.files.hdf5 import require_hdf5
from cofem.files.locking import only_writer
from cofem.files.matlab import is_hdf5
from cofem.files.reading import parsed, read_archive, read_array, read_matlab, read_matrix
from cofem.files.tables import write_table
from cofem.files.writing import atomic_write, check_writable, explained_if_full, path_of

__all__ = [
    "atomic_write",
    "check_writable",
    "explained_if_full",
    "fingerprint",
    "is_hdf5",
    "only_writer",
    "parsed",
    "path_of",
    "read_archive",
    "read_array",
    "read_matlab",
    "read_matrix",
    "require_hdf5",
    "write_table",
]
