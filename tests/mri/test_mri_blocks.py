"""Mixed phases, larger pixels, dark pixels, few coils: each against a plain oracle."""

import numpy as np
import pytest

from cofem import mri
from cofem.mri.image.edge_prior import EdgeLearner
from cofem.mri.image.edges import Edges
from cofem.mri.image.intervals import dark_pixels, shared_out
from cofem.mri.image.phase_field import Cosines, PhaseField
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.scanner.checks import checked_data
from cofem.mri.scanner.coil_encoding import make_encoding
from cofem.mri.scanner.coils import coils_enough, compress_coils
from cofem.mri.scanner.measured import KSpace


def test_mixed_unknowns_are_the_same_system():
    rng = np.random.default_rng(1)
    shape, n = (16, 16), 2
    mask = (rng.random((n, *shape)) < 0.6).astype(float)
    edges, x = Edges(shape, 2 * n), rng.standard_normal((2 * n, 256))
    factor = np.array([[200.0], [300.0], [200.0], [300.0]])
    prior = EdgeLearner(edges, 0.7, 0.1, n_parts=2).learn(x, x[None][:0], np.full(4, 0.1))
    field = PhaseField(Cosines(shape, centered=True), np.ones(n, bool), x)
    encoding = make_encoding(mask, None, real=False)
    plain, mixed = (
        ImagePrecision(encoding, edges, prior, factor, phase=field.block(x, known))
        for known in (None, factor[:n, 0])
    )
    count = plain.phase.count
    pixels = 4 * 256
    change = np.eye(pixels + count)
    half = count // 2
    for c in range(n):
        where = slice(pixels + c * half, pixels + (c + 1) * half)
        change[where, where] = mixed.phase.mix[c]
    rows = np.eye(pixels + count)
    expected = change.T @ plain.bulk(rows) @ change
    np.testing.assert_allclose(mixed.bulk(rows), expected, atol=1e-8 * np.abs(expected).max())
    # Every unknown of the phase is now known about equally well: the point of mixing.
    before = np.linalg.cond(plain.bulk(rows)[pixels:, pixels:])
    after = np.linalg.cond(mixed.bulk(rows)[pixels:, pixels:])
    assert after < 0.2 * before


def test_cosines_know_their_gram_matrix():
    waves = Cosines((12, 16), centered=True)
    weights = np.random.default_rng(0).random(12 * 16)
    c = waves.forward(np.eye(waves.count))
    np.testing.assert_allclose(waves.gram(weights), (c * weights) @ c.T, atol=1e-12)


@pytest.mark.parametrize("coils", [False, True])
def test_larger_pixels_show_the_same_object(coils):
    truth = mri.phantom((128, 130), n_contrasts=1)
    maps = None
    if coils:
        ramp = np.linspace(0.5, 1.5, 128)[:, None] * np.ones(130)
        maps = np.stack([ramp, ramp[::-1]]).astype(complex)
    images = truth if maps is None else truth[:, None] * maps
    mask = np.ones((1, 128, 130), bool)
    mask[:, 3] = False
    y = mri.to_kspace(images, n_axes=2)
    y = y * (mask if maps is None else mask[:, None])
    data = checked_data(y, mask, maps, real=False, centered=True)
    small = data.coarser()
    assert isinstance(small, KSpace)
    assert small.shape == (63, 65)  # frequencies below a quarter of a sample, on both sides
    kept = [np.flatnonzero(np.abs(np.fft.fftfreq(n)) < 0.25) for n in (128, 130)]
    np.testing.assert_array_equal(small.kspace, data.kspace[(..., *np.ix_(*kept))])
    if coils:  # the maps stay maps: smooth, of the same size
        assert np.abs(small.sensitivities).max() == pytest.approx(1.5, rel=0.15)
    assert checked_data(y[..., :90, :90], None, None if maps is None else maps[..., :90, :90],
                        real=False, centered=True).coarser().shape == (90, 90)  # fmt: skip


def test_the_background_has_the_variance_of_how_it_moved():
    truth = mri.phantom((64, 64), n_contrasts=2)
    mask = np.ones((2, 64, 64), bool)
    mask[:, :, 5] = False
    data = checked_data(mri.to_kspace(truth) * mask, mask, None, real=True, centered=True)
    image = np.fft.ifftshift(truth, (1, 2)).reshape(2, -1)
    dark = dark_pixels(image, data)
    assert not dark[image[0] > 0.1].any()
    assert dark.mean() > 0.2
    moved = np.where(dark, 0.01, 1.0) * np.ones((2, 1))
    both = shared_out(np.full(image.shape, 4.0), moved, dark, data)
    np.testing.assert_allclose(both.mean(axis=1), 4.0, rtol=0.01)  # the total is kept
    ratio = both[:, dark].mean(axis=1) / both[:, ~dark].mean(axis=1)
    np.testing.assert_allclose(ratio, 0.01, rtol=0.05)


def test_coils_of_noise_alone_are_left_out_and_weak_ones_kept():
    rng = np.random.default_rng(2)
    signal = np.zeros((1, 12, 40000), complex)
    signal[0, :4] = 10 * rng.standard_normal((4, 40000))
    signal[0, 4] = 0.5 * rng.standard_normal(40000)  # a quarter of the noise's power: kept
    noise = rng.standard_normal((1, 12, 40000)) + 1j * rng.standard_normal((1, 12, 40000))
    turned = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    mixed_up = np.einsum("cd,ldn->lcn", turned, signal + noise / 2**0.5)
    assert coils_enough(mixed_up) == 5
    assert coils_enough(mixed_up[:, :8]) == 8  # so few are all kept
    few, _ = compress_coils(mixed_up[:, :, None], 5)
    lost = np.sum(np.abs(mixed_up) ** 2) - np.sum(np.abs(few) ** 2)
    assert lost == pytest.approx(7 * 40000, rel=0.05)  # the noise of seven, no signal
