"""Traces out of every lab's files, each written by the real library or by its schema."""

import json
import re
import warnings
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy.io import savemat

from cofem.calcium import deconvolve, read_suite2p, read_traces, simulate
from cofem.calcium.files.tables import read_csv
from cofem.calcium.report import report_page


@pytest.fixture(scope="module")
def dff():
    return simulate(n_cells=3, n_frames=400, seed=0)[0]


# -- tables --------------------------------------------------------------------------------


def test_csv_with_and_without_a_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1,,3\n4,5,6\n")
    np.testing.assert_array_equal(read_csv(path).dff, [[1, np.nan, 3], [4, 5, 6]])
    path.write_text("1\n2\n")
    assert read_csv(path).dff.shape == (1, 2)
    path.write_text('"time","a","b"\n0,1,4\n0.5,,5\n1.0,3,6\n')
    found = read_csv(path)
    np.testing.assert_array_equal(found.dff, [[1, np.nan, 3], [4, 5, 6]])
    assert found.framerate == pytest.approx(2.0)
    path.write_text("frame,a\n0,1\n1,2\n")
    assert read_csv(path).framerate is None
    path.write_text("1,2\n3\n")
    with pytest.raises(ValueError, match="equally long"):
        read_csv(path)
    path.write_text("a,b\n3,x\n")
    with pytest.raises(ValueError, match="not a table of numbers"):
        read_csv(path)


@pytest.mark.parametrize("mark", ["\t", ";"])
def test_csv_of_a_spreadsheet_with_decimal_commas(tmp_path, mark):
    path = tmp_path / "t.csv"
    path.write_text(mark.join(["time", "a", "b"]) + "\n" + mark.join(["0,0", "1,5", ""]) + "\n"
                    + mark.join(["0,5", "-2", "3e-1"]) + "\n")  # fmt: skip
    found = read_csv(path)
    np.testing.assert_array_equal(found.dff, [[1.5, -2.0], [np.nan, 0.3]])
    assert found.framerate == pytest.approx(2.0)


def test_the_error_names_all_kinds(tmp_path):
    (tmp_path / "t.tif").write_bytes(b"")
    with pytest.raises(ValueError, match=r"nwb.*CaImAn.*Minian.*suite2p"):
        read_traces(tmp_path / "t.tif")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_traces(tmp_path / "none.npy")


# -- MATLAB --------------------------------------------------------------------------------


def test_matlab_version_5(tmp_path, dff):
    savemat(tmp_path / "a.mat", {"dFF": dff, "other": np.ones((4, 4)), "frame_rate": 15.0})
    found = read_traces(tmp_path / "a.mat")
    np.testing.assert_array_equal(found.dff, dff)
    assert found.framerate == 15.0
    savemat(tmp_path / "b.mat", {"x": dff, "z": np.ones((4, 4))})
    with pytest.raises(ValueError, match=r"x \(3, 400\), z \(4, 4\); name one"):
        read_traces(tmp_path / "b.mat")
    np.testing.assert_array_equal(read_traces(tmp_path / "b.mat", variable="x").dff, dff)
    with pytest.raises(ValueError, match="no table 'w'"):
        read_traces(tmp_path / "b.mat", variable="w")
    (tmp_path / "c.mat").write_bytes(b"nonsense" * 40)
    with pytest.raises(ValueError, match="no MATLAB file of level 5"):
        read_traces(tmp_path / "c.mat")


def test_matlab_version_7_3(tmp_path, dff):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:  # MATLAB writes its name in front
        file["dff"] = dff.T
        file["fs"] = np.array([[20.0]])
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    found = read_traces(path)
    np.testing.assert_array_equal(found.dff, dff)
    assert found.framerate == 20.0


# -- CaImAn, Minian ------------------------------------------------------------------------


def caiman_file(path, **arrays):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[f"estimates/{name}"] = array
        file["params/data/fr"] = 30


