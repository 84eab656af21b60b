"""Which part of the spread held-out samples stretch, and what is left out to learn it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from cofem import mri
from cofem.backend import Random
from cofem.mri.image.fit import Draws, ImageFit, fit_image
from cofem.mri.image.held_out import CENTRES, Evidence, choose_folds
from cofem.mri.image.intervals import Spread, filters_of
from cofem.mri.image.options import ImageOptions
from cofem.mri.scanner.checks import checked_data

SIDE, NOISE = 48, 0.05


def complex_noise(shape, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / 2**0.5


def checked(kspace, mask):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checked_data(kspace * mask, mask, None, real=True, centered=True)


def line_masks(n_contrasts, factor, seed):
    lines = np.random.default_rng(seed).random((n_contrasts, 1, SIDE)) < 1 / factor
    lines[:, :, SIDE // 2 - 3 : SIDE // 2 + 4] = True
    return np.broadcast_to(lines, (n_contrasts, SIDE, SIDE)).copy()


def with_true_prior(data, known, noise):
    """Return the posterior of data under a prior and a noise that are given, in their units."""
    fit = fit_image(data, True, noise, np.zeros(len(data.mask), bool), ImageOptions(max_iter=1), 0)
    # Scaled images u are x over the units: the prior of their gradients has T u² in place of T.
    assert fit.model.edges.n_apart == 1
    units = np.tile(fit.units[:, 0], 2).astype(np.float32)
    prior = replace(
        known,
        tensor=known.tensor * units[:, None] * units[None, :],
        factor=known.factor * units[:, None],
    )
    scaled = (noise / fit.units[:, 0]).astype(np.float32)
    matrix = fit.model.precision(prior, scaled)
    row = matrix.pulled((matrix.factor * fit.model._image)[None])
    mean = matrix.solve(row, None, 1e-5, 3000).x
    learned = replace(fit.learned, mean=mean.reshape(fit.learned.mean.shape), prior=prior,
                      noise_std=scaled, row=mean)  # fmt: skip
    return ImageFit(fit.model, learned, fit.units, 1.0)


@pytest.fixture(scope="module")
def prior_and_truths():
    """A prior with edges, learned from a phantom, and images drawn from it."""
    mask = line_masks(2, 2, 0)
    truth = mri.phantom((SIDE, SIDE), n_contrasts=2)
    noise = np.full(2, NOISE)
    data = checked(mri.to_kspace(truth) + NOISE * complex_noise(truth.shape, 0), mask)
    options = ImageOptions(max_iter=12)
    fit = fit_image(data, True, noise, np.zeros(2, bool), options, 0)
    units = np.tile(fit.units[:, 0], 2).astype(np.float32)
    tensor = fit.learned.prior.tensor / units[:, None] / units[None, :]
    prior = replace(fit.learned.prior, tensor=tensor, factor=np.linalg.cholesky(tensor))
    # Noise of 100 leaves the prior alone; the constant, which it does not know, is taken out.
    matrix = fit.model.precision(prior, np.full(2, 100.0, np.float32))
    pushes = matrix.pushes(Random(3), 4, fit.model.first)
    drawn = matrix.images(matrix.solve(pushes, None, 1e-5, 5000).x)
    truths = drawn - drawn.mean(axis=2, keepdims=True)
    return prior, np.fft.fftshift(truths.reshape(-1, 2, SIDE, SIDE), (2, 3))


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
@pytest.mark.parametrize("factor", [2, 4])
def test_images_of_the_model_are_covered_and_nothing_is_widened(prior_and_truths, factor):
    """Oracle: of images drawn from the prior the Gaussian posterior is exact.

    Four images of two contrasts, 18,432 pixels that err together: 0.95 within 0.02; held-out
    samples must not ask for more than they would by chance (10 to 20 lines: 0.2 of a logarithm).
    """
    prior, truths = prior_and_truths
    noise, covered, ratios, curves = np.full(2, NOISE), [], [], []
    for seed, truth in enumerate(truths):
        mask = line_masks(2, factor, seed + 1)
        data = checked(mri.to_kspace(truth) + NOISE * complex_noise(truth.shape, seed), mask)
        final = with_true_prior(data, prior, noise)
        evidence = Evidence.empty(2)
        for index, left_out in enumerate(choose_folds(data, 2, seed)):
            evidence.add(
                with_true_prior(data.without(left_out), prior, noise), data, left_out, index
            )
        evidence.groups[:] = 1e9  # Student's law for few lines is another matter
        curves.append(evidence.curve())
        evidence.moved.clear()  # what the Gaussian posterior says of places is exact, too
        plain = final.draws(16, seed)
        spread = Spread.learned(data, final.image, plain, evidence, np.zeros((2, SIDE**2)))
        std = spread.std(plain)
        error = final.image - np.fft.ifftshift(truth, (1, 2)).reshape(2, -1)
        covered.append(np.mean(np.abs(error) < 1.96 * std))
        ratios.append(np.mean(error**2) / np.mean(std**2))
    assert 0.93 < np.mean(covered) < 0.97
    assert 0.9 < np.mean(ratios) ** 0.5 < 1.1
    assert np.mean(curves) < 0.2


def test_the_noise_is_not_stretched():
    """Where the prior was found four times too sure, the noise's part of a draw stays as it is."""
    mask = line_masks(2, 2, 0)
    data = checked(mri.to_kspace(mri.phantom((SIDE, SIDE), n_contrasts=2)), mask)
    evidence = Evidence.empty(2)
    evidence.count += 1000
    evidence.groups += 1e9
    evidence.predicted += 1000.0
    evidence.left += 16_000.0
    rng = np.random.default_rng(0)
    plain = Draws(*rng.standard_normal((2, 8, 2, SIDE**2)))
    spread = Spread.learned(data, np.ones((2, SIDE**2)), plain, evidence, np.zeros((2, SIDE**2)))
    np.testing.assert_allclose(
        spread.draws(plain), plain.noise + 4 * plain.prior, rtol=0.02, atol=0.1
    )
    np.testing.assert_allclose(spread.std(plain), 17**0.5, rtol=0.3)


