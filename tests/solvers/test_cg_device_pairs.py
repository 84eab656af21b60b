"""CG that stays on a device: real rows that travel in pairs as complex ones, and looks."""

import numpy as np
import pytest
from device_cases import cheap, moved, on_device  # noqa: F401
from linalg_cases import dct_system, draw

from cofem import backend
from cofem.backend import MaskedTransform
from cofem.operators import Fourier, LinearOperator
from cofem.solvers import ShiftedGram
from cofem.solvers.controller import Controller

torch = pytest.importorskip("torch")

pool = pytest.importorskip("cofem.solvers.steps.cuda.pool")


@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_an_odd_number_of_real_rows_travels_in_pairs(n_rows):
    system = dct_system(0, d=48, n=20)
    rhs = draw(np.random.default_rng(0), (n_rows, 48), "float64")
    found = on_device(system.gram, rhs, system.jacobi, rtol=1e-9)
    assert found.x.shape == (n_rows, 48)
    np.testing.assert_allclose(found.x.numpy(), system.solutions(rhs), rtol=1e-6, atol=1e-9)


def test_a_pair_of_very_different_size_does_not_mix():
    system = dct_system(1, d=64, n=30)
    rhs = draw(np.random.default_rng(0), (2, 64), "float64")
    rhs[1] *= 1e-14
    found = on_device(system.gram, rhs, system.jacobi, rtol=1e-8)
    assert found.converged.all()
    wanted = system.solutions(rhs)
    for x, w in zip(found.x.numpy(), wanted, strict=True):
        np.testing.assert_allclose(x, w, rtol=0, atol=1e-6 * abs(w).max())


def test_a_large_solution_leaves_nothing_in_its_neighbour():
    # A probe's solution lies where Φ sees nothing and is thousands of times longer than
    # the mean's, though their right-hand sides are of one size.
    system = dct_system(1, d=256, n=80, scale=1e4, decades=0.5, dtype="float32")
    random = np.random.default_rng(0)
    alpha, phi = system.gram.diagonal, system.gram.operator
    mean = 1e4 * phi.adjoint(random.standard_normal(80).astype(np.float32))
    probe = np.sqrt(alpha) * random.choice([-1, 1], 256).astype(np.float32)
    rhs = np.stack([mean, probe]).astype(np.float32)
    rtol = np.array([1.2e-6, 3e-2])
    both = on_device(system.gram, rhs, system.jacobi, rtol=rtol)
    alone = on_device(system.gram, rhs[:1], system.jacobi, rtol=rtol[:1])
    assert alone.converged.all()
    assert both.converged.all()
    true = system.residual(both.x.numpy(), rhs, system.jacobi)
    assert true[0] < 4 * system.residual(alone.x.numpy(), rhs[:1], system.jacobi)[0] + 1e-6


@pytest.mark.parametrize("n_rows", [1, 4, 5])
@pytest.mark.parametrize("shape", [(6, 5), (7,), (4, 3, 2)])
def test_real_images_travel_in_pairs(n_rows, shape):
    random = np.random.default_rng(0)
    size = int(np.prod(shape))
    inner = Fourier(shape, random.random(shape) < 0.5)
    phi = RealImages(inner)
    alpha = random.uniform(1, 10, size)
    dense = inner.to_dense(np.empty(0, complex))
    dense = 7.0 * (dense.conj().T @ dense).real * 2 + np.diag(alpha)
    rhs = draw(random, (n_rows, size), "float64")
    rhs[-1] *= 1e-9
    found = on_device(ShiftedGram(phi, 7.0, alpha), rhs, alpha + 7.0, rtol=1e-10)
    wanted = np.linalg.solve(dense, rhs.T).T
    for x, w in zip(found.x.numpy(), wanted, strict=True):
        np.testing.assert_allclose(x, w, rtol=0, atol=1e-8 * abs(w).max())


class RealImages(LinearOperator):
    """√2 of the real and the imaginary parts of a Fourier transform."""

    def __init__(self, inner):
        self.inner, self.shape = inner, (2 * inner.shape[0], inner.shape[1])

    def _forward(self, x):
        y = self.inner.forward(x)
        return np.sqrt(2) * np.concatenate([y.real, y.imag], axis=-1)

    def _adjoint(self, y):
        n = self.inner.shape[0]
        return np.sqrt(2) * self.inner.adjoint(y[..., :n] + 1j * y[..., n:]).real

    def _column_norms_squared(self, like):
        return 2 * self.inner.column_norms_squared(like)

    def masked_transform(self, like):
        """Frequencies and their negatives, which the real part brings in."""
        shape = self.inner.image_shape
        weights = self.inner.masked_transform(like).weights.reshape(shape)
        axes = tuple(range(len(shape)))
        mirrored = weights.flip(axes).roll([1] * len(shape), axes)
        return MaskedTransform("fourier", shape, (weights + mirrored).reshape(-1), real=True)


def test_the_fourier_product():
    random = np.random.default_rng(0)
    operator = Fourier((6, 5), random.random((6, 5)) < 0.5)
    alpha = random.uniform(1, 10, 30)
    dense = 7.0 * operator.to_dense(np.empty(0, complex)).conj().T @ operator.to_dense(
        np.empty(0, complex)
    ) + np.diag(alpha)
    rhs = draw(random, (3, 30), "complex128")
    found = on_device(ShiftedGram(operator, 7.0, alpha), rhs, alpha + 7.0, rtol=1e-10)
    np.testing.assert_allclose(found.x.numpy(), np.linalg.solve(dense, rhs.T).T, atol=1e-9)


def test_nothing_leaves_the_device_between_looks():
    """Counts what reads numbers: one look before each chunk of steps, and nothing inside."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        reads = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            reading = ("_local_scalar_dense", "equal", "nonzero")
            if function in [getattr(torch.ops.aten, name).default for name in reading]:
                type(self).reads += 1
            return function(*args, **(kwargs or {}))

    system = dct_system(0, d=64, n=30)
    rhs = torch.asarray(draw(np.random.default_rng(0), (4, 64), "float64"))
    gram = moved(system.gram).with_unit_scale()
    product = gram.operator.masked_transform(rhs)
    inverse = 1 / torch.asarray(system.jacobi)
    with pool.steps_for(product, rhs, 0) as made:
        made.load(product, rhs, None, inverse, gram.diagonal, joint=False)
        rules = {"joint": False, "keep_coefficients": False, "max_steps": 1000}
        controller = Controller(made, np.full(4, 1e-12), np.full(4, 0.1), **rules)
        with Count():
            controller._begin()
            controller._advance(10, record=False)
            controller._verify()
            controller._lower_and_mark()
        assert Count.reads == 0
        assert made.look()  # the look itself is the only read
        assert int(made.state.steps.min()) == 10


def test_fused_kernels_are_for_cuda():
    assert not backend.has_engine(np.zeros(2))
    assert not backend.has_engine(torch.zeros(2))  # the CPU has its own solver
