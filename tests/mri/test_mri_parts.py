"""The parts of the MRI models against dense matrices."""

import numpy as np
import pytest

from cofem.backend import Random
from cofem.mri.image import edges as edges_module
from cofem.mri.image.edge_prior import EdgeLearner, EdgePrior
from cofem.mri.image.edges import Edges
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.scanner.coil_encoding import make_encoding
from cofem.mri.scanner.mirror import mirrored
from cofem.operators import Smoothing
from cofem.solvers import solve

SHAPES = [(5, 6), (3, 4, 4)]


def dense_gradient(shape, n_images):
    """R as a matrix: rows (pixel, direction, image), columns (image, pixel)."""
    size = int(np.prod(shape))
    index = np.arange(size).reshape(shape)
    blocks = []
    for axis in range(len(shape)):
        matrix = np.eye(size)
        matrix[np.arange(size), np.roll(index, 1, axis).ravel()] -= 1
        blocks.append(matrix)
    r = np.zeros((size, len(shape), n_images, n_images, size))
    for d, block in enumerate(blocks):
        for c in range(n_images):
            r[:, d, c, c, :] = block
    return r.reshape(size * len(shape) * n_images, n_images * size)


def random_tensor(rng, size, n):
    half = rng.standard_normal((size, n, n))
    return half @ half.swapaxes(1, 2) + 0.1 * np.eye(n)


def dense_fourier(shape):
    size = int(np.prod(shape))
    axes = tuple(range(-len(shape), 0))
    return (
        np.fft.fftn(np.eye(size).reshape(size, *shape), axes=axes, norm="ortho")
        .reshape(size, size)
        .T
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_images_that_are_known_apart_have_a_prior_each(shape, kind):
    """Groups apart are the common prior with zeros between them, product, diagonal and M-step."""
    rng = np.random.default_rng(5)
    together, apart = Edges(shape, 4), Edges(shape, 4, n_apart=2)
    size, n = apart.size, apart.n_components
    tensor = np.concatenate([random_tensor(rng, size, n) for _ in range(2)])
    # direction, group, image: where the numbers of a group lie in the common vector
    place = np.arange(2 * n).reshape(len(shape), 2, 2)
    full = np.zeros((size, 2 * n, 2 * n))
    for group in range(2):
        at = place[:, group].ravel()
        full[np.ix_(range(size), at, at)] = tensor[group * size : (group + 1) * size]
    x, start = rng.standard_normal((2, 3, 4, size))
    wanted = together.add_prior(x, together.packed(full), start.copy())
    g = rng.standard_normal((3, 2 * size, n))
    turned = np.empty((3, size, 2 * n))
    for group in range(2):
        turned[:, :, place[:, group].ravel()] = g[:, group * size : (group + 1) * size]
    if kind == "torch":
        torch = pytest.importorskip("torch")
        x, start, tensor, g = (torch.from_numpy(a) for a in (x, start, tensor, g))
    found = apart.add_prior(x, apart.packed(tensor), start + 0)
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-10)
    np.testing.assert_allclose(np.asarray(apart.adjoint(g)), together.adjoint(turned), atol=1e-12)
    np.testing.assert_allclose(
        np.asarray(apart.diagonal(tensor)), together.diagonal(full), atol=1e-10
    )
    floor, draws = np.full(4, 0.1), x[:1, ...]
    learner = EdgeLearner(apart, 0.7, 0.1, n_parts=2)
    both = learner.learn(x[0, ...], draws, floor if kind == "numpy" else torch.from_numpy(floor))
    for group in range(2):
        mine = slice(2 * group, 2 * group + 2)
        one = EdgeLearner(Edges(shape, 2), 0.7, 0.1).learn(
            np.asarray(x)[0, mine], np.asarray(draws)[:, mine], floor[mine]
        )
        np.testing.assert_allclose(
            np.asarray(both.tensor)[group * size : (group + 1) * size], one.tensor, rtol=1e-6
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["numpy", "torch", "large"])
def test_the_prior_is_the_dense_one(shape, kind, monkeypatch):
    if kind == "large":  # as of a volume, column by column
        monkeypatch.setattr(edges_module, "ONE_GO", 0)
    rng = np.random.default_rng(0)
    edges = Edges(shape, 2)
    n, size = edges.n_components, edges.size
    r = dense_gradient(shape, 2)
    tensor = random_tensor(rng, size, n)
    x = rng.standard_normal((3, 2, size))
    full = np.zeros((size * n, size * n))
    for j in range(size):
        full[j * n : (j + 1) * n, j * n : (j + 1) * n] = tensor[j]
    dense = r.T @ full @ r
    if kind != "numpy":
        torch = pytest.importorskip("torch")
        tensor, x = torch.asarray(tensor), torch.asarray(x)
        zeros = torch.zeros_like(x)
    else:
        zeros = np.zeros_like(x)
    product = np.asarray(edges.add_prior(x, edges.packed(tensor), zeros))
    flat = np.asarray(x).reshape(3, -1)
    np.testing.assert_allclose(product.reshape(3, -1), flat @ dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(edges.gradient(x)).reshape(3, -1), flat @ r.T, atol=1e-12)
    np.testing.assert_allclose(
        np.asarray(edges.adjoint(edges.gradient(x))).reshape(3, -1), flat @ r.T @ r, atol=1e-12
    )
    np.testing.assert_allclose(
        np.asarray(edges.diagonal(tensor)).ravel(), np.diag(dense), rtol=1e-12
    )


