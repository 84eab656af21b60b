"""What the prior may have hidden: the score test of discs, and the limit of detection."""

import numpy as np
import pytest

from cofem import mri
from cofem.mri.image import hidden
from cofem.mri.image.fit import fit_image
from cofem.mri.image.hidden import Hidden
from cofem.mri.scanner.checks import checked_data

SIDE = 8


def complex_noise(shape, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / 2**0.5


def line_mask(n, factor, seed):
    lines = np.random.default_rng(seed).random(n) < 1 / factor
    lines[n // 2 - 3 : n // 2 + 3] = True
    return np.broadcast_to(lines, (1, n, n))


@pytest.fixture(scope="module")
def small_fit():
    truth = np.zeros((1, SIDE, SIDE))
    truth[0, 2:6, 3:6] = 1
    mask = line_mask(SIDE, 3, 1)
    kspace = (mri.to_kspace(truth) + 0.1 * complex_noise(truth.shape, 0)) * mask
    data = checked_data(kspace, mask, None, real=True, centered=True)
    # Exact solves: the oracle's pull is that of the exact mean.
    options = mri.ImageOptions(max_iter=6, mean_rtol=1e-6)
    return fit_image(data, True, None, np.zeros(1, dtype=bool), options, 0)


def test_the_amplitude_is_that_of_a_disc_without_a_prior(small_fit, monkeypatch):
    """Oracle: the normal equations of the image and the disc's amplitude, solved densely."""
    monkeypatch.setattr(hidden, "DRAWS", 20_000)
    monkeypatch.setattr(hidden, "DRAW_RTOL", 1e-5)
    monkeypatch.setattr(hidden, "PLACES", 0.0)
    bright = np.ones(SIDE**2, dtype=bool)
    found = Hidden(small_fit, bright, bright[None], seed=0)
    monkeypatch.setattr(hidden, "NORMAL_MEDIAN", 1e9)  # the model is taken to be right
    (discs,) = found._discs(0, (1.5,))

    model, state = small_fit.model, small_fit.learned
    matrix = model.precision(state.prior, state.noise_std)
    one = np.eye(SIDE**2, dtype=np.float32)
    q = matrix.product(one).astype(float)
    prior = matrix.prior_force(one).astype(float)
    data = q - prior
    pull = (np.asarray(matrix.factor) * model._image).ravel().astype(float)
    rows, columns = np.indices((SIDE, SIDE))
    for y, x in ((4, 4), (1, 6), (3, 2)):
        dy, dx = (rows - y + 4) % SIDE - 4, (columns - x + 4) % SIDE - 4
        d = (np.hypot(dy, dx) <= 1.5).astype(float).ravel()
        assert d.sum() == 9
        joint = np.block([[q, (data @ d)[:, None]], [(data @ d)[None], d @ data @ d]])
        solved = np.linalg.solve(joint, np.append(pull, d @ pull))
        variance = np.linalg.inv(joint)[-1, -1]
        # 20,000 draws: 1 % of a variance.
        assert discs.variance[y, x] == pytest.approx(variance, rel=0.05)
        tolerance = 0.05 * abs(solved[-1]) + 0.02 * variance**0.5
        assert discs.amplitude[y, x] == pytest.approx(solved[-1], abs=tolerance)
        # What the disc's pixels change by is the amplitude, less what the rest gives way.
        response = np.mean((d - np.linalg.solve(q, data @ d))[d > 0])
        assert discs.response[y, x] == pytest.approx(response, abs=0.03)


def with_discs(seed, radius, amplitude, each=5):
    rng = np.random.default_rng(seed)
    head = mri.phantom((64, 64))
    rows, columns = np.indices((64, 64))
    where = np.zeros(head.shape, dtype=bool)
    for index in range(each):
        y, x = rng.integers(20, 44, 2)
        where[index % 3] |= np.hypot(rows - y, columns - x) <= radius
    return head + amplitude * where, where


def test_faint_discs_are_covered():
    """Five small discs of three noise levels on each of four heads.

    180 pixels in clusters of nine: the share that is covered varies by about 0.04 by chance. The
    Gaussian posterior alone, widened by held-out samples, covers 0.73 of these.
    """
    covered = []
    for seed in range(4):
        truth, where = with_discs(seed, 1.5, 0.3)
        mask = mri.power_rule_mask(truth.shape, 3, 4, seed=seed)
        kspace = (mri.to_kspace(truth) + 0.1 * complex_noise(truth.shape, seed)) * mask
        found = mri.reconstruct(kspace, mask, real=True)
        covered.append((np.abs(found.image - truth) < 1.96 * found.std)[where])
    assert np.concatenate(covered).mean() > 0.85


@pytest.mark.parametrize("real", [True, False])
def test_the_limit_of_detection(real):
    truth = mri.phantom((48, 48))
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    noise = complex_noise(truth.shape, 0)
    options = mri.ImageOptions(max_iter=12, folds=0, tol=1e-2)

    def limit(radius, sigma, unit=1.0):
        kspace = unit * (mri.to_kspace(truth) + sigma * noise) * mask
        found = mri.reconstruct(kspace, mask, real=real, options=options, phase="smooth")
        return found.detection_limit(radius)

    small, wide, louder = limit(1.5, 0.02), limit(4, 0.02), limit(1.5, 0.06)
    assert small.shape == truth.shape
    inside = np.all(truth > 0, axis=0)
    # Averaging over 49 pixels where it was 9: at least 1.3 times less is needed.
    assert np.median(small[:, inside]) > 1.3 * np.median(wide[:, inside])
    assert np.median(louder[:, inside]) > 1.5 * np.median(small[:, inside])
    np.testing.assert_allclose(limit(1.5, 0.02, 1000.0), 1000 * small, rtol=0.05)


def test_limits_that_are_not_known_are_refused(tmp_path):
    truth = mri.phantom((32, 32), n_contrasts=1)
    full = mri.reconstruct(mri.to_kspace(truth), real=True)
    with pytest.raises(ValueError, match="undersampled"):
        full.detection_limit(2)
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    found = mri.reconstruct(mri.to_kspace(truth) * mask, mask, real=True)
    with pytest.raises(ValueError, match="radius"):
        found.detection_limit(-1)
    found.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="from a file"):
        mri.Reconstruction.load(tmp_path / "a.npz").detection_limit(2)
