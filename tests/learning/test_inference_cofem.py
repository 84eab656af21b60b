"""The covariance-free E-step against dense formulas: learning."""

import numpy as np
import pytest
from inference_cases import DICTIONARIES, family, task_on

from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.exact import CholeskyEStep
from cofem.model.methods import CoFEM
from cofem.operators import from_functions
from cofem.solvers import ShiftedGram, estimate_diagonal


def h_matrix(op, alpha, beta):
    """H = (I + βα^-½ΦᴴΦα^-½)⁻¹, so that Σ = α^-½ H α^-½."""
    phi = op.to_dense() if not op.is_complex else op.to_dense(np.empty(0, complex))
    scaled = phi / np.sqrt(alpha)
    return np.linalg.inv(np.eye(len(alpha)) + beta * scaled.conj().T @ scaled)


# -- learning ------------------------------------------------------------------


@pytest.mark.parametrize("name", DICTIONARIES)
def test_the_mean_is_the_dense_one(name):
    op = DICTIONARIES[name]
    for seed in range(3):
        task, like, alpha = task_on(op, seed)
        exact = CholeskyEStep(task, like).moments(alpha, None, 1, last=False)
        estep = CovarianceFreeEStep(task, CoFEM(mean_rtol=1e-10), like, seed)
        for last in (False, True):
            found = estep.moments(alpha, None, 1, last)
            size = abs(exact.mean).max()
            np.testing.assert_allclose(found.mean, exact.mean, rtol=0, atol=1e-7 * size)
            assert found.trouble == ""
            assert (found.variance is None) == last


@pytest.mark.parametrize("name", DICTIONARIES)
def test_learning_moments_are_unbiased(name):
    # Many probes and a moderate α, so that no estimate touches its bounds.
    op = DICTIONARIES[name]
    task, like, _ = task_on(op, 0, beta=1.0)
    norms = op.column_norms_squared()
    alpha = norms * np.random.default_rng(2).uniform(0.5, 2, op.shape[1])
    options = CoFEM(n_probes=64, probe_rtol=1e-6, shrinkage=False, block=64)
    exact = np.diag(h_matrix(op, alpha, 1.0)).real
    draws, freedom = [], []
    for seed in range(60):
        found = CovarianceFreeEStep(task, options, like, seed).moments(alpha, None, 1, False)
        draws.append(found.variance * alpha)
        freedom.append(found.freedom)
    z = (np.mean(draws, axis=0) - exact) / (np.std(draws, axis=0, ddof=1) / 60**0.5)
    # 48 scores of Student's t, 59 degrees of freedom, all within 4.7: error rate 1e-3.
    assert (abs(z) < 4.7).all()
    t = (np.mean(freedom) - (1 - exact).sum()) / (np.std(freedom, ddof=1) / 60**0.5)
    assert abs(t) < 4


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("beta", [1.0, 1e4])
def test_scaled_probes_have_a_variance_of_at_most_a_quarter(name, beta):
    # MATH.md, measured 2: [(H²)_jj − H_jj²]/K ≤ H_jj(1 − H_jj)/K ≤ 1/(4K) for every Φ.
    op = DICTIONARIES[name]
    alpha = 10 ** np.random.default_rng(3).uniform(-2, 4, op.shape[1])
    H = h_matrix(op, alpha, beta)
    formula = (abs(H) ** 2).sum(axis=1) - np.diag(H).real ** 2
    bound = np.diag(H).real * (1 - np.diag(H).real)
    assert (formula <= bound * (1 + 1e-6) + 1e-12).all()
    found = estimate_diagonal(
        ShiftedGram(op, beta, alpha), np.sqrt(alpha),
        like=np.empty(0, complex if op.is_complex else float), n_probes=2000, seed=0,
        preconditioner=beta * op.column_norms_squared() + alpha, rtol=1e-6, max_steps=2000,
        block=2000,
    )  # fmt: skip
    # A sample variance of 2000 of a kurtosis up to 9: 6.7 % a standard error, five of them.
    assert (found.variance <= 1.34 * bound + 1e-9).all()
    assert (found.variance <= 0.25 * 1.34).all()


