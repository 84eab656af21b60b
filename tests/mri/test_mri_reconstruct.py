"""``cofem.mri.reconstruct`` on phantoms: quality, units, error bars, and bad input."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

import cofem
from cofem import mri


@pytest.fixture(scope="module")
def head():
    """A phantom of 64 × 64, its masks and its k-space."""
    truth = mri.phantom((64, 64))
    mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
    return truth, mask, mri.to_kspace(truth) * mask


def noisy(kspace, mask, sigma, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(kspace.shape) + 1j * rng.standard_normal(kspace.shape)
    return kspace + mask * noise * sigma / 2**0.5


@pytest.fixture(scope="module")
def clean(head):
    _, mask, kspace = head
    return mri.reconstruct(kspace, mask, real=True)


def oracle_joint_tv(kspace, mask, truth, weights, **options):
    return min(
        mri.nrmse(mri.joint_total_variation(kspace, mask, weight=w, **options), truth)
        for w in weights
    )


def test_it_beats_joint_tv_with_its_best_weight(head, clean):
    truth, mask, kspace = head
    rival = oracle_joint_tv(kspace, mask, truth, (1e-4, 1e-3, 3e-3), real=True)
    assert mri.nrmse(clean.image, truth) < 0.95 * rival


@pytest.mark.parametrize("seed", [0, 1])
def test_it_beats_joint_tv_in_noise_and_learns_the_noise(head, seed):
    truth, mask, kspace = head
    y = noisy(kspace, mask, 0.03, seed)
    found = mri.reconstruct(y, mask, real=True)
    rival = oracle_joint_tv(y, mask, truth, (0.003, 0.006, 0.01, 0.015), real=True)
    assert mri.nrmse(found.image, truth) < 0.95 * rival
    # About 1,400 complex samples a contrast: 2 % of Monte-Carlo error; the rest is the
    # model's own, which is why the bounds are wide.
    np.testing.assert_allclose(found.noise_std, 0.03, rtol=0.2)
    inside = np.any(truth > 0, axis=0)
    covered = (np.abs(found.image - truth) < 1.96 * found.std)[:, inside].mean()
    assert 0.88 < covered < 0.99


def test_results_come_in_the_users_units_and_order(head, clean):
    _truth, mask, kspace = head
    units = np.array([1000.0, 0.01, 7.0])[:, None, None]
    scaled = mri.reconstruct(kspace * units, mask, real=True)
    # Single precision, many iterations, and a chosen stop: the same to a per mille or two.
    for got, wanted in zip(scaled.image / units, clean.image, strict=True):
        assert mri.nrmse(got, wanted) < 5e-3
    np.testing.assert_allclose(scaled.noise_std, clean.noise_std * units[:, 0, 0], rtol=0.05)
    ratio = scaled.std / units / clean.std
    assert 0.9 < np.median(ratio) < 1.1
    order = [2, 0, 1]
    shuffled = mri.reconstruct(kspace[order], mask[order], real=True)
    assert mri.nrmse(shuffled.image, clean.image[order]) < 0.01


def test_fft_order_is_the_same_problem(head, clean):
    truth, mask, _ = head
    sampled = np.fft.ifftshift(mask, axes=(1, 2))
    found = mri.reconstruct(
        mri.to_kspace(truth, centered=False) * sampled, sampled, real=True, centered=False
    )
    # The centred image is shifted by half its side, and the random numbers with it.
    assert mri.nrmse(found.image, truth) < 1.1 * mri.nrmse(clean.image, truth)


def test_the_same_seed_gives_the_same_answer(head, clean):
    _, mask, kspace = head
    again = mri.reconstruct(kspace, mask, real=True)
    np.testing.assert_array_equal(again.image, clean.image)
    np.testing.assert_array_equal(again.std, clean.std)
    np.testing.assert_array_equal(again.sample(2, seed=3), clean.sample(2, seed=3))
    other = mri.reconstruct(kspace, mask, real=True, seed=1)
    assert 0 < mri.nrmse(other.image, clean.image) < 0.02


def test_no_mask_means_where_kspace_is_not_zero(head, clean):
    found = mri.reconstruct(head[2], real=True)
    np.testing.assert_array_equal(found.image, clean.image)


def test_samples_spread_as_std_says(clean):
    draws = clean.sample(32, seed=5) - clean.image
    assert draws.shape == (32, 3, 64, 64)
    spread = np.sqrt(np.mean(draws**2, axis=0))
    # Medians over 12,288 pixels of two estimates from 32 and 8 draws.
    assert 0.85 < np.median(spread / clean.std) < 1.1
    with pytest.raises(ValueError, match="n must be at least 1"):
        clean.sample(0)


def test_precision_is_small_on_edges(head, clean):
    truth, _, _ = head
    g = sum(np.sum((truth - np.roll(truth, 1, axis)) ** 2, axis=0) for axis in (1, 2)).ravel()
    edge = g > np.quantile(g, 0.95)
    flat = g == 0
    precision = clean.precision.ravel()
    assert np.median(precision[edge]) < 0.01 * np.median(precision[flat])


def test_history_has_equally_long_lists(clean):
    lengths = {len(values) for values in clean.history.values()}
    assert lengths == {len(clean.history["iteration"])}
    assert clean.converged
    assert "iterations=" in repr(clean)


def test_given_noise_is_used(head):
    truth, mask, kspace = head
    y = noisy(kspace, mask, 0.03)
    found = mri.reconstruct(y, mask, real=True, noise_std=0.03)
    np.testing.assert_allclose(found.noise_std, 0.03, rtol=1e-6)
    assert mri.nrmse(found.image, truth) < 0.09
    wrong = mri.reconstruct(y, mask, real=True, noise_std=[0.3, 0.3, 0.3])
    assert mri.nrmse(wrong.image, truth) > 1.5 * mri.nrmse(found.image, truth)


def test_complex_images_come_near_their_real_twins(head, clean):
    truth, mask, kspace = head
    # A real image treated as complex: no phase, and the prior finds that out.
    found = mri.reconstruct(kspace, mask)
    assert np.iscomplexobj(found.image)
    assert mri.nrmse(found.image, truth) < 1.6 * mri.nrmse(clean.image, truth)


def test_a_smooth_phase_is_found():
    truth = mri.phantom((64, 64), complex_phase=True)
    mask = mri.power_rule_mask(truth.shape, factor=2.5, power=4, seed=1)
    y = mri.to_kspace(truth) * mask
    found = mri.reconstruct(y, mask)
    rival = oracle_joint_tv(y, mask, truth, (1e-4, 1e-3))
    assert mri.nrmse(found.image, truth) < 0.6 * rival


def test_coils_bring_more_than_one_coil(head):
    truth, mask, kspace = head
    y, x = np.meshgrid(np.linspace(-1, 1, 64), np.linspace(-1, 1, 64), indexing="ij")
    centres = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    coils = np.stack(
        [np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2 + 1j * (a * x + b * y)) for a, b in centres]
    )
    measured = mri.to_kspace(truth[:, None] * coils) * mask[:, None]
    measured = noisy(measured, mask[:, None], 0.01)
    many = mri.reconstruct(measured, mask, sensitivities=coils, real=True)
    one = mri.reconstruct(noisy(kspace, mask, 0.01), mask, real=True)
    assert mri.nrmse(many.image, truth) < 0.8 * mri.nrmse(one.image, truth)
    np.testing.assert_allclose(many.noise_std, 0.01, rtol=0.15)


def test_three_dimensions_go_by_the_same_code():
    flat = mri.phantom((24, 24), n_contrasts=2)
    depth = 1 + 0.2 * np.sin(np.arange(6) / 6 * 2 * np.pi)
    truth = flat[:, None] * depth[None, :, None, None]
    mask = mri.power_rule_mask((2, 24, 24), factor=2, power=3, seed=0)[:, None]
    mask = np.broadcast_to(mask, truth.shape)
    found = mri.reconstruct(mri.to_kspace(truth, n_axes=3) * mask, mask, real=True)
    zero = mri.to_image(mri.to_kspace(truth, n_axes=3) * mask, n_axes=3).real
    assert found.image.shape == truth.shape
    assert found.precision.shape == truth.shape[1:]
    assert mri.nrmse(found.image, truth) < 0.5 * mri.nrmse(zero, truth)


def test_the_papers_model_keeps_measured_kspace_exactly(head):
    truth, mask, kspace = head
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        found = mri.reconstruct(kspace, mask, model="gradient", real=True, max_iter=3, n_samples=2)
    np.testing.assert_allclose(mri.to_kspace(found.image)[mask], kspace[mask], atol=1e-10)
    assert mri.nrmse(found.image, truth) < 0.9 * mri.nrmse(mri.to_image(kspace).real, truth)
    assert found.std.shape == truth.shape
    draws = found.sample(2)
    np.testing.assert_allclose(mri.to_kspace(draws)[:, mask], [kspace[mask]] * 2, atol=1e-8)


@pytest.mark.parametrize("real", [True, False])
def test_fully_sampled_is_the_inverse_transform(real):
    truth = mri.phantom((64, 64), complex_phase=not real)
    y = noisy(mri.to_kspace(truth), 1.0, 0.05)
    found = mri.reconstruct(y, real=real)
    expected = mri.to_image(y)
    np.testing.assert_allclose(found.image, expected.real if real else expected, atol=1e-12)
    # 4,096 samples; the complex estimate also counts what the image has far out.
    np.testing.assert_allclose(found.noise_std, 0.05, rtol=0.1 if real else 0.3)
    error = np.sqrt(np.mean(np.abs(found.image - truth) ** 2))
    assert error == pytest.approx(np.sqrt(np.mean(found.std**2)), rel=0.1 if real else 0.3)
    assert found.sample(3).shape == (3, *truth.shape)


def test_a_tensor_gives_tensors(head, clean):
    torch = pytest.importorskip("torch")
    _, mask, kspace = head
    found = mri.reconstruct(torch.asarray(kspace), mask, real=True)
    assert isinstance(found.image, torch.Tensor)
    assert isinstance(found.sample(1), torch.Tensor)
    assert mri.nrmse(found.image.numpy(), clean.image) < 0.02  # other random numbers


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mask": np.zeros((64, 64), bool)}, ValueError, "contrast 0 has no samples"),
        ({"mask": np.ones((32, 32), bool)}, ValueError, "mask has shape"),
        ({"mask": np.full((64, 64), 0.5)}, ValueError, "0 and 1 only"),
        ({"kspace": np.full((1, 64, 64), np.nan)}, ValueError, "kspace contains NaN"),
        ({"kspace": np.zeros((1, 64, 64))}, ValueError, "no samples"),
        ({"kspace": np.ones((64, 64))}, ValueError, "kspace has shape"),
        ({"kspace": np.array([["a"]])}, TypeError, "kspace must be an array of numbers"),
        ({"model": "best"}, ValueError, "model must be one of"),
        ({"noise_std": 0.0}, ValueError, "noise_std must be positive"),
        ({"noise_std": [1.0, 2.0]}, ValueError, "noise_std must be a number or 3"),
        ({"sensitivities": np.ones((2, 64, 64))}, ValueError, "kspace has shape"),
        ({"n_samples": 1}, ValueError, "n_samples"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"options": 3}, TypeError, "options must be"),
    ],
)
def test_bad_input_is_refused(head, change, error, message):
    _, mask, kspace = head
    arguments = {"kspace": kspace, "mask": mask, "real": True} | change
    if "kspace" in change:
        arguments["mask"] = None
    with pytest.raises(error, match=message):
        mri.reconstruct(arguments.pop("kspace"), arguments.pop("mask"), **arguments)


def test_a_single_contrast_needs_an_axis_and_works(head):
    truth, mask, kspace = head
    found = mri.reconstruct(kspace[:1], mask[:1], real=True)
    rival = oracle_joint_tv(kspace[:1], mask[:1], truth[:1], (1e-4, 1e-3, 3e-3), real=True)
    assert mri.nrmse(found.image, truth[:1]) < rival


def test_real_is_doubted_where_it_is_wrong():
    truth = mri.phantom((64, 64), complex_phase=True)
    mask = mri.power_rule_mask((64, 64), factor=2, power=3)
    with pytest.warns(UserWarning, match="not that of a real image"):
        mri.joint_total_variation(mri.to_kspace(truth) * mask, mask, weight=1e-2, real=True,
                                  max_iter=1)  # fmt: skip


def test_too_few_iterations_warn(head):
    _, mask, kspace = head
    with pytest.warns(cofem.ConvergenceWarning, match="raise max_iter"):
        mri.reconstruct(kspace, mask, real=True, max_iter=2)


def test_progress_and_callback_see_every_iteration(head):
    _, mask, kspace = head
    seen = []
    with pytest.warns(cofem.ConvergenceWarning):
        mri.reconstruct(kspace, mask, real=True, max_iter=3, callback=seen.append, progress=True)
    assert [state.iteration for state in seen] == [1, 2, 3]


def test_the_progress_of_all_fits_is_one(head, monkeypatch):
    _, mask, kspace = head
    shown = []
    monkeypatch.setattr(
        "cofem.mri.reconstruction.FitProgress.update", lambda bar, state: shown.append(state)
    )
    with pytest.warns(cofem.ConvergenceWarning):
        mri.reconstruct(kspace, mask, real=True, max_iter=3, progress=True)
    done = [state.iteration for state in shown]
    assert done == list(range(1, len(done) + 1))
    assert len(done) > 3  # the fits without some of the samples are in it
    assert shown[-1].iteration == shown[-1].max_iter
    assert all(a.max_iter >= b.max_iter for a, b in pairwise(shown))