def test_caiman(tmp_path, dff):
    none = np.bytes_("NoneType")  # what CaImAn keeps of a None
    caiman_file(tmp_path / "a.hdf5", C=0.6 * dff, YrA=0.4 * dff, F_dff=none, idx_components=none)
    found = read_traces(tmp_path / "a.hdf5")
    np.testing.assert_allclose(found.dff, dff)
    assert found.framerate == 30.0
    assert "own unit" in found.note
    caiman_file(tmp_path / "b.hdf5", C=dff, F_dff=2 * dff, idx_components=np.array([0, 2]))
    found = read_traces(tmp_path / "b.hdf5")
    np.testing.assert_array_equal(found.dff, 2 * dff[[0, 2]])
    assert (found.cells.tolist(), found.n_rows) == ([0, 2], 3)
    assert read_traces(tmp_path / "b.hdf5", all_rois=True).dff.shape == dff.shape
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "c.hdf5", "w") as file:
        file["x"] = 1
    with pytest.raises(ValueError, match="no group estimates"):
        read_traces(tmp_path / "c.hdf5")


def test_minian(tmp_path, dff):
    zarr = pytest.importorskip("zarr")
    for name, array, dimensions in (
        ("C", 0.6 * dff, ["unit_id", "frame"]),
        ("YrA", 0.4 * dff.T, ["frame", "unit_id"]),
    ):
        group = zarr.open_group(str(tmp_path / "minian" / f"{name}.zarr"), mode="w", zarr_format=2)
        stored = group.create_array(name, data=array)
        stored.attrs["_ARRAY_DIMENSIONS"] = dimensions
    found = read_traces(tmp_path / "minian")
    np.testing.assert_allclose(found.dff, dff)
    assert "C + YrA" in found.note


@pytest.mark.parametrize(
    ("field", "wrong", "message"),
    [
        ("chunks", [0, 0], "is not a readable zarr store"),  # found by the fuzzer
        ("shape", [10**9, 10**9], "does not fit into memory"),
    ],
)
def test_minian_damaged(tmp_path, dff, field, wrong, message):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "minian" / "C.zarr"), mode="w", zarr_format=2)
    group.create_array("C", data=dff)
    for header in (tmp_path / "minian" / "C.zarr").rglob(".zarray"):
        header.write_text(json.dumps(json.loads(header.read_text()) | {field: wrong}))
    consolidated = tmp_path / "minian" / "C.zarr" / ".zmetadata"
    consolidated.unlink(missing_ok=True)
    with pytest.raises(ValueError, match=message):
        read_traces(tmp_path / "minian")


# -- NWB -----------------------------------------------------------------------------------


def nwb_file(path, dff, kind="DfOverF", rate=30.0):
    pytest.importorskip("pynwb")
    from pynwb import NWBHDF5IO, NWBFile, ophys

    file = NWBFile("a test", "id", datetime(2020, 1, 1, tzinfo=UTC))
    device = file.create_device("microscope")
    channel = ophys.OpticalChannel(name="green", description="x", emission_lambda=510.0)
    plane = file.create_imaging_plane(
        name="plane", optical_channel=channel, description="x", device=device,
        excitation_lambda=920.0, indicator="GCaMP6f", location="V1",
    )  # fmt: skip
    segmentation = ophys.PlaneSegmentation(description="x", imaging_plane=plane, name="cells")
    for _ in dff:
        segmentation.add_roi(image_mask=np.ones((2, 2)))
    module = file.create_processing_module("ophys", "x")
    module.add(ophys.ImageSegmentation(plane_segmentations=[segmentation]))
    rois = segmentation.create_roi_table_region(description="all", region=list(range(len(dff))))
    with warnings.catch_warnings():  # hdmf warns until the series is in the file
        warnings.simplefilter("ignore", UserWarning)
        series = ophys.RoiResponseSeries(name="series", data=dff.T, rois=rois, unit="1", rate=rate)
        module.add(getattr(ophys, kind)(roi_response_series=series))
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