def symmetric_points(n_contrasts, seed):
    """Points that are measured at k and at −k, as on spokes, and the middle."""
    random = np.random.default_rng(seed)
    mask = np.fft.ifftshift(random.random((n_contrasts, SIDE, SIDE)) < 0.15, (1, 2))
    mask |= np.roll(mask[:, ::-1, ::-1], 1, (1, 2))
    mask[:, [*range(-3, 4)]] |= np.isin(np.arange(SIDE), np.arange(-3, 4) % SIDE)
    return np.fft.fftshift(mask, (1, 2))


def test_mirror_images_are_left_out_together_where_the_mask_has_them():
    """A sample at −k says what one at k is, of real images: nothing would be left to predict."""
    mask = symmetric_points(1, 0)
    data = checked(complex_noise(mask.shape, 0), mask)
    for fold in choose_folds(data, 2, 0):
        mirror = np.roll(fold[:, ::-1, ::-1], 1, (1, 2))
        assert np.array_equal(fold, mirror)
    alone = checked(complex_noise((1, SIDE, SIDE), 0), line_masks(1, 3, 5))
    folds = choose_folds(alone, 2, 0)
    assert not all(np.array_equal(f, np.roll(f[:, ::-1, ::-1], 1, (1, 2))) for f in folds)


def test_what_all_contrasts_have_is_left_out_of_all():
    mask = line_masks(3, 3, 2)
    mask[:, :, SIDE // 2 + 9] = True
    data = checked(complex_noise(mask.shape, 0), mask)
    common = data.mask.all(axis=0)
    for fold in choose_folds(data, 2, 0):
        assert (fold[:, common] == fold[:1, common]).all()
    assert any(not np.array_equal(f[0], f[1]) for f in choose_folds(data, 2, 0))


def test_beyond_the_last_line_the_curve_is_half_that_of_its_edge():
    """Lines to half of the way; the curve falls from 1 to 0 in logarithms."""
    mask = np.zeros((1, SIDE, SIDE), dtype=bool)
    mask[:, :, SIDE // 2 - 12 : SIDE // 2 + 13 : 2] = True
    mask[:, :, SIDE // 2 - 3 : SIDE // 2 + 4] = True
    data = checked(complex_noise(mask.shape, 0), mask)
    curve = np.linspace(1, 0, len(CENTRES))[None]
    evidence = Evidence.empty(1)
    evidence.curve = lambda: curve
    found = np.log(filters_of(evidence, data)[0])

    def at(radius):
        return np.interp(np.log(max(radius, CENTRES[0])), np.log(CENTRES), curve[0])

    for kx, ky in ((0, 5), (20, 5), (20, 12)):  # measured that far out
        assert found[kx, ky] == pytest.approx(at(2 * np.hypot(kx, ky) / SIDE))
    for kx, ky in ((0, 13), (20, 20)):
        own, edge = at(2 * np.hypot(kx, ky) / SIDE), at(2 * 12 / SIDE)
        assert found[kx, ky] == pytest.approx((own + edge) / 2)
