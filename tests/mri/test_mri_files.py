"""Real files, written by the real libraries, read; what is written, read by them."""

import numpy as np
import pytest

from cofem import mri
from cofem.mri.files.scan import read_scan
from cofem.mri.files.writing import write

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def small():
    truth = mri.phantom((16, 16), n_contrasts=2, complex_phase=True)
    return mri.reconstruct(mri.to_kspace(truth))


def test_fastmri_h5(tmp_path):
    h5py = pytest.importorskip("h5py")
    y = noise(3, 4, 8, 6).astype(np.complex64)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"] = y
        file["mask"] = np.array([1, 0, 1, 1, 0, 1], dtype=np.float32)
    scan = read_scan(tmp_path / "a.h5")
    np.testing.assert_array_equal(scan.kspace, y[1:2])
    assert scan.coils
    assert "slice 1 of 3" in scan.notes[0]
    assert "67 % of k-space" in scan.summary()
    np.testing.assert_array_equal(read_scan(tmp_path / "a.h5", index=0).kspace, y[:1])
    with pytest.raises(ValueError, match="index must be from 0 to 2"):
        read_scan(tmp_path / "a.h5", index=3)


def test_matlab_5_and_7_3(tmp_path):
    import scipy.io

    h5py = pytest.importorskip("h5py")
    y = noise(2, 8, 6)
    scipy.io.savemat(tmp_path / "old.mat", {"kspace": y, "mask": np.ones((8, 6))})
    np.testing.assert_array_equal(read_scan(tmp_path / "old.mat").kspace, y)
    pairs = np.empty(y.T.shape, dtype=[("real", "f8"), ("imag", "f8")])
    pairs["real"], pairs["imag"] = y.T.real, y.T.imag
    with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
        file["kspace"] = pairs
    with open(tmp_path / "new.mat", "r+b") as file:  # what MATLAB writes before the HDF5
        text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64"
        file.write(text.ljust(116, b" ") + b"\0" * 8 + b"\x00\x02IM")
    np.testing.assert_array_equal(read_scan(tmp_path / "new.mat").kspace, y)


