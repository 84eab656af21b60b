"""Properties that hold for every problem, tried on generated ones."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import cofem

# The same examples on every run; a failure is a failure, not a flake.
fixed = settings(derandomize=True, deadline=None, max_examples=30, database=None)

exact_methods = st.sampled_from(["em", "woodbury"])
all_methods = st.sampled_from(["em", "woodbury", "cofem"])
all_priors = st.sampled_from(["ard", "mixture"])


@st.composite
def problems(draw, complex_allowed=True):
    """A random Φ with columns of any size, sparse data, β over four decades."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 16))
    complex_ = complex_allowed and draw(st.booleans())

    def normal(*shape):
        x = random.standard_normal(shape)
        return x + 1j * random.standard_normal(shape) if complex_ else x

    phi = normal(n, d) * 10 ** random.uniform(-1, 1, d)
    z = normal(d) * (random.random(d) < 0.4)
    beta = 10 ** draw(st.floats(0, 4))
    y = phi @ z + normal(n) / beta**0.5
    return phi, y, beta


def fit(phi, y, beta, method, iterations=5, prior="ard", **options):
    return cofem.fit(
        phi, y, noise_precision=beta, method=method, max_iter=iterations, tol=0.0, prior=prior,
        **options,
    )  # fmt: skip


def dense_posterior(phi, y, alpha, beta):
    covariance = np.linalg.inv(beta * phi.conj().T @ phi + np.diag(alpha))
    return beta * covariance @ phi.conj().T @ y, np.diag(covariance).real


def close(a, b, tolerance):
    scale = max(abs(b).max(), np.finfo(float).tiny)
    np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance)


@fixed
@given(problems(), all_methods, st.floats(-6, 6), st.booleans(), all_priors)
def test_scale_equivariance(problem, method, exponent, nonnegative, prior):
    phi, y, beta = problem
    nonnegative = nonnegative and not np.iscomplexobj(phi) and prior == "ard"
    c, options = 10.0**exponent, {"nonnegative": nonnegative, "prior": prior}
    one = fit(phi, y, beta, method, **options)
    other = fit(phi, c * y, beta / c**2, method, **options)
    close(other.mean / c, one.mean, 1e-7 if method != "cofem" else 1e-3)
    if method != "cofem":
        np.testing.assert_allclose(other.variance / c**2, one.variance, rtol=1e-5)


@fixed
@given(problems(), exact_methods, st.randoms(use_true_random=False), all_priors)
def test_permuted_columns_permute_the_answer(problem, method, random, prior):
    phi, y, beta = problem
    order = list(range(phi.shape[1]))
    random.shuffle(order)
    one = fit(phi, y, beta, method, prior=prior)
    other = fit(np.ascontiguousarray(phi[:, order]), y, beta, method, prior=prior)
    close(other.mean, one.mean[order], 1e-8)
    np.testing.assert_allclose(other.variance, one.variance[order], rtol=1e-7)
    np.testing.assert_allclose(other.precision, one.precision[order], rtol=1e-6)


@fixed
@given(problems(), st.sampled_from(["em", "woodbury", "cofem"]))
def test_duplicate_rows_are_a_doubled_precision(problem, method):
    phi, y, beta = problem
    alpha = np.geomspace(0.1, 10, phi.shape[1])
    twice = cofem.posterior(
        np.concatenate([phi, phi]), np.concatenate([y, y]), precision=alpha,
        noise_precision=beta, method=method,
    )  # fmt: skip
    once = cofem.posterior(phi, y, precision=alpha, noise_precision=2 * beta, method=method)
    close(twice.mean, once.mean, 1e-7 if method != "cofem" else 1e-2)
    if method != "cofem":
        np.testing.assert_allclose(twice.variance, once.variance, rtol=1e-5)


@fixed
@given(problems(), all_methods)
def test_bounds_on_the_variance(problem, method):
    phi, y, beta = problem
    post = fit(phi, y, beta, method)
    largest = beta * (abs(phi) ** 2).sum(axis=0) + post.precision
    assert (post.variance >= (1 - 1e-7) / largest).all()
    assert (post.variance <= (1 + 1e-7) / post.precision).all()
    assert np.isfinite(post.mean).all()
    assert (post.variance_error >= 0).all()


@fixed
@given(problems(), exact_methods)
def test_the_answer_is_the_dense_posterior_of_its_precision(problem, method):
    phi, y, beta = problem
    post = fit(phi, y, beta, method)
    mean, variance = dense_posterior(phi, y, post.precision, beta)
    close(post.mean, mean, 1e-7)
    np.testing.assert_allclose(post.variance, variance, rtol=1e-6)


@fixed
@given(problems(), exact_methods)
def test_the_evidence_never_falls(problem, method):
    phi, y, beta = problem
    evidence = fit(phi, y, beta, method, iterations=12).history["log_evidence"]
    assert (np.diff(evidence) >= -1e-7 * (1 + abs(evidence[-1]))).all()


@fixed
@given(problems(), all_methods, st.sampled_from([-1, 1j]), all_priors)
def test_a_change_of_sign_or_phase_goes_through(problem, method, factor, prior):
    phi, y, beta = problem
    if not np.iscomplexobj(phi):
        factor = -1
    one, other = (fit(phi, c * y, beta, method, prior=prior) for c in (1, factor))
    close(other.mean, factor * one.mean, 1e-9)
    np.testing.assert_allclose(other.variance, one.variance, rtol=1e-9)


@fixed
@given(problems(complex_allowed=False), all_methods)
def test_nonnegative_posteriors_are_not_negative(problem, method):
    phi, y, beta = problem
    post = fit(phi, y, beta, method, nonnegative=True)
    low, high = post.interval()
    assert (post.mean >= 0).all()
    assert (post.variance >= 0).all()
    assert (low >= 0).all()
    assert (high >= low).all()


@fixed
@given(problems(), exact_methods, st.integers(1, 3))
def test_copies_of_a_task_change_nothing(problem, method, copies):
    phi, y, beta = problem
    one = fit(phi, y, beta, method)
    joint = fit(phi, np.stack([y] * copies), beta, method)
    assert joint.mean.shape == (copies, phi.shape[1])
    close(joint.mean[-1], one.mean, 1e-8)
