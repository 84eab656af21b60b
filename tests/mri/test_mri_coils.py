"""Coils: their maps, one set or two, their noise, fewer of them."""

import numpy as np
import pytest

from cofem import mri
from cofem.mri.image.fit import fit_image
from cofem.mri.image.hidden import Hidden
from cofem.mri.scanner.checks import checked_data
from cofem.mri.scanner.coils import whitening
from cofem.mri.scanner.sensitivities import calibration_sides

LOOSE = mri.ImageOptions(max_iter=15, folds=0, tol=1e-2)


def complex_noise(shape, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / 2**0.5


def ring(rows, columns, number):
    """Maps of coils on a ring, their squares summing to one."""
    maps = []
    for angle in 2 * np.pi * np.arange(number) / number:
        y, x = rows - 0.5 - 0.75 * np.sin(angle), columns - 0.5 - 0.75 * np.cos(angle)
        turn = x * np.cos(angle) - y + angle
        maps.append(np.exp(-2 * (y**2 + x**2) + 2j * turn))
    maps = np.stack(maps)
    return maps / np.linalg.norm(maps, axis=0)


def misfit(found, true, where):
    """The part of the true maps that the found ones cannot show, root mean square."""
    share = np.abs(np.sum(found.conj() * true, axis=0))[where] ** 2
    return np.sqrt(np.mean(np.maximum(1 - share, 0)))


def equispaced(n, factor, block):
    lines = np.zeros(n, dtype=bool)
    lines[::factor] = True
    lines[n // 2 - block // 2 : n // 2 - block // 2 + block] = True
    return np.broadcast_to(lines, (n, n))


@pytest.mark.parametrize("n_contrasts", [1, 3])
def test_maps_are_the_true_ones_up_to_noise(n_contrasts):
    rows, columns = np.indices((64, 64)) / 64
    true = ring(rows, columns, 6)
    truth = mri.phantom((64, 64), n_contrasts=n_contrasts)
    mask = equispaced(64, 4, 20)
    clean = mri.to_kspace(truth[:, None] * true) * mask
    bright = truth[0] > 0.2
    assert misfit(mri.coil_sensitivities(clean), true, bright) < 0.01
    noisy = clean + 0.02 * mask * complex_noise(clean.shape, 0)
    assert misfit(mri.coil_sensitivities(noisy), true, bright) < 0.03


@pytest.mark.parametrize("given", [True, False])
def test_a_noisy_coil_does_not_spoil_the_maps(given):
    rows, columns = np.indices((64, 64)) / 64
    true = ring(rows, columns, 6)
    image = mri.phantom((64, 64), n_contrasts=1)
    sizes = 0.005 * np.array([1, 1, 30, 1, 1, 1.0])
    kspace = mri.to_kspace(image * true) + sizes[:, None, None] * complex_noise((6, 64, 64), 0)
    covariance = np.diag(sizes**2)
    maps = mri.coil_sensitivities(kspace, coil_covariance=covariance if given else None)
    plain = mri.coil_sensitivities(kspace, coil_covariance=np.eye(6))
    bright = image[0] > 0.2
    np.testing.assert_allclose(np.linalg.norm(maps, axis=0)[bright], 1, atol=1e-6)
    assert misfit(maps, true, bright) < 0.6 * misfit(plain, true, bright)


def test_a_narrow_block_gives_better_maps_than_sigpys():
    """Nine lines, as equispaced sampling with R = 7 has: kernels narrow along them."""
    app = pytest.importorskip("sigpy.mri.app")
    rows, columns = np.indices((96, 96)) / 96
    true = ring(rows, columns, 6)
    truth = mri.phantom((96, 96), n_contrasts=1)
    mask = equispaced(96, 7, 9)
    kspace = mask * (mri.to_kspace(truth[:, None] * true) + 0.01 * complex_noise((1, 6, 96, 96), 0))
    bright = truth[0] > 0.2
    theirs = app.EspiritCalib(
        kspace[0].astype(np.complex64), calib_width=9, crop=0, show_pbar=False
    ).run()
    ours = misfit(mri.coil_sensitivities(kspace), true, bright)
    assert ours < 0.5 * misfit(theirs, true, bright)


def test_one_set_is_sigpys_where_the_block_is_wide():
    app = pytest.importorskip("sigpy.mri.app")
    rows, columns = np.indices((48, 48)) / 48
    image = mri.phantom((48, 48), n_contrasts=1)[0]
    kspace = mri.to_kspace(image * ring(rows, columns, 4))
    theirs = app.EspiritCalib(kspace, calib_width=24, crop=0, max_iter=300, show_pbar=False).run()
    ours = mri.coil_sensitivities(kspace, 24, crop=0)
    assert misfit(ours, theirs, image > 0.2) < 1e-3


def folded(n, wide, n_coils):
    """An object wider than the field of view: what lies where, its maps, and its k-space."""
    rows, columns = np.indices((n, wide))
    inside = ((rows / n - 0.5) / 0.43) ** 2 + ((columns / wide - 0.5) / 0.48) ** 2 < 1
    big = inside * (1 + 0.5 * (np.sin(rows / 5) * np.cos(columns / 7) > 0.2))
    maps, first = ring(rows / n, columns / wide, n_coils), (wide - n) // 2
    images, seen = np.zeros((2, n, n)), np.zeros((2, n_coils, n, n), dtype=complex)
    for column in range(n):
        own = column + first
        for index, place in enumerate(c for c in (own, own + n, own - n) if 0 <= c < wide):
            images[index, :, column] = big[:, place]
            seen[index, :, :, column] = maps[:, :, place]
    coils = np.sum(seen * images[:, None], axis=0)
    return coils, seen, images


def test_two_sets_show_an_object_wider_than_the_field_of_view():
    """One set cannot: where the ends lie over the object, two sensitivities are needed.

    What is known of the truth, whatever sets are used, are the images of the coils.
    """
    coils, true, images = folded(48, 66, 6)
    mask = equispaced(48, 2, 20)
    kspace = mask * (mri.to_kspace(coils) + 0.01 * complex_noise(coils.shape, 0))
    errors = {}
    for sets in (1, 2):
        maps = mri.coil_sensitivities(kspace, sets=sets)
        found = mri.reconstruct(kspace[None], mask, sensitivities=maps, options=LOOSE)
        shown = found.image[0] * (maps if sets == 1 else 1)
        if sets == 2:
            assert found.image.shape == found.std.shape == (1, 2, 48, 48)
            assert found.precision.shape == (48, 48)
            assert found.sample(3).shape == (3, 1, 2, 48, 48)
            shown = np.sum(maps[0] * found.image[0][:, None], axis=0)
        errors[sets] = np.linalg.norm(shown - coils) / np.linalg.norm(coils)
    given = mri.reconstruct(kspace[None], mask, sensitivities=true[None], options=LOOSE)
    shown = np.sum(true * given.image[0][:, None], axis=0)
    errors["true"] = np.linalg.norm(shown - coils) / np.linalg.norm(coils)
    assert errors[1] > 0.08
    assert errors[2] < 0.03
    assert errors[2] < 2 * errors["true"]
    # With the true maps the images are those of the object, ends and all.
    np.testing.assert_allclose(np.abs(given.image[0]), images, atol=0.25)


def test_what_several_sets_cannot_do_is_said():
    kspace = complex_noise((1, 3, 16, 16), 0)
    maps = np.ones((1, 2, 3, 16, 16), dtype=complex)
    kspace *= 1 + 9 * (np.hypot(*np.meshgrid(range(-8, 8), range(-8, 8))) < 1)
    kspace[:] = kspace[:, :1]  # what equal coils see
    with pytest.raises(ValueError, match="one set of sensitivities"):
        mri.reconstruct(kspace, sensitivities=maps, phase="smooth")
    with pytest.raises(ValueError, match="one set"):
        mri.joint_total_variation(kspace, None, weight=0.1, sensitivities=maps)
    with pytest.raises(ValueError, match="contrast 0 is zero"):
        mri.coil_sensitivities(0 * kspace)
    with pytest.raises(ValueError, match="sets must be from 1 to 3"):
        mri.coil_sensitivities(kspace, sets=4)
    with pytest.raises(ValueError, match=r"\(1, sets, 3, 16, 16\)"):
        mri.reconstruct(kspace, sensitivities=np.ones((2, 2, 3, 16, 16)))


def test_the_block_is_as_wide_as_it_was_measured():
    assert calibration_sides(np.ones((64, 64), dtype=bool)) == (24, 24)
    assert calibration_sides(np.asarray(equispaced(64, 4, 10))) == (48, 10)
    assert calibration_sides(np.asarray(equispaced(64, 4, 9)).T) == (9, 48)
    assert calibration_sides(np.ones((16, 16, 16), dtype=bool)) == (16, 16, 16)


def test_maps_of_a_volume():
    planes, rows, columns = np.indices((16, 16, 16)) / 8 - 1
    ball = (planes**2 + rows**2 + columns**2 < 0.7).astype(float)
    true = np.stack([np.exp(-((planes - a) ** 2) - (rows + a) ** 2 + 1j * a * columns)
                     for a in (-0.7, 0.7)])  # fmt: skip
    true /= np.linalg.norm(true, axis=0)
    found = mri.coil_sensitivities(mri.to_kspace(ball * true, n_axes=3), calibration=12)
    assert found.shape == true.shape
    there = planes**2 + rows**2 + columns**2 < 0.5
    product = np.abs(np.sum(np.conj(found) * true, axis=0))[there]  # one for equal maps
    assert np.median(product) > 0.99
    assert np.quantile(product, 0.1) > 0.99


def test_whitening_makes_noise_white():
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    covariance = mix @ mix.conj().T
    matrix = whitening(covariance, 3)
    level = np.trace(covariance).real / 3
    np.testing.assert_allclose(matrix @ covariance @ matrix.conj().T, level * np.eye(3), atol=1e-9)
    with pytest.raises(ValueError, match="Hermitian"):
        whitening(mix, 3)
    with pytest.raises(ValueError, match="expected \\(2, 2\\)"):
        whitening(covariance, 2)


def test_compressed_coils_carry_the_signal():
    rng = np.random.default_rng(0)
    few = rng.standard_normal((1, 2, 8, 8)) + 0j
    mix = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    many = np.einsum("cd,ldhw->lchw", mix, few)
    kept, maps = mri.compress_coils(many, 2, np.ones((6, 8, 8)))
    assert kept.shape == (1, 2, 8, 8)
    assert maps.shape == (2, 8, 8)
    assert np.sum(np.abs(kept) ** 2) == pytest.approx(np.sum(np.abs(many) ** 2))
    with pytest.raises(ValueError, match="from 1 to 6"):
        mri.compress_coils(many, 7)


def test_maps_without_a_calibration_block_are_doubted():
    kspace = complex_noise((3, 32, 32), 0)
    kspace[:, :, 1::2] = 0
    with pytest.warns(UserWarning, match="fully sampled middle"):
        mri.coil_sensitivities(kspace)


def test_what_coils_do_not_see_says_nothing_of_faint_things():
    """Most pixels are outside the maps: nothing is put back there, and nothing is in doubt."""
    rows, columns = np.indices((48, 48)) / 48
    near = np.hypot(rows - 0.5, columns - 0.5) < 0.25  # a fifth of the pixels
    maps = ring(rows, columns, 4) * near
    truth = mri.phantom((48, 48), n_contrasts=1) * near
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    noise = 0.02 * complex_noise((1, 4, 48, 48), 0)
    kspace = (mri.to_kspace(truth[:, None] * maps) + noise) * mask[:, None]
    data = checked_data(kspace, mask, maps, real=False, centered=True)
    options = mri.ImageOptions(max_iter=12)
    fit = fit_image(data, False, None, np.zeros(1, dtype=bool), options, 0)
    there = data.visible()
    assert there.mean() == pytest.approx(near.mean())
    put_back, variance = Hidden(fit, there[0], there, seed=0).put_back()
    np.testing.assert_allclose(put_back[~there], 0, atol=1e-12)
    np.testing.assert_allclose(variance[~there], 0, atol=1e-12)
    # Little of the noise (0.02 a pixel if all were measured) is taken for something.
    assert np.sqrt(np.mean(np.abs(put_back[there]) ** 2)) < 0.01


def test_a_loud_coil_in_the_middle_is_no_plane_of_a_volume():
    images = mri.phantom((32, 32), n_contrasts=1) * np.array([0.2, 1, 0.2])[:, None, None]
    kspace = mri.to_kspace(images)[None]
    assert mri.coil_sensitivities(kspace, n_axes=2).shape == (3, 32, 32)
    for wrong in (4, 1):
        with pytest.raises(ValueError, match="n_axes must be 2 or 3"):
            mri.coil_sensitivities(kspace, n_axes=wrong)
    with pytest.raises(ValueError, match=r"expected \(coils, H, W\)"):
        mri.coil_sensitivities(kspace[0], n_axes=3)
