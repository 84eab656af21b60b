"""On an NVIDIA GPU: the fused kernels, whole fits, and what leaves the device.

Run with ``pytest -m cuda tests/backend/test_cuda.py`` where there is one.
"""

import contextlib
import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.learning.moments.mean_field import field_factor, field_sums
from cofem.operators import DCT, Convolution, Dense, Fourier
from cofem.solvers import ShiftedGram, solve
from cofem.solvers.controller import Controller

torch = pytest.importorskip("torch")
pool = pytest.importorskip("cofem.solvers.steps.cuda.pool")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA = "cuda"


@pytest.fixture
def steps():
    """Let a test choose who takes the steps: the fused kernels, or plain torch."""
    from cofem.solvers.steps.cuda import fused
    from cofem.solvers.steps.cuda import steps as cuda_steps

    where = Path(__file__).parents[1] / "solvers" / "eager_steps.py"
    spec = importlib.util.spec_from_file_location("eager_steps", where)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)

    def choose(name):
        pool.forget()
        kinds = {"fused": fused.FusedPasses, "plain": plain.EagerPasses}
        cuda_steps.make_passes = kinds[name]

    yield choose
    choose("fused")


def drawn(random, shape, dtype):
    x = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.standard_normal(shape)
    return torch.asarray(x.astype(dtype), device=CUDA)


OPERATORS = {
    "dct": lambda random: DCT(4096, np.sort(random.choice(4096, 1300, replace=False))),
    "dct-odd": lambda random: DCT(4095, np.sort(random.choice(4095, 1300, replace=False))),
    "dct-long": lambda random: DCT(70_001, np.sort(random.choice(70_001, 23_000, replace=False))),
    "dct-repeated": lambda random: DCT(513, random.integers(0, 513, 300)),
    "fourier": lambda random: Fourier((60, 50), random.random((60, 50)) < 0.4),
    "convolution": lambda random: Convolution(0.9 ** np.arange(30), 1000),
    "dense": lambda random: Dense(drawn(random, (300, 1000), "float64") / 17),
}
CASES = [
    (kind, dtype)
    for kind in OPERATORS
    for dtype in ("float32", "float64", "complex64", "complex128")
    if not (kind == "fourier" and dtype.startswith("float"))
]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
@pytest.mark.parametrize("n_rows", [1, 5])
def test_the_kernels_do_what_plain_torch_does(steps, kind, dtype, n_rows):
    random = np.random.default_rng(n_rows)
    operator = OPERATORS[kind](random)
    if kind == "dense":
        operator = Dense(operator.matrix.to(getattr(torch, dtype)))
    d = operator.shape[1]
    real = np.empty(0, dtype).real.dtype
    alpha = torch.asarray((10 ** random.uniform(0, 2, d)).astype(real), device=CUDA)
    rhs = drawn(random, (n_rows, d), dtype)
    if n_rows > 1:
        rhs[1] = 0
    single = real == np.float32
    rtol = np.geomspace(1e-1, 1e-5 if single else 1e-8, n_rows)
    found = {}
    for who in ("plain", "fused", "fused again", "graph"):
        if who != "graph":
            steps(who.split()[0])
        found[who] = solve(
            ShiftedGram(operator, 30.0, alpha), rhs, preconditioner=alpha + 30,
            rtol=rtol, max_steps=300,
            start=0.1 * rhs, balance=0.05, keep_coefficients=True,
        )  # fmt: skip
    plain, fused = found["plain"], found["fused"]
    np.testing.assert_array_equal(plain.status, fused.status)
    # After a few dozen steps rounding leads them apart; before that they are the same.
    assert (abs(plain.steps - fused.steps) <= 3).all()
    for (a, b), (c, e) in zip(plain.coefficients, fused.coefficients, strict=True):
        few = min(len(a), len(c), 6)
        close = {"rtol": 1e-3 if single else 1e-9}
        np.testing.assert_allclose(a[:few], c[:few], **close)
        np.testing.assert_allclose(b[:few], e[:few], **close)
    # The residual, by the operator's own product in double precision.
    wide = {np.float32: np.float64, np.complex64: np.complex128}.get(np.dtype(dtype).type, dtype)
    x, b = (v.to(getattr(torch, np.dtype(wide).name)) for v in (fused.x, rhs))
    if kind == "dense":
        operator = Dense(operator.matrix.to(x.dtype))
    r = b - 30.0 * operator.gram(x) - alpha.double() * x
    own = [torch.sum(abs(v) ** 2 / (alpha.double() + 30), -1) ** 0.5 for v in (r, b)]
    true = (own[0] / torch.where(own[1] > 0, own[1], 1.0)).cpu().numpy()
    np.testing.assert_allclose(fused.residual, true, rtol=1e-3, atol=3e-6 if single else 1e-12)
    assert (true[fused.converged] <= 1.01 * rtol[fused.converged] + single * 3e-6).all()
    # Replayed as a graph, and anew: the same bits.
    assert torch.equal(fused.x, found["fused again"].x)
    assert torch.equal(fused.x, found["graph"].x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 1000, 200_003])
def test_sums_of_the_field(dtype, n):
    random = np.random.default_rng(0)
    alpha, theta = (10 ** random.uniform(-3, 9, n).astype(dtype), random.random(n).astype(dtype))
    ours = field_sums(alpha, theta, 7.5)
    theirs = field_sums(*(torch.asarray(v, device=CUDA) for v in (alpha, theta)), 7.5)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5 if dtype == "float32" else 1e-12)
    for share in (0.2, 0.9, 1.0, -1.0):
        on_host = field_factor(alpha, theta, 100.0, share * n)
        on_gpu = field_factor(
            *(torch.asarray(v, device=CUDA) for v in (alpha, theta)), 100.0, share * n
        )
        np.testing.assert_allclose(float(on_gpu), on_host, rtol=1e-4)


