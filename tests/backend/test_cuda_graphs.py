"""On an NVIDIA GPU: foreign products as part of graphs, and those that cannot be."""

import gc

import numpy as np
import pytest
import scipy.sparse

from cofem import operators
from cofem.operators import FiniteDifference
from cofem.solvers import ShiftedGram, solve
from cofem.solvers.systems import SparsifiedGram

torch = pytest.importorskip("torch")
pool = pytest.importorskip("cofem.solvers.steps.cuda.pool")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA, D = "cuda", 1024


def drawn(*shape):
    return torch.randn(*shape, device=CUDA, generator=torch.Generator(CUDA).manual_seed(0))


def functions(product):
    return operators.from_functions(product, product, (D, D), np.float32)


def looking(x):
    return x * (2.0 if float(x.abs().max()) < 1e30 else 3.0)


def from_the_host(x):
    return x * torch.as_tensor(np.arange(1.0, D + 1, dtype=np.float32) / D).to(x.device)


def sparse():
    return scipy.sparse.random_array((D // 2, D), density=0.01, rng=0, dtype=np.float32).tocsr()


def wavelet(shape):
    pytest.importorskip("pywt")
    return operators.Wavelet(shape, "db2")


MAKERS = {
    "convolution": (lambda: operators.Convolution(0.9 ** np.arange(50), D), True),
    "dense": (lambda: operators.Dense(drawn(256, D) / 16), True),
    "wavelet": (lambda: wavelet((32, 32)), True),
    "composition": (
        lambda: operators.DCT(D, np.arange(0, D, 3)) @ wavelet((D,)).H, True,
    ),
    "function": (lambda: functions(lambda x: torch.flip(x, (-1,)) * 0.5), True),
    "sparse": (lambda: operators.Sparse(sparse()), None),
    "looks at a number": (lambda: functions(looking), False),
    "brings numbers from the host": (lambda: functions(from_the_host), False),
}  # fmt: skip


def residual(operator, alpha, x, rhs):
    r = rhs.double() - operator.gram(x).double() * 10 - alpha.double() * x.double()
    return torch.linalg.vector_norm(r, dim=-1) / torch.linalg.vector_norm(rhs.double(), dim=-1)


@pytest.mark.parametrize("name", MAKERS)
def test_foreign_products_in_graphs_give_what_they_give_outside(name):
    make, graphed = MAKERS[name]
    pool.forget()
    operator = make()
    alpha = 1 + torch.rand(D, device=CUDA)
    for seed in range(4):  # by hand, recorded, replayed, replayed
        rhs = drawn(5, D) * (seed + 1)
        found = solve(ShiftedGram(operator, 10.0, alpha), rhs, rtol=1e-4, max_steps=400)
        assert found.converged.all()
        assert float(residual(operator, alpha, found.x, rhs).max()) < 1.1e-4
    kept = [steps.graphed for steps in pool._kept.values()]
    if graphed is not None:
        assert kept == ([True] if graphed else [])
    # Nothing is left of a failed recording: memory can be taken and captured again.
    torch.cuda.empty_cache()
    del operator
    gc.collect()
    assert not pool._kept  # graphs do not outlive the operators that they read


def test_an_operator_that_was_changed_is_noticed():
    class Scaled(operators.LinearOperator):
        shape = (D, D)
        weights = torch.ones(D, device=CUDA)

        def _forward(self, x):
            return x * self.weights

        _adjoint = _forward

        def _column_norms_squared(self, like):
            return self.weights**2

    operator = Scaled()
    alpha, rhs = 1 + torch.rand(D, device=CUDA), drawn(3, D)
    for weights in (1.0, 1.0, 1.0, 5.0, 5.0):
        operator.weights = torch.full((D,), weights, device=CUDA)
        found = solve(ShiftedGram(operator, 10.0, alpha), rhs, rtol=1e-4)
        assert found.converged.all()
        wanted = rhs / (10 * weights**2 + alpha)
        assert float((found.x - wanted).abs().max()) < 1e-3 * float(wanted.abs().max())


def test_weights_of_a_sparsifier_differ_from_solve_to_solve():
    phi = operators.DCT(D, np.arange(0, D, 2))
    R = FiniteDifference((D,), axis=0)
    for seed in range(4):
        weights = 1 + seed * torch.rand(D, device=CUDA)
        rhs = drawn(3, D)
        matrix = SparsifiedGram(phi, 10.0, R, weights)
        found = solve(matrix, rhs, rtol=1e-3, max_steps=3000)
        r = torch.linalg.vector_norm(rhs - matrix.product(found.x), dim=-1)
        assert float((r / torch.linalg.vector_norm(rhs, dim=-1)).max()) < 1.1e-3
