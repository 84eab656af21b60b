"""What transforms cost, and what is particular to each of them."""

import sys

import numpy as np
import pytest
import scipy.fft
from operator_tools import assert_near, conv_matrix, random_array

from cofem import backend
from cofem.operators import (
    DCT,
    Autoregressive,
    Convolution,
    Dense,
    FiniteDifference,
    Fourier,
    Smoothing,
    Wavelet,
    radon,
)
from cofem.operators.convolution import effective_length
from cofem.operators.realified import Realified


@pytest.fixture
def transforms(monkeypatch):
    """List the calls of SciPy's transforms as (name, length of the last axis)."""
    calls = []

    def counted(name, function):
        def call(x, *args, **kwargs):
            calls.append((name, kwargs.get("n") or x.shape[-1]))
            return function(x, *args, **kwargs)

        return call

    for name in ("dct", "idct", "fft", "ifft", "rfft", "irfft", "fftn", "ifftn"):
        monkeypatch.setattr(scipy.fft, name, counted(name, getattr(scipy.fft, name)))
    return calls


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize(
    ("op", "names"),
    [
        (DCT(64, np.arange(0, 64, 3)), ["idct", "dct"]),
        (DCT(64, np.arange(64).repeat(2)), ["idct", "dct"]),
        (DCT(64), []),
        (Fourier((8, 8), np.eye(8) > 0), ["fftn", "ifftn"]),
        (Fourier((8, 8)), []),
        (Wavelet(64), []),
    ],
)
def test_gram_costs_two_transforms(transforms, op, names, dtype):
    op.gram(np.ones((2, 64), dtype))
    assert [name for name, _ in transforms] == names


@pytest.mark.parametrize(
    ("length", "n", "full", "short"),
    [(20, 400, 2, 0), (1, 400, 2, 0), (300, 2000, 2, 4), (200, 400, 4, 0)],
)
def test_gram_of_a_convolution(transforms, length, n, full, short):
    op = Convolution(np.cos(np.arange(length)), n)
    op.gram(np.ones((2, n)))
    assert sum(size >= n for _, size in transforms) == full
    assert sum(size < n for _, size in transforms) == short
    transforms.clear()
    op.gram(np.ones((2, n), complex))
    assert {name for name, _ in transforms} == {"fft", "ifft"}


def test_convolution_drops_what_rounding_hides():
    kernel = 0.9 ** np.arange(5000)
    single, double = effective_length(kernel, 2.0**-23), effective_length(kernel, 2.0**-52)
    assert 100 < single < double < 500
    assert effective_length(np.zeros(4), 1e-16) == 1
    op = Convolution(kernel[:2000], 2000)
    x = random_array((2000,), "float64", 0)
    assert_near(op.gram(x), conv_matrix(kernel[:2000], 2000).T @ op.forward(x), "float64")


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_dct_of_other_libraries(n, dtype):
    xp = pytest.importorskip("array_api_strict")
    x = random_array((3, n), dtype, 0)
    for ours, scipys in ((backend.dct, scipy.fft.dct), (backend.idct, scipy.fft.idct)):
        out = ours(xp.asarray(x))
        assert np.asarray(out).dtype == dtype
        assert_near(np.asarray(out), scipys(x, norm="ortho"), dtype)


def test_dct_rows_as_a_mask_or_negative():
    z = random_array((2, 8), "float64", 0)
    mask = np.array([True, False] * 4)
    np.testing.assert_array_equal(DCT(8, mask).forward(z), DCT(8, np.arange(0, 8, 2)).forward(z))
    np.testing.assert_array_equal(DCT(8, [-1]).forward(z), DCT(8, [7]).forward(z))


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([8], ValueError, "rows must lie between 0 and 7"),
        ([-9], ValueError, "rows must lie between 0 and 7"),
        ([], (TypeError, ValueError), "rows"),
        ([0.5], TypeError, "rows must be integers or a boolean mask, got dtype float64"),
        (np.ones(7, bool), ValueError, r"rows: a boolean mask must have shape \(8,\), got \(7,\)"),
        (np.zeros(8, bool), ValueError, "rows selects nothing"),
        ([[1, 2]], ValueError, "rows: integer indices must be 1-D"),
    ],
)
def test_bad_rows(rows, error, message):
    with pytest.raises(error, match=message):
        DCT(8, rows)