def test_unscaled_probes_have_no_such_bound():
    op = DICTIONARIES["gaussian"]
    alpha = 10 ** np.random.default_rng(3).uniform(-2, 4, 48)
    found = estimate_diagonal(
        ShiftedGram(op, 100.0, alpha), np.ones(48), like=np.empty(0), n_probes=200, seed=0,
        preconditioner=100 * op.column_norms_squared() + alpha, rtol=1e-6, max_steps=2000,
    )  # fmt: skip
    assert (found.variance * alpha**2).max() > 10 * 0.25


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("options", [CoFEM(n_probes=1), CoFEM(), CoFEM(shrinkage=False)])
def test_learning_variances_keep_their_bounds(name, options):
    op = DICTIONARIES[name]
    for seed in range(5):
        task, like, alpha = task_on(op, seed, beta=1e3)
        found = CovarianceFreeEStep(task, options, like, seed).moments(alpha, None, 1, False)
        largest = 1e3 * op.column_norms_squared() + alpha
        assert (found.variance >= 1 / largest * (1 - 1e-10)).all()
        assert (found.variance <= 1 / alpha * (1 + 1e-10)).all()


def test_bounds_hold_for_operators_that_are_only_functions():
    # ‖φ_j‖² is an estimate there, so the bound must come from ‖Φ‖ instead.
    random = np.random.default_rng(0)
    phi = random.standard_normal((520, 600)) / 520**0.5
    op = from_functions(lambda z: z @ phi.T, lambda y: y @ phi, (520, 600), float)
    task, like, alpha = task_on(op, 0)
    estep = CovarianceFreeEStep(task, CoFEM(), like, 0)
    moments = estep.moments(alpha, None, 1, False)
    ceiling = 100 * np.linalg.norm(phi, 2) ** 2
    for variance in (moments.variance, estep.report(alpha, moments).variance):
        assert (variance >= 1 / (1.2 * ceiling + alpha)).all()
        assert (variance <= 1 / alpha * (1 + 1e-10)).all()


def test_a_warm_start_saves_steps():
    task, like, alpha = task_on(DICTIONARIES["dct"], 0)
    estep = CovarianceFreeEStep(task, CoFEM(), like, 0)
    cold = estep.moments(alpha, None, 1, last=True)
    warm = estep.moments(alpha * 1.001, cold.mean, 2, last=True)
    assert warm.cg_steps < cold.cg_steps


def test_too_few_steps_are_told():
    task, like, alpha = task_on(DICTIONARIES["convolution"], 0, beta=1e4)
    found = CovarianceFreeEStep(task, CoFEM(max_cg_steps=2), like, 0).moments(alpha, None, 1, True)
    assert "CG steps" in found.trouble


@pytest.mark.parametrize("joint", [False, True])
def test_an_iteration_goes_on_from_the_last_mean(joint):
    """Except with one tolerance for all systems, where the paper starts them all at zero."""
    task, like, alpha = task_on(DICTIONARIES["gaussian"], 0)
    [exact] = CholeskyEStep(task, like).moments(alpha, None, 1, last=False).mean
    options = CoFEM(joint_tolerance=joint, mean_rtol=1e-3, probe_rtol=1e-2)
    found = CovarianceFreeEStep(task, options, like, 0).moments(alpha, exact[None], 2, False)
    error = np.linalg.norm(found.mean[0] - exact) / np.linalg.norm(exact)
    assert (error > 1e-6) == joint


@pytest.mark.parametrize("length", [0.1, 3.0])
def test_orthogonal_columns_behind_functions_have_exact_variances(length):
    """Their norms are only bounded, and the bound must not hold a variance up."""
    d, beta = 600, 25.0  # so many that norms of columns are estimated
    op = from_functions(lambda z: length * z, lambda y: length * y, (d, d), float)
    alpha = np.geomspace(0.01, 100, d)
    family_of = family(op, np.ones(d), beta)
    assert not op.exact_column_norms
    estep = CovarianceFreeEStep(family_of, CoFEM(shrinkage=False), np.zeros(0), 0)
    found = estep.moments(alpha, None, 1, False)
    np.testing.assert_allclose(found.variance, 1 / (alpha + beta * length**2), rtol=0.02)
