"""Batched CG against LAPACK, and the verdict it gives on every system."""

import numpy as np
import pytest
from linalg_cases import DTYPES, dct_system, draw, eps, random_system

from cofem.linalg import CGResult, ShiftedGram, Status, solve
from cofem.linalg.quadrature import log_quadratic_form
from cofem.operators import DCT, Dense, Diagonal, LinearOperator, from_functions

SEEDS = range(4)


# -- the answer ----------------------------------------------------------------


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


# -- tolerance, steps, residual ------------------------------------------------


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


# -- starts and zeros ----------------------------------------------------------


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


# -- when it cannot work -------------------------------------------------------


def hard_system(seed, dtype="float32", d=60, smallest=1e-4):
    """Eigenvalues from 1 to ``smallest``: hard for single precision."""
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.standard_normal((d, d)))
    right, _ = np.linalg.qr(random.standard_normal((d, d)))
    phi = ((left * np.geomspace(1, smallest**0.5, d)) @ right).astype(dtype)
    alpha = np.full(d, smallest, dtype)
    wide = phi.astype(float)
    return ShiftedGram(Dense(phi), 1.0, alpha), wide.T @ wide + smallest * np.eye(d)


# Where rounding is about as large as the tolerance: most systems restart from their
# true residual and then converge, a few cannot.
EDGE = [(1e-3, 1e-5), (1e-4, 1e-4), (1e-5, 1e-3)]


@pytest.fixture
def restarts(monkeypatch):
    """Count the restarts from the true residual."""
    from cofem.linalg.cg_blocks import BlockSolver

    counted = []
    original = BlockSolver._restarted

    def restarted(self, candidates):
        out = original(self, candidates)
        counted.append(int(out.sum()))
        return out

    monkeypatch.setattr(BlockSolver, "_restarted", restarted)
    return counted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("smallest", "rtol"), EDGE)
def test_success_is_claimed_for_the_true_residual_only(seed, smallest, rtol, restarts):
    gram, dense = hard_system(seed, smallest=smallest)
    rhs = draw(np.random.default_rng(seed), (6, 60), "float32")
    found = solve(gram, rhs, rtol=rtol, max_steps=5000)
    assert sum(restarts) > 0
    assert found.converged.any()
    r = rhs.astype(float) - found.x.astype(float) @ dense.T
    true = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    # What the solver itself cannot see: rounding in its own evaluation of b − Ax.
    unseen = 8 * eps("float32") * np.linalg.norm(found.x, axis=1) / np.linalg.norm(rhs, axis=1)
    assert (true[found.converged] <= rtol + unseen[found.converged]).all()
    # In the solver's own arithmetic; it does not look where drift is a tenth of rtol.
    r = (rhs - gram.product(found.x)).astype(float)
    own = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    assert (own[found.converged] <= 1.1 * rtol).all()
    others = found.status[~found.converged]
    assert (others == Status.STAGNATED).all()
    assert (true[~found.converged] > 0.8 * rtol).all()


@pytest.mark.parametrize("seed", range(3))
def test_stagnation_is_named(seed):
    gram, dense = hard_system(seed)
    rhs = draw(np.random.default_rng(seed), (6, 60), "float32")
    found = solve(gram, rhs, rtol=1e-6, max_steps=5000)
    assert (found.status == Status.STAGNATED).all()
    assert (found.residual > 1e-6).all()
    r = rhs - found.x.astype(float) @ dense.T
    true = np.linalg.norm(r, axis=1) / np.linalg.norm(rhs, axis=1)
    # The residual told is the true one, to the rounding of its evaluation, and small.
    np.testing.assert_allclose(found.residual, true, rtol=0.5)
    assert (true < 1e-3).all()
    assert "precision" in Status.STAGNATED.message


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_indefinite_matrix_is_named(dtype):
    # diag(1, …, 1, −3): the second system never sees the negative direction.
    diagonal = np.ones(6, dtype=np.dtype(dtype).type(0).real.dtype)
    diagonal[-1] = -3
    zero = Dense(np.zeros((1, 6), dtype))
    rhs = np.zeros((2, 6), dtype)
    rhs[0], rhs[1, :3] = 1, 1
    found = solve(ShiftedGram(zero, 1.0, diagonal), rhs, rtol=1e-5)
    assert found.status.tolist() == [Status.NOT_POSITIVE, Status.CONVERGED]
    np.testing.assert_allclose(found.x[1], rhs[1], rtol=1e-5)
    assert "positive" in Status.NOT_POSITIVE.message
    assert "adjoint" in Status.NOT_POSITIVE.message


class Breaking(LinearOperator):
    """A diagonal operator whose output is NaN from the third product on."""

    shape = (8, 8)
    splits_rows = False
    calls = 0

    def _forward(self, x):
        return x * np.arange(1.0, 9.0)

    _adjoint = _forward

    def _gram(self, x):
        self.calls += 1
        return x * np.arange(1.0, 9.0) ** 2 * (np.nan if self.calls > 2 else 1.0)

    def _column_norms_squared(self, like):
        return np.arange(1.0, 9.0) ** 2


def test_nan_from_the_operator_is_named():
    gram = ShiftedGram(Breaking(), 1.0, np.ones(8))
    found = solve(gram, np.random.default_rng(0).standard_normal((2, 8)), rtol=1e-12)
    assert (found.status == Status.NOT_POSITIVE).all()
    assert (found.steps == 2).all()
    assert np.isfinite(found.x).all()


