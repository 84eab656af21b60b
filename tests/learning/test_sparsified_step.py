"""The covariance-free E-step behind a sparsifier, against dense formulas."""

import numpy as np
import pytest

from cofem.learning.moments.covariance_free import LEAST_H, CovarianceFreeEStep
from cofem.learning.moments.exact import CholeskyEStep
from cofem.model.methods import CoFEM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense, FiniteDifference

D, N, BETA = 40, 30, 50.0
SPARSIFIER = FiniteDifference((D,), axis=0)


def made(seed, options=None):
    random = np.random.default_rng(seed)
    phi = Dense(random.normal(size=(N, D)) / np.sqrt(N))
    task = Task(phi, random.normal(size=N), BETA)
    family = Model((task,), Tie(), sparsifier=SPARSIFIER).families[0]
    alpha = 10 ** random.uniform(-1, 2, SPARSIFIER.shape[0])
    like = np.empty(0)
    step = CovarianceFreeEStep(family, options or CoFEM(), like, seed, sparsifier=SPARSIFIER)
    return step, CholeskyEStep(family, like, SPARSIFIER), alpha


def exact_variances(step, alpha):
    r, phi = SPARSIFIER.to_dense(), step.family.operator.to_dense()
    return np.diag(np.linalg.inv(BETA * phi.T @ phi + r.T @ (alpha[:, None] * r)))


def test_the_stated_error_of_the_variances_is_their_error():
    scores = []
    for seed in range(30):
        step, _, alpha = made(seed)
        report = step.report(alpha, step.moments(alpha, None, 1, last=False))
        scores.append((report.variance - exact_variances(step, alpha)) / report.variance_error)
    # 1200 scores with 31 degrees of freedom, a share 0.946 of them within two; they are correlated
    # within a problem: taken as ten independent ones each, three standard errors are 0.04.
    within = np.mean(np.abs(scores) < 2)
    assert 0.90 < within < 0.99
    assert np.std(scores) == pytest.approx(1.0, abs=0.15)


def test_moments_are_those_of_dense_algebra_up_to_the_probes():
    many = CoFEM(n_probes=600)
    step, exact, alpha = made(0, many)
    found = step.moments(alpha, None, 1, last=False)
    expected = exact.moments(alpha, None, 1, last=False)
    np.testing.assert_allclose(found.mean, expected.mean, atol=2e-2)
    np.testing.assert_allclose(found.sparse_mean, SPARSIFIER.forward(found.mean), rtol=1e-12)
    # Each h is known to about √(h (1 − h)/600) ≤ 0.02: five of them.
    h, exact_h = found.variance * alpha, expected.variance * alpha
    np.testing.assert_allclose(h, np.clip(exact_h, LEAST_H, 1), atol=0.1)
    assert abs(np.mean(h - exact_h)) < 0.01
    assert found.freedom == pytest.approx(expected.freedom, rel=0.1)


@pytest.mark.parametrize("scaled", [False, True])
def test_variances_stay_between_their_bounds(scaled):
    step, _, alpha = made(1, CoFEM(n_probes=2, scaled_probes=scaled))
    found = step.moments(alpha, None, 1, last=False)
    h = found.variance * alpha
    assert (h >= LEAST_H * (1 - 1e-12)).all()
    assert (h <= 1 + 1e-12).all()
    if found.count is not None:
        assert (h <= found.count * (1 + 1e-12)).all()


def test_without_report_probes_there_are_no_variances():
    step, _, alpha = made(0, CoFEM(report_probes=0))
    report = step.report(alpha, step.moments(alpha, None, 1, last=False))
    assert np.isnan(report.variance).all()
    assert report.variance.shape == (D,)
    assert np.isnan(report.variance_error).all()


def test_a_pull_on_the_differences_moves_the_mean_as_in_dense_algebra():
    step, exact, alpha = made(0)
    pull = np.random.default_rng(1).normal(size=(1, SPARSIFIER.shape[0]))
    found = step.moments(alpha, None, 1, False, pull)
    expected = exact.moments(alpha, None, 1, False, pull)
    plain = exact.moments(alpha, None, 1, False)
    scale = np.abs(expected.mean - plain.mean).max()
    assert np.abs(found.mean - expected.mean).max() < 0.05 * scale
