"""Doors that strangers' files come through, threads beside each other, and the wheel."""

import concurrent.futures
import io
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import venv
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import threadpoolctl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import cofem
from cofem import backend, simulate
from cofem.calcium import load_deconvolution, read_suite2p
from cofem.cli import app
from cofem.cli.calcium import read_csv
from cofem.files import read_array, read_matrix

ROOT = Path(__file__).parents[1]
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
        assert len(str(error)) > 10
        assert "\n" not in str(error)
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


# -- arrays and matrices: arbitrary, damaged and boastful bytes -------------------------------

MATRIX = np.arange(12.0).reshape(3, 4)
SPARSE = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
GOOD = {
    ".npy": [saved(np.save, MATRIX), saved(np.save, MATRIX.astype(np.complex64))],
    ".npz": [
        saved(np.savez, phi=MATRIX),
        saved(np.savez_compressed, phi=MATRIX, y=MATRIX[:, 0]),
        saved(scipy.sparse.save_npz, SPARSE),
        saved(scipy.sparse.save_npz, SPARSE.tocoo()),
    ],
    ".mtx": [
        saved(scipy.io.mmwrite, MATRIX),
        saved(scipy.io.mmwrite, SPARSE),
        b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 1\n3 1\n",
    ],
}

# A damage: where (as a fraction), how many bytes go, and what comes in their place.
damages = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=6)), min_size=1, max_size=4
)


def damaged(data, changes):
    for where, gone, come in changes:
        at = int(where * len(data))
        data = data[:at] + come + data[at + gone :]
    return data


def check_matrix_door(folder, ending, data):
    path = folder / f"phi{ending}"
    path.write_bytes(data)
    found = refuses_or_reads(lambda: read_matrix(path, "phi"))
    if found is not None:
        assert found.dtype.kind in "biufc"
        assert found.ndim == 2
        if scipy.sparse.issparse(found) and max(found.shape) < 10**6:
            found @ np.zeros(found.shape[1])  # an index out of range would crash here


@pytest.mark.parametrize("ending", GOOD)
@quick
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes(tmp_path, ending, data):
    start = {".npy": b"\x93NUMPY\x01\x00", ".npz": b"PK\x03\x04", ".mtx": b"%%MatrixMarket "}
    check_matrix_door(tmp_path, ending, data)
    check_matrix_door(tmp_path, ending, start[ending] + data)


@pytest.mark.parametrize("ending", GOOD)
@quick
@given(which=st.integers(0, 9), changes=damages, kept=st.floats(0, 1))
def test_damaged_and_truncated_files(tmp_path, ending, which, changes, kept):
    data = GOOD[ending][which % len(GOOD[ending])]
    check_matrix_door(tmp_path, ending, damaged(data, changes))
    check_matrix_door(tmp_path, ending, data[: int(kept * len(data))])


KILLERS = [  # each of them ends the process if SciPy's parser sees it
    "coordinate real general\n2 2 2\n1 1 1\n2 2 2 5",
    "coordinate real general\n2 2 2\n1 1 1\0junk\n2 2 2\n",
    "array real symmetric\n2 3\n1\n2\n3\n4\n5\n6\n",
    "array real general\n0 4\n1\n2\n3\n",
]


@pytest.mark.parametrize("text", KILLERS)
def test_matrix_market_files_that_crash_the_parser(tmp_path, text):
    code = "import sys; from cofem.files import read_matrix; read_matrix(sys.argv[1], 'phi')"
    path = tmp_path / "phi.mtx"
    path.write_bytes(f"%%MatrixMarket matrix {text}".encode())
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr  # −11 is a segmentation fault
    assert done.returncode == 0 or "ValueError: phi: " in done.stderr


def test_a_symmetric_array_is_not_filled_up_with_zeros(tmp_path):
    path = tmp_path / "phi.mtx"
    path.write_text("%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n")
    with pytest.raises(ValueError, match="has 3 values; its header promises 6"):
        read_matrix(path, "phi")