def dense_gram(shape, mask, coils, real):
    """The real form of Re(ΦᴴΦ) for coils (L, M, C, *shape): parts, sets, contrasts, pixels."""
    size = int(np.prod(shape))
    n_contrasts, n_sets = coils.shape[:2]
    f = dense_fourier(shape)
    parts = 1 if real else 2
    out = np.zeros((parts, n_sets, n_contrasts, size, parts, n_sets, n_contrasts, size))
    for c, a, b in np.ndindex(n_contrasts, n_sets, n_sets):
        g = sum(
            np.conj(s.ravel())[:, None] * (f.conj().T @ (mask[c].ravel()[:, None] * f)) * t.ravel()
            for s, t in zip(coils[c, a], coils[c, b], strict=True)
        )
        out[0, a, c, :, 0, b, c, :] = g.real
        if not real:
            out[1, a, c, :, 1, b, c, :] = g.real
            out[0, a, c, :, 1, b, c, :] = -g.imag
            out[1, a, c, :, 0, b, c, :] = g.imag
    return out.reshape(parts * n_sets * n_contrasts * size, -1)


@pytest.mark.parametrize("shape", [(5, 6), (4, 5), (3, 4, 4)])
@pytest.mark.parametrize("case", ["real", "complex", "coils", "real coils", "sets", "real sets"])
@pytest.mark.parametrize("lines", [None, 1, -1])
def test_the_encoding_is_the_dense_one(shape, case, lines):
    """Points, and lines along each axis: these are transformed along the others alone."""
    rng = np.random.default_rng(1)
    mask = (rng.random((2, *shape)) < 0.5).astype(float)
    if lines is not None:
        mask = np.broadcast_to(np.take(mask, [0], axis=lines), mask.shape).copy()
    real = case.startswith("real")
    coils = None
    if "coils" in case:
        coils = rng.standard_normal((2, 3, *shape)) + 1j * rng.standard_normal((2, 3, *shape))
    if "sets" in case:
        n = (2, 2, 3, *shape)
        coils = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    encoding = make_encoding(mask, coils, real)
    seen = np.ones((2, 1, *shape)) if coils is None else coils
    dense = dense_gram(shape, mask, seen if "sets" in case else seen[:, None], real)
    n_images = 2 * encoding.n_parts
    x = rng.standard_normal((3, n_images, int(np.prod(shape))))
    factor = np.tile([[2.0], [3.0]], (encoding.n_parts, 1))
    product = encoding.gram(x, factor)
    weights = np.broadcast_to(factor, x.shape[1:]).ravel()
    expected = (x.reshape(3, -1) @ dense.T) * weights
    np.testing.assert_allclose(product.reshape(3, -1), expected, atol=1e-11)
    diagonal = np.broadcast_to(encoding.diagonal(), x.shape[1:]).ravel()
    if case != "real":  # of the real one only the mean is used
        np.testing.assert_allclose(diagonal, np.diag(dense), atol=1e-11)
    assert diagonal.sum() == pytest.approx(np.trace(dense))
    # The draws' covariance: 20,000 draws, entries within 6 standard errors.
    draws = encoding.draw(Random(0), 20_000, factor).reshape(20_000, -1)
    wanted = dense * weights[:, None]
    error = 6 * np.abs(wanted).max() * np.sqrt(2 / 20_000)
    assert np.abs(draws.T @ draws / 20_000 - wanted).max() < error


@pytest.mark.parametrize("real", [True, False])
def test_the_adjoint_is_the_adjoint(real):
    rng = np.random.default_rng(2)
    mask = (rng.random((2, 5, 6)) < 0.5).astype(float)
    encoding = make_encoding(mask, None, real)
    y = mask * (rng.standard_normal((2, 5, 6)) + 1j * rng.standard_normal((2, 5, 6)))
    x = rng.standard_normal((2, 30)) + (0 if real else 1j * rng.standard_normal((2, 30)))
    k = mask * np.fft.fft2(x.reshape(2, 5, 6), norm="ortho")
    stacked = x.real if real else np.concatenate([x.real, x.imag])
    assert np.vdot(k, y).real == pytest.approx(float(np.sum(stacked * encoding.adjoint(y))))


