"""Where a file is expected: pipes, devices, links that lead nowhere, folders, settings that lie.

A pipe that nobody writes to would be waited for; every door has to look first.
"""

import json
import os
import signal
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import cofem
from cofem.calcium import deconvolve, load_deconvolution, read_traces
from cofem.files import read_archive, read_array, read_matrix
from cofem.mri.files.scan import read_scan
from cofem.paper.trialfile import TrialFile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders there")
HANG = 30  # seconds; far above what a refusal takes


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def nowhere(path):
    path.symlink_to(path.with_name("nothing"))


def itself(path):
    path.symlink_to(path)


KINDS = [pipe, endless, nowhere, itself, Path.mkdir]
DOORS = {
    "y.npy": lambda p: read_array(p, "y"),
    "phi.mtx": lambda p: read_matrix(p, "phi"),
    "phi.csv": lambda p: read_matrix(p, "phi"),
    "a.npz": lambda p: read_archive(p, "a"),
    "p.npz": cofem.load,
    "s.npz": load_deconvolution,
    "dff.csv": read_traces,
    "dff.mat": read_traces,
    "dff.h5": read_traces,
    "k.mat": read_scan,
    "k.h5": read_scan,
    "k.hdr": read_scan,
}


@pytest.fixture(autouse=True)
def alarm():
    def late(*arguments):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def assert_one_line(caught):
    text = str(caught.value)
    assert len(text) > 10
    assert "\n" not in text


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_door_refuses_what_is_no_file(tmp_path, name, kind):
    kind(tmp_path / name)
    with pytest.raises((ValueError, OSError)) as caught:
        DOORS[name](tmp_path / name)
    assert_one_line(caught)


@pytest.mark.parametrize("kind", [pipe, endless])
def test_trials_refuse_what_is_no_file(tmp_path, kind):
    kind(tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"t\.csv is not a file"):
        TrialFile(tmp_path / "t.csv", {"x": int}, ["x"])


def store(path):
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(6, 8))
    return cofem.fit_many(
        phi, phi[:, :2].T, noise_precision=1e4, prior="ard", method="em", max_iter=2, tol=0,
        store=path,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [pipe, endless])
@pytest.mark.parametrize("name", ["settings.json", "state.npy", "mean.npy"])
def test_a_store_refuses_what_is_no_file(tmp_path, name, kind):
    store(tmp_path / "many")
    (tmp_path / "many" / name).unlink()
    kind(tmp_path / "many" / name)
    with pytest.raises(ValueError, match=rf"store: .*{name} is not a file; give another folder"):
        store(tmp_path / "many")


@pytest.mark.parametrize("name", ["fingerprint", "layout"])
@pytest.mark.parametrize("lie", [None, 3, [], {"phi": "x"}, {"problems": 10**15, "dtype": "no"}])
def test_a_store_with_settings_that_lie_is_refused(tmp_path, name, lie):
    store(tmp_path / "many")
    file = tmp_path / "many" / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: lie}))
    with pytest.raises(ValueError, match=r"^store: ") as caught:
        store(tmp_path / "many")
    assert_one_line(caught)


@pytest.mark.parametrize(
    "change",
    [lambda b: b.replace(b"), }", b"    "), lambda b: b[:6] + b"\x02\x00" + b"\xff" * 4 + b[12:]],
    ids=["open bracket", "header of 4 GiB"],
)
def test_a_store_with_a_damaged_header_is_refused(tmp_path, change):
    # Found by a fuzzer: TokenError and MemoryError came out.
    store(tmp_path / "many")
    file = tmp_path / "many" / "state.npy"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=r"^store: .*state\.npy") as caught:
        store(tmp_path / "many")
    assert_one_line(caught)


@pytest.mark.parametrize("place", ["zarr.json", "mean/zarr.json"])
def test_a_zarr_store_with_other_metadata_is_refused(tmp_path, place):
    # Found by a fuzzer: zarr raises a TypeError of its own functions.
    pytest.importorskip("zarr")
    store(tmp_path / "many.zarr")
    file = tmp_path / "many.zarr" / place
    held = json.loads(file.read_text())
    file.write_text(json.dumps({**held, "nodermate": 1}))
    with pytest.raises((ValueError, OSError), match=r"^store: ") as caught:
        store(tmp_path / "many.zarr")
    assert_one_line(caught)


def test_what_other_parsers_raise_is_one_line(tmp_path):
    for name, content in (("k.h5", b"\x89HDF\r\n\x1a\n"), ("k.nii", b""),
                          ("k.nii.gz", b"\x1f\x8b")):  # fmt: skip
        if ".nii" in name:
            pytest.importorskip("nibabel")
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"path: .*{name} is not a readable") as caught:
            read_scan(tmp_path / name)
        assert_one_line(caught)


def test_a_checkpoint_without_its_history_is_refused(tmp_path):
    # Found by a fuzzer: a KeyError came out.
    rng = np.random.default_rng(0)
    phi, file = rng.normal(size=(6, 8)), tmp_path / "c.npz"
    arguments = {"noise_precision": 1e4, "prior": "ard", "method": "em", "max_iter": 20, "tol": 0}

    def stop(state):
        if state.iteration == 15:  # after the first write
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cofem.fit(phi, phi[:, 0], checkpoint=file, callback=stop, **arguments)
    arrays = read_archive(file, "checkpoint")
    for damaged in (
        {name: value for name, value in arrays.items() if name != "history_seconds"},
        {**arrays, "history_products": np.ones((2, 2))},
        {**arrays, "history_seconds": np.asarray(["soon"])},
    ):
        np.savez(file, **damaged)
        with pytest.raises(ValueError, match=r"c\.npz is damaged; delete it to start") as caught:
            cofem.fit(phi, phi[:, 0], checkpoint=file, **arguments)
        assert_one_line(caught)
    about = json.loads(str(arrays["about"]))
    for settings, said in (
        ({k: v for k, v in about.items() if k != "problem"}, "belongs to another problem"),
        ({k: v for k, v in about.items() if k != "noise"}, "is damaged"),
        ([about], "is not a checkpoint"),
    ):
        np.savez(file, **{**arrays, "about": json.dumps(settings)})
        with pytest.raises(ValueError, match=rf"c\.npz {said}") as caught:
            cofem.fit(phi, phi[:, 0], checkpoint=file, **arguments)
        assert_one_line(caught)