@pytest.mark.parametrize("D", [2**12, 2**15])
@pytest.mark.parametrize("n_probes", [4, 20])
def test_single_precision_on_the_gpu_is_as_good_as_numpy_in_double(D, n_probes):
    problem = simulate.dct(D, seed=1)
    options = {
        "noise_precision": problem.noise_precision, "method": cofem.CoFEM(n_probes=n_probes),
        "max_iter": 30, "tol": 0.0,
    }  # fmt: skip
    ours = cofem.fit(problem.phi, problem.y, **options)
    y = torch.asarray(problem.y, dtype=torch.float32, device=CUDA)
    theirs = cofem.fit(problem.phi, y, **options)
    assert theirs.mean.device.type == CUDA
    assert theirs.mean.dtype == torch.float32
    gap = simulate.nrmse(theirs.mean, problem.z) - simulate.nrmse(ours.mean, problem.z)
    assert abs(gap) < 0.1
    assert theirs.log_evidence == pytest.approx(ours.log_evidence, rel=0.02)


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_methods_on_a_dense_matrix(method, dtype):
    problem = simulate.gaussian(256, seed=0)
    phi = torch.asarray(problem.phi.matrix.astype(dtype), device=CUDA)
    y = torch.asarray(problem.y.astype(dtype), device=CUDA)
    options = {"noise_precision": problem.noise_precision, "method": method,
               "max_iter": 15, "tol": 0.0}  # fmt: skip
    ours, theirs = cofem.fit(problem.phi, problem.y, **options), cofem.fit(phi, y, **options)
    for name in ("mean", "variance", "std", "variance_error", "precision"):
        assert getattr(theirs, name).device.type == CUDA
    gap = simulate.nrmse(theirs.mean, problem.z) - simulate.nrmse(ours.mean, problem.z)
    assert abs(gap) < (0.1 if method == "cofem" else 1e-3)


def test_complex_data_groups_tasks_and_samples():
    random = np.random.default_rng(0)
    mask = random.random((32, 32)) < 0.5
    phi = Fourier((32, 32), mask)
    z = np.zeros(1024, complex)
    z[random.choice(1024, 60, replace=False)] = 1 + 2j
    y = torch.asarray(phi.forward(z) + 0.01 * random.standard_normal(mask.sum()), device=CUDA)
    post = cofem.fit(phi, y, noise_precision=1e4, method="cofem", max_iter=15, tol=0.0)
    assert simulate.nrmse(post.mean, z) < 5
    real = cofem.fit(phi, y, noise_precision=1e4, method="cofem", real=True, max_iter=4, tol=0.0)
    assert not real.mean.is_complex()
    joint = cofem.fit([phi, phi], [y, y], noise_precision=1e4, method="cofem",
                      groups=np.arange(1024) // 4, max_iter=4, tol=0.0)  # fmt: skip
    assert joint.mean.shape == (2, 1024)
    assert post.sample(2, seed=0).device.type == CUDA


# -- what leaves the device --------------------------------------------------------


@contextlib.contextmanager
def watching(mode):
    """Let torch warn, or fail, when something waits for the device; yield what it said."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            torch.cuda.set_sync_debug_mode(mode)
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_nothing_waits_between_looks():
    problem = simulate.dct(4096, seed=0)
    rhs = torch.randn(9, 4096, device=CUDA)
    product = problem.phi.masked_transform(rhs)
    ones = torch.ones(4096, device=CUDA)
    rules = {"joint": False, "keep_coefficients": False, "max_steps": 100}
    with pool.steps_for(product, rhs, 0) as made:

        def batch():
            made.load(product, rhs, None, 1 / (1 + ones), ones, joint=False)
            controller = Controller(made, np.full(9, 1e-6), np.zeros(9), **rules)
            made.do("begin", controller._begin)
            for _ in range(4):
                made.do("steps", controller._advance, 3, False)

        batch()
        batch()  # now everything is a graph
        torch.cuda.synchronize()
        with watching("error"):
            batch()
        assert int(made.state.steps.max()) > 0


def test_a_fit_waits_a_few_times_an_iteration():
    problem = simulate.dct(4096, seed=0)
    y = torch.asarray(problem.y, dtype=torch.float32, device=CUDA)

    def fit(iterations):
        cofem.fit(problem.phi, y, noise_precision=1e4, method=cofem.CoFEM(n_probes=20),
                  max_iter=iterations, tol=0.0)  # fmt: skip

    def waits(iterations):
        with watching("warn") as seen:
            fit(iterations)
        return sum("synchronizing CUDA" in str(w.message) for w in seen)

    fit(3)
    each = (waits(13) - waits(3)) / 10
    assert each < 40, each  # 15 CG steps, none of which waits


def test_two_devices_are_refused():
    problem = simulate.gaussian(64, seed=0)
    phi = torch.asarray(problem.phi.matrix, device=CUDA)
    y = torch.asarray(problem.y)
    with pytest.raises(ValueError, match=r"device.*move them to one device"):
        cofem.fit(phi, y, noise_precision=1e4)
    with pytest.raises(TypeError, match="convert them to one library"):
        cofem.fit(phi, problem.y, noise_precision=1e4)
    operator = DCT(64, np.arange(20))
    on_gpu = torch.zeros(20, device=CUDA) + 1
    with pytest.raises(ValueError, match="precision on"):
        cofem.posterior(operator, on_gpu, precision=torch.ones(64), noise_precision=1e4)
