"""The masked solver for other array libraries does what the NumPy one does."""

import array_api_strict
import numpy as np
import pytest
from linalg_cases import draw, eps, random_system

from cofem import backend
from cofem.operators import Dense
from cofem.solvers import ShiftedGram, Status, kernels, solve
from cofem.solvers.quadrature import log_quadratic_form
from cofem.solvers.steps.array_steps import ArrayKernels

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

LIBRARIES = {"torch": torch.asarray, "strict": array_api_strict.asarray}


@pytest.fixture(params=LIBRARIES)
def convert(request):
    return lambda x: LIBRARIES[request.param](np.array(x))


def moved(system, convert):
    gram = system.gram
    return ShiftedGram(Dense(convert(gram.operator.matrix)), gram.scale, convert(gram.diagonal))


def both(system, convert, rhs, **options):
    """Return what NumPy's solver and the masked one find."""
    other = {k: convert(v) if k in ("preconditioner", "start") else v for k, v in options.items()}
    return (
        solve(system.gram, rhs, **options),
        solve(moved(system, convert), convert(rhs), **other),
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_same_solutions_steps_and_verdicts(convert, dtype, seed, joint, warm):
    system = random_system(seed, dtype)
    random = np.random.default_rng(seed)
    rhs = draw(random, (5, 40), dtype)
    if not joint:
        rhs[3] = 0
    options = {
        "preconditioner": system.jacobi,
        "rtol": 1e-6 if joint else np.array([1e-2, 1e-8, 1e-4, 1e-6, 1e-6]),
        "joint": joint,
    }
    if warm:
        start = system.solutions(rhs) * (1 + 1e-3 * random.standard_normal(rhs.shape))
        options["start"] = start.astype(dtype)
    ours, theirs = both(system, convert, rhs, **options)
    assert type(theirs.x) is type(convert(rhs))
    np.testing.assert_array_equal(ours.status, theirs.status)
    # Rounding may tip a system over its tolerance a step earlier or later.
    assert (abs(ours.steps - theirs.steps) <= 1).all()
    same = ours.steps == theirs.steps
    assert same.sum() >= 4
    x = backend.to_numpy(theirs.x)
    np.testing.assert_allclose(x[same], ours.x[same], rtol=0, atol=1e-8 * abs(ours.x).max())
    if not joint:
        true = system.residual(x, rhs, system.jacobi)
        np.testing.assert_allclose(theirs.residual, true, rtol=0, atol=1e-13)
        assert (true <= options["rtol"] * (1 + 1e-5)).all()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_same_solutions_in_single_precision(convert, dtype):
    system = random_system(1, dtype, decades=1.5)
    rhs = draw(np.random.default_rng(0), (4, 40), dtype)
    ours, theirs = both(system, convert, rhs, preconditioner=system.jacobi, rtol=1e-5)
    assert theirs.converged.all()
    x = backend.to_numpy(theirs.x)
    assert x.dtype == np.dtype(dtype)
    exact = system.solutions(rhs)
    allowed = 1e-5 * np.linalg.cond(system.dense) * abs(exact).max()
    np.testing.assert_allclose(x, exact, rtol=0, atol=allowed)
    np.testing.assert_allclose(ours.x, exact, rtol=0, atol=allowed)


def test_same_coefficients(convert):
    system = random_system(2)
    rhs = draw(np.random.default_rng(0), (4, 40), "float64")
    rhs[2] = 0
    ours, theirs = both(
        system, convert, rhs, preconditioner=system.jacobi,
        rtol=np.array([1e-1, 1e-6, 1e-6, 1e-3]), keep_coefficients=True,
    )  # fmt: skip
    for (a, b), (c, d) in zip(ours.coefficients, theirs.coefficients, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-6)
        np.testing.assert_allclose(b, d, rtol=1e-6)
    assert theirs.coefficients[2] == ([], [])


def test_indefinite_is_named(convert):
    diagonal = np.array([1.0, 1.0, 1.0, -3.0])
    gram = ShiftedGram(Dense(convert(np.zeros((1, 4)))), 1.0, convert(diagonal))
    rhs = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 0.0]])
    found = solve(gram, convert(rhs), rtol=1e-9)
    assert found.status.tolist() == [Status.NOT_POSITIVE, Status.CONVERGED]
    np.testing.assert_allclose(backend.to_numpy(found.x)[1], rhs[1], rtol=1e-9)


def test_a_zero_right_hand_side_stays_under_the_joint_rule(convert):
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    rhs[1] = 0
    found = solve(moved(system, convert), convert(rhs), rtol=1e-6, joint=True)
    assert found.converged.all()
    assert (backend.to_numpy(found.x)[1] == 0).all()


def test_max_steps_is_named(convert):
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    ours, theirs = both(system, convert, rhs, rtol=np.array([1e-12, 0.9, 1e-12]), max_steps=3)
    np.testing.assert_array_equal(ours.status, theirs.status)
    np.testing.assert_array_equal(ours.steps, theirs.steps)
    assert theirs.status[0] == Status.MAX_STEPS


