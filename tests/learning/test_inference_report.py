"""What the covariance-free E-step reports, and its options."""

import dataclasses

import numpy as np
import pytest
from inference_cases import DICTIONARIES, family, task_on

from cofem import simulate
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.exact import CholeskyEStep
from cofem.model.choosing import cheapest
from cofem.model.methods import EM, CoFEM, Woodbury

# -- reporting -----------------------------------------------------------------


def reported(name, seed, beta=100.0, options=None):
    """Return the report and the exact variances and evidence."""
    task, like, alpha = task_on(DICTIONARIES[name], seed, beta)
    estep = CovarianceFreeEStep(task, options or CoFEM(), like, seed)
    report = estep.report(alpha, estep.moments(alpha, None, 1, last=True))
    exact = CholeskyEStep(task, like).moments(alpha, None, 1, last=False)
    return report, exact, alpha


@pytest.mark.parametrize("shrinkage", [True, False])
@pytest.mark.parametrize("beta", [1.0, 100.0, 1e4])
def test_the_stated_error_of_the_variance_is_its_error(beta, shrinkage):
    within = []
    for name in DICTIONARIES:
        for seed in range(8):
            report, exact, _ = reported(name, seed, beta, CoFEM(shrinkage=shrinkage))
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
