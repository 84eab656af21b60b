"""Probes that are made in the solver's threads give what probes given as an array give."""

import numpy as np
import pytest

from cofem.operators import DCT, Fourier
from cofem.solvers import ExtraSystems, cg, estimate_diagonal, rademacher
from cofem.solvers.probe_rows import ProbeRows
from cofem.solvers.systems import ShiftedGram

D = 600


def written_down(number, dimension, like, seed):
    """The same probes; but not that very function, and so an array."""
    return rademacher(number, dimension, like, seed)


def system(dtype, seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(D, D // 3, replace=False))
    real = np.dtype(dtype).type(0).real.dtype
    alpha = (10.0 ** rng.uniform(-1, 2, D)).astype(real)
    mask = np.isin(np.arange(D), rows)
    phi = Fourier((D,), mask=mask) if np.dtype(dtype).kind == "c" else DCT(D, rows)
    like = np.zeros(D, dtype)
    rhs = (100 * phi.adjoint(phi.forward(rng.normal(size=(2, D)).astype(dtype)))).astype(dtype)
    return ShiftedGram(phi, 100.0, alpha), alpha, like, rhs


def estimate(matrix, alpha, like, probes, rtol, **options):
    return estimate_diagonal(
        matrix,
        np.sqrt(alpha),
        like=like,
        n_probes=7,
        seed=3,
        preconditioner=33 + alpha,
        rtol=rtol,
        max_steps=500,
        probes=probes,
        **options,
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [16, 3])
def test_both_ways_agree(dtype, seed, block, monkeypatch):
    monkeypatch.setattr(cg, "BLOCK", 2 * D * 8)  # several parts for several threads
    matrix, alpha, like, rhs = system(dtype, seed)
    eps = np.finfo(dtype).eps
    extra = ExtraSystems(rhs, None, 1e3 * eps)
    found, wanted = (
        estimate(matrix, alpha, like, probes, 1e3 * eps, block=block, extra=extra)
        for probes in (rademacher, written_down)
    )
    assert found.diagonal.dtype == alpha.dtype
    np.testing.assert_allclose(found.diagonal, wanted.diagonal, atol=1e5 * eps)
    np.testing.assert_allclose(found.variance, wanted.variance, atol=1e5 * eps)
    np.testing.assert_allclose(found.extra, wanted.extra, rtol=1e5 * eps, atol=1e5 * eps)
    np.testing.assert_array_equal(found.status, wanted.status)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_loose_systems_are_made_in_single_precision_and_close(dtype, monkeypatch):
    matrix, alpha, like, _ = system(dtype, 0)
    wanted = estimate(matrix, alpha, like, rademacher, 1e-2)
    made = []

    class Watched(cg.NumpySteps):
        def __init__(self, matrix, rhs, *arguments, **options):
            made.append(rhs.dtype)
            super().__init__(matrix, rhs, *arguments, **options)

    monkeypatch.setattr(cg, "BLOCK", D * 8)
    monkeypatch.setattr(cg, "NumpySteps", Watched)
    found = estimate(matrix, alpha, like, rademacher, 1e-2)
    assert set(made) == {np.dtype(np.complex64 if np.dtype(dtype).kind == "c" else np.float32)}
    np.testing.assert_allclose(found.diagonal, wanted.diagonal, atol=1e-4)


def test_a_share_without_probes_adds_nothing():
    rows = ProbeRows(np.zeros((0, 4), np.uint8), np.ones(4), np.ones((2, 4)))
    rows.take(slice(0, 2), rows.rows(slice(0, 2), np.dtype(float)), np.full((2, 4), 5.0))
    np.testing.assert_array_equal(rows.solution, 5.0)
    np.testing.assert_array_equal(rows.sums(), np.zeros((2, 4)))


def test_no_system_at_all_is_solved_at_once():
    # More processes than systems: one of them has nothing to do.
    matrix, alpha, _, _ = system(np.float64, 0)
    rows = ProbeRows(np.zeros((0, D), np.uint8), np.sqrt(alpha))
    assert cg.solve(matrix, rows).x.shape == (0, D)
    np.testing.assert_array_equal(rows.sums(), np.zeros((2, D)))


def test_the_peak_bounds_what_is_made():
    rng = np.random.default_rng(0)
    scaling = rng.uniform(1, 2, 50)
    given = 7.0 * np.eye(50)[:1]
    rows = ProbeRows(rng.integers(0, 2, (3, 50), np.uint8), scaling, given)
    assert rows.peak(slice(0, 4)) == 7.0
    assert rows.peak(slice(1, 4)) == scaling.max()
