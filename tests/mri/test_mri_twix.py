"""Siemens raw data, written by twixtools, read."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from cofem import cli, mri
from cofem.cli.mri import mri as command
from cofem.mri.files.scan import read_scan

RNG = np.random.default_rng(0)
PROTOCOL = """### ASCCONV BEGIN ###
sKSpace.lBaseResolution = {columns}
sKSpace.lPhaseEncodingLines = {rows}
sKSpace.lPartitions = {planes}
sKSpace.ucDimension = {dimension}
sKSpace.ucTrajectory = {trajectory}
sSliceArray.asSlice[0].dReadoutFOV = 240.0
sSliceArray.asSlice[0].dPhaseFOV = 200.0
sSliceArray.asSlice[0].dThickness = 5.0
### ASCCONV END ###"""


def noise(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def header(columns, rows, planes=1, dimension=2, trajectory=1, regrid=1):
    """Return the header of a measurement: its length, then named texts."""
    texts = {
        "Dicom": '<ParamDouble."flReadoutOSFactor">  { <Precision> 16  2.0 }',
        "Meas": f'<ParamLong."alRegridMode">  {{ {regrid} 1 }}',
        "MeasYaps": PROTOCOL.format(
            columns=columns, rows=rows, planes=planes, dimension=dimension, trajectory=trajectory
        ),
    }
    body = b""
    for name, text in texts.items():
        body += name.encode() + b"\0" + np.uint32(len(text)).tobytes() + text.encode()
    length = 8 + len(body)
    start = np.array([length, len(texts)], "<u4").tobytes()
    return np.frombuffer(start + body, "S1")


def line(data, flags=(), cut=0, **counters):
    from twixtools.mdb import Mdb_local

    block = Mdb_local(data)
    block.mdh.CenterCol = counters.pop("centre", data.shape[1] // 2)
    block.mdh.CenterLin = counters.pop("centre_line", 0)
    block.mdh.CenterPar = counters.pop("centre_plane", 0)
    block.mdh.CutOff.Pre = cut
    place = block.mdh.SliceData
    place.Quaternion[:] = counters.pop("quaternion", (0, 0, 0, 0))
    place.SlicePos.Sag, place.SlicePos.Cor, place.SlicePos.Tra = counters.pop("at", (0, 0, 0))
    for name, value in counters.items():
        setattr(block.mdh.Counter, name, value)
    for flag in flags:
        block.add_flag(flag)
    return block


def write(path, *measurements):
    import twixtools

    scans = [{"hdr_str": text, "mdb": lines} for text, lines in measurements]
    twixtools.write_twix(scans, str(path))
    return path


def oversampled(y):
    """Return k-space (…, columns) of the image in a field of view twice as wide."""
    columns = y.shape[-1]
    wide = np.zeros((*y.shape[:-1], 2 * columns), complex)
    wide[..., columns // 2 : columns // 2 + columns] = mri.to_image(y, n_axes=1)
    return mri.to_kspace(wide, n_axes=1)


@pytest.fixture(autouse=True)
def _reader():
    pytest.importorskip("twixtools")


def test_echoes_averages_noise_and_partial_fourier(tmp_path, capsys):
    y = noise(2, 3, 8, 6)  # two echoes, three coils
    wide = oversampled(y)
    missing = 2  # lines, at the beginning: the scanner counts from the first that it measured
    lines = [line(noise(3, 12), ["PATREFSCAN"], Lin=1, centre_line=2)]
    lines += [line(noise(3, 12), ["PHASCOR"]), line(1e9 * noise(3, 12), Rep=1)]
    for echo in range(2):
        for row in range(missing, 8):
            if row == 5:
                continue
            for average in range(2):
                shift = (2 * average - 1) * np.ones((3, 12))  # averages out
                lines.append(line(wide[echo, :, row] + shift, Lin=row - missing, Eco=echo,
                                  Ave=average, centre_line=4 - missing))  # fmt: skip
    sizes = np.array([1.0, 2.0, 3.0])[:, None] / 2**0.5
    quiet = [line(sizes * noise(3, 128), ["NOISEADJSCAN"]) for _ in range(10)]
    file = write(tmp_path / "a.dat", (header(64, 1), quiet), (header(6, 8), lines))
    scan = read_scan(file)
    there = np.array([0, 0, 1, 1, 1, 0, 1, 1], bool)
    np.testing.assert_allclose(scan.kspace[:, :, there], y[:, :, there], atol=1e-5)
    assert not scan.kspace[:, :, ~there].any()
    np.testing.assert_array_equal(scan.mask, np.broadcast_to(there[:, None], (2, 8, 6)))
    # 1,280 samples of noise: 2.8 % of standard error.
    np.testing.assert_allclose(np.diag(scan.coil_covariance).real, [1, 4, 9], rtol=0.12)
    assert scan.notes[:3] == ("Siemens twix, slice 0 of 1", "the first of 2 repetitions and phases",
                              "20 readouts")  # fmt: skip
    assert "1 readouts of a separate calibration" in scan.notes
    assert scan.affine is None  # no position was written
    there = np.flatnonzero(np.any(scan.calibration != 0, axis=(0, 2)))
    np.testing.assert_array_equal(there, [3])  # a line before the centre
    assert "3 coils" in scan.summary()
    capsys.readouterr()
    read_scan(file)
    assert capsys.readouterr().out == ""  # which may be one JSON object


def test_the_position_and_a_separate_calibration(tmp_path):
    """The quaternion's columns are where phase, readout and slice go in the patient (LPS)."""
    y = noise(1, 2, 4, 6)
    wide = oversampled(y)
    root = 0.5**0.5  # a quarter turn around the patient's axis: phase goes to y, readout to −x
    place = {"quaternion": (root, 0, 0, root), "at": (10, 20, 30), "centre_line": 2}
    lines = [line(wide[0, :, r], Lin=r, **place) for r in range(0, 4, 2)]
    lines += [line(wide[0, :, r], ["PATREFSCAN"], Lin=r, **place) for r in range(4)]
    scan = read_scan(write(tmp_path / "a.dat", (header(6, 4), lines)))
    np.testing.assert_allclose(scan.affine @ [2, 3, 0, 1], [-10, -20, 30, 1], atol=1e-4)
    steps = scan.affine[:3, :3]  # rows 200/4, columns 240/6, slices 5 mm; RAS
    np.testing.assert_allclose(steps, [[0, 40, 0], [-50, 0, 0], [0, 0, 5]], atol=1e-4)
    np.testing.assert_allclose(scan.calibration, y[0], atol=1e-5)
    np.testing.assert_array_equal(scan.mask[0, :, 0], [True, False, True, False])


def test_slices_and_volumes(tmp_path):
    y = noise(3, 4, 4)
    wide = oversampled(y)
    flat = [line(wide[s, None, r], Sli=s, Lin=r, centre_line=2) for s in range(3) for r in range(4)]
    file = write(tmp_path / "flat.dat", (header(4, 4, planes=32), flat))
    scan = read_scan(file)
    np.testing.assert_allclose(scan.kspace, y[1:2], atol=1e-5)
    assert not scan.coils
    np.testing.assert_allclose(read_scan(file, index=2).kspace, y[2:], atol=1e-5)
    with pytest.raises(ValueError, match="no slice 3"):
        read_scan(file, index=3)
    deep = [line(wide[p, None, r], Par=p, Lin=r, centre_line=2, centre_plane=1)
            for p in range(3) for r in range(4)]  # fmt: skip
    file = write(tmp_path / "deep.dat", (header(4, 4, planes=3, dimension=4), deep))
    np.testing.assert_allclose(read_scan(file).kspace[0], y, atol=1e-5)


def test_a_partial_echo_is_not_taken_for_measured_zeros(tmp_path):
    wide = oversampled(noise(1, 4, 6))
    lines = [line(wide[:, r, 3:] if r % 2 else wide[:, r], cut=0 if r % 2 else 3, Lin=r,
                  centre_line=2, centre=3 if r % 2 else 6) for r in range(4)]  # fmt: skip
    scan = read_scan(write(tmp_path / "a.dat", (header(6, 4), lines)))
    np.testing.assert_array_equal(scan.mask, np.arange(12) >= np.full((1, 4, 1), 3))
    np.testing.assert_allclose(scan.kspace, wide * scan.mask, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        ({"trajectory": 2}, (), "not Cartesian"),
        ({"regrid": 2}, (), "ramps of the gradient"),
        ({}, ("PHASCOR",), "need a phase correction"),
        ({}, ("NOISEADJSCAN",), "no readouts of images"),
    ],
)
def test_other_scans_are_refused(tmp_path, change, flags, message):
    lines = [line(noise(1, 8), flags if flags == ("NOISEADJSCAN",) else ["REFLECT"])]
    lines += [line(noise(1, 8), flags)] if flags else []
    file = write(tmp_path / "a.dat", (header(4, 4, **change), lines))
    with pytest.raises(ValueError, match=message):
        read_scan(file)


def test_broken_files_and_a_missing_reader_are_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.dat").write_bytes(b"no raw data" * 9)
    with pytest.raises(ValueError, match="no readouts of images"):
        read_scan(tmp_path / "a.dat")
    lines = [line(noise(2, 8), Lin=r, centre_line=2) for r in range(4)]
    file = write(tmp_path / "whole.dat", (header(4, 4), lines))
    (tmp_path / "cut.dat").write_bytes(file.read_bytes()[:-800])
    with pytest.raises(ValueError, match="cut short"):
        read_scan(tmp_path / "cut.dat")
    monkeypatch.setitem(sys.modules, "twixtools", None)
    with pytest.raises(ImportError, match="pip install twixtools"):
        read_scan(tmp_path / "a.dat")
    with pytest.raises(SystemExit) as stop:  # one line, no traceback
        cli.app(["mri", str(tmp_path / "a.dat"), "-o", str(tmp_path / "o.npz")])
    assert stop.value.code == 2
    assert "cofem: error: Siemens raw data" in capsys.readouterr().err


def test_the_command_takes_it(tmp_path):
    import typer

    truth = mri.phantom((32, 32), n_contrasts=1)
    wide = oversampled(mri.to_kspace(truth))
    rows = [r for r in range(32) if r % 2 or 8 <= r < 24]
    lines = [line(wide[:, r], Lin=r, centre_line=16) for r in rows]
    file = write(tmp_path / "a.dat", (header(32, 32), lines))
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(file), "-o", str(tmp_path / "o.npz"), "--real"])
    assert result.exit_code == 0, result.output
    assert "1 contrast, 32 × 32, 75 % of k-space; Siemens twix" in result.output
    with np.load(tmp_path / "o.npz") as found:
        assert mri.nrmse(found["image"], truth) < 0.05