def hard(seed, convert, smallest=1e-4, d=60):
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.standard_normal((d, d)))
    right, _ = np.linalg.qr(random.standard_normal((d, d)))
    phi = ((left * np.geomspace(1, smallest**0.5, d)) @ right).astype(np.float32)
    gram = ShiftedGram(Dense(convert(phi)), 1.0, convert(np.full(d, smallest, np.float32)))
    wide = phi.astype(float)
    return gram, wide.T @ wide + smallest * np.eye(d)


def true_residual(dense, x, rhs):
    r = rhs.astype(float) - x.astype(float) @ dense.T
    return np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("rtol", "max_steps"), [(1e-3, 170), (1e-4, 200), (1e-5, 240), (1e-4, 500), (1e-5, 900)]
)
def test_success_is_claimed_for_the_true_residual_only(convert, seed, rtol, max_steps):
    gram, dense = hard(seed, convert)
    rhs = draw(np.random.default_rng(seed), (6, 60), "float32")
    tolerance = np.full(6, rtol)
    tolerance[0] = 1e-12  # this one runs to the end beside the others
    found = solve(gram, convert(rhs), rtol=tolerance, max_steps=max_steps)
    x = backend.to_numpy(found.x)
    unseen = 8 * eps("float32") * np.linalg.norm(x, axis=1) / np.linalg.norm(rhs, axis=1)
    claimed = found.converged
    assert (true_residual(dense, x, rhs)[claimed] <= (tolerance + unseen)[claimed]).all()
    assert not claimed[0]
    if max_steps == 500:
        assert claimed[1:].any()
    # In the solver's own arithmetic, by the products it uses: no allowance for rounding.
    r = backend.to_numpy(convert(rhs) - gram.product(found.x)).astype(float)
    own = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    assert (own[claimed] <= tolerance[claimed] * (1 + 1e-3)).all()


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_survive_a_restart(convert, seed):
    # A system that stopped early and had to go on has idle steps in between; they
    # must not enter its tridiagonal matrix, whose eigenvalues lie in A's spectrum.
    gram, dense = hard(seed, convert)
    rhs = draw(np.random.default_rng(seed), (5, 60), "float32")
    rtol = np.array([1e-2, 1e-3, 1e-4, 1e-5, 3e-6])
    found = solve(gram, convert(rhs), rtol=rtol, max_steps=600, keep_coefficients=True)
    low, high = np.linalg.eigvalsh(dense)[[0, -1]]
    for coefficients in found.coefficients:
        form = log_quadratic_form(coefficients)
        assert np.log(low) - 1 <= form <= np.log(high) + 1e-3


# -- kernels -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 5), (7, 3000), (3, 20_000), (0, 4)])
def test_kernels_agree(dtype, shape):
    random = np.random.default_rng(0)
    real = np.dtype(dtype).type(0).real.dtype
    p, g, x, r = (draw(random, shape, dtype) for _ in range(4))
    weight = random.uniform(0.5, 2, shape[1]).astype(real)
    step = random.uniform(0.5, 2, shape[0]).astype(real)
    theirs = ArrayKernels(backend.namespace(p))
    close = {"rtol": 200 * eps(dtype), "atol": 200 * eps(dtype)}

    np.testing.assert_allclose(
        kernels.weighted_norm_squared(r, weight), theirs.weighted_norm_squared(r, weight), **close
    )
    wanted_g, wanted_curvature = theirs.curvature(p, g, weight)
    curvature = kernels.curvature(p, g, weight)  # changes g
    np.testing.assert_allclose(g, wanted_g, **close)
    size = (abs(p) * abs(wanted_g)).sum(axis=1)  # positive and negative terms cancel
    assert (abs(curvature - wanted_curvature) <= 200 * eps(dtype) * size).all()
    wanted_x, wanted_r, wanted_rho = theirs.descend(x, r, p, g, step, weight)
    start = [a.copy() for a in (r, p)]
    rho = kernels.descend(r, g, step, weight)  # changes r
    np.testing.assert_allclose(r, wanted_r, **close)
    np.testing.assert_allclose(rho, wanted_rho, **close)
    wanted_p = theirs.turn(p, r, 3 * step, weight)
    kernels.turn(x, p, r, step, 3 * step, weight)  # changes x and p
    np.testing.assert_allclose(x, wanted_x, **close)
    np.testing.assert_allclose(p, wanted_p, **close)
    wanted_r = start[0] - (g + weight * x)
    rho = kernels.begin_at(x, *start, g, weight, weight)  # changes both
    np.testing.assert_allclose(start[0], wanted_r, **close)
    np.testing.assert_allclose(start[1], weight * wanted_r, **close)
    np.testing.assert_allclose(rho, theirs.weighted_norm_squared(wanted_r, weight), **close)
    assert all(a.dtype == np.dtype(dtype) for a in (x, r, p, g))


def test_kernels_do_not_hide_nan():
    # They are compiled with reordered sums, but NaN must keep its meaning.
    r = np.ones((2, 40))
    r[1, 7] = np.nan
    out = kernels.weighted_norm_squared(r, np.ones(40))
    assert out[0] == 40
    assert np.isnan(out[1])
    assert np.isnan(kernels.curvature(r, np.ones((2, 40)), np.ones(40))[1])
