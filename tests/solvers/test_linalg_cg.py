"""Batched CG against LAPACK: the answer, its tolerance, and the start."""

import numpy as np
import pytest
from linalg_cases import DTYPES, dct_system, draw, eps, random_system

from cofem.operators import DCT, Dense, Diagonal, from_functions
from cofem.solvers import CGResult, ShiftedGram, Status, solve

SEEDS = range(4)


# -- the answer ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("preconditioned", [True, False])
def test_solves_what_lapack_solves(dtype, seed, preconditioned):
    system = random_system(seed, dtype, decades=2)
    rhs = draw(np.random.default_rng(100 + seed), (5, 40), dtype)
    rtol = 100 * eps(dtype)
    found = solve(
        system.gram, rhs, preconditioner=system.jacobi if preconditioned else None, rtol=rtol
    )
    assert found.converged.all()
    assert found.x.dtype == rhs.dtype
    expected = system.solutions(rhs)
    # ‖x − x*‖ ≤ ‖A⁻¹‖ ‖r‖, and ‖r‖ ≤ rtol √cond(M) ‖b‖.
    condition = np.linalg.cond(system.dense)
    error = np.linalg.norm(found.x - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert (error <= rtol * condition).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_rows_give_what_lapack_gives(seed):
    system = dct_system(seed)
    rhs = draw(np.random.default_rng(seed), (150, 512), "float64")  # three blocks
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-10)
    assert found.x.shape == rhs.shape
    assert found.steps.shape == found.status.shape == found.residual.shape == (150,)
    np.testing.assert_allclose(found.x, system.solutions(rhs), rtol=0, atol=1e-9)


def test_threads_do_not_change_a_bit(monkeypatch):
    system = dct_system(0)
    rhs = draw(np.random.default_rng(0), (150, 512), "float64")
    start = draw(np.random.default_rng(1), (150, 512), "float64")
    rtol = np.geomspace(1e-1, 1e-9, 150)

    def with_threads(count: str) -> CGResult:
        monkeypatch.setenv("COFEM_NUM_THREADS", count)
        return solve(
            system.gram, rhs, preconditioner=system.jacobi, start=start, rtol=rtol,
            keep_coefficients=True,
        )  # fmt: skip

    one, two = with_threads("1"), with_threads("2")
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.steps, two.steps)
    np.testing.assert_array_equal(one.residual, two.residual)
    assert one.coefficients == two.coefficients
    assert one.rows == two.rows


def test_rows_do_not_disturb_each_other():
    system = random_system(3, decades=1)
    rhs = draw(np.random.default_rng(5), (6, 40), "float64")
    rtol = np.array([1e-2, 1e-8, 1e-4, 1e-7, 1e-1, 1e-6])
    together = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=rtol)
    assert (system.residual(together.x, rhs, system.jacobi) <= rtol * (1 + 1e-6)).all()
    for q in range(6):
        alone = solve(system.gram, rhs[q : q + 1], preconditioner=system.jacobi, rtol=rtol[q])
        # Matrix products of one row and of six round differently, so a step more or less.
        assert abs(alone.steps[0] - together.steps[q]) <= 1
        distance = np.linalg.norm(together.x[q] - alone.x[0])
        bound = 2 * rtol[q] * np.linalg.cond(system.dense) * np.linalg.norm(alone.x[0])
        assert distance <= bound


def test_a_view_of_the_input_as_output_does_no_harm():
    # Identity-like operators may hand their argument back; CG writes into products.
    gram = ShiftedGram(Diagonal(np.ones(5)), 2.0, np.ones(5))
    rhs = np.random.default_rng(0).standard_normal((3, 5))
    np.testing.assert_allclose(solve(gram, rhs, rtol=1e-12).x, rhs / 3, rtol=1e-12)
    gram = ShiftedGram(DCT(5), 2.0, np.ones(5))
    np.testing.assert_allclose(solve(gram, rhs, rtol=1e-12).x, rhs / 3, rtol=1e-12)


# -- tolerance, steps, residual --------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("preconditioned", [True, False])
def test_every_system_stops_at_its_own_tolerance(dtype, preconditioned):
    system = random_system(1, dtype)
    rhs = np.repeat(draw(np.random.default_rng(2), (1, 40), dtype), 5, axis=0)
    rtol = np.array([1e-1, 1e-3, 1e-5, 1e-7, 1e-9])
    diagonal = system.jacobi if preconditioned else None
    found = solve(system.gram, rhs, preconditioner=diagonal, rtol=rtol)
    true = system.residual(found.x, rhs, diagonal)
    assert (true <= rtol * (1 + 1e-5)).all()
    assert (np.diff(found.steps) > 0).all()
    # It stops at the first step that is good enough, not later.
    for q in range(5):
        options = {"preconditioner": diagonal, "rtol": rtol[q]}
        alone = solve(system.gram, rhs[q : q + 1], **options)
        short = solve(system.gram, rhs[q : q + 1], max_steps=int(alone.steps[0]) - 1, **options)
        assert short.status[0] == Status.MAX_STEPS
        assert short.residual[0] > rtol[q]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rtol", [1e-1, 1e-3])