@pytest.mark.parametrize("kind", ["DfOverF", "Fluorescence"])
def test_nwb_in_and_back(tmp_path, dff, kind):
    path = tmp_path / "a.nwb"
    nwb_file(path, dff, kind)
    found = read_traces(path)
    np.testing.assert_allclose(found.dff, dff)
    assert found.framerate == 30.0
    with pytest.raises(ValueError, match="has no nothing"):
        read_traces(path, variable="nothing")
    from pynwb import NWBHDF5IO

    from cofem.calcium.files.nwb import write_nwb

    result = deconvolve(dff, 30.0, n_jobs=1)
    write_nwb(path, result)
    with NWBHDF5IO(str(path), "r") as io:
        module = io.read().processing["cofem"]
        series = module["deconvolution"]["spikes"]
        np.testing.assert_allclose(series.data[:].T, result.spikes)
        assert len(series.rois) == 3
        np.testing.assert_allclose(module["events"]["time"][:], result.events()["time"])
    with pytest.raises(ValueError, match="already"):
        write_nwb(path, result)
    np.testing.assert_allclose(read_traces(path).dff, dff)  # our own module is not an input


# -- suite2p -------------------------------------------------------------------------------


def suite2p_folder(path, options, coefficient=0.7, name="ops.npy"):
    traces, _ = simulate(n_cells=2, n_frames=300, seed=1)
    neuropil = 50 + 20 * np.sin(np.arange(300) / 9)[None] * np.ones((2, 1))
    path.mkdir(parents=True)
    np.save(path / "F.npy", 100 * (1 + traces) + coefficient * neuropil)
    np.save(path / "Fneu.npy", neuropil)
    np.save(path / "iscell.npy", np.ones((2, 2)))
    if options is not None:
        np.save(path / name, np.array(options), allow_pickle=True)
    return traces


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ops.npy", {"fs": 12.0, "neucoeff": 0.4}),
        ("settings.npy", {"fs": 12.0, "extraction": {"neuropil_coefficient": 0.4}}),
    ],
)
def test_suite2p_options_are_honoured(tmp_path, name, options):
    suite2p_folder(tmp_path / "plane0", options, 0.4, name)
    suite2p_folder(tmp_path / "without", {"fs": 12.0})
    found = read_suite2p(tmp_path / "plane0")
    assert (found.framerate, found.coefficient) == (12.0, 0.4)
    np.testing.assert_allclose(found.dff, read_suite2p(tmp_path / "without").dff, atol=1e-9)


def test_suite2p_folders_above_a_plane(tmp_path):
    suite2p_folder(tmp_path / "suite2p" / "plane0", {"fs": 12.0})
    for folder in (tmp_path, tmp_path / "suite2p", tmp_path / "suite2p" / "plane0"):
        assert read_traces(folder).framerate == 12.0
    suite2p_folder(tmp_path / "suite2p" / "plane1", {"fs": 12.0})
    with pytest.raises(ValueError, match="several planes"):
        read_traces(tmp_path)


def test_cells_below_their_neuropil_keep_their_events(tmp_path):
    suite2p_folder(tmp_path / "plane0", {"fs": 30.0})
    neuropil = np.load(tmp_path / "plane0" / "Fneu.npy")
    np.save(tmp_path / "plane0" / "Fneu.npy", neuropil + np.array([[0.0], [400.0]]))
    found = read_suite2p(tmp_path / "plane0")
    assert found.without_baseline.tolist() == [1]
    assert np.all(np.isfinite(found.dff))
    assert "1 cells" in read_traces(tmp_path / "plane0").note


# -- the page ------------------------------------------------------------------------------


def test_the_page_holds_all_cells_and_needs_nothing_else(dff):
    traces = dff.copy()
    traces[1, 100:130] = np.nan
    traces[2] = np.nan
    with pytest.warns(UserWarning, match="cells with problems: 2"):
        result = deconvolve(traces, 30.0, n_jobs=1)
    page = report_page(result, "<b>field</b> & </script>", np.array([4, 7, 9]))
    assert "<b>field" not in page
    assert not re.search(r"https?:|src=|@import|url\(", page)
    data = json.loads(re.search(r"const data = (\{.*\});\n", page).group(1))
    assert [row["cell"] for row in data["rows"]] == [4, 7, 9]
    assert data["rows"][2]["flags"].startswith("0 frames")
    assert data["rows"][2]["snr"] is None
    assert data["rows"][0]["events"] == np.count_nonzero(result.events()["cell"] == 0)
    assert len(page) < 400_000
