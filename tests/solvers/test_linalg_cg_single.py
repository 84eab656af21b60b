"""Systems of a loose tolerance are solved in single precision, and nobody need know."""

from typing import ClassVar

import numpy as np
import pytest

from cofem.operators import DCT, FiniteDifference, Fourier
from cofem.solvers import cg, solve
from cofem.solvers.systems import ShiftedGram, SparsifiedGram
from cofem.solvers.verdicts import Status

D = 2048


class Spy(cg.NumpySteps):
    """The steps, with a list of the precisions and heights it was asked for."""

    seen: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, matrix, rhs, *arguments, **options):
        Spy.seen.append((str(options["dtype"]), len(rhs)))
        super().__init__(matrix, rhs, *arguments, **options)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    Spy.seen = []
    monkeypatch.setattr(cg, "BLOCK", D * 8)  # one row in double precision
    monkeypatch.setattr(cg, "NumpySteps", Spy)


def system(kind, seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(D, D // 3, replace=False))
    alpha = 10.0 ** rng.uniform(-3, 3, D)
    if kind == "complex":
        mask = np.zeros(D, dtype=bool)
        mask[rows] = True
        phi = Fourier((D,), mask=mask)
    else:
        phi = DCT(D, rows)
    rhs = rng.normal(size=(7, D)) * np.sqrt(alpha)
    if kind == "complex":
        rhs = rhs + 1j * rng.normal(size=(7, D)) * np.sqrt(alpha)
    if kind == "sparsified":
        R = FiniteDifference((D,), axis=0)
        return SparsifiedGram(DCT(D), 100.0, R, alpha + 1.0), rhs, None
    return ShiftedGram(phi, 100.0, alpha), rhs, 100.0 * phi.column_norms_squared() + alpha


def size(r, inverse):
    return np.sqrt(np.sum(np.abs(r) ** 2 * inverse, axis=-1))


@pytest.mark.parametrize("kind", ["real", "complex", "sparsified"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tolerance_is_met_in_double_precision(kind, seed):
    matrix, rhs, preconditioner = system(kind, seed)
    rtol = np.array([1e-8, 1e-8, 0.03, 0.03, 0.03, 0.03, 0.03])
    found = solve(matrix, rhs, preconditioner=preconditioner, rtol=rtol, max_steps=3000)
    assert found.converged.all()
    narrow = "complex64" if kind == "complex" else "float32"
    wide = "complex128" if kind == "complex" else "float64"
    assert sorted(Spy.seen) == sorted([(wide, 1), (wide, 1), (narrow, 4), (narrow, 1)])
    assert found.x.dtype == rhs.dtype
    inverse = 1.0 if preconditioner is None else 1 / preconditioner
    relative = size(rhs - matrix.product(found.x), inverse) / size(rhs, inverse)
    assert np.all(relative <= rtol * (1 + 1e-4))


def test_the_bound_on_the_tolerance_is_kept():
    matrix, rhs, preconditioner = system("real", 0)
    solve(matrix, rhs, preconditioner=preconditioner, rtol=0.009, max_steps=500)
    assert {dtype for dtype, _ in Spy.seen} == {"float64"}


def test_a_small_batch_stays_whole(monkeypatch):
    monkeypatch.setattr(cg, "BLOCK", 1 << 19)
    matrix, rhs, preconditioner = system("real", 0)
    solve(matrix, rhs, preconditioner=preconditioner, rtol=0.03, max_steps=500)
    assert Spy.seen == [("float64", 7)]


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_units_beyond_single_precision_are_solved_in_double(unit):
    matrix, rhs, preconditioner = system("real", 1)
    found = solve(matrix, rhs * unit, preconditioner=preconditioner, rtol=0.03, max_steps=500)
    assert found.converged.all()
    assert {dtype for dtype, _ in Spy.seen} == {"float64"}
    left = size(rhs - matrix.product(found.x / unit), 1 / preconditioner)
    assert np.all(left <= 0.0301 * size(rhs, 1 / preconditioner))


def test_weights_beyond_single_precision_are_solved_in_double():
    matrix, rhs, preconditioner = system("real", 1)
    matrix.diagonal[:5] = preconditioner[:5] = 1e60
    found = solve(matrix, rhs, preconditioner=preconditioner, rtol=0.03, max_steps=500)
    assert found.converged.all()
    left = size(rhs - matrix.product(found.x), 1 / preconditioner)
    assert np.all(left <= 0.0301 * size(rhs, 1 / preconditioner))


def test_what_single_precision_cannot_solve_is_solved_again(monkeypatch):
    matrix, rhs, preconditioner = system("real", 2)
    attempts = []

    class Failing(cg.Controller):
        def run(self):
            found = super().run()
            dtype = self._steps.p.dtype
            attempts.append((str(dtype), found.rows))
            if dtype == np.float32:
                found.status[:] = Status.STAGNATED
            return found

    monkeypatch.setattr(cg, "Controller", Failing)
    found = solve(matrix, rhs, preconditioner=preconditioner, rtol=0.03, max_steps=500)
    assert found.converged.all()
    assert {dtype for dtype, _ in attempts} == {"float32", "float64"}
    assert found.rows == sum(rows for _, rows in attempts)  # both attempts are paid for


def test_double_precision_says_what_is_wrong():
    # An indefinite matrix is named as such, not as a failure of single precision.
    matrix, rhs, _ = system("real", 0)
    wrong = ShiftedGram(matrix.operator, 1.0, -np.ones(D))
    found = solve(wrong, rhs, rtol=0.03, max_steps=50)
    assert np.any(found.status == Status.NOT_POSITIVE)
    assert {dtype for dtype, _ in Spy.seen} == {"float32", "float64"}


def test_warming_up_compiles_for_both_precisions():
    cg.warm_up()
    assert [dtype for dtype, _ in Spy.seen] == ["float64", "float32"]
