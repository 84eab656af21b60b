"""The preconditioners by name and by vector."""

import numpy as np
import pytest
from linalg_cases import draw, random_system

from cofem.operators import Dense
from cofem.solvers import preconditioner_diagonal, solve

PHI = np.random.default_rng(0).standard_normal((6, 4)) * [1, 10, 0.1, 3]
OP = Dense(PHI)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_names(dtype):
    like = np.zeros(4, dtype)
    real = like.real.dtype
    assert preconditioner_diagonal("none", OP, like) is None
    one = preconditioner_diagonal("identity", OP, like)
    np.testing.assert_array_equal(one, np.ones(4))
    jacobi = preconditioner_diagonal("jacobi", OP, like)
    np.testing.assert_allclose(jacobi, (PHI**2).sum(axis=0), rtol=1e-6)
    assert one.dtype == jacobi.dtype == real


def test_any_positive_vector():
    theta = np.array([1, 2, 3, 4])
    for given in (theta, theta.tolist(), theta.astype(np.float32)):
        out = preconditioner_diagonal(given, OP, np.zeros(4))
        np.testing.assert_array_equal(out, theta)
        assert out.dtype == np.float64


@pytest.mark.parametrize(
    "bad",
    [
        "Jacobi",
        "",
        np.ones(3),
        np.ones((4, 1)),
        [1.0, 0.0, 1.0, 1.0],
        [1.0, -1.0, 1.0, 1.0],
        [1.0, np.nan, 1.0, 1.0],
        [1.0, np.inf, 1.0, 1.0],
        ["a", "b", "c", "d"],
        None,
        1.0,
    ],
)
def test_bad_input_is_named(bad):
    with pytest.raises((ValueError, TypeError), match="preconditioner"):
        preconditioner_diagonal(bad, OP, np.zeros(4))


@pytest.mark.parametrize("seed", range(3))
def test_they_change_the_path_not_the_answer(seed):
    system = random_system(seed, decades=4)
    rhs = draw(np.random.default_rng(seed), (3, 40), "float64")
    exact = system.solutions(rhs)
    random = np.random.default_rng(seed)
    choices = {
        "none": None,
        "identity": system.gram.scale + system.gram.diagonal,
        "jacobi": system.jacobi,
        "vector": system.gram.scale * random.uniform(0.5, 2, 40) + system.gram.diagonal,
    }
    steps = {}
    for name, diagonal in choices.items():
        found = solve(system.gram, rhs, preconditioner=diagonal, rtol=1e-12)
        np.testing.assert_allclose(found.x, exact, rtol=1e-7, atol=1e-12)
        steps[name] = found.steps.max()
    assert steps["jacobi"] < steps["none"]  # α over four decades is what M is for