def mrd_file(path, y, *, covariance=None, oversampling=2, late=0, junk=(0, 0), reference=None):
    """Write (L, C, H, W) with ismrmrd-python, every second line, readout oversampled."""
    ismrmrd = pytest.importorskip("ismrmrd")
    xsd = ismrmrd.xsd
    n_contrasts, coils, rows, columns = y.shape
    wide = oversampling * columns
    image = mri.to_image(y, n_axes=1)
    padded = np.zeros((*y.shape[:3], wide), complex)
    first = wide // 2 - columns // 2
    padded[..., first : first + columns] = image
    wider = mri.to_kspace(padded, n_axes=1)

    def space(x, field):
        return xsd.encodingSpaceType(
            matrixSize=xsd.matrixSizeType(x=x, y=rows, z=1),
            fieldOfView_mm=xsd.fieldOfViewMm(x=field, y=2.0 * rows, z=5.0),
        )

    limits = xsd.encodingLimitsType(
        kspace_encoding_step_1=xsd.limitType(minimum=0, maximum=rows - 1, center=rows // 2)
    )
    encoding = xsd.encodingType(
        encodedSpace=space(wide, 3.0 * wide), reconSpace=space(columns, 3.0 * columns),
        encodingLimits=limits, trajectory=xsd.trajectoryType.CARTESIAN,
    )  # fmt: skip
    conditions = xsd.experimentalConditionsType(H1resonanceFrequency_Hz=63_500_000)
    header = xsd.ismrmrdHeader(experimentalConditions=conditions, encoding=[encoding])
    dataset = ismrmrd.Dataset(str(path), "dataset", create_if_needed=True)
    dataset.write_xml_header(xsd.ToXML(header))
    if covariance is not None:
        lower = np.linalg.cholesky(covariance)
        for _ in range(20):
            data = (lower @ noise(coils, wide) / 2**0.5).astype(np.complex64)
            line = ismrmrd.Acquisition.from_array(data)
            line.set_flag(ismrmrd.ACQ_IS_NOISE_MEASUREMENT)
            dataset.append_acquisition(line)
    for contrast in range(n_contrasts):
        for row in range(0, rows, 2):
            data = wider[contrast, :, row, late:].astype(np.complex64)
            around = [np.full((coils, n), 1e6, dtype=np.complex64) for n in junk]
            data = np.concatenate([around[0], data, around[1]], axis=1)
            line = ismrmrd.Acquisition.from_array(data)
            line.idx.contrast, line.idx.kspace_encode_step_1 = contrast, row
            line.discard_pre, line.discard_post = junk
            line.center_sample = wide // 2 - late + junk[0]
            line.read_dir[:], line.phase_dir[:], line.slice_dir[:] = (1, 0, 0), (0, 1, 0), (0, 0, 1)
            line.position[:] = (10, 20, 30)
            dataset.append_acquisition(line)
    if reference is not None:  # coils, rows, samples around the middle
        middle = reference.shape[2] // 2
        for index, row in enumerate(range(rows // 2 - 2, rows // 2 + 2)):
            line = ismrmrd.Acquisition.from_array(reference[:, index].astype(np.complex64))
            line.set_flag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)
            line.idx.kspace_encode_step_1, line.center_sample = row, middle
            dataset.append_acquisition(line)
    dataset.close()


def test_samples_that_ismrmrd_discards_are_left_out(tmp_path):
    y = noise(2, 3, 8, 6)
    mrd_file(tmp_path / "scan.h5", y, junk=(2, 3))
    scan = read_scan(tmp_path / "scan.h5")
    assert scan.kspace.shape == y.shape
    np.testing.assert_allclose(scan.kspace[:, :, ::2], y[:, :, ::2], atol=1e-5)
    np.testing.assert_array_equal(scan.mask[:, ::2], True)


def test_separate_calibration_of_ismrmrd_is_kept_apart(tmp_path):
    y = noise(1, 3, 8, 6)
    mrd_file(tmp_path / "plain.h5", y)
    wide = mri.to_kspace(np.pad(mri.to_image(y, n_axes=1), [(0, 0)] * 3 + [(3, 3)]), n_axes=1)
    for short in (0, 4):  # whole readouts, and the middle of them
        there = slice(short, 12 - short)
        name = f"{short}.h5"
        mrd_file(tmp_path / name, y, reference=wide[0, :, 2:6, there])
        scan = read_scan(tmp_path / name)
        np.testing.assert_array_equal(scan.kspace, read_scan(tmp_path / "plain.h5").kspace)
        assert "4 readouts of a separate calibration" in scan.notes
        assert scan.calibration.shape == (3, 8, 6)
        rows = np.any(scan.calibration != 0, axis=(0, 2))
        np.testing.assert_array_equal(np.flatnonzero(rows), [2, 3, 4, 5])
        if short == 0:
            np.testing.assert_allclose(scan.calibration[:, 2:6], y[0, :, 2:6], atol=1e-5)
        else:  # a third as many samples: a third of the resolution
            columns = np.any(scan.calibration != 0, axis=(0, 1))
            np.testing.assert_array_equal(np.flatnonzero(columns), [2, 3])


def test_ismrmrd_with_noise_and_oversampling(tmp_path):
    y = noise(2, 3, 8, 6)
    covariance = np.diag([1.0, 4.0, 9.0])
    mrd_file(tmp_path / "scan.h5", y, covariance=covariance)
    scan = read_scan(tmp_path / "scan.h5")
    np.testing.assert_allclose(scan.kspace[:, :, ::2], y[:, :, ::2], atol=1e-5)
    assert not scan.kspace[:, :, 1::2].any()
    np.testing.assert_array_equal(scan.mask[:, ::2], True)
    np.testing.assert_array_equal(scan.mask[:, 1::2], False)
    # 240 samples of noise: 6.5 % of standard error.
    np.testing.assert_allclose(np.diag(scan.coil_covariance).real, [1, 4, 9], rtol=0.3)
    # The centre of the image, index (4, 3), is at the position (LPS), steps 2 and 3 mm.
    np.testing.assert_allclose(scan.affine @ [4, 3, 0, 1], [-10, -20, 30, 1], atol=1e-4)
    np.testing.assert_allclose(
        scan.affine @ [5, 3, 0, 0] - scan.affine @ [4, 3, 0, 0], [0, -2, 0, 0], atol=1e-5
    )
    assert "3 coils" in scan.summary()


def test_a_partial_echo_of_ismrmrd_is_not_taken_for_measured_zeros(tmp_path):
    mrd_file(tmp_path / "scan.h5", noise(1, 2, 8, 6), late=4)
    scan = read_scan(tmp_path / "scan.h5")
    assert scan.kspace.shape == (1, 2, 8, 12)  # oversampling is kept
    lines = np.arange(8) % 2 == 0
    np.testing.assert_array_equal(scan.mask[0], lines[:, None] & (np.arange(12) >= 4))
    assert not scan.kspace[:, :, ~scan.mask[0]].any()
    np.testing.assert_allclose(scan.affine @ [4, 6, 0, 1], [-10, -20, 30, 1], atol=1e-4)


def test_bart_pairs_go_round(tmp_path):
    found = small()
    files = write(found, tmp_path / "out.cfl")
    assert [file.name for file in files] == ["out.cfl", "out_std.cfl"]
    again = read_scan(tmp_path / "out.cfl")
    np.testing.assert_allclose(again.kspace, found.image, atol=1e-6)
    dims = (tmp_path / "out.hdr").read_text().splitlines()[1].split()
    assert dims[:6] == ["16", "16", "1", "1", "1", "2"]
    (tmp_path / "out.cfl").write_bytes(b"\0" * 8)
    with pytest.raises(ValueError, match="8 bytes; its header says"):
        read_scan(tmp_path / "out.cfl")


def test_bart_coils_are_the_fourth_dimension(tmp_path):
    y = noise(3, 8, 6).astype(np.complex64)  # coils, rows, columns
    (tmp_path / "k.hdr").write_text("# Dimensions\n8 6 1 3 1\n")
    np.moveaxis(y, 0, -1)[:, :, None, :].ravel(order="F").tofile(tmp_path / "k.cfl")
    scan = read_scan(tmp_path / "k.cfl")
    assert scan.coils
    np.testing.assert_array_equal(scan.kspace, y[None])


def test_nifti_has_magnitude_phase_std_and_affine(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    found, affine = small(), np.diag([2.0, 3.0, 5.0, 1.0])
    files = write(found, tmp_path / "out.nii.gz", affine)
    assert sorted(f.name for f in files) == ["out.nii.gz", "out_phase.nii.gz", "out_std.nii.gz"]
    picture = nibabel.load(tmp_path / "out.nii.gz")
    np.testing.assert_array_equal(picture.affine, affine)
    shown = np.asarray(picture.dataobj)[:, :, 0].transpose(2, 0, 1)
    np.testing.assert_allclose(shown, np.abs(found.image), rtol=1e-6)
    assert read_scan(tmp_path / "out.nii.gz").kspace.shape == (2, 16, 16)


def test_mrd_images_are_read_by_ismrmrd(tmp_path):
    ismrmrd = pytest.importorskip("ismrmrd")
    found = small()
    write(found, tmp_path / "out.mrd")
    dataset = ismrmrd.Dataset(str(tmp_path / "out.mrd"), "dataset", create_if_needed=False)
    assert dataset.number_of_images("image") == 2
    one = dataset.read_image("image", 1)
    dataset.close()
    np.testing.assert_allclose(one.data.squeeze(), found.image[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [("meas.dat", "not there"), ("a.png", "ends in none"), ("no.npy", "not there")],
)
def test_other_files_are_refused(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        read_scan(tmp_path / name)


def test_a_reconstruction_comes_back(tmp_path):
    found = small()
    found.save(tmp_path / "a.npz")
    again = mri.Reconstruction.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(again.std, found.std)
    assert again.message == found.message != ""
    with pytest.raises(ValueError, match="draw them before saving"):
        again.sample(1)
    np.savez(tmp_path / "b.npz", image=found.image)
    with pytest.raises(ValueError, match="no saved reconstruction"):
        mri.Reconstruction.load(tmp_path / "b.npz")
