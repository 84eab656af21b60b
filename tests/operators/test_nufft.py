"""The NUFFT against its own sum, and its Toeplitz Gram against both products in turn."""

import numpy as np
import pytest

from cofem.operators import NUFFT

finufft = pytest.importorskip("finufft")

SHAPES = [(11,), (8, 9), (4, 6, 5)]


def dense(shape, k):
    """The sum of the definition, entry by entry."""
    grids = np.meshgrid(*[np.arange(n) - n // 2 for n in shape], indexing="ij")
    turns = sum(np.multiply.outer(k[:, a] / n, grids[a].ravel()) for a, n in enumerate(shape))
    return np.exp(-2j * np.pi * turns) / np.sqrt(np.prod(shape))


def case(shape, seed=0, samples=40):
    rng = np.random.default_rng(seed)
    k = rng.uniform(-0.5, 0.5, (samples, len(shape))) * shape
    return NUFFT(shape, k), dense(shape, k), rng


@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_the_sum(shape):
    phi, matrix, rng = case(shape)
    x = rng.standard_normal((2, 3, phi.shape[1])) + 1j * rng.standard_normal((2, 3, phi.shape[1]))
    y = rng.standard_normal((2, phi.shape[0])) + 1j * rng.standard_normal((2, phi.shape[0]))
    np.testing.assert_allclose(phi.forward(x), x @ matrix.T, atol=1e-7)
    np.testing.assert_allclose(phi.adjoint(y), y @ matrix.conj(), atol=1e-7)
    gram = x @ (matrix.conj().T @ matrix).T
    np.testing.assert_allclose(phi.gram(x), gram, atol=1e-6 * np.abs(gram).max())
    np.testing.assert_allclose(
        phi.column_norms_squared(), np.sum(np.abs(matrix) ** 2, axis=0), rtol=1e-12
    )


def test_whole_frequencies_are_the_orthonormal_transform():
    n = 8
    grid = np.stack(np.meshgrid(np.arange(n) - 4, np.arange(n) - 4, indexing="ij"), axis=-1)
    x = np.random.default_rng(1).standard_normal((n, n))
    wanted = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x), norm="ortho"))
    np.testing.assert_allclose(NUFFT((n, n), grid).forward(x.ravel()), wanted.ravel(), atol=1e-7)


def test_single_precision_stays_single():
    phi, matrix, rng = case((8, 9))
    x = rng.standard_normal(72).astype(np.float32)
    assert phi.forward(x).dtype == np.complex64
    np.testing.assert_allclose(phi.gram(x), x @ (matrix.conj().T @ matrix).T, atol=1e-4)


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    phi, matrix, rng = case((8, 9))
    x = rng.standard_normal(72)
    found = phi.gram(torch.asarray(x))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), phi.gram(x), atol=1e-12)
    np.testing.assert_allclose(phi.forward(torch.asarray(x)).numpy(), matrix @ x, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "k", "message"),
    [
        ((8, 8), np.zeros((4, 3)), "one number for each image axis"),
        ((8, 8), np.full((4, 2), 5.0), "cycles over the field of view"),
        ((8, 8), np.full((4, 2), np.nan), "NaN"),
        ((2, 2, 2, 2), np.zeros((4, 4)), "one to three axes"),
    ],
)
def test_bad_trajectories_are_refused(shape, k, message):
    with pytest.raises(ValueError, match=message):
        NUFFT(shape, k)


def test_it_agrees_with_sigpy():
    sigpy = pytest.importorskip("sigpy")
    phi, _, rng = case((16, 12), samples=200)
    x = rng.standard_normal((16, 12)) + 1j * rng.standard_normal((16, 12))
    theirs = sigpy.nufft(x, phi.trajectory, oversamp=2, width=8)
    assert np.linalg.norm(phi.forward(x.ravel()) - theirs) < 1e-3 * np.linalg.norm(theirs)