@quick
@given(
    shape=st.lists(st.integers(-2, HUGE), max_size=4).map(lambda s: str(tuple(s))),
    descr=st.sampled_from(["'<f8'", "'|b1'", "'>c16'", "'|O'", "'<U7'", "'<M8[s]'", "'|V9'"]),
)
def test_headers_that_say_anything(tmp_path, shape, descr):
    data = npy(shape, descr)
    check_matrix_door(tmp_path, ".npy", data)
    check_matrix_door(tmp_path, ".npz", zipped([("phi.npy", data)]))


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


BOAST = zipped([("y.npy", npy(f"({2**28},)"))])
BOMBS = {
    "header.npy": npy(f"({HUGE},)"),
    "member.npz": zipped([("y.npy", npy(f"({HUGE},)"))]),
    "expanded.npz": lying(BOAST, expanded=2**32 - 2),
    "both.npz": lying(BOAST, compressed=2**31, expanded=2**32 - 2),
    "zeros.npz": expanding_to(3 << 30),
    "twin_header.npz": zipped([("y.npy", npy()), ("y", npy(f"({HUGE},)"))]),
    "twin_text.npz": zipped([("y.npy", npy()), ("y", b"not an array")]),
    "twin_member.npz": zipped([("y.npy", npy()), ("y.npy", npy())]),
    "array.mtx": f"%%MatrixMarket matrix array real general\n{HUGE} 1\n1.0\n".encode(),
    "entries.mtx": f"%%MatrixMarket matrix coordinate real general\n9 1 {HUGE}\n1 1 1\n".encode(),
    "column.mtx": f"%%MatrixMarket matrix coordinate real general\n{HUGE} 1 1\n1 1 1\n".encode(),
    "sparse.npz": zipped(
        [
            ("format.npy", saved(np.save, np.array(b"coo"))),
            ("shape.npy", saved(np.save, np.array([HUGE, 1]))),
            ("data.npy", saved(np.save, np.ones(1))),
            ("row.npy", saved(np.save, np.zeros(1, np.int64))),
            ("col.npy", saved(np.save, np.zeros(1, np.int64))),
        ]
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_bombs_are_refused_before_memory_is_asked_for(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BOMBS[name])
    assert_refused_cheaply(lambda: read_array(path, "y"), match="^y: ")


def test_zeros_that_compress_well_are_no_bomb(tmp_path):
    np.savez_compressed(tmp_path / "y.npz", y=np.zeros(1_000_000))
    assert read_array(tmp_path / "y.npz", "y").shape == (1_000_000,)


# -- pickles are never opened ------------------------------------------------------------------


def test_no_pickle_is_executed_at_any_door(tmp_path):
    mark = tmp_path / "hacked"
    evil = saved(np.save, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    names = {"phi", "y", "about", "format", "shape", "data", "spikes", "alpha"}
    (tmp_path / "phi.npy").write_bytes(evil)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Payload(mark)))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Payload(mark)))
    (tmp_path / "all.npz").write_bytes(zipped([(f"{name}.npy", evil) for name in names]))
    (tmp_path / "twin.npz").write_bytes(zipped([("phi.npy", npy("(1, 3)")), ("phi", evil)]))
    for path in sorted(tmp_path.glob("*.np*")):
        for read in (
            lambda p: read_matrix(p, "phi"),
            cofem.load,
            load_deconvolution,
            lambda p: cofem.fit(np.eye(3), np.ones(3), noise_precision=1.0, checkpoint=p),
        ):
            with pytest.raises(ValueError):  # the message is each door's own
                read(path)
    assert not mark.exists()
    with pytest.raises(OSError, match="hacked"):  # the payload itself works
        pickle.loads(pickle.dumps(Payload(tmp_path / "no" / "hacked")))


# -- our own files, damaged --------------------------------------------------------------------


def a_posterior():
    post = cofem.posterior(np.eye(3), np.ones(3), precision=np.ones(3), noise_precision=1.0)
    with tempfile.TemporaryDirectory() as folder:
        post.save(Path(folder, "p.npz"))
        return Path(folder, "p.npz").read_bytes()


