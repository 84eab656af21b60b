"""On an NVIDIA GPU: recorded functions, the joint rule, selections and the memory's limit."""

import contextlib

import numpy as np
import pytest

import cofem
from cofem import backend, simulate
from cofem.backend.device_memory import DeviceMemory
from cofem.operators import DCT
from cofem.solvers import ShiftedGram, solve
from cofem.solvers.probe_rows import probe_sums, sample_variance
from cofem.solvers.steps import choice

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA = "cuda"


def blend(x, y, times):
    return times * x + y, torch.sum(x * y, dtype=torch.float64)


def test_a_recorded_function_gives_what_it_gave_before():
    backend.forget_engines()
    random = np.random.default_rng(0)
    for n in (7, 1000):
        kept = []
        for times in (2.0, 2.0, 3.0, 2.0, 3.0, 3.0):
            x, y = (torch.asarray(random.standard_normal((3, n)), device=CUDA) for _ in range(2))
            kept.append((backend.in_one_launch(blend, x)(x, y, times=times), blend(x, y, times)))
        # All of them at the end: a later call leaves what earlier ones returned alone.
        for found, wanted in kept:
            for a, b in zip(found, wanted, strict=True):
                assert torch.equal(a, b)


def test_a_recorded_function_takes_rows_of_a_larger_array():
    rows = torch.arange(24.0, device=CUDA).reshape(4, 6)
    for _ in range(3):
        found, _ = backend.in_one_launch(blend, rows)(rows[::2, ::3], rows[1::2, 1::3], times=2.0)
        assert torch.equal(found, 2 * rows[::2, ::3] + rows[1::2, 1::3])


@contextlib.contextmanager
def without_fused_kernels():
    """Solve by the steps for any array library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "has_engine", lambda x: False)
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("started", [False, True])
def test_the_joint_rule_is_that_of_the_solver_for_any_library(dtype, started):
    made = simulate.dct(3000, seed=0)
    generator = torch.Generator(CUDA).manual_seed(0)
    rhs = torch.randn(5, 3000, device=CUDA, dtype=dtype, generator=generator)
    rhs[1] *= 1e3
    alpha = 10 ** (2 * torch.rand(3000, device=CUDA, dtype=dtype, generator=generator))
    start = 0.1 * rhs if started else None
    for rtol in (1e-2, 1e-4):
        options = {"rtol": rtol, "start": start, "max_steps": 200, "joint": True}
        fused = solve(ShiftedGram(made.phi, 30.0, alpha), rhs, **options)
        with without_fused_kernels():
            wanted = solve(ShiftedGram(made.phi, 30.0, alpha), rhs, **options)
        np.testing.assert_array_equal(fused.status, wanted.status)
        np.testing.assert_array_equal(fused.steps, wanted.steps)
        close = 1e-3 if dtype == torch.float32 else 1e-9
        assert float((fused.x - wanted.x).abs().max()) < close * float(wanted.x.abs().max())


def test_the_papers_setting_is_solved_as_by_the_solver_for_any_library():
    made = simulate.dct(2048, seed=1)
    y = torch.asarray(made.y, device=CUDA)
    options = {"noise_precision": 1e4, "method": cofem.CoFEM.paper(), "max_iter": 6, "tol": 0.0}
    fused = cofem.fit(made.phi, y, **options)
    with without_fused_kernels():
        plain = cofem.fit(made.phi, y, **options)  # the same probes
    assert fused.history["cg_steps"] == plain.history["cg_steps"]
    gap = float((fused.mean - plain.mean).abs().max() / plain.mean.abs().max())
    assert gap < 1e-4, gap  # ten times what the systems are solved to


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("number", [1, 2, 20])
def test_sums_over_probes(dtype, number):
    random = np.random.default_rng(0)
    p, x = (random.standard_normal((2, number, 1001)) for _ in range(2))
    p, x = ((v[0] + 1j * v[1] if "complex" in dtype else v[0]).astype(dtype) for v in (p, x))
    scaling = random.random(1001).astype(x.real.dtype)
    moved = [torch.asarray(v, device=CUDA) for v in (p, x, scaling)]
    ours, theirs = probe_sums(p, x, scaling), probe_sums(*moved)
    close = 1e-5 if x.real.dtype == np.float32 else 1e-12
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(b.cpu().numpy(), a, rtol=close, atol=close)
    n = {"n": number}
    ours = sample_variance(*ours, dtype=scaling.dtype, **n)
    theirs = sample_variance(*theirs, dtype=moved[2].dtype, **n)
    for a, b in zip(ours, theirs, strict=True):
        assert b.dtype == moved[2].dtype
        np.testing.assert_allclose(b.cpu().numpy(), a, rtol=close, atol=close)


@pytest.mark.parametrize("repeats", [False, True])
def test_selections_are_put_back_on_the_device(repeats):
    random = np.random.default_rng(0)
    rows = random.integers(0, 200, 500) if repeats else random.permutation(200)[:70]
    operator = DCT(200, rows)
    y = random.standard_normal((3, len(rows)))
    on_gpu = operator.adjoint(torch.asarray(y, device=CUDA))
    np.testing.assert_allclose(on_gpu.cpu().numpy(), operator.adjoint(y), atol=1e-12)


def test_the_memory_of_a_device_is_counted_and_limited():
    memory = DeviceMemory(CUDA, 2**31)
    try:
        held = torch.zeros(1 << 20, device=CUDA)
        del held
        assert 1 << 22 <= memory.peak() < 1 << 24
        memory.reset()
        assert memory.peak() < 1 << 22
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            torch.zeros(1 << 30, device=CUDA)
    finally:
        DeviceMemory(CUDA, 1e15)


def test_a_full_device_says_what_to_do():
    made = simulate.dct(1 << 20, seed=0)
    rhs = torch.ones(8, 1 << 20, device=CUDA)
    alpha = torch.ones(1 << 20, device=CUDA)
    try:
        DeviceMemory(CUDA, torch.cuda.memory_allocated() + 2**26)  # for a sixth of the arrays
        with pytest.raises(MemoryError, match=r"no room for 8 systems of 1,048,576 unknowns"):
            solve(ShiftedGram(made.phi, 30.0, alpha), rhs, rtol=1e-2)
    finally:
        DeviceMemory(CUDA, 1e15)
    assert solve(ShiftedGram(made.phi, 30.0, alpha), rhs, rtol=1e-2).converged.all()


def test_a_fit_that_cannot_fit_is_refused_before_it_starts():
    made = simulate.dct(1 << 20, seed=0)
    y = torch.asarray(made.y, device=CUDA)
    with pytest.raises(MemoryError, match=r"device cuda:0 has left .* lower block"):
        cofem.fit(made.phi, y, noise_precision=1e4, prior="ard",
                  method=cofem.CoFEM(n_probes=10**5, block=10**5))  # fmt: skip
