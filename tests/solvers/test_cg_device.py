"""CG that stays on a device: its logic on the CPU, with plain torch in place of the kernels."""

import numpy as np
import pytest
from linalg_cases import System, dct_system, draw, random_system

from cofem import backend
from cofem.backend import MaskedTransform
from cofem.operators import DCT, Dense, Fourier, LinearOperator
from cofem.solvers import ShiftedGram, Status, solve
from cofem.solvers.controller import Controller
from cofem.solvers.steps import choice

torch = pytest.importorskip("torch")
eager_steps = pytest.importorskip("eager_steps")
steps = pytest.importorskip("cofem.solvers.steps.cuda.steps")
pool = pytest.importorskip("cofem.solvers.steps.cuda.pool")


@pytest.fixture(autouse=True, params=["looks are cheap", "looks are dear"])
def cheap(request, monkeypatch):
    """Plain torch on the CPU, looked at as large batches are on a GPU, or as small ones."""
    monkeypatch.setattr(steps, "make_passes", eager_steps.EagerPasses)
    value = request.param == "looks are cheap"
    monkeypatch.setattr(steps.CudaSteps, "looks_are_cheap", value)
    monkeypatch.setattr(steps.CudaSteps, "steps_between_looks", 1 if value else 3)
    return value


def moved(matrix):
    operator = matrix.operator
    if isinstance(operator, Dense):
        operator = Dense(torch.asarray(operator.matrix))
    return ShiftedGram(operator, matrix.scale, torch.asarray(matrix.diagonal))


def on_device(matrix, rhs, preconditioner, **options):
    """Solve with the steps of a device, as ``solve`` does on CUDA."""
    start = options.pop("start", None)
    if start is not None:
        options["start"] = torch.asarray(start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "has_engine", lambda x: True)
        return solve(
            moved(matrix), torch.asarray(rhs), preconditioner=torch.asarray(preconditioner),
            **options,
        )  # fmt: skip