POSTERIOR = a_posterior()


@quick
@given(changes=damages, kept=st.floats(0, 1))
def test_damaged_posteriors_and_checkpoints(tmp_path, changes, kept):
    path = tmp_path / "own.npz"
    good = POSTERIOR
    for data in (damaged(good, changes), good[: int(kept * len(good))]):
        path.write_bytes(data)
        refuses_or_reads(lambda: cofem.load(path))
        with pytest.raises(ValueError, match="checkpoint"):
            cofem.fit(np.eye(3), np.ones(3), noise_precision=1.0, checkpoint=path)


@pytest.mark.parametrize("about", ["", "null", "[1]", "{}", '{"format": "cofem posterior 1"}'])
def test_archives_that_are_something_else(tmp_path, about):
    np.savez(tmp_path / "p.npz", about=np.asarray(about))
    with pytest.raises(ValueError, match=r"p\.npz"):
        cofem.load(tmp_path / "p.npz")


def test_a_posterior_that_claims_too_much(tmp_path):
    (tmp_path / "p.npz").write_bytes(zipped([("about.npy", npy(f"({HUGE},)"))]))
    assert_refused_cheaply(lambda: cofem.load(tmp_path / "p.npz"), match=r"p\.npz")


# -- calcium: tables and suite2p folders -------------------------------------------------------


@quick
@given(data=st.one_of(st.binary(max_size=200), st.text("0123456789.,-+eEnaif \n\r\t;", max_size=99).map(str.encode)))
def test_tables_of_anything(tmp_path, data):
    path = tmp_path / "dff.csv"
    path.write_bytes(data)
    found = refuses_or_reads(lambda: read_csv(path))
    assert found is None or (found.dtype == np.float64 and found.ndim in (1, 2))


def suite2p_folder(folder, **changes):
    folder.mkdir(exist_ok=True)
    arrays = {
        "F": saved(np.save, 100 + np.arange(120.0).reshape(2, 60) % 7),
        "Fneu": saved(np.save, np.ones((2, 60))),
        "iscell": saved(np.save, np.ones((2, 2))),
        "ops": saved(np.save, np.array({"fs": 30.0, "tau": 1.0}), allow_pickle=True),
    }
    for name, data in (arrays | changes).items():
        (folder / f"{name}.npy").write_bytes(data)
    return folder


@quick
@given(
    name=st.sampled_from(["F", "Fneu", "iscell", "ops"]),
    changes=damages,
    shape=st.lists(st.integers(0, 3), max_size=4).map(tuple),
    dtype=st.sampled_from([np.float32, np.complex64, np.int8, np.bool_]),
)
def test_suite2p_folders_of_anything(tmp_path, name, changes, shape, dtype):
    good = (suite2p_folder(tmp_path / "p") / f"{name}.npy").read_bytes()
    for data in (damaged(good, changes), saved(np.save, np.ones(shape, dtype))):
        folder = suite2p_folder(tmp_path / "p", **{name: data})
        found = refuses_or_reads(lambda folder=folder: read_suite2p(folder))
        assert found is None or found.dff.shape == (len(found.cells), 60)


def test_ops_that_ask_for_memory_or_run_code(tmp_path):
    head = npy("()", "'|O'", b"")
    remember = b"\x80\x02}U\x01ar" + struct.pack("<I", 1 << 24)  # the memo's entry 16,777,216
    allocate = b"\x80\x02cnumpy\nndarray\n((J" + struct.pack("<i", 1 << 28) + b"tttR."
    mark = tmp_path / "hacked"
    run = pickle.dumps({"fs": 30.0, "x": Payload(mark)})
    for number, body in enumerate((remember + b".", allocate, run)):
        folder = suite2p_folder(tmp_path / str(number), ops=head + body)
        tracemalloc.start()
        refuses_or_reads(lambda folder=folder: read_suite2p(folder))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LITTLE
    assert not mark.exists()