def test_nan_in_the_right_hand_side_stays_in_its_row():
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (3, 40), "float64")
    rhs[1, 7] = np.nan
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-8)
    assert found.status.tolist() == [0, Status.NOT_POSITIVE, 0]
    np.testing.assert_allclose(found.x[[0, 2]], system.solutions(rhs[[0, 2]]), rtol=1e-6)


def test_a_view_of_the_input_as_output_does_no_harm():
    # Identity-like operators may hand their argument back; CG writes into products.
    gram = ShiftedGram(Diagonal(np.ones(5)), 2.0, np.ones(5))
    rhs = np.random.default_rng(0).standard_normal((3, 5))
    np.testing.assert_allclose(solve(gram, rhs, rtol=1e-12).x, rhs / 3, rtol=1e-12)
    gram = ShiftedGram(DCT(5), 2.0, np.ones(5))
    np.testing.assert_allclose(solve(gram, rhs, rtol=1e-12).x, rhs / 3, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_coefficients_are_those_of_one_lanczos_process(seed, restarts):
    # After a restart from the true residual another process begins; its coefficients
    # do not belong to the quadrature of the first.
    gram, dense = hard_system(seed)
    rhs = draw(np.random.default_rng(seed), (5, 60), "float32")
    found = solve(gram, rhs, rtol=1e-4, max_steps=3000, keep_coefficients=True)
    assert sum(restarts) > 0
    values, vectors = np.linalg.eigh(dense)
    for q in range(5):
        exact = ((vectors.T @ rhs[q]) ** 2 * np.log(values)).sum() / (rhs[q] @ rhs[q])
        assert log_quadratic_form(found.coefficients[q]) == pytest.approx(exact, abs=0.02)


# -- balance -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("seed", SEEDS)
def test_balance_is_a_second_demand(dtype, seed):
    # Large β: a residual small beside b = βΦᴴy is large beside diag(α) x.
    system = random_system(seed, dtype, scale=1e6, decades=2)
    phi = system.gram.operator.matrix
    rhs = (1e6 * phi.conj().T @ draw(np.random.default_rng(seed), 30, dtype))[None]
    rhs = np.repeat(rhs, 3, axis=0)
    balance = np.array([0.0, 0.1, 0.001])
    found = solve(
        system.gram, rhs, preconditioner=system.jacobi, rtol=1e-3, balance=balance, max_steps=5000
    )
    assert found.converged.all()
    assert (np.diff(found.steps) > 0).all()
    r = rhs - found.x @ system.dense.T
    left = np.sqrt((abs(r) ** 2 / system.jacobi).sum(axis=1))
    pull = np.sqrt((abs(system.gram.diagonal * found.x) ** 2 / system.jacobi).sum(axis=1))
    assert (left[1:] <= balance[1:] * pull[1:] * (1 + 1e-3)).all()
    assert left[0] > 0.001 * pull[0]  # without the demand it is not met
    assert (system.residual(found.x, rhs, system.jacobi) <= 1e-3).all()


# -- the paper's joint rule ----------------------------------------------------


def algorithm_2(dense, rhs, diagonal, rtol, max_steps):
    """The paper's Alg. 2, corrected (MATH.md): all systems stop together."""
    B = rhs.T
    X, R = np.zeros_like(B), B.copy()
    W = R / diagonal[:, None]
    P, rho = W.copy(), (R.conj() * W).sum(axis=0).real
    for step in range(max_steps + 1):
        if np.linalg.norm(R) <= rtol * np.linalg.norm(B) or step == max_steps:
            return X.T, step
        Q = dense @ P
        length = rho / (P.conj() * Q).sum(axis=0).real
        X, R = X + length * P, R - length * Q
        W = R / diagonal[:, None]
        new = (R.conj() * W).sum(axis=0).real
        P, rho = W + P * (new / rho), new
    raise AssertionError


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_joint_rule_is_the_papers(dtype, rtol, seed):
    system = random_system(seed, dtype)
    random = np.random.default_rng(seed)
    rhs = draw(random, (6, 40), dtype)
    rhs[0] *= 1000  # βΦᵀy dominates, as it does in EM
    expected, steps = algorithm_2(system.dense, rhs, system.jacobi, rtol, 400)
    found = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=rtol, joint=True)
    assert (found.steps == steps).all()
    assert found.converged.all()
    np.testing.assert_allclose(found.x, expected, rtol=1e-8, atol=1e-12)
    norm = np.linalg.norm(rhs - found.x @ system.dense.T) / np.linalg.norm(rhs)
    np.testing.assert_allclose(found.residual, norm, rtol=1e-6)


def test_the_joint_rule_neglects_the_small_systems():
    # MATH.md, measured 1: a large right-hand side that is easy ends the whole batch.
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (2, 40), "float64")
    root = np.sqrt(system.jacobi)
    _, vectors = np.linalg.eigh(system.dense / np.outer(root, root))
    rhs[0] = 1e6 * root * vectors[:, 5]  # solved in one step
    joint = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-4, joint=True)
    own = solve(system.gram, rhs, preconditioner=system.jacobi, rtol=1e-4)
    assert joint.steps.tolist() == [1, 1]
    assert joint.converged.all()
    assert system.residual(joint.x, rhs, system.jacobi)[1] > 0.1
    assert own.steps[0] == 1
    assert system.residual(own.x, rhs, system.jacobi)[1] <= 1.001e-4
