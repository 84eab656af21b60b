"""Intervals, faint things, noise and mistakes: what a physicist checks first."""

import warnings

import numpy as np
import pytest

from cofem import mri
from cofem.mri.image.held_out import BINS, CENTRES, PARTS, Evidence, choose_folds
from cofem.mri.scanner.checks import checked_data

FAST = mri.ImageOptions(max_iter=15, folds=0)


def complex_noise(shape, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / 2**0.5


def line_mask(n, factor, seed):
    lines = np.random.default_rng(seed).random(n) < 1 / factor
    lines[n // 2 - 3 : n // 2 + 3] = True
    return np.broadcast_to(lines, (n, n))


def checked(mask, n_contrasts=2):
    truth = mri.phantom((32, 32), n_contrasts=n_contrasts)
    return checked_data(mri.to_kspace(truth) * mask, mask, None, real=True, centered=True)


def test_folds_leave_out_whole_lines_and_never_the_middle():
    mask = np.broadcast_to(line_mask(32, 2, 0), (2, 32, 32))
    data = checked(mask)
    folds = choose_folds(data, 2, seed=0)
    assert len(folds) == 2
    assert not (folds[0] & folds[1]).any()
    for fold in folds:
        assert not (fold & ~data.mask).any()
        assert np.array_equal(fold[0], fold[1])  # one mask: left out in all contrasts
        assert np.array_equal(fold[0], np.broadcast_to(fold[0, :1], (32, 32)))
        assert not np.fft.fftshift(fold[0])[0, 13:19].any()
        lines, outside = fold[0, 0].sum(), data.mask[0, 0].sum() - 6
        assert abs(lines - outside / PARTS) <= 2


def test_the_curve_finds_the_factor_between_error_and_spread():
    """Residuals drawn from 9 times the predicted variance, plus noise: a factor of 3."""
    rng = np.random.default_rng(0)
    evidence = Evidence.empty(1)
    for b in range(len(CENTRES)):
        n, predicted, noise = 2000, 0.5**b, 0.01
        power = rng.exponential(9 * predicted + noise, n)
        evidence.count[0, b], evidence.left[0, b] = n, power.sum()
        evidence.predicted[0, b], evidence.noise[0, b] = n * predicted, n * noise
    # 2,000 exponentials: 2 % of the variance, and a weak pull to one.
    evidence.groups += 2000
    np.testing.assert_allclose(np.exp(evidence.curve()), 3, rtol=0.08)
    # What six lines say of the next is a Student law: its variance is 6/4 of theirs.
    evidence.groups[:] = 6
    np.testing.assert_allclose(np.exp(evidence.curve()), 3 * 1.5**0.5, rtol=0.08)
    assert len(BINS) == len(CENTRES) + 1


def test_the_curve_never_narrows_the_posterior():
    evidence = Evidence.empty(1)
    evidence.count += 1000
    evidence.groups += 1e9
    evidence.predicted += 1000.0
    evidence.left += 10.0
    np.testing.assert_allclose(np.exp(evidence.curve()), 1, rtol=1e-6)


def test_noise_that_was_learned_too_small_is_no_error_of_the_image():
    """A fit says 0.87 of the noise's power: of exact predictions nothing is left to explain."""
    rng = np.random.default_rng(0)
    evidence = Evidence.empty(1)
    n, predicted, noise = 2000, 0.1, 1.0
    for b in range(len(CENTRES)):
        power = rng.exponential(predicted + noise, n)
        evidence.count[0, b], evidence.left[0, b] = n, power.sum()
        evidence.predicted[0, b], evidence.noise[0, b] = n * predicted, n * 0.87 * noise
    evidence.groups += 1e9
    # With the noise as it was learned, 0.23 beside 0.1 would be the spread: a factor of 1.5.
    assert np.exp(evidence.curve()).max() < 1.2


@pytest.mark.parametrize("kept", [[-8, -7, *range(-4, 3), 4, 5, 6], list(range(-6, 6))])
def test_something_is_left_out_where_hardly_anything_lies_outside_the_middle(kept):
    """Twelve lines of 96, seven or none of them beyond the middle: folds leave its border out."""
    mask = np.zeros((1, 16, 96), dtype=bool)
    mask[:, :, np.array(kept) + 48] = True
    kspace = mri.to_kspace(complex_noise((1, 16, 96), 0)) * mask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = checked_data(kspace, mask, None, real=False, centered=True)
    folds = choose_folds(data, 2, seed=0)
    assert len(folds) == 2
    for fold in folds:
        assert not np.fft.fftshift(fold[0, 0])[47:50].any()


@pytest.mark.parametrize("seed", [0, 1])
def test_intervals_cover_on_line_masks(seed):
    truth = mri.phantom((64, 64))
    mask = np.stack([line_mask(64, 3, 10 * seed + i) for i in range(3)])
    kspace = (mri.to_kspace(truth) + 0.02 * complex_noise(truth.shape, seed)) * mask
    found = mri.reconstruct(kspace, mask, real=True)
    inside = np.any(truth > 0, axis=0)
    covered = (np.abs(found.image - truth) < 1.96 * found.std)[:, inside].mean()
    assert 0.88 < covered < 0.995
    draws = found.sample(16, seed=3) - found.image
    spread = np.sqrt(np.mean(draws**2, axis=0))
    assert 0.85 < np.median(spread / found.std) < 1.15


@pytest.mark.parametrize("sigma", [1e-7, 1e-5])
def test_a_noise_that_is_far_too_small_does_no_harm(sigma):
    truth = mri.phantom((48, 48))
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    kspace = mri.to_kspace(truth) * mask
    options = mri.ImageOptions(folds=0)
    found = mri.reconstruct(kspace, mask, real=True, noise_std=sigma, options=options)
    plain = mri.reconstruct(kspace, mask, real=True, options=options)
    assert mri.nrmse(found.image, truth) < 1.5 * mri.nrmse(plain.image, truth)
    assert np.isfinite(found.std).all()


@pytest.mark.filterwarnings("ignore:kspace is zero at")
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("kind", ["constant", "checkerboard", "only the zero frequency"])
def test_images_without_structure_work(kind, real):
    image = np.ones((1, 32, 32))
    if kind == "checkerboard":
        image = image * (np.indices((32, 32)).sum(axis=0) % 2)
    mask = np.array(line_mask(32, 2, 0))
    mask[:, 0] = True  # the highest frequency, which is all that a checkerboard has
    if kind == "only the zero frequency":
        mask[:] = False
        mask[16, 16] = True
    found = mri.reconstruct(mri.to_kspace(image) * mask, mask, real=real)
    assert np.isfinite(found.image).all()
    assert np.isfinite(found.std).all()
    assert mri.nrmse(found.image, image) < 0.01


def phantom_data():
    truth = mri.phantom((48, 48))
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    return truth, mask, mri.to_kspace(truth)


def test_nan_where_nothing_was_measured_is_fine():
    truth, mask, kspace = phantom_data()
    with pytest.warns(UserWarning, match="raise max_iter"):
        found = mri.reconstruct(np.where(mask, kspace, np.nan), mask, real=True,
                                options=mri.ImageOptions(max_iter=2, folds=0))  # fmt: skip
    assert mri.nrmse(found.image, truth) < 0.3
    with pytest.raises(ValueError, match="NaN or Inf at samples"):
        mri.reconstruct(np.where(mask, np.nan, kspace), mask, real=True)


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_mistakes_are_said_with_their_cause():
    _, mask, kspace = phantom_data()
    y, quick = kspace * mask, mri.ImageOptions(max_iter=1, folds=0)
    with pytest.warns(UserWarning, match="in its corners.*centered=False"):
        mri.reconstruct(np.fft.ifftshift(y, (1, 2)), real=True, options=quick)
    with pytest.warns(UserWarning, match="is the mask transposed"):
        mri.reconstruct(y, mask.transpose(0, 2, 1), real=True, options=quick)
    rows, columns = np.indices((48, 48)) / 24 - 1
    maps = np.stack([np.exp(2j * rows), np.exp(-2j * columns) * (1 + rows), 1 - columns + 0j])
    coils = mri.to_kspace(phantom_data()[0][:, None] * maps) * mask[:, None]
    with pytest.warns(UserWarning, match="fits no image seen through these maps"):
        mri.reconstruct(coils, mask, sensitivities=maps[::-1], options=quick)
    with pytest.raises(ValueError, match="Coils need sensitivities"):
        mri.reconstruct(coils * np.array([1, 1, 3])[:, None, None], mask[:, None])


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_a_noisy_coil_is_minded():
    truth, mask, _ = phantom_data()
    rows, columns = np.indices((48, 48)) / 24 - 1
    maps = np.stack([np.exp(-((rows - a) ** 2) - (columns - b) ** 2)
                     for a, b in ((-1, -1), (-1, 1), (1, -1), (1, 1))]).astype(complex)  # fmt: skip
    sizes = np.array([0.3, 0.01, 0.01, 0.01])[:, None, None]
    kspace = mri.to_kspace(truth[:, None] * maps)

    def error(covariance):
        """The mean over three noises."""
        errors = []
        for seed in range(3):
            y = (kspace + sizes * complex_noise(kspace.shape, seed)) * mask[:, None]
            found = mri.reconstruct(y, mask, sensitivities=maps, real=True, options=FAST,
                                    coil_covariance=covariance)  # fmt: skip
            errors.append(mri.nrmse(found.image, truth))
        return np.mean(errors)

    given = error(np.diag(sizes.ravel() ** 2))
    assert given < 0.7 * error(np.eye(4))
    assert error(None) < 1.1 * given  # seen far from the centre of k-space


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_a_coil_covariance_is_whitening_by_hand():
    truth, mask, _ = phantom_data()
    maps = np.stack([np.ones((48, 48)), np.linspace(0.2, 1, 48) * np.ones((48, 1))]).astype(complex)
    sizes = np.array([0.1, 0.01])  # one coil ten times noisier
    kspace = mri.to_kspace(truth[:, None] * maps)
    y = (kspace + sizes[:, None, None] * complex_noise(kspace.shape, 0)) * mask[:, None]
    given = mri.reconstruct(y, mask, sensitivities=maps, real=True, options=FAST,
                            coil_covariance=np.diag(sizes**2))  # fmt: skip
    weights = np.sqrt(np.mean(sizes**2)) / sizes
    by_hand = mri.reconstruct(y * weights[:, None, None], mask, real=True, options=FAST,
                              sensitivities=maps * weights[:, None, None],
                              coil_covariance=np.eye(2))  # fmt: skip
    np.testing.assert_allclose(given.image, by_hand.image, atol=1e-4 * truth.max())
    np.testing.assert_allclose(given.std, by_hand.std, rtol=1e-2, atol=1e-6)
