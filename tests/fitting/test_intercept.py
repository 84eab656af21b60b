"""An unpenalised constant, against the dense posterior with an explicit column of ones."""

import math

import numpy as np
import pytest
from intercept_cases import BETA, D, N, problem, sparse_problem

import cofem

# The prior precision of the column of ones, to which the data give BETA * N. Flatter than this
# the dense log evidence has no digits left.
FLAT = 1e-6


def dense_posterior(phi, y, alpha, beta, weights=None):
    """Mean, covariance and log evidence with the constant as the last coordinate."""
    n = len(y)
    w = np.ones(n) if weights is None else weights
    both = np.column_stack([phi, np.ones(n)])
    prior = np.append(alpha, FLAT)
    covariance = np.linalg.inv((both.conj().T * (beta * w)) @ both + np.diag(prior))
    mean = covariance @ (both.conj().T * (beta * w)) @ y
    data = np.diag(1 / (beta * w)) + (both / prior) @ both.conj().T
    half = 1.0 if np.iscomplexobj(both) or np.iscomplexobj(y) else 0.5
    quadratic = (y.conj() @ np.linalg.solve(data, y)).real
    log_p = -half * (np.linalg.slogdet(math.pi / half * data)[1] + quadratic)
    # The flat prior has density one where the normal one has its height at zero.
    return mean, covariance, log_p - half * math.log(FLAT * half / math.pi)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_is_that_with_a_column_of_ones(seed, method, complex_):
    phi, y, alpha = problem(seed, complex_)
    mean, covariance, log_evidence = dense_posterior(phi, y, alpha, BETA)
    post = cofem.posterior(
        phi, y, precision=alpha, noise_precision=BETA, method=method, intercept=True
    )
    np.testing.assert_allclose(post.mean, mean[:-1], rtol=0, atol=1e-5)
    assert post.intercept == pytest.approx(mean[-1], abs=1e-5)
    assert isinstance(post.intercept, complex if complex_ else float)
    assert post.intercept_std == pytest.approx(math.sqrt(covariance[-1, -1].real), rel=1e-5)
    if method != "cofem":  # there it is estimated, with its error
        np.testing.assert_allclose(post.variance, np.diag(covariance)[:-1].real, rtol=1e-5)
        assert post.log_evidence == pytest.approx(log_evidence, abs=1e-4)
    else:
        assert abs(post.log_evidence - log_evidence) < 5 * post.log_evidence_error


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_predictions_know_how_the_constant_and_z_vary_together(seed, complex_):
    phi, y, alpha = problem(seed, complex_)
    mean, covariance, _ = dense_posterior(phi, y, alpha, BETA)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, intercept=True)
    for rows in (5, 300):  # solved row by row, and by a factor
        new = problem(seed + 10, complex_, n=rows)[0]
        both = np.column_stack([new, np.ones(rows)])
        spread = np.einsum("ij,jk,ik->i", both, covariance, both.conj()).real
        for noise in (False, True):
            found, std = post.predict(new, noise=noise)
            np.testing.assert_allclose(found, both @ mean, atol=1e-4)
            np.testing.assert_allclose(std**2, spread + noise / BETA, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("prior", ["mixture", "ard"])
def test_libraries_and_precisions_agree(prior, library, dtype):
    phi, y, _, _ = sparse_problem(0)
    reference = cofem.fit(phi, y, prior=prior, intercept=True, noise_std=0.1)
    phi, y = phi.astype(dtype), y.astype(dtype)
    if library == "torch":
        torch = pytest.importorskip("torch")
        phi, y = torch.asarray(phi), torch.asarray(y)
    post = cofem.fit(phi, y, prior=prior, intercept=True, noise_std=0.1)
    assert type(post.mean) is type(phi)
    assert post.mean.dtype == phi.dtype
    assert isinstance(post.intercept, float)
    assert post.intercept == pytest.approx(reference.intercept, abs=0.1 * reference.intercept_std)
    assert post.intercept_std == pytest.approx(reference.intercept_std, rel=0.05)
    np.testing.assert_allclose(np.asarray(post.mean), reference.mean, atol=0.01)
    mean, std = post.predict(phi)
    assert type(mean) is type(phi)
    assert mean.dtype == std.dtype == phi.dtype


@pytest.mark.parametrize("prior", ["mixture", "ard"])
@pytest.mark.parametrize("offset", [1e-3, 300.0, -1e6])
@pytest.mark.parametrize("seed", range(3))
def test_a_constant_in_y_changes_only_the_intercept(seed, offset, prior):
    phi, y, _, z = sparse_problem(seed)
    options = {"prior": prior, "intercept": True}
    before, after = cofem.fit(phi, y, **options), cofem.fit(phi, y + offset, **options)
    rounding = 1e-12 * abs(offset) + 1e-9
    np.testing.assert_allclose(after.mean, before.mean, atol=1e3 * rounding)
    assert after.noise_precision == pytest.approx(before.noise_precision, rel=1e-4)
    assert after.intercept - offset == pytest.approx(before.intercept, abs=1e3 * rounding)
    assert after.intercept_std == pytest.approx(before.intercept_std, rel=1e-4)
    assert np.linalg.norm(after.mean - z) < 0.1 * np.linalg.norm(z)


@pytest.mark.parametrize("prior", ["mixture", "ard"])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_y_and_of_the_columns(unit, prior):
    phi, y, _, _ = sparse_problem(1)
    options = {"prior": prior, "intercept": True}
    reference = cofem.fit(phi, y, **options)
    scaled = cofem.fit(phi, unit * y, **options)
    assert scaled.intercept == pytest.approx(unit * reference.intercept, rel=1e-5)
    assert scaled.intercept_std == pytest.approx(unit * reference.intercept_std, rel=1e-4)
    columns = cofem.fit(phi * unit ** np.linspace(-0.25, 0.25, 100), y, **options)
    assert columns.intercept == pytest.approx(reference.intercept, rel=1e-4)


def test_the_error_bar_holds():
    """Over 200 draws of z, noise and constant from the model, known hyperparameters."""
    random = np.random.default_rng(5)
    phi, _, alpha = problem(5)
    scores = []
    for _ in range(200):
        z, offset = random.standard_normal(D) / np.sqrt(alpha), 100 * random.standard_normal()
        y = phi @ z + offset + random.standard_normal(N) / math.sqrt(BETA)
        post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, intercept=True)
        scores.append((post.intercept - offset) / post.intercept_std)
    # Standard normal: the mean within 4/√200, the standard deviation within 4/√400.
    assert abs(np.mean(scores)) < 4 / math.sqrt(200)
    assert abs(np.std(scores) - 1) < 4 / math.sqrt(400)


