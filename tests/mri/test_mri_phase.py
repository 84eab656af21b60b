"""The phase as an unknown: against dense matrices, and complex images beside real twins."""

import warnings

import numpy as np
import pytest
import scipy.fft

import cofem
from cofem import mri
from cofem.backend import Random
from cofem.mri.image.edge_prior import EdgeLearner
from cofem.mri.image.edges import Edges
from cofem.mri.image.phase import FREE_ITERATIONS, held_small, turned_back
from cofem.mri.image.phase_field import Cosines, PhaseField
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.image.settling import Window
from cofem.mri.scanner.coil_encoding import make_encoding


@pytest.mark.parametrize("shape", [(16, 20), (8, 12, 9)])
@pytest.mark.parametrize("centered", [True, False])
def test_cosines_are_those_of_the_cosine_transform(shape, centered):
    waves = Cosines(shape, centered, most=3)
    c = np.random.default_rng(0).standard_normal((2, waves.count))
    numbers = [max(1, min(3, side // 4)) for side in shape]
    spectrum = np.zeros((2, *shape))
    spectrum[(slice(None), *[slice(n) for n in numbers])] = c.reshape(2, *numbers)
    axes = tuple(range(1, len(shape) + 1))
    field = scipy.fft.idctn(spectrum, axes=axes, norm="ortho")
    if centered:
        field = np.fft.ifftshift(field, axes)
    np.testing.assert_allclose(waves.forward(c), field.reshape(2, -1), atol=1e-12)
    np.testing.assert_allclose(waves.adjoint(waves.forward(c)), c, atol=1e-12)
    # A field of the prior has mean square one over the picture.
    assert waves.variances.sum() / np.prod(shape) == pytest.approx(1)
    assert np.all(waves.variances <= waves.variances[0])


def precision_with_phase(kind):
    """Return Q with an unknown phase on 8 × 8, and its parts as NumPy arrays."""
    rng = np.random.default_rng(1)
    shape, n = (8, 8), 2
    mask = (rng.random((n, *shape)) < 0.5).astype(float)
    edges = Edges(shape, 2 * n)
    x = rng.standard_normal((2 * n, 64))
    factor = np.array([[2.0], [3.0], [2.0], [3.0]])
    floor = np.full(2 * n, 0.1)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        mask, x, factor, floor = (torch.asarray(a) for a in (mask, x, factor, floor))
    encoding = make_encoding(mask, None, real=False)
    prior = EdgeLearner(edges, 0.7, 0.1, n_parts=2).learn(x, x[None][:0], floor)
    block = PhaseField(Cosines(shape, centered=True), np.ones(n, bool), x).block(x)
    whole = ImagePrecision(encoding, edges, prior, factor, 0.5, phase=block)
    return whole, ImagePrecision(encoding, edges, prior, factor, 0.5), block, x


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_system_of_image_and_phase_is_the_dense_one(kind):
    whole, images, block, x = precision_with_phase(kind)
    pixels, count = 4 * 64, block.count
    like = np.asarray(x)

    def dense(matrix, size):
        rows = np.eye(size)
        if kind == "torch":
            import torch

            rows = torch.asarray(rows)
        return np.asarray(matrix.bulk(rows))

    # B: an image and a turn to the image that is seen. The prior of c is one.
    lift = np.zeros((pixels, pixels + count))
    lift[:, :pixels] = np.eye(pixels)
    waves = Cosines((8, 8), centered=True)
    size = 0.2 * np.sqrt(waves.variances)
    for c in range(2):
        for k in range(waves.count):
            one = np.zeros((1, waves.count))
            one[0, k] = size[k]
            rows = slice((2 + c) * 64, (3 + c) * 64)
            lift[rows, pixels + c * waves.count + k] = like[c] * waves.forward(one)[0]
    seen = dense(images, pixels)
    zero = ImagePrecision(images.encoding, images.edges, images.prior, 0 * images.factor, 0.5)
    prior = dense(zero, pixels)
    expected = lift.T @ (seen - prior) @ lift
    expected[:pixels, :pixels] += prior
    expected[pixels:, pixels:] += np.eye(count)
    np.testing.assert_allclose(dense(whole, pixels + count), expected, atol=1e-9)
    if kind == "numpy":  # 40,000 draws from N(0, Q), entries within 6 standard errors
        draws = whole.pushes(Random(0), 40_000, like)
        deviations = np.sqrt(np.diag(expected))
        error = (draws.T @ draws / 40_000 - expected) / np.outer(deviations, deviations)
        assert np.abs(error).max() < 6 * np.sqrt(2 / 40_000)


def test_a_turn_is_linear_to_first_order():
    whole, _, block, x = precision_with_phase("numpy")
    c = 1e-5 * np.random.default_rng(2).standard_normal((1, block.count))
    row = np.concatenate([held_small(x[None], np.ones(2, bool))[0].reshape(1, -1), c], axis=1)
    seen = whole.turned(row)
    back = turned_back(seen, np.exp(1j * block.angle(c)[0]))
    still = turned_back(seen, np.ones((2, 64), complex))
    wanted = held_small(x[None], np.ones(2, bool))
    # Of the turn only its product with the small imaginary part is left.
    assert np.abs(back - wanted).max() < 0.1 * np.abs(still - wanted).max()


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")  # a few iterations are enough here
def test_what_moved_before_the_phase_was_turned_away_does_not_end_the_fit(monkeypatch):
    """The images start anew then: a stop rule that compares them with those before ends at once."""
    seen = []

    class Recorded(Window):
        def __init__(self):
            super().__init__()
            seen.append(0)

        def settled(self, mean, change, tol):
            seen[-1] += 1
            return super().settled(mean, change, tol)

    monkeypatch.setattr("cofem.mri.image.rule.Window", Recorded)
    truth = mri.phantom((32, 32), complex_phase=True)
    mask = mri.power_rule_mask(truth.shape, factor=2, power=4, seed=1)
    options = mri.ImageOptions(folds=0, max_iter=FREE_ITERATIONS + Window.LENGTH)
    mri.reconstruct(mri.to_kspace(truth) * mask, mask, phase="smooth", options=options)
    assert seen[0] == FREE_ITERATIONS
    assert len(seen) == 2
    assert seen[1] >= Window.LENGTH


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_complex_images_have_the_quality_of_their_real_twins(seed):
    truth = mri.phantom((64, 64), complex_phase=True, seed=seed)
    magnitude = mri.phantom((64, 64), seed=seed)
    mask = mri.power_rule_mask(truth.shape, factor=2.5, power=4, seed=1 + seed)
    found = mri.reconstruct(mri.to_kspace(truth) * mask, mask)
    twin = mri.reconstruct(mri.to_kspace(magnitude) * mask, mask, real=True)
    assert mri.nrmse(found.image, truth) < 1.15 * mri.nrmse(twin.image, magnitude)
    draws = found.sample(8, seed=1) - found.image
    ratio = np.sqrt(np.mean(np.abs(draws) ** 2, axis=0)) / found.std
    assert 0.8 < np.median(ratio) < 1.15


def test_the_order_of_the_picture_does_not_matter():
    truth = mri.phantom((64, 64), complex_phase=True)
    mask = np.fft.ifftshift(
        mri.power_rule_mask(truth.shape, factor=2.5, power=4, seed=1), axes=(1, 2)
    )
    kspace = mri.to_kspace(truth, centered=False) * mask
    found = mri.reconstruct(kspace, mask, centered=False)
    assert mri.nrmse(found.image, truth) < 0.025


def test_tensors_find_the_phase_too():
    torch = pytest.importorskip("torch")
    truth = mri.phantom((32, 32), n_contrasts=1, complex_phase=True)
    mask = mri.power_rule_mask(truth.shape, factor=2, power=4, seed=1)
    kspace = mri.to_kspace(truth) * mask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        expected = mri.nrmse(mri.reconstruct(kspace, mask, max_iter=9, n_samples=2).image, truth)
        found = mri.reconstruct(torch.asarray(kspace), mask, max_iter=9, n_samples=2)
    assert mri.nrmse(found.image.numpy(), truth) == pytest.approx(expected, rel=0.1)


def test_the_gradient_models_image_is_an_average_along_the_way():
    truth = mri.phantom((32, 32))
    mask = mri.power_rule_mask(truth.shape, factor=2, power=3, seed=0)
    kspace = mri.to_kspace(truth) * mask
    options = {"model": "gradient", "real": True, "n_samples": 2, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        runs = [mri.reconstruct(kspace, mask, max_iter=n, **options).image for n in (3, 4)]
        # To the last bit: a CG step more or less would show.
        shifted = np.fft.ifftshift(kspace, axes=(1, 2))
        brightest = np.abs(scipy.fft.ifftn(shifted, axes=(1, 2), norm="ortho")).max()
        plain = cofem.CoFEM(
            n_probes=4, probe_rtol=0.1, scaled_probes=False, shrinkage=False,
            initial_precision=1000 / brightest**2, report_probes=0,
        )  # fmt: skip
        last = [
            mri.reconstruct(kspace, mask, max_iter=n, **options | {"options": plain}).image
            for n in (3, 4)
        ]
    # The fusion is affine, so averages of gradients give averages of images.
    for n in range(2):
        np.testing.assert_allclose(runs[n], np.mean(last[: n + 1], axis=0), atol=1e-6)


def test_an_average_that_stands_still_has_converged():
    truth = mri.phantom((32, 32))
    mask = mri.power_rule_mask(truth.shape, factor=2, power=3, seed=0)
    found = mri.reconstruct(
        mri.to_kspace(truth) * mask, mask, model="gradient", real=True, n_samples=2, tol=0.05
    )
    assert found.converged
    assert found.history["change"][-1] <= 0.05