TOLERANCES = np.array([1e-2, 1e-8, 1e-4, 1e-6, 1e-6])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("kind", ["dense", "dct", "dct-odd"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("warm", [False, True])
def test_same_solutions_steps_and_verdicts_as_numpy(dtype, kind, seed, warm):
    if kind == "dense":
        system = random_system(seed, dtype)
    else:
        system = dct_system(seed, d=64 if kind == "dct" else 63, n=21)
        system = System(system.gram, system.dense.astype(dtype), system.jacobi)
    random = np.random.default_rng(seed)
    rhs = draw(random, (5, system.dense.shape[0]), dtype)
    rhs[3] = 0
    options = {"rtol": TOLERANCES}
    if warm:
        start = system.solutions(rhs) * (1 + 1e-3 * random.standard_normal(rhs.shape))
        options["start"] = start.astype(dtype)
    ours = solve(system.gram, rhs, preconditioner=system.jacobi, **options)
    theirs = on_device(system.gram, rhs, system.jacobi, **options)
    np.testing.assert_array_equal(ours.status, theirs.status)
    assert (abs(ours.steps - theirs.steps) <= 1).all()
    same = ours.steps == theirs.steps
    assert same.sum() >= 4
    x = theirs.x.numpy()
    assert x.dtype == np.dtype(dtype)
    np.testing.assert_allclose(x[same], ours.x[same], rtol=0, atol=1e-7 * abs(ours.x).max())
    true = system.residual(x, rhs, system.jacobi)
    np.testing.assert_allclose(theirs.residual, true, rtol=0, atol=1e-13)
    assert (true <= TOLERANCES * (1 + 1e-5)).all()
    assert (x[3] == 0).all()


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


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_single_precision_in_any_units(scale):
    system = dct_system(2, d=64, n=30, dtype="float32")
    rhs = draw(np.random.default_rng(0), (3, 64), "float32")
    plain = on_device(system.gram, rhs, system.jacobi, rtol=1e-4)
    scaled = on_device(system.gram, rhs * np.float32(scale), system.jacobi, rtol=1e-4)
    assert plain.converged.all()
    assert scaled.converged.all()
    np.testing.assert_allclose(scaled.x.numpy() / np.float32(scale), plain.x.numpy(), rtol=1e-2,
                               atol=1e-3 * abs(plain.x.numpy()).max())  # fmt: skip


def test_few_systems_left_leave_the_others_behind(monkeypatch, cheap):
    if not cheap:
        pytest.skip("small batches stay together")
    system = dct_system(3, d=64, n=30)
    rhs = draw(np.random.default_rng(0), (16, 64), "float64")
    rtol = np.full(16, 1e-1)
    rtol[[5, 13]] = 1e-10  # in the third and the seventh pair
    sizes = []
    step = steps.CudaSteps.step

    def watched(self, record):
        sizes.append(self.active.rows)
        step(self, record)

    monkeypatch.setattr(steps.CudaSteps, "step", watched)
    found = on_device(system.gram, rhs, system.jacobi, rtol=rtol)
    assert found.converged.all()
    assert sizes[0] == 8
    assert 2 in sizes
    assert (system.residual(found.x.numpy(), rhs, system.jacobi) <= rtol * (1 + 1e-6)).all()


@pytest.mark.parametrize("balance", [0.0, 0.05])
def test_coefficients_are_those_of_numpy(balance):
    system = dct_system(2, d=64, n=30)
    rhs = draw(np.random.default_rng(0), (5, 64), "float64")
    rhs[2] = 0
    rtol = np.array([1e-1, 1e-6, 1e-6, 1e-3, 1e-2])
    ours = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=rtol, keep_coefficients=True)
    theirs = on_device(
        system.gram, rhs, system.jacobi, rtol=rtol, keep_coefficients=True, balance=balance
    )
    for (a, b), (c, d) in zip(ours.coefficients, theirs.coefficients, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-6)
        np.testing.assert_allclose(b, d, rtol=1e-6)
    assert theirs.coefficients[2] == ([], [])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("kind", ["dense", "dct"])
@pytest.mark.parametrize("started", [False, True])
def test_the_joint_rule_stops_all_at_once(dtype, kind, started):
    if kind == "dense":
        system = random_system(1, dtype)
    else:
        system = dct_system(1, d=63, n=21)
        system = System(system.gram, system.dense.astype(dtype), system.jacobi)
    random = np.random.default_rng(0)
    rhs = draw(random, (5, system.dense.shape[0]), dtype)
    rhs[1] *= 1e3  # of the sum it is nearly all
    rhs[3] = 0
    start = 0.9 * system.solutions(rhs) if started else None
    for rtol in (1e-2, 1e-6, np.array([1e-4, 1e-4, 1e-6, 1e-4, 1e-3])):
        options = {"rtol": rtol, "start": start, "joint": True, "keep_coefficients": True}
        ours = solve(system.gram, rhs, preconditioner=system.jacobi, **options)
        theirs = on_device(system.gram, rhs, system.jacobi, **options)
        np.testing.assert_array_equal(ours.status, theirs.status)
        busy = [0, 1, 2, 4]
        np.testing.assert_array_equal(ours.steps, theirs.steps)
        scale = 1e-7 * abs(ours.x).max()
        np.testing.assert_allclose(theirs.x.numpy(), ours.x, rtol=0, atol=scale)
        np.testing.assert_allclose(theirs.residual[busy], ours.residual[busy], rtol=1e-2)
        for q in busy:
            for a, b in zip(ours.coefficients[q], theirs.coefficients[q], strict=True):
                np.testing.assert_allclose(a[:6], b[:6], rtol=1e-7)
    few = on_device(system.gram, rhs, system.jacobi, rtol=1e-12, joint=True, max_steps=3)
    assert few.status.tolist() == [Status.MAX_STEPS] * 5


@pytest.mark.parametrize("started", [False, True])
def test_balance_is_kept(started):
    # βΦᴴy is so large that a residual small beside it hides what Φ does not see.
    random = np.random.default_rng(0)
    system = dct_system(4, d=128, n=40, scale=1e10)
    rhs = 1e10 * DCT(128, system.gram.operator.rows).adjoint(random.standard_normal((1, 40)))
    start = 0.5 * system.solutions(rhs) if started else None
    found = on_device(system.gram, rhs, system.jacobi, rtol=1e-3, balance=1e-2, start=start)
    x = found.x.numpy()
    r = rhs - x @ system.dense.T
    force = system.gram.diagonal * x
    assert found.converged.all()
    size = np.sum(r**2 / system.jacobi) ** 0.5
    assert size <= 1.001e-2 * np.sum(force**2 / system.jacobi) ** 0.5


def test_verdicts():
    diagonal = np.array([1.0, 1.0, 1.0, -3.0])
    gram = ShiftedGram(Dense(np.zeros((1, 4))), 1.0, diagonal)
    rhs = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 0.0], [np.nan, 0.0, 0.0, 0.0]])
    found = on_device(gram, rhs, np.ones(4), rtol=1e-9)
    assert found.status.tolist() == [Status.NOT_POSITIVE, Status.CONVERGED, Status.NOT_POSITIVE]
    assert np.isfinite(found.x.numpy()).all()
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    options = {"rtol": np.array([1e-12, 0.9, 1e-12]), "max_steps": 4}
    ours = solve(system.gram, rhs, preconditioner=system.jacobi, **options)
    theirs = on_device(system.gram, rhs, system.jacobi, **options)
    np.testing.assert_array_equal(ours.status, theirs.status)
    np.testing.assert_array_equal(ours.steps, theirs.steps)


def test_success_is_claimed_for_the_true_residual_only():
    random = np.random.default_rng(0)
    left, _ = np.linalg.qr(random.standard_normal((60, 60)))
    right, _ = np.linalg.qr(random.standard_normal((60, 60)))
    phi = ((left * np.geomspace(1, 1e-2, 60)) @ right).astype(np.float32)
    gram = ShiftedGram(Dense(phi), 1.0, np.full(60, 1e-4, np.float32))
    rhs = draw(random, (4, 60), "float32")
    rtol = np.array([1e-12, 1e-3, 1e-4, 1e-5])
    found = on_device(gram, rhs, np.ones(60, np.float32), rtol=rtol, max_steps=600)
    assert found.status[0] in (Status.STAGNATED, Status.MAX_STEPS)
    r = (torch.asarray(rhs) - moved(gram).product(found.x)).numpy().astype(float)
    own = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    assert found.converged[1:3].any()
    assert (own[found.converged] <= rtol[found.converged] * (1 + 1e-3)).all()


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