# -- other models ------------------------------------------------------------------


def test_joint_tasks_have_one_each():
    phi, y, _, _ = sparse_problem(2)
    offsets = np.array([0.0, 50.0, -7.0])
    post = cofem.fit(phi, y + offsets[:, None], intercept=True, noise_std=[0.1, 0.1, 0.2])
    assert post.intercept.shape == post.intercept_std.shape == (3,)
    np.testing.assert_allclose(post.intercept - offsets, post.intercept[0], atol=0.1)
    assert post.intercept_std[2] > 1.5 * post.intercept_std[0]
    mean, _ = post.predict(phi)
    np.testing.assert_allclose(mean - offsets[:, None], mean[[0, 0, 0]], atol=0.5)
    apart = cofem.fit([phi, phi[:40]], [y, y[:40] + 9], intercept=True, noise_std=0.1)
    np.testing.assert_allclose(apart.intercept, [5.0, 14.0], atol=0.5)


def test_real_unknowns_behind_complex_data_have_a_complex_constant():
    random = np.random.default_rng(3)
    phi, _, alpha = problem(3, complex_=True)
    y = phi @ random.standard_normal(D) + (2 - 5j) + 0.01 * random.standard_normal(N)
    both = np.block([
        [phi.real, np.ones((N, 1)), np.zeros((N, 1))],
        [phi.imag, np.zeros((N, 1)), np.ones((N, 1))],
    ])  # fmt: skip
    prior = np.append(alpha, [FLAT, FLAT])
    covariance = np.linalg.inv(2 * BETA * both.T @ both + np.diag(prior))
    mean = 2 * BETA * covariance @ both.T @ np.append(y.real, y.imag)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, real=True, intercept=True)
    np.testing.assert_allclose(post.mean, mean[:-2], atol=1e-5)
    assert post.intercept == pytest.approx(mean[-2] + 1j * mean[-1], abs=1e-5)
    # Realified data carry twice the precision each: their variances add up to E|c − ĉ|².
    spread = covariance[-2, -2] + covariance[-1, -1]
    assert post.intercept_std == pytest.approx(math.sqrt(spread), rel=1e-4)


@pytest.mark.parametrize("value", [3.0, 1e12, 1e-9])
def test_of_constant_data_nothing_is_left_but_the_constant(value):
    """Rounding that centring leaves must not be taken for data."""
    phi, *_ = problem(0, False)
    for weights in (None, np.linspace(1, 2, len(phi))):
        post = cofem.fit(phi, np.full(len(phi), value), intercept=True, weights=weights)
        assert (post.mean == 0).all()
        assert post.intercept == pytest.approx(value, rel=1e-12)
