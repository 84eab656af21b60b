"""Posteriors, checkpoints, tables and folders that are damaged or lie, and where we write."""

import os
import pickle
import struct
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hardening_tools import (
    HUGE,
    LITTLE,
    Payload,
    assert_refused_cheaply,
    damaged,
    damages,
    npy,
    quick,
    refuses_or_reads,
    saved,
    zipped,
)
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import cofem
from cofem.calcium import read_suite2p
from cofem.calcium.files.tables import read_csv
from cofem.cli import app

MATRIX = np.arange(12.0).reshape(3, 4)
BAD = {
    "header.npy": npy(f"({HUGE},)"),
    "twin.npz": zipped([("y.npy", npy()), ("y", b"not an array")]),
    "entries.mtx": f"%%MatrixMarket matrix coordinate real general\n9 1 {HUGE}\n1 1 1\n".encode(),
}

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
@given(data=st.binary(max_size=200) | st.text("0123456789.,-+eEnaif \n\r\t;").map(str.encode))
def test_tables_of_anything(tmp_path, data):
    path = tmp_path / "dff.csv"
    path.write_bytes(data)
    found = refuses_or_reads(lambda: read_csv(path).dff)
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


# -- the command line writes where it was told and nowhere else --------------------------------


@pytest.mark.parametrize("name", BAD)
def test_solve_refuses_bad_files_and_leaves_nothing(tmp_path, name):
    np.save(tmp_path / "phi.npy", MATRIX)
    (tmp_path / name).write_bytes(BAD[name])
    before = sorted(tmp_path.iterdir())
    for inputs in ((tmp_path / "phi.npy", tmp_path / name), (tmp_path / name, tmp_path / name)):
        result = CliRunner().invoke(app, ["solve", *map(str, inputs), "-o", f"{tmp_path}/p.npz"])
        assert result.exit_code == 2
        assert result.stderr.startswith("cofem: error: ")
        assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


# The audit hook sees every file that is opened for writing, made, moved or removed.
WATCHED = """
    import os, sys
    import cofem.cli, scipy.io, scipy.sparse, zipfile
    import cofem.learning.moments.exact
    def hook(event, args):
        if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
            print("WRITE", os.path.abspath(os.fsdecode(args[0])))
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"):
            for arg in args:
                if isinstance(arg, (str, bytes)):
                    print("WRITE", os.path.abspath(os.fsdecode(arg)))
    sys.argv = ["cofem", "solve", "in/phi.npy", "in/y.npz", "-o", "out/p.npz",
                "--noise-precision", "100"]
    sys.addaudithook(hook)
    cofem.cli.main()
"""


def test_solve_writes_only_beside_its_output(tmp_path):
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    np.save(tmp_path / "in" / "phi.npy", MATRIX)
    # A name that would leave the folder if anybody unpacked it.
    evil = zipped([("../../escaped.npy", npy("(3,)"))])
    (tmp_path / "in" / "y.npz").write_bytes(evil)
    found_from = str(Path(cofem.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(WATCHED)],
        cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": found_from},
    )  # fmt: skip
    written = {line.split(" ", 1)[1] for line in done.stdout.splitlines() if "WRITE" in line}
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "out" / "p.npz") in written
    # Compiled loops keep their machine code in a cache; nothing else may be touched. A
    # folder itself stands for a file without a name, by which it is tried.
    strangers = [
        path for path in map(Path, written)
        if tmp_path / "out" not in (path, path.parent)
        and "__pycache__" not in (path.name, path.parent.name)
    ]  # fmt: skip
    assert strangers == []
    assert not list(tmp_path.rglob("escaped*"))
