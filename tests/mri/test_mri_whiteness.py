"""What a fit leaves of the data beside the noise, and priors that are widened by it."""

from __future__ import annotations

import numpy as np
import pytest

from cofem import mri
from cofem.mri.image import rule
from cofem.mri.scanner.checks import checked_data
from cofem.mri.scanner.whiteness import BANDS, Whiteness

SHAPE = (2, 48, 48)
RADIUS = np.hypot(*np.meshgrid(*[2 * np.fft.fftshift(np.fft.fftfreq(48))] * 2, indexing="ij"))
COILS = (
    np.exp(1j * np.linspace(0, 2, 3))[:, None, None] * np.linspace(0.4, 0.8, 48) * np.ones((48, 1))
)
KINDS = {"real": (True, None), "complex": (False, None), "coils": (False, COILS)}


def noise_of(seed: int, coils: int | None) -> np.ndarray:
    random = np.random.default_rng(seed)
    shape = SHAPE if coils is None else (2, coils, 48, 48)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)) / 2**0.5


def excess_of(kind: str, noise: np.ndarray, std: float = 1.0) -> np.ndarray:
    """Return the excess of samples that are nothing but ``noise``."""
    real, maps = KINDS[kind]
    mask = mri.power_rule_mask(SHAPE, 2, 4, seed=3)
    data = checked_data(noise, mask, maps, real=real, centered=True, coil_covariance=None)
    encoding = data.encoding(real)
    left = encoding.adjoint(data.kspace)
    white = Whiteness(encoding, left, 0)
    return np.asarray(white.excess(left[None], left[None][:0], np.full(2, std)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_no_more_than_noise(kind: str) -> None:
    coils = None if KINDS[kind][1] is None else 3
    found = np.array([excess_of(kind, noise_of(seed, coils)) for seed in range(60)])
    # Seven rings, each above by two standard errors in at most 4 % of the cases: 1 − .96⁷ = .25.
    # (Seeds 1000 to 1099: .19 of real images, .07 and .08 of the others.)
    assert np.mean(found > 1) < 0.25
    assert found.max() < 1.3
    assert found.min() > 0.7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_in_a_ring_of_one_contrast(kind: str) -> None:
    coils = None if KINDS[kind][1] is None else 3
    ring = np.digitize(RADIUS, BANDS) == 2
    for seed in range(5):
        noise = noise_of(seed, coils)
        noise[1][..., ring] *= 2  # four times the power
        found = excess_of(kind, noise)
        assert found[0] < 1.3
        assert 2 < found[1] < 6  # maps blur the ring


@pytest.mark.filterwarnings("ignore")
def test_power_is_measured_beside_the_noise() -> None:
    noise = noise_of(0, None)
    expected = excess_of("real", noise)
    assert excess_of("real", 3 * noise, 3.0) == pytest.approx(expected)


def fitted_width(
    monkeypatch: pytest.MonkeyPatch, excess: list[float], **given: float
) -> np.ndarray:
    widths = []
    original = rule.ImageRule._widen

    def seen(self: rule.ImageRule, *args: np.ndarray) -> None:
        original(self, *args)
        widths.append(np.asarray(self._width))

    monkeypatch.setattr(rule.ImageRule, "_widen", seen)
    monkeypatch.setattr(Whiteness, "excess", lambda *args: np.array(excess))
    truth = mri.phantom((32, 32))[:2]
    mask = mri.power_rule_mask(truth.shape, 2, 4, seed=0)
    kspace = mri.to_kspace(truth)
    if given:
        random = np.random.default_rng(1)
        kspace = kspace + 0.05 * random.standard_normal(kspace.shape)
    options = mri.ImageOptions(folds=0)
    mri.reconstruct(kspace * mask, mask, real=True, tol=0, max_iter=20, options=options, **given)
    return np.stack(widths)


@pytest.mark.filterwarnings("ignore")
def test_the_prior_of_a_contrast_is_widened_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fitted_width(monkeypatch, [1.3, 0.7], noise_std=0.05)
    assert np.all(found[: rule.FIRST_WIDENED] == 1)
    assert np.all(np.diff(found[:, 0]) >= 0)
    assert found[-1] == pytest.approx([rule.MOST_WIDENED, 1.0])


@pytest.mark.filterwarnings("ignore")
def test_without_noise_nothing_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.all(fitted_width(monkeypatch, [1.3, 1.3])[-1] == 1)
