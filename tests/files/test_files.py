"""Files: written whole or not at all, and read as they were."""

import os
import stat
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from cofem.files import atomic_write, check_writable, read_array, read_matrix, write_table


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- writing ---------------------------------------------------------------------------


def test_atomic_write_replaces_at_the_end_only(tmp_path):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_atomic_write_leaves_nothing_after_an_exception(tmp_path, error):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.bin"]


def test_atomic_write_of_text_is_utf8(tmp_path):
    with atomic_write(tmp_path / "t.txt", "w") as stream:
        stream.write("Φ")
    assert (tmp_path / "t.txt").read_bytes() == "Φ".encode()


def test_atomic_write_refuses_other_modes_and_directories(tmp_path):
    with pytest.raises(ValueError, match="mode must be"), atomic_write(tmp_path / "a", "ab"):
        pass
    with pytest.raises(IsADirectoryError), atomic_write(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "a"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
def test_atomic_write_follows_links_and_the_umask_and_spares_devices(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.bin"
    link.symlink_to(tmp_path / "real" / "out.bin")
    before = os.umask(0o022)
    try:
        with atomic_write(link) as stream:
            stream.write(b"x")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "real" / "out.bin").stat().st_mode) == 0o644
    with pytest.raises(OSError, match="not a regular file"), atomic_write(os.devnull):
        pass


def test_check_writable_leaves_nothing_and_names_what_is_wrong(tmp_path):
    check_writable(tmp_path / "new.npz")
    assert names(tmp_path) == []
    with pytest.raises(FileNotFoundError, match=r"output: the directory .* does not exist"):
        check_writable(tmp_path / "no" / "new.npz")
    with pytest.raises(OSError, match="output: cannot write"):
        check_writable(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"figure: .* is not a directory"):
        check_writable(tmp_path / "file" / "new.npz", "figure")


# -- reading what is fine ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int16, np.bool_])
def test_npy_and_npz_come_back_as_they_were(tmp_path, dtype):
    matrix = np.asfortranarray(np.arange(12).reshape(3, 4) % 3).astype(dtype)
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "one.npz", anything=matrix)
    np.savez_compressed(tmp_path / "both.npz", phi=matrix, y=matrix[:, 0])
    for file in ("a.npy", "one.npz", "both.npz"):
        found = read_matrix(tmp_path / file, "phi")
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, matrix)
    np.testing.assert_array_equal(read_array(tmp_path / "both.npz", "y"), matrix[:, 0])


def test_long_zeros_compress_a_lot_and_are_accepted(tmp_path):
    np.savez_compressed(tmp_path / "y.npz", y=np.zeros(2_000_000))
    assert read_array(tmp_path / "y.npz", "y").shape == (2_000_000,)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz(tmp_path, kind):
    matrix = scipy.sparse.random_array((6, 8), density=0.4, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "phi.npz", matrix.asformat(kind))
    found = read_matrix(tmp_path / "phi.npz", "phi")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_mtx_dense_and_sparse(tmp_path, symmetry):
    dense = np.arange(16.0).reshape(4, 4)
    dense = dense + dense.T
    scipy.io.mmwrite(tmp_path / "dense.mtx", dense, symmetry=symmetry)
    (tmp_path / "dense.mtx").rename(tmp_path / "dense.MTX")
    scipy.io.mmwrite(tmp_path / "sparse.mtx", scipy.sparse.csr_array(dense), symmetry=symmetry)
    found = read_matrix(tmp_path / "dense.MTX", "phi")
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, dense)
    found = read_matrix(tmp_path / "sparse.mtx", "phi")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), dense)


def test_pattern_mtx(tmp_path):
    (tmp_path / "p.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2")
    np.testing.assert_array_equal(
        read_matrix(tmp_path / "p.mtx", "phi").toarray(), [[0, 1], [0, 0]]
    )


def test_a_column_is_a_vector(tmp_path):
    column = np.array([[1.0], [0.0], [2.0]])
    np.save(tmp_path / "y.npy", column)
    scipy.io.mmwrite(tmp_path / "dense.mtx", column)
    scipy.io.mmwrite(tmp_path / "sparse.mtx", scipy.sparse.coo_array(column))
    for file in ("y.npy", "dense.mtx", "sparse.mtx"):
        np.testing.assert_array_equal(read_array(tmp_path / file, "y"), [1.0, 0.0, 2.0])


