"""Column norms and norms that are estimated, and adjoints that are found to be wrong."""

import numpy as np
import pytest
from adapter_cases import A, functions
from operator_tools import random_array

from cofem.operators import (
    Convolution,
    Dense,
    Diagonal,
    Fourier,
    Identity,
    check_adjoint,
    from_functions,
)
from cofem.operators.norms import estimate_column_norms_squared, norm_squared

# -- the dot test and norms -----------------------------------------------------


@pytest.mark.parametrize(
    "adjoint",
    [lambda y: 2 * (y @ A), lambda y: -(y @ A), lambda y: y @ A[::-1], lambda y: 1.001 * (y @ A)],
)
def test_wrong_adjoints_are_found(adjoint):
    with pytest.raises(
        ValueError, match=r"R: adjoint does not match forward: ⟨Φx, y⟩ = .*relative diff"
    ):
        check_adjoint(functions(adjoint=adjoint), name="R")


def test_a_wrong_factor_is_found_at_any_size_and_in_single_precision():
    n = 200_000
    op = from_functions(lambda z: z, lambda y: 1.01 * y, (n, n), float)
    with pytest.raises(ValueError, match="adjoint does not match forward"):
        check_adjoint(op, like=np.empty(0, np.float32))


def test_a_forgotten_conjugate_is_found():
    op = from_functions(lambda z: z * 1j, lambda y: y * 1j, (3, 3), complex)
    with pytest.raises(ValueError, match="adjoint does not match forward"):
        check_adjoint(op)


def test_functions_that_write_into_their_argument_are_found():
    def forward(z):
        z *= 2
        return z @ A.T

    with pytest.raises(ValueError, match="phi: forward changes its argument in place"):
        check_adjoint(functions(forward))


def test_zero_operator_passes():
    check_adjoint(from_functions(lambda z: 0 * z, lambda y: 0 * y, (3, 3), float))


@pytest.mark.parametrize("like", [np.empty(0), np.empty(0, np.float32)])
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (Dense(random_array((700, 20), "complex128", 0)), True),
        (Dense(random_array((20, 700), "complex128", 0)), True),
        (Dense(random_array((600, 700), "float64", 0)), False),
        (Dense(random_array((600, 700), "complex128", 0)), False),
    ],
)
def test_estimated_column_norms(op, exact, like):
    estimate = estimate_column_norms_squared(op, like)
    truth = np.sum(np.abs(op.matrix) ** 2, axis=0)
    if exact:
        np.testing.assert_allclose(estimate, truth, rtol=1e-4)
    else:
        assert np.all(estimate > 0)
        error = np.std(estimate / truth)  # √(2/64) for real, √(1/64) for complex
        assert error < 0.22
        assert estimate.dtype == like.dtype


@pytest.mark.parametrize(("dtype", "claimed"), [("float64", 2 / 64), ("complex128", 1 / 64)])
def test_estimated_norms_are_as_good_as_documented(dtype, claimed):
    op = Dense(random_array((600, 3000), dtype, 0))
    ratio = estimate_column_norms_squared(op, np.empty(0)) / op.column_norms_squared()
    # 3,000 columns: three standard errors of a mean and of a standard deviation.
    assert ratio.mean() == pytest.approx(1, abs=3 * np.sqrt(claimed / 3000) + 0.005)
    assert ratio.std() == pytest.approx(np.sqrt(claimed), rel=0.06)
    assert np.mean((ratio < 0.5) | (ratio > 2)) < 0.002
    one_entry = Diagonal(random_array((600,), dtype, 1))
    np.testing.assert_allclose(
        estimate_column_norms_squared(one_entry, np.empty(0)), one_entry.column_norms_squared()
    )


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_estimated_norms_depend_on_the_seed_alone(kind, monkeypatch):
    op = Convolution(np.array([1.0, -0.5, 0.25]), 600)
    like = np.empty(0) if kind == "numpy" else pytest.importorskip("torch").empty(0).double()
    first = estimate_column_norms_squared(op, like, seed=1)
    assert bool((first == estimate_column_norms_squared(op, like, seed=1)).all())
    assert not bool((first == estimate_column_norms_squared(op, like, seed=2)).all())
    monkeypatch.setattr("cofem.operators.norms.BLOCK", 600 * 7)  # less memory, other blocks
    again = estimate_column_norms_squared(op, like, seed=1)
    np.testing.assert_allclose(np.asarray(again), np.asarray(first), rtol=1e-12)


def test_estimates_in_blocks(monkeypatch):
    op = Convolution(np.ones(3), 600)
    monkeypatch.setattr("cofem.operators.norms.BLOCK", 600 * 7)
    estimate = estimate_column_norms_squared(op, np.empty(0), n_probes=640)
    np.testing.assert_allclose(estimate.mean(), op.column_norms_squared().mean(), rtol=0.05)
    tall = Dense(random_array((600, 20), "float64", 0))
    np.testing.assert_allclose(
        estimate_column_norms_squared(tall, np.empty(0)), tall.column_norms_squared()
    )


@pytest.mark.parametrize(
    "op", [Dense(A), Fourier(8, [0, 1]), Diagonal(np.array([1.0, -5.0])), 0 * Identity(3)]
)
def test_norm_squared(op):
    truth = np.linalg.norm(op.to_dense(), 2) ** 2
    estimate = norm_squared(op)
    assert isinstance(estimate, float)
    assert truth * 0.98 <= estimate <= truth * (1 + 1e-9) + 1e-300
