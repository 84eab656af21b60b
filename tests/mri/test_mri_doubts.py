"""Mistakes are said with their likely cause, and right input is not doubted."""

import warnings

import numpy as np
import pytest

from cofem import mri
from cofem.mri.scanner.checks import checked_data

SIDE = 48


def scan():
    """Three contrasts, their k-space, a mask of points and one of lines."""
    truth = mri.phantom((SIDE, SIDE))
    lines = np.zeros((SIDE, SIDE), dtype=bool)
    lines[:, ::3] = lines[:, SIDE // 2 - 5 : SIDE // 2 + 5] = True
    return truth, mri.to_kspace(truth), lines


def maps_of(number=5):
    rows, columns = np.indices((SIDE, SIDE)) / SIDE - 0.5
    angles = 2 * np.pi * np.arange(number) / number + 0.3
    near = [np.exp(-2 * ((rows - np.sin(a)) ** 2 + (columns - np.cos(a)) ** 2) + 1j * a * rows)
            for a in angles]  # fmt: skip
    return np.stack(near)


def checked(kspace, mask=None, maps=None, real=False, centered=True):
    return checked_data(kspace, mask, maps, real=real, centered=centered)


def test_right_input_is_not_doubted():
    truth, kspace, lines = scan()
    maps = maps_of()
    coils = mri.to_kspace(truth[:, None] * maps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(kspace * lines, lines, real=True)
        checked(np.fft.fft2(truth), centered=False)
        checked(coils * lines, lines, maps)
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((2, *coils.shape))
        checked(coils + 0.3 * (noise[0] + 1j * noise[1]), None, maps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: np.fft.ifftshift(y, (1, 2)), "in its corners.*centered=False"),
        (lambda y: np.fft.fftshift(np.fft.fft2(mri.to_image(y)), (1, 2)), "lie across their bord"),
        (np.abs, "not negative, as of an image or of magnitudes"),
        (lambda y: mri.to_image(y).real - 0.1, "are real, as of an image"),
    ],
)
def test_kspace_of_another_kind_is_doubted(change, message):
    _, kspace, _ = scan()
    with pytest.warns(UserWarning, match=message):
        checked(change(kspace))


def test_an_object_at_the_border_of_one_axis_is_not_doubted():
    truth, _, _ = scan()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(mri.to_kspace(np.roll(truth, SIDE // 2, axis=1)))


@pytest.mark.parametrize(
    "change",
    [
        lambda maps: maps.swapaxes(1, 2),
        lambda maps: maps[:, ::-1],
        lambda maps: np.fft.ifftshift(maps, (1, 2)),
        lambda maps: maps[[1, 2, 3, 4, 0]],
        np.conj,
        np.ones_like,
    ],
)
def test_maps_that_do_not_fit_are_doubted(change):
    truth, _, lines = scan()
    kspace = mri.to_kspace(truth[:, None] * maps_of()) * lines
    with pytest.warns(UserWarning, match="fits no image seen through these maps"):
        checked(kspace, lines, change(maps_of()))


def test_what_cannot_be_meant_is_refused():
    truth, kspace, lines = scan()
    with pytest.raises(ValueError, match="zero everywhere"):
        checked(mri.to_kspace(truth[:, None] * maps_of()), None, 0 * maps_of())
    with pytest.raises(ValueError, match="not measured, give a mask"):
        checked(np.where(lines, kspace, np.nan))
    assert np.isfinite(checked(np.where(lines, kspace, np.nan), lines).kspace).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"max_iter": 2.5}, (TypeError, ValueError), "max_iter must be"),
        ({"n_samples": 2.5}, (TypeError, ValueError), "n_samples must be"),
        ({"n_samples": 1}, ValueError, "n_samples must be"),
        ({"real": "yes"}, TypeError, "real must be True or False"),
        ({"centered": 1}, TypeError, "centered must be True or False"),
        ({"noise_std": "a"}, TypeError, "noise_std must be a number"),
        ({"tol": float("nan")}, ValueError, "tol must be"),
    ],
)
def test_arguments_are_refused_by_name(change, error, words):
    _, kspace, lines = scan()
    with pytest.raises(error, match=words):
        mri.reconstruct(kspace * lines, lines, **change)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_numbers_whose_powers_are_none(scale):
    _, kspace, lines = scan()
    with pytest.raises(ValueError, match="in other units"):
        checked(kspace * scale, lines)


@pytest.mark.parametrize("scale", [1e-50, 1e50])
def test_units_are_the_users(scale):
    _, kspace, lines = scan()
    options = mri.ImageOptions(folds=0)
    one, other = (
        mri.reconstruct(
            kspace * s, np.broadcast_to(lines, kspace.shape), real=True, options=options
        )
        for s in (1.0, scale)
    )
    assert np.allclose(other.image / scale, one.image, rtol=1e-3, atol=1e-3)
    assert np.allclose(other.std / scale, one.std, rtol=0.05, atol=1e-3)


def test_an_image_of_one_pixel():
    with pytest.raises(ValueError, match="one pixel"):
        checked(np.ones((3, 1, 1)) * 1j)
