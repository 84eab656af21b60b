"""CG that stays on a device: its logic on the CPU, with plain torch in place of the kernels."""

import numpy as np
import pytest
from device_cases import cheap, moved, on_device  # noqa: F401
from linalg_cases import System, dct_system, draw, random_system

from cofem.operators import DCT, Dense
from cofem.solvers import ShiftedGram, Status, solve

torch = pytest.importorskip("torch")

eager_steps = pytest.importorskip("eager_steps")

steps = pytest.importorskip("cofem.solvers.steps.cuda.steps")


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


def test_few_systems_left_leave_the_others_behind(monkeypatch, request):
    if not request.getfixturevalue("cheap"):
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
