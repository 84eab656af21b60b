"""The theory in use: its recommendation, every form of Φ, its page, and what it refuses."""

import doctest
import math
from pathlib import Path

import numpy as np
import pytest
from theory_cases import DICTIONARIES, dense, random_support

from cofem import simulate, theory
from cofem.operators import from_functions
from cofem.theory.advice import _range

# -- advice --------------------------------------------------------------------


def test_the_recommendation_follows_from_its_bounds():
    phi = DICTIONARIES["gaussian"]
    advice = theory.recommend(phi, 6, accuracy=0.1, rtol=1e-8, n_supports=4, seed=3)
    assert advice.n_probes == 25
    random = np.random.default_rng(3)
    worst = max(
        theory.condition_bound(phi, random.choice(60, size=6, replace=False)) for _ in range(4)
    )
    assert advice.condition == pytest.approx(worst, rel=1e-9)
    assert advice.cg_steps == theory.steps_needed(worst, 1e-8)
    assert f"K = {advice.n_probes}" in advice.reason
    assert f"U = {advice.cg_steps}" in advice.reason
    with pytest.raises(AttributeError):
        advice.n_probes = 3


def test_steps_do_not_grow_with_the_dimension_at_a_fixed_sparsity():
    steps = [theory.recommend(simulate.dct(D, 0).phi, D // 10).cg_steps for D in (256, 1024, 2048)]
    assert max(steps) <= 1.3 * min(steps)


@pytest.mark.parametrize("name", ["gaussian", "dct", "fourier"])
def test_large_supports_get_their_range_without_a_matrix(name, monkeypatch):
    op, support = DICTIONARIES[name], np.sort(random_support(DICTIONARIES[name], 1))
    formed = _range(op, support)
    monkeypatch.setattr("cofem.theory.advice.DENSE_UP_TO", 5)
    np.testing.assert_allclose(_range(op, support), formed, rtol=1e-2)


def test_functions_and_matrices_are_the_same_phi():
    op = DICTIONARIES["dct"]
    given = from_functions(op.forward, op.adjoint, op.shape, np.float64)
    support = random_support(op, 0)
    forms = [op, dense(op), dense(op).astype("float32"), given]
    values = [theory.std_bound(phi, support, 10.0, 2) for phi in forms]
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


def test_the_page_about_the_theory_runs():
    page = Path(__file__).parents[2] / "docs" / "notes" / "theory.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 0
    assert failed == 0


# -- the door ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.probe_std(np.ones((2, 3)), 1), "matrix must be square"),
        (lambda: theory.probe_std(np.full((2, 2), np.nan), 1), "matrix must be finite"),
        (lambda: theory.probe_std(np.eye(2), 0), "n_probes must be at least 1"),
        (lambda: theory.std_bound(np.eye(3), [], 1.0, 1), "support is empty"),
        (lambda: theory.std_bound(np.eye(3), [3], 1.0, 1), "phi has columns 0 to 2"),
        (lambda: theory.std_bound(np.eye(3), [1, 1], 1.0, 1), "names a column twice"),
        (lambda: theory.std_bound(np.eye(3), [True], 1.0, 1), "mask of shape"),
        (lambda: theory.std_bound(np.eye(3), [0], 0.0, 1), "noise_precision must be positive"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, "worst"), "theta must be"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, [1.0]), "theta must have shape"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, -1.0), "theta must be positive"),
        (lambda: theory.std_bound_rip(1.0, 1.0, 1), "delta must be"),
        (lambda: theory.residual_bound(np.eye(3), [0], -1), "steps must be at least 0"),
        (lambda: theory.residual_bound(np.zeros((2, 2)), [0], 1, "jacobi"), "column of phi"),
        (lambda: theory.steps_needed(0.5, 0.1), "condition must be at least 1"),
        (lambda: theory.steps_needed(math.inf, 0.1), "linearly dependent"),
        (lambda: theory.steps_needed(2.0, 0.0), "rtol must lie"),
        (lambda: theory.recommend(np.eye(3), 4), "linearly dependent"),
        (lambda: theory.recommend(np.eye(3), 1, accuracy=1.0), "accuracy must lie"),
        (lambda: theory.assumption_free_std_bound(-1.0, 1), "precision must be positive"),
        (lambda: theory.assumption_free_std_bound(1.0, 1, 2.0), "must not exceed"),
        (lambda: theory.assumption_free_std_bound(1.0, 1, [0.1]), "variance has shape"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
