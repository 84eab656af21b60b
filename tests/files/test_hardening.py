"""Arrays and matrices from strangers: arbitrary, damaged, boastful and poisoned files."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hardening_tools import (
    HUGE,
    Payload,
    assert_refused_cheaply,
    damaged,
    damages,
    expanding_to,
    lying,
    npy,
    quick,
    refuses_or_reads,
    saved,
    zipped,
)
from hypothesis import given
from hypothesis import strategies as st

import cofem
from cofem.calcium import load_deconvolution
from cofem.files import read_array, read_matrix

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
    ".mat": [
        saved(scipy.io.savemat, {"phi": MATRIX}),
        saved(scipy.io.savemat, {"phi": MATRIX, "y": MATRIX[0]}, do_compression=True),
        saved(scipy.io.savemat, {"phi": SPARSE.tocsc()}),
        saved(scipy.io.savemat, {"phi": MATRIX, "cell": {"a": 1}, "text": "b"}),
    ],
    ".csv": [b"a,b,c\n1,2,3\n4,5,6\n", b"1;2\n3;4\n", b"1 2\n3 4\n", b"1+2j,3\n4,5j\n"],
}


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
    start = {
        ".npy": b"\x93NUMPY\x01\x00", ".npz": b"PK\x03\x04", ".mtx": b"%%MatrixMarket ",
        ".mat": GOOD[".mat"][0][:128], ".csv": b"1,2\n",
    }  # fmt: skip
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


def test_matrix_market_files_that_crash_the_parser(tmp_path):
    code = """
        import sys
        from cofem.files import read_matrix
        for path in sys.argv[1:]:
            try:
                read_matrix(path, "phi")
            except ValueError as error:
                assert str(error).startswith("phi: "), error
            print("alive", flush=True)
    """
    paths = [tmp_path / f"{number}.mtx" for number in range(len(KILLERS))]
    for path, text in zip(paths, KILLERS, strict=True):
        path.write_bytes(f"%%MatrixMarket matrix {text}".encode())
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *paths], capture_output=True, text=True
    )
    assert done.stdout.split() == ["alive"] * len(KILLERS), done.stderr
    assert done.returncode == 0


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
