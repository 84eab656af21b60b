"""Probes in single precision, the mean in double: nothing of the answer is lost."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.solvers import cg

D = 2**14  # large enough for the solver to share out its systems


def made_real(problem):
    return problem.phi, problem.y


def made_complex(problem):
    phi = cofem.operators.Fourier((D,), mask=np.isin(np.arange(D), problem.phi.rows))
    noise = simulate.dct(D, seed=9).y[: phi.shape[0]] * 1e-3
    return phi, phi.forward(problem.z * np.exp(1j * np.arange(D))) + noise


@pytest.mark.parametrize("made", [made_real, made_complex])
@pytest.mark.parametrize("seed", range(2))
def test_the_posterior_is_that_of_double_precision(made, seed, monkeypatch):
    problem = simulate.dct(D, seed=seed)
    phi, y = made(problem)
    alpha = 1 / (problem.z**2 + 1e-4)

    def posterior():
        return cofem.posterior(
            phi, y, precision=alpha, noise_precision=1e4, method="cofem", seed=seed
        )

    mixed = posterior()
    monkeypatch.setattr(cg, "SINGLE_RTOL", np.inf)
    double = posterior()
    assert np.any(mixed.variance != double.variance)  # it was not double all along
    np.testing.assert_array_equal(mixed.mean, double.mean)
    np.testing.assert_allclose(mixed.variance, double.variance, rtol=1e-5)
    np.testing.assert_allclose(mixed.variance_error, double.variance_error, rtol=1e-4)
    assert abs(mixed.log_evidence - double.log_evidence) < 1e-3 * double.log_evidence_error


def test_the_fit_is_that_of_double_precision(monkeypatch):
    problem = simulate.dct(D, seed=0)

    def error():
        post = cofem.fit(
            problem.phi, problem.y, noise_precision=problem.noise_precision, method="cofem",
            max_iter=25, tol=0.0,
        )  # fmt: skip
        return simulate.nrmse(post.mean, problem.z)

    mixed = error()
    monkeypatch.setattr(cg, "SINGLE_RTOL", np.inf)
    assert mixed == pytest.approx(error(), rel=1e-3)