# 40 frames of noise: no spikes stand clear of it, and the fit says so.
@pytest.mark.filterwarnings("ignore:cells with problems")
@pytest.mark.parametrize("cells", [None, 2])
def test_a_result_whose_arrays_do_not_fit_together_is_refused(tmp_path, cells):
    # Found by a fuzzer: the result was taken, and failed when it was looked at.
    dff = np.random.default_rng(0).normal(0, 0.1, 40 if cells is None else (cells, 40))
    file = tmp_path / "r.npz"
    deconvolve(dff, framerate=20.0, n_jobs=1).save(file)
    assert load_deconvolution(file).spikes.shape == dff.shape
    arrays = read_archive(file, "result")
    shapes = {"tau_d": 0, "mean": 3, "converged": (1, 2)}
    for name, value in ((name, np.ones(shape)) for name, shape in shapes.items()):
        np.savez(file, **{**arrays, name: value})
        with pytest.raises(ValueError, match=rf"r\.npz is damaged: .*{name} cannot") as caught:
            load_deconvolution(file)
        assert_one_line(caught)


def test_k_space_of_other_things_than_numbers_is_refused(tmp_path):
    # Found by a fuzzer: NumPy's comparison raised a TypeError.
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "k.h5", "w") as file:
        file["kspace"] = np.zeros((1, 4, 4), dtype=[("a", "f4"), ("b", "f4")])
    with pytest.raises(ValueError, match=r"path: the k-space in .*k\.h5 has entries") as caught:
        read_scan(tmp_path / "k.h5")
    assert_one_line(caught)


MAT_DOORS = {"dff": lambda p: read_traces(p), "path": lambda p: read_scan(p)}


@pytest.mark.parametrize("argument", MAT_DOORS)
def test_mat_files_are_read_with_our_own_checks(tmp_path, argument):
    scipy_io = pytest.importorskip("scipy.io")
    table = np.arange(60.0).reshape(2, 30)
    file = tmp_path / "t.mat"
    scipy_io.savemat(file, {"kspace": table + 1j, "dff": table, "fs": 20.0, "who": "A"})
    good = file.read_bytes()
    found = MAT_DOORS[argument](file)
    array = found.dff if argument == "dff" else found.kspace[0]
    np.testing.assert_array_equal(array, table if argument == "dff" else table + 1j)

    file.write_bytes(good[:-200])
    with pytest.raises(ValueError, match=rf"^{argument}: .*t\.mat is cut short") as caught:
        MAT_DOORS[argument](file)
    assert_one_line(caught)

    element = struct.pack("<II", 14, 1 << 30) + bytes(8)
    packed = zlib.compress(element)
    file.write_bytes(good[:128] + struct.pack("<II", 15, len(packed)) + packed)
    with pytest.raises(ValueError, match=rf"^{argument}: .*promises more of an array") as caught:
        MAT_DOORS[argument](file)
    assert_one_line(caught)

    scipy_io.savemat(file, {"kspace": table + 1j, "dff": table}, format="4")
    with pytest.raises(ValueError, match=rf"^{argument}: .*save it in MATLAB with -v7"):
        MAT_DOORS[argument](file)


@pytest.mark.parametrize("argument", MAT_DOORS)
def test_a_mat_file_that_ends_scipys_process_is_refused(tmp_path, argument):
    # Found by a fuzzer: scipy.io.loadmat, which read these files before, crashes on it.
    file = tmp_path / "t.mat"
    sparse = pytest.importorskip("scipy.sparse").csc_array(np.diag([1.0, 2.0, 3.0]))
    pytest.importorskip("scipy.io").savemat(file, {"phi": sparse}, do_compression=False)
    good = file.read_bytes()
    columns = good.index(struct.pack("<4i", 0, 1, 2, 3))
    file.write_bytes(good[:columns] + bytes(16) + good[columns:])
    with pytest.raises(ValueError, match=rf"^{argument}: .*t\.mat is cut short") as caught:
        MAT_DOORS[argument](file)
    assert_one_line(caught)


@pytest.mark.parametrize("pointers", [
    [0, 1905233807, -1886417047, -1886417009],  # their 32-bit differences overflow to positive
    [0, 2**31 - 1, 2**31 - 1, 2**31 - 1],
    [0, 1, 2, 4],
    [1, 1, 2, 3],
    [0, -1, 2, 3],
    [],
])  # fmt: skip
def test_a_sparse_matrix_that_ends_scipys_process_is_refused(tmp_path, pointers):
    # The first was found by a fuzzer: SciPy crashes while it builds the matrix.
    file = tmp_path / "phi.npz"
    pytest.importorskip("scipy.sparse")
    np.savez(
        file, format="csr", shape=(3, 3), data=np.ones(3),
        indices=np.array([0, -16777215, -1], np.int32), indptr=np.array(pointers, np.int32),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^phi: .*pointers of a sparse matrix") as caught:
        read_matrix(file, "phi")
    assert_one_line(caught)
