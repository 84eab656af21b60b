"""Files that are damaged or lie are refused in one line that names them."""

import io
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from cofem.files import read_array, read_matrix

# -- reading what is not -----------------------------------------------------------------


def npy(header_shape="(3,)", descr="'<f8'", data=b"\0" * 24):
    """Return the bytes of an .npy file whose header says anything."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {header_shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def saved(save, *args, **kwargs):
    stream = io.BytesIO()
    save(stream, *args, **kwargs)
    return stream.getvalue()


def mat(**variables):
    return saved(scipy.io.savemat, variables)


def zipped(compression=zipfile.ZIP_STORED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


OBJECTS = saved(np.save, np.array([1, None], dtype=object), allow_pickle=True)
GOOD = saved(np.save, np.arange(50.0))
BAD_SPARSE = zipped(
    format=saved(np.save, np.array(b"csr")),
    shape=saved(np.save, np.array([2, 2])),
    data=saved(np.save, np.ones(2)),
    indices=saved(np.save, np.array([0, 999_999_999])),
    indptr=saved(np.save, np.array([0, 1, 2])),
)
MTX = "%%MatrixMarket matrix "


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("y.doc", b"1 2 3", r"has the ending \.doc; accepted: \.npy and .*\.mtx .*\.mat .*\.csv"),
        ("y", b"", r"has no ending; accepted: \.npy"),
        ("y.npy", b"1,2,3", r"is not a readable \.npy file .*; accepted: \.npy .*\.mat .*\.csv"),
        ("y.csv", b"", "holds no numbers"),
        ("y.csv", b"a,b\n", "holds no numbers"),
        ("y.csv", b"1,2\n3\n", r"is not a readable \.csv file \(the number of columns changed"),
        ("y.csv", b"1,2\n3,\n", r"is not a readable \.csv file \(could not convert string ''"),
        ("y.csv", b"1,2\n3,x\n", "could not convert string 'x'"),
        ("y.csv", b"1;2,5\n3;4\n", "begins with '1;2,5', which is neither numbers nor a heading"),
        ("y.csv", b"0,1,2\n3,4,5\n", "may be numbers or names of columns; .*header=False"),
        ("y.csv", b",a,b\n0,1,2\n1,3,4\n", "looks like an index; .*index=False"),
        ("y.csv", b"1,\0,2", "is not a text file: it contains null bytes"),
        ("y.csv", b"\xff\xfe1,2", "is not a readable .csv file"),
        ("y.mat", b"", "is no MATLAB file of level 5"),
        ("y.mat", mat(y=[1.0])[:128], "holds nothing; expected one array of numbers"),
        ("y.mat", b"MATLAB 7.3 MAT-file, Platform: GLNXA64", "is a MATLAB 7.3 file.*-v7"),
        ("y.mat", mat(a=[1.0], b=[2.0]), "holds a, b; expected one array of numbers, or one call"),
        ("y.mat", mat(y="text"), "holds y; expected one array of numbers"),
        ("y.mat", mat(y=[1.0])[:-9], "is cut short: .* bytes are promised where it ends"),
        ("y.npy", b"", "is not a readable .npy file"),
        ("y.npy", b"hello, this is no array", "is not a readable .npy file"),
        ("y.npy", OBJECTS, "holds values of type object; expected numbers"),
        ("y.npy", saved(np.save, np.array(["a"])), "holds values of type <U1; expected numbers"),
        ("y.npy", npy(descr="[('a', '<f8')]"), "expected numbers"),
        ("y.npy", GOOD[:-8], r"is cut short: its header promises \(50,\) float64, 400 bytes"),
        ("y.npy", GOOD[:30], "is not a readable .npy file"),
        ("y.npy", npy("(1000000000000000,)"), "is cut short"),
        ("y.npy", npy("(4294967296, 4294967296)"), "is cut short"),
        ("y.npy", npy("(-3,)"), "is cut short"),
        ("y.npy", npy("__import__('os')"), "is not a readable .npy file"),
        ("y.npz", b"PK but not a zip", "is not a readable .npz file"),
        ("y.npz", zipped(y=GOOD)[:-40], "is not a readable .npz file"),
        ("y.npz", zipped(a=GOOD, b=GOOD), "holds a, b; expected one array, an array called y"),
        ("y.npz", zipped(), "holds nothing; expected"),
        ("y.npz", zipped(y=OBJECTS), "holds values of type object in y; expected numbers"),
        ("y.npz", zipped(y=npy("(10000000000,)")), "is cut short in y"),
        ("y.npz", zipped(y=b"nonsense"), "is not a readable .npz file"),
        ("y.npz", zipped(zipfile.ZIP_LZMA, y=GOOD), "holds y in an unknown compression"),
        ("y.npz", BAD_SPARSE, "is not a readable .npz file"),
        ("y.mtx", b"1 2 3", "is not a readable .mtx file"),
        ("y.mtx", (MTX + "array real general\n900000000000 9\n1.0\n").encode(), "is cut short"),
        ("y.mtx", (MTX + "coordinate real general\n9 9 80000000000\n1 1 1").encode(), "cut short"),
        ("y.mtx", (MTX + "array real general\n4 1\n1.0\n2.0\n").encode(), "not a readable .mtx"),
        ("y.mtx", (MTX + "array real general\n2 1\n1.0\nx\n").encode(), "not a readable .mtx"),
    ],
)
def test_bad_files_are_refused_in_one_line_that_names_them(tmp_path, file, data, message):
    path = tmp_path / file
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        read_array(path, "y")
    assert str(caught.value).startswith(f"y: {path} ")
    assert "\n" not in str(caught.value)


def test_a_zip_entry_that_lies_about_its_size_is_refused(tmp_path):
    data = zipped(zipfile.ZIP_DEFLATED, y=npy("(1000000000000,)"))
    size = (10**12).to_bytes(8, "little")[:4]
    # The size after decompression stands at byte 24 of the central directory's entry.
    at = data.index(b"PK\x01\x02") + 24
    (tmp_path / "y.npz").write_bytes(data[:at] + size + data[at + 4 :])
    with pytest.raises(ValueError, match="promises more of y than"):
        read_array(tmp_path / "y.npz", "y")


def test_missing_files_directories_and_wrong_dimensions(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"phi: .*no\.npy does not exist"):
        read_matrix(tmp_path / "no.npy", "phi")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(ValueError, match="is not a file"):
        read_array(tmp_path / "folder.npy", "y")
    np.save(tmp_path / "y.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"holds an array of shape \(3,\); expected a matrix"):
        read_matrix(tmp_path / "y.npy", "phi")


def test_sparse_matrices_that_claim_to_be_empty(tmp_path):
    """Their pointers lead out of the matrix and back, which SciPy does not look at."""
    np.savez(
        tmp_path / "phi.npz",
        format="csr",
        shape=(3, 3),
        data=np.empty(0),
        indices=np.empty(0, np.int32),
        indptr=np.array([0, 5000, 0, 0], np.int32),
    )
    with pytest.raises(ValueError, match="pointers of a sparse matrix do not increase"):
        read_matrix(tmp_path / "phi.npz", "phi")
    data = bytearray(saved(scipy.io.savemat, {"phi": scipy.sparse.csc_array((3, 3))}))
    data[data.rindex(b"\x05\0\0\0\x10\0\0\0") + 12] = 200  # the second of four pointers
    (tmp_path / "phi.mat").write_bytes(data)
    with pytest.raises(ValueError, match=r"phi.*pointers of a sparse matrix do not increase"):
        read_matrix(tmp_path / "phi.mat", "phi")
