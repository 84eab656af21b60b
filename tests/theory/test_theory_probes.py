"""The spread of probed variances: Lemma 1, Theorem 1 and the bound without assumptions."""

import math

import numpy as np
import pytest
from theory_cases import DICTIONARIES, covariance, dense, limit_of_em, random_support

from cofem import theory
from cofem.solvers import rademacher

# -- Lemma 1 -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("n_probes", [1, 7])
def test_lemma_1_is_what_monte_carlo_finds(dtype, n_probes):
    random = np.random.default_rng(n_probes)
    half = random.standard_normal((2, 20, 20))
    matrix = half[0] + (1j * half[1] if dtype == "complex128" else 0)
    matrix = (matrix + matrix.conj().T).astype(dtype)
    trials = 20_000
    probes = rademacher(trials * n_probes, 20, np.empty(0, matrix.dtype), seed=1)
    one = (probes.conj() * (probes @ matrix.T)).real.reshape(trials, n_probes, 20).mean(axis=1)
    # The sample variance of 20,000 draws whose kurtosis is at most 9 (a Rademacher sum has
    # at most 3, one sign alone 1) has a relative error below √(8/20000) = 0.02; 0.1 is five
    # of those, and 40 numbers are compared: one false alarm in 10⁵ runs.
    expected = theory.probe_std(matrix, n_probes)
    np.testing.assert_allclose(one.var(axis=0), expected**2, rtol=0.1)


def test_a_diagonal_matrix_is_estimated_without_error():
    assert np.all(theory.probe_std(np.diag([1.0, 2.0, 3.0]), 1) == 0)


def test_probe_std_leaves_its_argument_alone():
    matrix = np.ones((3, 3))
    matrix.flags.writeable = False
    theory.probe_std(matrix, 2)
    assert matrix[0, 0] == 1


# -- Theorem 1 -----------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in DICTIONARIES if n != "fourier"])
@pytest.mark.parametrize("theta", [None, "jacobi", "best", "array"])
def test_theorem_1_holds_on_random_supports(name, theta):
    op, beta, K = DICTIONARIES[name], 50.0, 3
    rows = np.random.default_rng(0).uniform(0.2, 5.0, op.shape[1])
    for seed in range(5 if theta == "best" else 20):
        support = random_support(op, seed)
        spread = theory.probe_std(covariance(op, limit_of_em(op, support, seed), beta), K)
        given = rows if theta == "array" else theta
        bound = theory.std_bound(op, support, beta, K, given)
        assert spread[support].max() <= bound * (1 + 1e-9)
        inactive = np.setdiff1d(np.arange(op.shape[1]), support)
        assert spread[inactive].max() <= 1e-6 * bound


def test_theorem_1_is_the_printed_formula():
    op, support = DICTIONARIES["uneven"], random_support(DICTIONARIES["uneven"], 3)
    columns = dense(op)[:, np.sort(support)]
    gram, theta = columns.T @ columns, np.linspace(0.5, 2, 60)
    xi = np.linalg.norm(np.diag(1 / theta[np.sort(support)]) @ gram - np.eye(12), 2)
    smallest = np.linalg.svd(columns, compute_uv=False)[-1] ** 2
    expected = xi / (math.sqrt(20) * 1e4 * smallest)
    assert theory.std_bound(op, support, 1e4, 20, theta) == pytest.approx(expected, rel=1e-9)
    mask = np.isin(np.arange(60), support)
    assert theory.std_bound(op, mask, 1e4, 20, theta) == pytest.approx(expected, rel=1e-9)


def test_the_isometry_form_bounds_theorem_1_and_meets_it_for_two_columns():
    # Two unit columns with inner product δ are a (2, δ) isometry, and no better one.
    delta = 0.3
    phi = np.array([[1.0, delta], [0.0, math.sqrt(1 - delta**2)]])
    exact = theory.std_bound(phi, [0, 1], 100.0, 5)
    assert theory.std_bound_rip(delta, 100.0, 5) == pytest.approx(exact, rel=1e-12)
    assert theory.residual_bound_rip(delta, 7) == pytest.approx(
        theory.residual_bound(phi, [0, 1], 7), rel=1e-12
    )


def test_dependent_columns_have_no_bound():
    phi = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert theory.std_bound(phi, [0, 1], 1.0, 1) == math.inf
    assert theory.condition_bound(phi, [0, 1]) == math.inf
    assert theory.residual_bound(phi, [0, 1], 5) == 2.0


# -- the bound without assumptions ------------------------------------------------


@pytest.mark.parametrize("name", DICTIONARIES)
def test_the_assumption_free_bound_holds_for_every_dictionary(name):
    op, K = DICTIONARIES[name], 4
    for seed in range(10):
        random = np.random.default_rng(seed)
        alpha = 10 ** random.uniform(-3, 5, op.shape[1])
        sigma = covariance(op, alpha, beta=10 ** random.uniform(0, 4))
        root = np.sqrt(alpha)
        # s_j = p_j x_j/√α_j with A x = √α∘p: Lemma 1 for α^-½ (√αΣ√α) α^-½.
        spread = theory.probe_std(root[:, None] * sigma * root, K) / alpha
        sharp = theory.assumption_free_std_bound(alpha, K, np.diag(sigma).real)
        assert np.all(spread <= sharp * (1 + 1e-9) + 1e-300)
        assert np.all(sharp <= theory.assumption_free_std_bound(alpha, K))


def test_unscaled_probes_break_the_assumption_free_bound():
    # What the scaling is for: without it the same number of probes gives no such bound.
    op = DICTIONARIES["uneven"]
    alpha = 10 ** np.random.default_rng(0).uniform(-3, 5, op.shape[1])
    spread = theory.probe_std(covariance(op, alpha, 100.0), 4)
    assert np.any(spread > theory.assumption_free_std_bound(alpha, 4))
