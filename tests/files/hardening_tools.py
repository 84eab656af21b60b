"""Files as strangers make them: boastful, damaged, poisoned."""

import io
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

HUGE = 10**15
LITTLE = 32 << 20  # bytes that refusing a file of a few kilobytes may take

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def npy(shape="(3,)", descr="'<f8'", data=b"\0" * 24):
    """Return the bytes of an .npy file whose header says anything."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def saved(write, *args, **kwargs):
    stream = io.BytesIO()
    write(stream, *args, **kwargs)
    return stream.getvalue()


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", compression) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def refuses_or_reads(call):
    """Call it; only an error that the user can read may come out. Return what was read."""
    try:
        return call()
    except (ValueError, OSError) as error:
        text = str(error)
    assert len(text) > 10
    assert "\n" not in text
    return None


def assert_refused_cheaply(call, match=""):
    """The call raises ValueError and takes little memory on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE


# A damage: where (as a fraction), how many bytes go, and what comes in their place.
damages = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=6)), min_size=1, max_size=4
)


def damaged(data, changes):
    for where, gone, come in changes:
        at = int(where * len(data))
        data = data[:at] + come + data[at + gone :]
    return data


def lying(data, **fields):
    """Return an .npz whose directory says other sizes than are there."""
    data, at = bytearray(data), data.index(b"PK\x01\x02")
    for name, value in fields.items():
        offset = at + {"compressed": 20, "expanded": 24}[name]
        data[offset : offset + 4] = struct.pack("<I", value)
    return bytes(data)


def expanding_to(size):
    """Return an .npz of ``size`` zeros that is a thousand times smaller."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = bytes(1 << 24)
    head = packer.compress(npy(f"({size},)", "'|u1'", b"")) + packer.flush(zlib.Z_FULL_FLUSH)
    once = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = head + once * (size // len(piece)) + packer.flush()
    data = bytearray(zipped([("y.npy", packed)], zipfile.ZIP_STORED))
    for mark, method, expanded in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        at = data.index(mark)
        data[at + method : at + method + 2] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        data[at + expanded : at + expanded + 4] = struct.pack("<I", size + 128)
    return bytes(data)