def test_fourier_mask_may_be_flat_or_indices():
    mask = np.random.default_rng(0).random((4, 5)) < 0.4
    x = random_array((20,), "float64", 0)
    expected = np.fft.fft2(x.reshape(4, 5), norm="ortho")[mask]
    for given in (mask, mask.ravel(), np.flatnonzero(mask)):
        assert_near(Fourier((4, 5), given).forward(x), expected, "float64")
    with pytest.raises(ValueError, match=r"mask: a boolean mask must have shape \(4, 5\)"):
        Fourier((4, 5), mask.T)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DCT(0), ValueError, "n must be a positive integer, got 0"),
        (lambda: DCT(2.5), TypeError, "n must be a positive integer, got 2.5"),
        (lambda: Fourier(()), ValueError, "shape must have at least one side"),
        (lambda: Fourier((3, -1)), ValueError, "shape must be a positive integer"),
        (lambda: Convolution(np.ones(5), 4), ValueError, "kernel has 5 coefficients, more than"),
        (lambda: Convolution([], 4), ValueError, "kernel is empty"),
        (lambda: Convolution(np.ones((2, 2)), 4), ValueError, "kernel must be 1-D"),
        (lambda: Convolution([1.0, np.nan], 4), ValueError, "kernel contains NaN or Inf"),
        (lambda: Convolution(["a"], 4), TypeError, "kernel must hold numbers"),
        (lambda: Autoregressive((1.1,), 4), ValueError, "coefficients are unstable: .* 1.1"),
        (lambda: Autoregressive((1j,), 4), TypeError, "coefficients must be real"),
        (lambda: Autoregressive.from_times(-1, None, 1, 4), ValueError, "tau_d must be positive"),
        (lambda: Autoregressive.from_times(1, -1, 1, 4), ValueError, "tau_r must be None, zero"),
        (lambda: Autoregressive.from_times(1, None, 0, 4), ValueError, "rate must be positive"),
        (lambda: FiniteDifference((3, 4), 2), ValueError, "axis must be between -2 and 1, got 2"),
        (lambda: Smoothing((3, 4), -1), ValueError, "sigma must be finite and not negative"),
        (lambda: Smoothing((3, 4), (1, 1, 1)), ValueError, "sigma must be a number or 2 numbers"),
        (lambda: Wavelet((6, 8), "haar", 2), ValueError, r"divisible by 2\^2"),
        (lambda: Wavelet((5, 8)), ValueError, "every side must be even"),
        (lambda: Wavelet(8, "haar", 0), ValueError, "level must be a positive integer"),
        (lambda: Wavelet(8, "morl"), ValueError, "no discrete wavelet 'morl'"),
        (lambda: Wavelet((2, 2, 2, 2)), ValueError, "1 to 3 sides"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_autoregressive_from_times():
    one = Autoregressive.from_times(0.5, None, 30.0, 50)
    assert one.coefficients == pytest.approx((np.exp(-1 / 15),))
    assert one.coefficients == Autoregressive.from_times(0.5, 0, 30.0, 50).coefficients
    np.testing.assert_allclose(one.kernel(), np.exp(-np.arange(50) / 15))
    two = Autoregressive.from_times(0.5, 0.1, 30.0, 50)
    t = np.arange(1, 51)  # a difference of exponentials
    shape = np.exp(-t / 15) - np.exp(-t / 3)
    np.testing.assert_allclose(two.kernel(), shape / shape[0], rtol=1e-10)
    assert two.kernel(7).shape == (7,)


@pytest.mark.parametrize("coefficients", [(0.9,), (1.5, -0.6), (1.0,), (0.2, 0.1, 0.3)])
def test_whitening_is_the_inverse(coefficients):
    z = random_array((2, 3, 20), "complex64", 0)
    for n in (20, 2, 1):
        op = Autoregressive(coefficients, n)
        part = z[..., :n].copy()
        assert_near(op.whitening(op.forward(part)), part, "complex64")
        assert op.whitening(part).dtype == part.dtype


def test_autoregressive_keeps_slow_decay_in_single_precision():
    op = Autoregressive.from_times(tau_d=1000.0, tau_r=100.0, rate=10.0, n=50_000)
    impulse = np.zeros(50_000, np.float32)
    impulse[0] = 1
    np.testing.assert_allclose(op.forward(impulse), op.kernel(), rtol=1e-6, atol=1e-9)


def test_double_pole_on_the_circle_is_allowed():
    np.testing.assert_allclose(Autoregressive((2.0, -1.0), 5).kernel(), [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("shape", "name", "level"),
    [(64, "haar", 6), (64, "db4", 4), ((48, 64), "db4", 3), (2, "db4", 1), (24, "db1", 3)],
)
def test_default_level(shape, name, level):
    assert Wavelet(shape, name).level == level


def test_wavelet_needs_pywavelets(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt", None)
    with pytest.raises(ImportError, match="pip install PyWavelets"):
        Wavelet(8)


def test_orthogonal_wavelet_inverts_itself():
    op = Wavelet((16, 32), "db2")
    x = random_array((3, 512), "complex128", 0)
    assert op.orthogonal
    assert_near(op.adjoint(op.forward(x)), x, "complex128")
    assert not Wavelet(64, "dmey").orthogonal


@pytest.mark.parametrize("sigma", [0.0, 1e-200, 0.3, 2.0, 40.0, (0.0, 5.0)])
def test_smoothing_averages(sigma):
    op = Smoothing((7, 12), sigma)
    image = np.random.default_rng(0).random(84) * (np.arange(84) % 3 == 0)
    assert np.all(op.forward(image) >= 0)
    np.testing.assert_allclose(op.forward(np.ones(84)), 1.0)
    assert op.forward(image).sum() == pytest.approx(image.sum())
    np.testing.assert_allclose(op.to_dense(), op.to_dense().T, atol=1e-17)


@pytest.mark.parametrize("shape", [(7,), (8,), (5, 6), (4, 3, 5)])
def test_real_unknowns_behind_a_fourier_transform_are_described_to_the_solver(shape):
    random = np.random.default_rng(0)
    phi = Realified(Fourier(shape, mask=random.random(shape) < 0.4))
    x = random.standard_normal((3, phi.shape[1]))
    told = phi.masked_transform(x)
    assert (told.real, told.kind, told.shape) == (True, "fourier", shape)
    weights = told.weights.reshape(shape)
    axes = tuple(range(1, 1 + len(shape)))
    product = np.fft.ifftn(weights * np.fft.fftn(x.reshape(3, *shape), axes=axes), axes=axes)
    np.testing.assert_allclose(product.imag, 0, atol=1e-13)  # mirrored weights keep it real
    np.testing.assert_allclose(product.real.reshape(3, -1), phi.gram(x), atol=1e-13)


def test_real_unknowns_behind_other_operators_are_not():
    assert Realified(DCT(8)).masked_transform(np.zeros(8)) is None
    assert Realified(Dense(np.ones((2, 8)) + 1j)).masked_transform(np.zeros(8)) is None


# -- tomography --------------------------------------------------------------------------


def gaussian_projections(shape, angles, n_detectors, blobs):
    """Return an image of Gaussians and its exact line integrals, which are Gaussians too."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    x, y = columns - (shape[1] - 1) / 2, (shape[0] - 1) / 2 - rows
    s = np.arange(n_detectors) - (n_detectors - 1) / 2
    theta = np.deg2rad(angles)[:, None]
    image, sinogram = np.zeros(shape), np.zeros((len(angles), n_detectors))
    for x0, y0, width, height in blobs:
        image += height * np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / (2 * width**2))
        off = s - x0 * np.cos(theta) - y0 * np.sin(theta)
        sinogram += height * np.sqrt(2 * np.pi) * width * np.exp(-(off**2) / (2 * width**2))
    return image, sinogram


@pytest.mark.parametrize("shape", [(41, 41), (40, 56), (56, 41)])
def test_radon_integrates_along_lines(shape):
    angles = np.array([0.0, 10.0, 44.0, 46.0, 90.0, 120.0, 135.0, 179.0, 200.0, -30.0])
    phi = radon(shape, angles)
    n_detectors = phi.shape[0] // angles.size
    assert n_detectors % 2 == 1
    blobs = [(5.0, -4.0, 3.0, 1.0), (-6.0, 3.0, 2.5, -0.5)]
    image, exact = gaussian_projections(shape, angles, n_detectors, blobs)
    found = phi.forward(image.ravel()).reshape(exact.shape)
    # Linear interpolation of a blob of 2.5 pixels: 1/(8·2.5²) of its curvature.
    np.testing.assert_allclose(found, exact, atol=0.025 * exact.max())
    np.testing.assert_allclose(found.sum(axis=1), image.sum(), rtol=0.005)


def test_radon_sees_every_pixel_at_every_angle():
    phi = radon((9, 6), np.arange(0.0, 180.0, 7.0))
    for block in phi.matrix.toarray().reshape(-1, phi.shape[0] // 26, 54):
        np.testing.assert_allclose(block.sum(axis=0), 1, atol=0.5)
        assert block.sum(axis=0).min() > 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (((4,), [0.0]), ValueError, r"shape must be \(H, W\)"),
        (((4, 4), [np.nan]), ValueError, "angles contains NaN"),
        (((4, 4), [1j]), TypeError, "angles must be real"),
        (((4, 4), [0.0], 0), ValueError, "n_detectors must be a positive integer"),
    ],
)
def test_radon_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        radon(*arguments)
