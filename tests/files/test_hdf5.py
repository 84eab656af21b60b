"""What has no signature of HDF5 never reaches the HDF5 library."""

import numpy as np
import pytest

from cofem.calcium.files.reading import read_traces
from cofem.files import require_hdf5
from cofem.mri.files.scan import read_scan

h5py = pytest.importorskip("h5py")
SIGNATURE = b"\x89HDF\r\n\x1a\n"


@pytest.mark.parametrize("before", [0, 512, 1024, 4096])
def test_the_signature_is_found_where_the_format_has_it(tmp_path, before):
    """Real files: the library puts it behind a block of the user's own."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=before) as file:
        file["x"] = np.ones(3)
    require_hdf5(path, "dff")
    with h5py.File(path) as file:
        assert file["x"].shape == (3,)


@pytest.mark.parametrize(
    "content",
    [b"", SIGNATURE[:-1], b" " + SIGNATURE, bytes(256) + SIGNATURE, bytes(1536) + SIGNATURE],
)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.h5", read_scan),
        ("a.mrd", read_scan),
        ("a.hdf5", read_traces),
        ("a.nwb", read_traces),
        ("a.h5", read_traces),
    ],
)
def test_the_library_is_not_asked_about_anything_else(tmp_path, monkeypatch, content, name, read):
    if name == "a.mrd":
        pytest.importorskip("ismrmrd")
    if name == "a.nwb":
        pytest.importorskip("pynwb")

    def opened(*_, **__):
        raise AssertionError("the HDF5 library was asked")

    monkeypatch.setattr(h5py, "File", opened)
    monkeypatch.setattr(h5py.h5f, "open", opened, raising=False)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^(path|dff): .*{name} is no HDF5 file") as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("start", [b"MATLAB 7.3 MAT-file", b"\x89HDF"])
@pytest.mark.parametrize("read", [read_scan, read_traces])
def test_a_matlab_file_that_only_begins_like_one(tmp_path, monkeypatch, start, read):
    (tmp_path / "a.mat").write_bytes(start + bytes(1000))
    monkeypatch.setattr(h5py, "File", None)
    with pytest.raises(ValueError, match=r"a\.mat is no HDF5 file"):
        read(tmp_path / "a.mat")