def test_the_residual_reported_is_the_true_one(dtype, rtol):
    system = random_system(2, dtype)
    rhs = draw(np.random.default_rng(3), (4, 40), dtype)
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=rtol)
    true = system.residual(found.x, rhs, system.jacobi)
    # The recursion drifts by eps ‖M⁻¹A‖ ‖x‖ a step.
    np.testing.assert_allclose(found.residual, true, rtol=0, atol=50 * eps(dtype))


def test_max_steps_is_named_and_the_best_so_far_returned():
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    found = solve(system.gram, rhs, rtol=1e-12, max_steps=3)
    assert (found.status == Status.MAX_STEPS).all()
    assert (found.steps == 3).all()
    assert found.rows == 9  # none is multiplied once more
    assert not found.converged.any()
    np.testing.assert_allclose(found.residual, system.residual(found.x, rhs), rtol=1e-8)
    assert "more" in Status.MAX_STEPS.message


def test_rows_counts_every_row_multiplied():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((30, 40))
    multiplied = []

    def counted(function):
        def call(x):
            multiplied.append(x.shape[0])
            return function(x)

        return call

    op = from_functions(
        counted(lambda z: z @ matrix.T), counted(lambda y: y @ matrix), (30, 40), float
    )
    gram = ShiftedGram(op, 1.0, np.full(40, 5.0))
    start = random.standard_normal((5, 40))
    found = solve(gram, random.standard_normal((5, 40)), start=start, rtol=1e-8)
    assert 2 * found.rows == sum(multiplied)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_rows_are_counted_in_any_array_library(library):
    xp, multiplied = pytest.importorskip(library), []

    class Counted(ShiftedGram):
        def bulk(self, x):
            multiplied.append(int(x.shape[0]))
            return super().bulk(x)

        def with_unit_scale(self):
            return self

    random = np.random.default_rng(0)
    phi, rhs = random.standard_normal((30, 40)), random.standard_normal((5, 40))
    gram = Counted(Dense(xp.asarray(phi)), 1.0, xp.asarray(np.full(40, 5.0)))
    assert solve(gram, xp.asarray(rhs), rtol=1e-8).rows == sum(multiplied) > 0


# -- starts and zeros ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_exact_start_takes_no_step(dtype):
    system = random_system(4, dtype, decades=1)
    rhs = draw(np.random.default_rng(4), (3, 40), dtype)
    start = system.solutions(rhs).astype(dtype)
    found = solve(
        system.gram, rhs, preconditioner=system.jacobi, start=start, rtol=1e4 * eps(dtype)
    )
    assert (found.steps == 0).all()
    assert found.converged.all()
    np.testing.assert_array_equal(found.x, start)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_close_start_saves_steps_and_is_not_changed(seed):
    system = random_system(seed)
    random = np.random.default_rng(seed)
    rhs = draw(random, (4, 40), "float64")
    exact = system.solutions(rhs)
    start = exact * (1 + 1e-3 * random.standard_normal(exact.shape))
    start.flags.writeable = False
    before = start.copy()
    cold = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-6)
    warm = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-6, start=start)
    assert (warm.steps < cold.steps).all()
    assert (system.residual(warm.x, rhs, system.jacobi) <= 1e-6 * (1 + 1e-6)).all()
    np.testing.assert_array_equal(start, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_right_hand_sides_are_solved_at_once(dtype):
    system = random_system(0, dtype)
    rhs = draw(np.random.default_rng(0), (4, 40), dtype)
    rhs[[0, 2]] = 0
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-3)
    assert found.steps[0] == found.steps[2] == 0
    assert (found.steps[[1, 3]] > 0).all()
    assert found.converged.all()
    assert (found.x[[0, 2]] == 0).all()
    assert (found.residual[[0, 2]] == 0).all()


def test_a_zero_right_hand_side_needs_no_step_from_any_start():
    system = random_system(0)
    start = draw(np.random.default_rng(0), (2, 40), "float64")
    found = solve(system.gram, np.zeros((2, 40)), preconditioner=system.jacobi, start=start)
    assert found.steps.tolist() == [0, 0]
    assert found.converged.all()
    assert (found.x == 0).all()


@pytest.mark.parametrize("joint", [False, True])
def test_a_zero_right_hand_side_is_no_sign_of_an_indefinite_matrix(joint):
    # Under the joint rule it stays in the batch with a search direction of zero.
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    rhs[1] = 0
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-6, joint=joint)
    assert found.converged.all()
    assert (found.x[1] == 0).all()


def test_nothing_given_is_changed():
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (4, 40), "float64")
    rhs.flags.writeable = False
    system.jacobi.flags.writeable = False
    system.gram.diagonal.flags.writeable = False
    solve(system.gram, rhs, preconditioner=system.jacobi)
