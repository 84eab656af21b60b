"""Reconstruction along trajectories: against dense matrices, and beside gridding."""

import numpy as np
import pytest

from cofem import mri
from cofem.backend import Random
from cofem.mri.image.fit import Draws
from cofem.mri.image.held_out import Evidence
from cofem.mri.image.intervals import Spread
from cofem.mri.scanner.trajectory import checked_trajectory
from cofem.operators import NUFFT

pytest.importorskip("finufft")


def radial(spokes, n):
    angles = np.arange(spokes) * np.pi * (5**0.5 - 1) / 2
    along = np.linspace(-0.5, 0.5, n, endpoint=False) * n
    return np.stack([np.outer(np.sin(angles), along), np.outer(np.cos(angles), along)], axis=-1)


def small(coils):
    rng = np.random.default_rng(0)
    k = radial(5, 8)
    maps = rng.standard_normal((2, 6, 8)) + 1j * rng.standard_normal((2, 6, 8)) if coils else None
    shape = (2, 2, 5, 8) if coils else (2, 5, 8)
    y = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    k[..., 0] *= 6 / 8  # six rows
    return checked_trajectory(y, k, (6, 8), maps, np.empty(0))


@pytest.mark.parametrize("coils", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_the_encoding_is_the_dense_one(coils, real):
    data = small(coils)
    encoding = data.encoding(real)
    parts = 1 if real else 2
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 2 * parts, 48))
    seen = data.predicted(encoding.assembled(x))
    one = np.ones((2 * parts, 1))
    back = np.stack([encoding.adjoint(s) for s in seen])
    np.testing.assert_allclose(encoding.gram(x, one), back, atol=1e-6)
    # ⟨x, ΦᴴΦx⟩ = ‖Φx‖², and the mean of the diagonal is its trace over the pixels.
    assert np.sum(x * back) == pytest.approx(np.sum(np.abs(seen) ** 2), rel=1e-8)
    eye = np.eye(2 * parts * 48).reshape(-1, 2 * parts, 48)
    dense = encoding.gram(eye, one).reshape(2 * parts * 48, -1)
    np.testing.assert_allclose(np.diag(dense), encoding.diagonal().ravel(), atol=1e-6)
    draws = encoding.draw(Random(0), 20_000, 1.0 * one).reshape(20_000, -1)
    scale = np.sqrt(np.outer(np.diag(dense), np.diag(dense)))
    error = (draws.T @ draws / 20_000 - dense) / scale  # within 6 standard errors
    assert np.abs(error).max() < 6 * np.sqrt(2 / 20_000)


def test_left_out_readouts_are_not_seen():
    data = small(False)
    left_out = data.groups() == 2
    kept = data.without(left_out)
    assert not kept.kspace[left_out].any()
    changed = data.kspace + 100 * left_out
    np.testing.assert_allclose(
        kept.encoding(True).adjoint(kept.kspace), kept.encoding(True).adjoint(changed), atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_a_golden_angle_phantom(tmp_path):
    n = 48
    truth = mri.phantom((n, n))
    k = radial(20, n)
    y = NUFFT((n, n), k).forward(truth.reshape(3, -1)).reshape(3, 20, n)
    options = mri.ImageOptions(max_iter=15, folds=0)
    found = mri.reconstruct(y, trajectory=k, shape=(n, n), real=True, options=options)
    gridded = checked_trajectory(y, k, (n, n), None, np.empty(0)).first_image().real
    assert mri.nrmse(found.image, truth) < 0.3 * mri.nrmse(gridded.reshape(truth.shape), truth)
    assert found.std.shape == truth.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": None}, "shape: the images' shape is needed"),
        ({"shape": (8, 8, 8)}, "has 3 axes, and the trajectory 2"),
        ({"kspace": np.ones((1, 7))}, "the samples of the trajectory"),
        ({"mask": np.ones((8, 8), bool)}, "without a mask"),
        ({"kspace": np.full((1, 5, 8), np.nan)}, "NaN"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"kspace": np.ones((1, 5, 8)), "trajectory": radial(5, 8), "shape": (8, 8)}
    arguments |= change
    with pytest.raises(ValueError, match=message):
        mri.reconstruct(arguments.pop("kspace"), **arguments)


def test_intervals_of_a_radial_scan_cover():
    truth, spokes = mri.phantom((48, 48)), 16
    angles = np.arange(spokes) * np.pi * (5**0.5 - 1) / 2
    along = np.arange(48) - 24.0
    k = np.stack([np.outer(np.sin(angles), along), np.outer(np.cos(angles), along)], axis=-1)
    rng = np.random.default_rng(3)
    y = NUFFT((48, 48), k).forward(truth.reshape(3, -1))
    y = y + 0.02 * (rng.standard_normal(y.shape) + 1j * rng.standard_normal(y.shape)) / 2**0.5
    found = mri.reconstruct(y.reshape(3, spokes, 48), trajectory=k, shape=(48, 48), real=True)
    inside = np.any(truth > 0, axis=0)
    error = (found.image - truth)[:, inside]
    assert 0.9 < np.mean(np.abs(error) < 1.96 * found.std[:, inside]) < 0.999
    assert 0.4 < np.sqrt(np.mean(error**2) / np.mean(found.std[:, inside] ** 2)) < 1.2


def test_half_of_what_left_out_readouts_show_is_carried_over():
    """They are twice as far from others as what lies between: errors of 3 std there are √3 here."""
    n = 24
    k = np.stack([np.zeros((4, n)), np.arange(n) - n / 2 + np.zeros((4, 1))], axis=-1)
    data = checked_trajectory(np.ones((1, 4, n)), k, (n, n), None, np.empty(0))
    evidence = Evidence.empty(1)
    evidence.count[:], evidence.predicted[:], evidence.left[:] = 2000, 2000, 9 * 2000
    image, noise = np.ones((1, n * n)), np.random.default_rng(0).standard_normal((4, 1, n * n))
    plain = Draws(noise, noise)
    evidence.groups[:] = 1e9
    evidence.moved.append(image + 1)
    spread = Spread.learned(data, image, plain, evidence, np.zeros((1, n * n)))
    np.testing.assert_allclose(spread.filters, 3**0.5, rtol=0.05)
