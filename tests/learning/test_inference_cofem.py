"""The covariance-free E-step against dense formulas: learning and reporting."""

import dataclasses

import numpy as np
import pytest

from cofem import simulate
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.exact import CholeskyEStep
from cofem.model.choosing import cheapest
from cofem.model.methods import EM, CoFEM, Woodbury
from cofem.model.model import Model, Task, Tie
from cofem.operators import DCT, Convolution, Dense, Fourier, from_functions
from cofem.solvers import ShiftedGram, estimate_diagonal


def dictionaries(d=48):
    random = np.random.default_rng(1)
    correlated = random.standard_normal((24, 6)) @ random.standard_normal((6, d))
    return {
        "gaussian": Dense(random.standard_normal((d // 3, d)) / 4),
        "tall": Dense(random.standard_normal((2 * d, d)) / 10),
        "dct": DCT(d, np.sort(random.choice(d, d // 3, replace=False))),
        "convolution": Convolution(0.96 ** np.arange(d), d),
        "correlated": Dense(correlated + 0.1 * random.standard_normal((24, d))),
        "fourier": Fourier(d, random.random(d) < 0.5),
    }


DICTIONARIES = dictionaries()


def family(op, y, beta):
    return Model((Task(op, y, beta),), Tie()).families[0]


def task_on(op, seed, beta=100.0):
    random = np.random.default_rng(seed)
    y = random.standard_normal(op.shape[0])
    if op.is_complex:
        y = y + 1j * random.standard_normal(op.shape[0])
    return family(op, y, beta), np.empty(0, y.dtype), 10 ** random.uniform(-1, 3, op.shape[1])


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


# -- reporting -----------------------------------------------------------------


def reported(name, seed, beta=100.0, options=None):
    """Return the report and the exact variances and evidence."""
    task, like, alpha = task_on(DICTIONARIES[name], seed, beta)
    estep = CovarianceFreeEStep(task, options or CoFEM(), like, seed)
    report = estep.report(alpha, estep.moments(alpha, None, 1, last=True))
    exact = CholeskyEStep(task, like).moments(alpha, None, 1, last=False)
    return report, exact, alpha


@pytest.mark.parametrize("beta", [1.0, 100.0, 1e4])
def test_the_stated_error_of_the_variance_is_its_error(beta):
    within = []
    for name in DICTIONARIES:
        for seed in range(8):
            report, exact, _ = reported(name, seed, beta)
            score = (report.variance - exact.variance) / report.variance_error
            within.append(abs(score) < 2)
    share = np.mean(within)
    # 2304 scores, correlated within the 48 problems; a normal error would give 0.954, an
    # estimated one with 31 degrees of freedom 0.946. Three standard errors of the share,
    # taking each problem as ten independent scores, are 0.03.
    assert 0.88 < share < 0.99


@pytest.mark.parametrize("law", [simulate.gaussian, simulate.dct])
def test_reported_variances_are_accurate_on_the_active_coordinates(law):
    # MATH.md, measured 3: 0.1 for K = 32; at this size the DCT has 0.17.
    import cofem

    problem = law(256, 0)
    beta = problem.noise_precision
    learned = cofem.fit(problem.phi, problem.y, noise_precision=beta, method="em", max_iter=30,
                        tol=0.0, prior="ard")  # fmt: skip
    task, like = family(problem.phi, problem.y, beta), np.empty(0)
    estep = CovarianceFreeEStep(task, CoFEM(), like, 0)
    report = estep.report(learned.precision, estep.moments(learned.precision, None, 1, last=True))
    active = problem.z != 0
    relative = abs(report.variance / learned.variance - 1)[active]
    assert np.sqrt(np.mean(relative**2)) < 0.2
    stated = report.variance_error[active] / learned.variance[active]
    assert np.sqrt(np.mean(stated**2)) == pytest.approx(np.sqrt(np.mean(relative**2)), rel=0.5)


@pytest.mark.parametrize("name", DICTIONARIES)
def test_reported_variances_keep_their_bounds(name):
    for seed in range(5):
        report, _, alpha = reported(name, seed, beta=1e3)
        largest = 1e3 * DICTIONARIES[name].column_norms_squared() + alpha
        assert (report.variance >= 1 / largest * (1 - 1e-10)).all()
        assert (report.variance <= 1 / alpha * (1 + 1e-10)).all()
        assert (report.variance_error >= 0).all()


@pytest.mark.parametrize("preconditioner", ["jacobi", "identity", "none"])
def test_the_evidence_is_within_its_error_of_the_exact_one(preconditioner):
    scores = []
    for name in DICTIONARIES:
        for seed in range(4):
            options = CoFEM(preconditioner=preconditioner)
            report, exact, _ = reported(name, seed, options=options)
            scores.append((report.log_evidence - exact.log_evidence) / report.log_evidence_error)
    # 24 scores of Student's t with 31 degrees of freedom: one beyond 3 has a
    # probability of 0.12, two of 0.007; the seeds are fixed.
    assert np.sum(np.abs(scores) > 3) <= 1
    assert np.abs(scores).max() < 4
    assert abs(np.mean(scores)) < 3 / 24**0.5  # and no bias


def test_without_reporting_probes_there_is_no_evidence():
    task, like, alpha = task_on(DICTIONARIES["dct"], 0)
    estep = CovarianceFreeEStep(task, CoFEM(report_probes=0), like, 0)
    moments = estep.moments(alpha, None, 1, last=True)
    assert moments.variance is not None
    report = estep.report(alpha, moments)
    assert np.isnan(report.log_evidence)
    assert np.isnan(report.variance_error).all()
    assert report.variance is moments.variance


# -- options -------------------------------------------------------------------


def test_the_papers_setting():
    paper = CoFEM.paper()
    assert paper.n_probes == 20
    assert paper.max_cg_steps == 400
    assert paper.probe_rtol == paper.mean_rtol == 1e-4
    assert paper.joint_tolerance
    assert not paper.scaled_probes
    assert not paper.shrinkage
    assert paper.preconditioner == "identity"
    assert paper.initial_precision == 1.0
    assert paper.block >= 21  # the joint rule needs all systems in one batch


def test_options_are_frozen():
    for options in (CoFEM(), EM(), Woodbury()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            options.initial_precision = 2.0


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n_probes", 0), ("n_probes", -1), ("n_probes", 2.5), ("n_probes", "8"),
        ("max_cg_steps", 0), ("report_probes", -1), ("block", 0),
        ("probe_rtol", 0.0), ("probe_rtol", 2.0), ("mean_rtol", -1e-6), ("mean_rtol", np.nan),
        ("report_rtol", "tight"), ("initial_precision", 0.0), ("initial_precision", -1.0),
        ("initial_precision", np.nan), ("probes", "normal"),
    ],
)  # fmt: skip
def test_bad_options_are_named(field, bad):
    with pytest.raises((ValueError, TypeError), match=field):
        CoFEM(**{field: bad})


@pytest.mark.parametrize("kind", [EM, Woodbury])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, "one"])
def test_bad_options_of_the_exact_methods_are_named(kind, bad):
    with pytest.raises((ValueError, TypeError), match="initial_precision"):
        kind(initial_precision=bad)


def test_auto_is_exact_when_small_and_covariance_free_when_large():
    assert cheapest(50, 200, dense=True).name in ("em", "woodbury")
    assert cheapest(200, 50, dense=True).name == "em"
    assert cheapest(2**16, 2**18, dense=False).name == "cofem"
    assert cheapest(5000, 20_000, dense=True).name == "cofem"


@pytest.mark.parametrize("seed", range(2))
def test_the_simulated_problems_are_solved_in_the_papers_setting(seed):
    # On an easy problem the paper's own setting works as well.
    import cofem

    problem = simulate.dct(256, seed, sparsity=0.04)
    post = cofem.fit(
        problem.phi, problem.y, noise_precision=problem.noise_precision,
        method=CoFEM.paper(), max_iter=40, tol=0.0,
    )  # fmt: skip
    assert simulate.nrmse(post.mean, problem.z) < 3
    assert post.options == CoFEM.paper()