def test_mirrored_is_conjugation_in_space():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 5)) + 1j * rng.standard_normal((4, 5))
    np.testing.assert_allclose(
        mirrored(np.fft.fft2(x), (-2, -1)).conj(), np.fft.fft2(x.conj()), atol=1e-12
    )


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("n_parts", [1, 2])
def test_the_learned_covariance_is_the_average_of_the_moments(kind, n_parts):
    rng = np.random.default_rng(4)
    edges = Edges((6, 7), 2)
    mean, draws = rng.standard_normal((2, 42)), rng.standard_normal((3, 2, 42))
    floor = np.array([0.1, 0.2])
    g = np.concatenate([edges.gradient(mean[None]), edges.gradient(draws) / 3**0.5])
    moments = np.einsum("spa,spb->pab", g, g).reshape(6, 7, 4, 4)
    offsets = np.arange(-4, 5)
    weights = np.exp(-0.5 * (offsets / 0.8) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        moments = sum(w * np.roll(moments, o, axis) for w, o in zip(weights, offsets, strict=True))
    s = moments.reshape(42, 4, 4)
    variances = np.einsum("paa->pa", s)
    target = variances if n_parts == 2 else variances.reshape(42, 2, 2).mean(2).repeat(2, axis=1)
    s = 0.9 * s + (0.1 * target + np.tile(floor, 2))[:, :, None] * np.eye(4)
    learner = EdgeLearner(edges, 0.8, 0.1, n_parts=n_parts)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        mean, draws, floor = (torch.asarray(a) for a in (mean, draws, floor))
    prior = learner.learn(mean, draws, floor)
    tensor, factor = np.asarray(prior.tensor), np.asarray(prior.factor)
    np.testing.assert_allclose(tensor, np.linalg.inv(s), rtol=1e-3)
    np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), tensor, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(prior.spread), np.einsum("paa->p", s) / 4, rtol=1e-3)


@pytest.mark.parametrize("ties", ["contrasts", "directions", "axis", "pixel"])
def test_ties_share_what_they_say(ties):
    rng = np.random.default_rng(5)
    edges = Edges((6, 7), 2)
    learner = EdgeLearner(edges, 0.8, 0.1, ties)
    prior = learner.learn(
        rng.standard_normal((2, 42)), rng.standard_normal((1, 2, 42)), np.full(2, 0.1)
    )
    t = prior.tensor.reshape(42, 2, 2, 2, 2)  # direction, image, direction, image
    across_images, across_directions = t[:, 0, 0, 0, 1], t[:, 0, 0, 1, 0]
    assert np.any(np.abs(across_images) > 1e-6) == (ties == "contrasts")
    assert np.any(np.abs(across_directions) > 1e-6) == (ties == "directions")
    same_for_images = np.allclose(t[:, 0, 0, 0, 0], t[:, 0, 1, 0, 1])
    assert same_for_images == (ties != "contrasts")
    assert np.allclose(t[:, 0, 0, 0, 0], t[:, 1, 0, 1, 0]) == (ties == "pixel")


def test_unknown_ties_are_refused():
    with pytest.raises(ValueError, match="ties must be one of"):
        EdgeLearner(Edges((4, 4), 1), 0.8, 0.1, "everything")


def test_draws_have_the_posterior_covariance():
    """10,000 draws from Q of 32 unknowns; entries within 6 standard errors."""
    rng = np.random.default_rng(6)
    shape, n_images = (4, 4), 2
    edges = Edges(shape, n_images)
    mask = (rng.random((2, *shape)) < 0.6).astype(float)
    mask[:, 0, 0] = 1
    encoding = make_encoding(mask, None, True)
    tensor = random_tensor(rng, 16, 4)
    prior = EdgePrior(tensor, np.linalg.cholesky(tensor), np.ones(16))
    matrix = ImagePrecision(encoding, edges, prior, np.array([[5.0], [7.0]]))
    dense = matrix.product(np.eye(32))
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    pushes = matrix.pushes(Random(1), 10_000, np.empty(0))
    found = solve(matrix, pushes, preconditioner=matrix.preconditioner, rtol=1e-10)
    sigma = np.linalg.inv(dense)
    scale = np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    error = np.abs(found.x.T @ found.x / 10_000 - sigma) / scale
    assert error.max() < 6 * np.sqrt(2 / 10_000)


@pytest.mark.parametrize("width", [0.0, 0.5, 0.7, 1.0])
def test_a_neighbourhood_is_worth_so_many_pixels(width):
    # The variance of an average of independent numbers with these weights.
    rng = np.random.default_rng(6)
    learner = EdgeLearner(Edges((64, 64), 1), width, 0.1)
    white = rng.standard_normal((400, 64 * 64))
    spread = np.mean(Smoothing((64, 64), width).forward(white) ** 2)
    # 1.6 million numbers, fewer by the size of a neighbourhood: half a per cent at most.
    assert learner.neighbours == pytest.approx(1 / spread, rel=0.02)