# -- tables and MATLAB files -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("1;2\n3;4.5", [[1, 2], [3, 4.5]]),
        ("1\t2\r\n3\t4.5\r\n", [[1, 2], [3, 4.5]]),
        ("1 2\n 3   4.5\n", [[1, 2], [3, 4.5]]),
        ("\ufefffirst,second\n1,2\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("# made by hand\n\nfirst second\n1 2\n# more\n3 4.5\n", [[1, 2], [3, 4.5]]),
        ("1e-3, -2\n 3 ,4.5", [[1e-3, -2], [3, 4.5]]),
        ("1+2j,3\n4,5j\n", [[1 + 2j, 3], [4, 5j]]),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".TSV", ".txt"])
def test_tables(tmp_path, text, expected, ending):
    path = tmp_path / f"phi{ending}"
    path.write_text(text, encoding="utf-8", newline="")
    found = read_matrix(path, "phi")
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.asarray(expected).dtype or found.dtype == np.float64


@pytest.mark.parametrize("text", ["1\n2\n3\n", "1,2,3\n", "value\n1\n2\n3\n"])
def test_a_table_with_one_row_or_column_is_a_vector(tmp_path, text):
    (tmp_path / "y.csv").write_text(text)
    np.testing.assert_array_equal(read_array(tmp_path / "y.csv", "y"), [1, 2, 3])


def test_a_table_that_was_written_comes_back_exactly(tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "index": np.arange(50), "mean": rng.standard_normal(50) * 10.0 ** rng.integers(-30, 30, 50),
        "support": rng.random(50) < 0.5,
    }  # fmt: skip
    write_table(tmp_path / "z.csv", columns)
    assert (tmp_path / "z.csv").read_text().startswith("index,mean,support\n0,")
    found = read_matrix(tmp_path / "z.csv", "z")
    for found_column, column in zip(found.T, columns.values(), strict=True):
        np.testing.assert_array_equal(found_column, column)
    with pytest.raises(ValueError, match=r"equally long, got lengths \[1, 2\]"):
        write_table(tmp_path / "bad.csv", {"a": np.ones(1), "b": np.ones(2)})
    assert names(tmp_path) == ["z.csv"]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int16", "bool"])
def test_matlab_files(tmp_path, dtype, compress):
    rng = np.random.default_rng(1)
    matrix = (10 * rng.standard_normal((3, 4))).astype(dtype)
    path = tmp_path / "data.mat"
    scipy.io.savemat(path, {"phi": matrix, "y": matrix[0], "who": "me"}, do_compression=compress)
    np.testing.assert_array_equal(read_matrix(path, "phi"), matrix)
    np.testing.assert_array_equal(read_array(path, "y"), matrix[0])  # a row in MATLAB
    assert read_matrix(path, "phi").dtype == matrix.dtype
    assert read_matrix(path, "phi").flags.writeable


@pytest.mark.parametrize("factor", [1.0, 1.0 + 2j])
@pytest.mark.parametrize("compress", [False, True])
def test_sparse_matlab_files(tmp_path, factor, compress):
    matrix = factor * scipy.sparse.random_array((6, 5), density=0.4, rng=np.random.default_rng(2))
    scipy.io.savemat(
        tmp_path / "phi.mat", {"phi": scipy.sparse.csc_array(matrix)}, do_compression=compress
    )
    found = read_matrix(tmp_path / "phi.mat", "phi")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


# -- mapped files ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_npy_files_are_mapped(tmp_path, monkeypatch, order):
    matrix = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    np.save(tmp_path / "phi.npy", matrix)
    small = read_matrix(tmp_path / "phi.npy", "phi")
    assert not isinstance(small.base, np.memmap)
    monkeypatch.setattr("cofem.files.reading.MAPPED_ABOVE", 10)
    found = read_matrix(tmp_path / "phi.npy", "phi")
    assert type(found) is np.ndarray
    assert isinstance(found.base, np.memmap)
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, matrix)


def test_what_is_mapped_need_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("cofem.files.reading.MAPPED_ABOVE", 10)

    def refuse(size, where=""):
        raise AssertionError("memory was asked for")

    monkeypatch.setattr("cofem.files.headers.refuse_more_than_memory", refuse)
    np.save(tmp_path / "phi.npy", np.ones((3, 4)))
    assert read_matrix(tmp_path / "phi.npy", "phi").sum() == 12
    (tmp_path / "phi.npy").write_bytes((tmp_path / "phi.npy").read_bytes()[:-1])
    with pytest.raises(ValueError, match="is cut short"):
        read_matrix(tmp_path / "phi.npy", "phi")
