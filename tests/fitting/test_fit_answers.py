"""What ``fit`` finds: exact EM's answer, in any units, on any tie of α."""

import warnings

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.operators import DCT, Dense

EXACT = ["em", "woodbury"]
PROBLEMS = {
    "gaussian": lambda seed: simulate.gaussian(512, seed),
    "dct": lambda seed: simulate.dct(512, seed, sparsity=0.12),
    "convolution": lambda seed: simulate.convolution(512, seed),
}


def ard(*data, **options):
    """Sparse Bayesian learning, whose formulas are checked here."""
    return cofem.fit(*data, prior="ard", **options)


def fitted(problem, method, **options):
    options = {"max_iter": 50, "tol": 0.0} | options
    return ard(
        problem.phi, problem.y, noise_precision=problem.noise_precision, method=method, **options
    )


def small(seed=0, n=40, d=80, nonzeros=5, noise=0.01):
    """A dense problem small enough for anything: Φ, y, β, z."""
    random = np.random.default_rng(seed)
    phi = random.standard_normal((n, d)) / n**0.5
    z = np.zeros(d)
    z[random.choice(d, nonzeros, replace=False)] = random.uniform(1, 3, nonzeros)
    return phi, phi @ z + noise * random.standard_normal(n), 1 / noise**2, z


# -- the same answer as exact EM -----------------------------------------------


@pytest.mark.parametrize("law", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_cofem_is_as_good_as_exact_em(law, seed):
    problem = PROBLEMS[law](seed)
    exact = fitted(problem, "em" if law == "convolution" else "woodbury")
    ours = fitted(problem, "cofem")
    reference, error = (simulate.nrmse(p.mean, problem.z) for p in (exact, ours))
    assert reference < 3
    assert error < 3
    assert abs(error - reference) < 0.2


@pytest.mark.parametrize("seed", range(2))
def test_em_and_woodbury_walk_the_same_path(seed):
    problem = simulate.gaussian(200, seed)
    first, second = (fitted(problem, m, max_iter=30) for m in EXACT)
    size = abs(first.mean).max()
    np.testing.assert_allclose(first.mean, second.mean, rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(first.variance, second.variance, rtol=1e-6)
    np.testing.assert_allclose(
        first.history["log_evidence"], second.history["log_evidence"], rtol=1e-8
    )
    assert (first.variance_error == 0).all()
    assert (second.variance_error == 0).all()


def three_sided(number, dimension, like, seed):
    """Zero-mean probes of a law of their own: uniform on (−1, 1)."""
    return np.random.default_rng(seed).uniform(-1, 1, (number, dimension)).astype(like.dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"probes": "gaussian", "n_probes": 16},
        {"probes": three_sided, "n_probes": 16},
        {"preconditioner": "identity"},
        {"preconditioner": "none"},
        {"preconditioner": np.full(256, 0.5)},
        {"n_probes": 1},
        {"n_probes": 40, "block": 7},
        {"shrinkage": False, "n_probes": 20},
        {"report_probes": 0},
    ],
    ids=str,
)
def test_options_of_cofem_change_the_path_not_the_answer(options):
    problem = simulate.dct(256, 0, sparsity=0.08)
    exact = fitted(problem, "woodbury")
    ours = fitted(problem, cofem.CoFEM(**options))
    reference, error = (simulate.nrmse(p.mean, problem.z) for p in (exact, ours))
    assert error < 3
    assert abs(error - reference) < 0.3


# -- units ---------------------------------------------------------------------

FACTORS = [1e-6, 1e-3, 0.5, 1e3, 1e6]


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_units_change_nothing_but_units(method, nonnegative):
    phi, y, beta, _ = small(2)
    one = ard(phi, y, noise_precision=beta, method=method, nonnegative=nonnegative,
                    max_iter=30, tol=0.0)  # fmt: skip
    for c in FACTORS:
        other = ard(phi, c * y, noise_precision=beta / c**2, method=method,
                          nonnegative=nonnegative, max_iter=30, tol=0.0)  # fmt: skip
        scale = abs(one.mean).max()
        # CoFEM's CG may stop a step earlier or later: to its own tolerance.
        close = 1e-8 if method != "cofem" else 1e-4
        np.testing.assert_allclose(other.mean / c, one.mean, rtol=0, atol=close * scale)
        np.testing.assert_allclose(other.std / c, one.std, rtol=1e-5 if method != "cofem" else 2e-2)
        np.testing.assert_array_equal(other.support(), one.support())


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_units_of_the_dictionary_change_nothing_but_units(factor):
    phi, y, beta, _ = small(2)
    one = ard(phi, y, noise_precision=beta, method="em", max_iter=30, tol=0.0)
    other = ard(factor * phi, y, noise_precision=beta, method="em", max_iter=30, tol=0.0)
    scale = abs(one.mean).max()
    np.testing.assert_allclose(other.mean * factor, one.mean, rtol=0, atol=1e-8 * scale)


# -- randomness ----------------------------------------------------------------


def test_a_seed_decides_every_bit(monkeypatch):
    problem = simulate.dct(1024, 0)

    def run(seed, threads="2"):
        monkeypatch.setenv("COFEM_NUM_THREADS", threads)
        return fitted(problem, cofem.CoFEM(n_probes=40, block=64), seed=seed, max_iter=8)

    first, again, single, other = run(3), run(3), run(3, threads="1"), run(4)
    for name in ("mean", "variance", "variance_error", "precision"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        np.testing.assert_array_equal(getattr(first, name), getattr(single, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))
    assert first.log_evidence == again.log_evidence == single.log_evidence
    assert first.history["products"] == again.history["products"]


# -- joint tasks, groups, complex ----------------------------------------------


@pytest.mark.parametrize("method", EXACT)
def test_tasks_with_the_same_data_are_one_task(method):
    phi, y, beta, _ = small(1)
    single = ard(phi, y, noise_precision=beta, method=method, max_iter=25, tol=0.0)
    joint = ard(phi, np.stack([y, y, y]), noise_precision=beta, method=method,
                      max_iter=25, tol=0.0)  # fmt: skip
    listed = ard([phi, phi, phi], [y, y, y], noise_precision=[beta] * 3, method=method,
                       max_iter=25, tol=0.0)  # fmt: skip
    assert joint.mean.shape == joint.variance.shape == joint.std.shape == (3, 80)
    assert joint.precision.shape == (80,)
    assert joint.noise_precision.shape == (3,)
    for post in (joint, listed):
        for task in range(3):
            np.testing.assert_allclose(post.mean[task], single.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(post.precision, single.precision, rtol=1e-8)
        assert post.log_evidence == pytest.approx(3 * single.log_evidence, rel=1e-10)


def test_tasks_that_share_a_support_help_each_other():
    # M-step of L tasks: α = L / Σ E|z|². Checked against the formula by hand.
    random = np.random.default_rng(0)
    z = np.zeros((2, 60))
    support = random.choice(60, 6, replace=False)
    z[:, support] = random.normal(size=(2, 6)) + 2
    phis = [random.normal(size=(n, 60)) / n**0.5 for n in (20, 25)]
    ys = [p @ x + 0.01 * random.normal(size=len(p)) for p, x in zip(phis, z, strict=True)]
    betas = [1e4, 5e3]
    post = ard(phis, ys, noise_precision=betas, method="em", max_iter=12, tol=0.0)
    start = ard(phis, ys, noise_precision=betas, method="em", max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for _ in range(11):
        total = 0
        for phi, y, beta in zip(phis, ys, betas, strict=True):
            covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
            total = total + (beta * covariance @ phi.T @ y) ** 2 + np.diag(covariance)
        alpha = 2 / total
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)
    np.testing.assert_array_equal(post.noise_precision, betas)


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_groups_share_their_precision(method):
    phi, y, beta, _ = small(3)
    groups = np.arange(80) // 4
    post = ard(phi, y, noise_precision=beta, method=method, groups=groups, max_iter=15,
                     tol=0.0)  # fmt: skip
    precision = post.precision.reshape(20, 4)
    np.testing.assert_array_equal(precision, precision[:, :1] * np.ones(4))
    assert len(np.unique(precision[:, 0])) == 20


def test_groups_follow_the_formula():
    phi, y, beta, _ = small(3)
    labels = np.random.default_rng(0).integers(0, 10, 80) * 7  # neither sorted nor dense
    post = ard(phi, y, noise_precision=beta, method="em", groups=labels, max_iter=8, tol=0.0)
    start = ard(phi, y, noise_precision=beta, method="em", groups=labels, max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for _ in range(7):
        covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
        second = (beta * covariance @ phi.T @ y) ** 2 + np.diag(covariance)
        for label in np.unique(labels):
            alpha[labels == label] = 1 / second[labels == label].mean()
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-7)


@pytest.mark.parametrize("method", EXACT)
def test_a_complex_problem_is_its_stacked_real_form(method):
    # MATH.md: the stacked real form has 2α and 2β, with the parts of each z_j tied.
    random = np.random.default_rng(5)
    n, d, beta = 20, 30, 1e3
    phi = (random.normal(size=(n, d)) + 1j * random.normal(size=(n, d))) / n**0.5
    z = np.zeros(d, complex)
    z[[3, 11, 20]] = [2 + 1j, -1.5j, 1.0]
    y = phi @ z + (random.normal(size=n) + 1j * random.normal(size=n)) / (2 * beta) ** 0.5
    ours = ard(phi, y, noise_precision=beta, method=method, max_iter=15, tol=0.0)
    stacked = np.block([[phi.real, -phi.imag], [phi.imag, phi.real]])
    real = ard(
        stacked, np.concatenate([y.real, y.imag]), noise_precision=2 * beta, method=method,
        groups=np.tile(np.arange(d), 2), max_iter=15, tol=0.0,
    )  # fmt: skip
    np.testing.assert_allclose(ours.mean, real.mean[:d] + 1j * real.mean[d:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(2 * ours.precision, real.precision[:d], rtol=1e-7)
    np.testing.assert_allclose(ours.variance, real.variance[:d] + real.variance[d:], rtol=1e-8)
    assert ours.log_evidence == pytest.approx(real.log_evidence, rel=1e-9)
    assert np.iscomplexobj(ours.mean)
    assert not np.iscomplexobj(ours.variance)


@pytest.mark.parametrize("seed", range(2))
def test_cofem_on_complex_data_is_exact_em(seed):
    random = np.random.default_rng(seed)
    op = cofem.operators.Fourier(256, random.random(256) < 0.5)
    z = np.zeros(256, complex)
    z[random.choice(256, 20, replace=False)] = random.normal(size=(20, 2)) @ [1, 1j]
    n = op.shape[0]
    y = op.forward(z) + 0.01 * (random.normal(size=n) + 1j * random.normal(size=n)) / 2**0.5
    exact, ours = (
        ard(op, y, noise_precision=1e4, method=m, max_iter=40, tol=0.0) for m in ("em", "cofem")
    )
    assert simulate.nrmse(exact.mean, z) < 3
    assert simulate.nrmse(ours.mean, exact.mean) < 0.3


# -- z ≥ 0 ---------------------------------------------------------------------


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_nonnegative_means_are_not_negative(method):
    problem = simulate.convolution(256, 1)
    free = fitted(problem, method)
    post = fitted(problem, method, nonnegative=True)
    assert (free.mean < 0).any()
    assert (post.mean >= 0).all()
    low, high = post.interval()
    assert (low >= 0).all()
    assert (high > low).all()
    assert (post.mode >= 0).all()
    assert ((post.probability_of_zero >= 0) & (post.probability_of_zero <= 1)).all()
    assert simulate.nrmse(post.mean, problem.z) < 3
    assert simulate.nrmse(post.mean, problem.z) < 1.2 * simulate.nrmse(free.mean, problem.z)


def test_nonnegative_follows_the_formula():
    from scipy.stats import norm, truncnorm

    phi, y, beta, _ = small(4)
    post = ard(phi, y, noise_precision=beta, method="em", nonnegative=True, max_iter=6,
                     tol=0.0)  # fmt: skip
    start = ard(phi, y, noise_precision=beta, method="em", max_iter=1, tol=0.0)
    alpha = start.precision.copy()
    for iteration in range(6):
        covariance = np.linalg.inv(beta * phi.T @ phi + np.diag(alpha))
        mean, sigma = beta * covariance @ phi.T @ y, np.sqrt(np.diag(covariance))
        law = truncnorm(-mean / sigma, np.inf, mean, sigma)
        if iteration < 5:
            alpha = 1 / (law.mean() ** 2 + law.var())
    np.testing.assert_allclose(post.precision, alpha, rtol=1e-6)
    # What is reported is the law of max(0, x), x ~ N(mean, sigma²).
    t = mean / sigma
    first = mean * norm.cdf(t) + sigma * norm.pdf(t)
    second = (mean**2 + sigma**2) * norm.cdf(t) + mean * sigma * norm.pdf(t)
    shown = t > -4  # further out these differences cancel
    assert shown.sum() >= 5
    np.testing.assert_allclose(post.mean[shown], first[shown], rtol=1e-6)
    np.testing.assert_allclose(post.variance[shown], (second - first**2)[shown], rtol=1e-5)
    np.testing.assert_allclose(post.gaussian_mean, mean, rtol=1e-6, atol=1e-10)


# -- degenerate but legal ------------------------------------------------------

EVERY = ["em", "woodbury", "cofem", cofem.CoFEM.paper()]


@pytest.mark.parametrize("method", EVERY, ids=str)
def test_zero_data_give_a_zero_posterior(method):
    phi = np.random.default_rng(0).standard_normal((20, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        post = cofem.fit(phi, np.zeros(20), noise_precision=1e2, method=method)
    assert (post.mean == 0).all()
    assert np.isfinite(post.variance).all()
    assert (post.variance > 0).all()
    assert not post.support().any()


@pytest.mark.parametrize("method", EVERY, ids=str)
def test_a_zero_column_keeps_its_prior(method):
    phi, y, beta, _ = small(0)
    phi[:, [7, 30]] = 0
    post = ard(phi, y, noise_precision=beta, method=method, max_iter=10, tol=0.0)
    assert (post.mean[[7, 30]] == 0).all()
    np.testing.assert_allclose(post.variance[[7, 30]] * post.precision[[7, 30]], 1, rtol=1e-10)
    assert np.isfinite(post.mean).all()
    assert np.isfinite(post.variance).all()


@pytest.mark.parametrize("method", EVERY[:3], ids=str)
def test_a_dictionary_of_zeros_learns_nothing(method):
    post = ard(np.zeros((5, 8)), np.ones(5), noise_precision=10.0, method=method)
    assert (post.mean == 0).all()
    np.testing.assert_allclose(post.variance * post.precision, 1, rtol=1e-10)


@pytest.mark.parametrize("method", EVERY[:3], ids=str)
def test_duplicate_columns_share_what_there_is(method):
    phi, y, beta, _ = small(0)
    twice = np.concatenate([phi, phi], axis=1)
    post = ard(twice, y, noise_precision=beta, method=method, max_iter=40, tol=0.0)
    assert np.isfinite(post.variance).all()
    assert (post.variance > 0).all()
    residual = np.linalg.norm(twice @ post.mean - y) / np.linalg.norm(y)
    assert residual < 0.05
    if method != "cofem":  # the E-steps treat both alike
        np.testing.assert_allclose(post.mean[:80], post.mean[80:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", EVERY[:3], ids=str)
def test_one_unknown_and_one_row(method):
    post = ard([[2.0]], [3.0], noise_precision=100.0, method=method, max_iter=200, tol=1e-8)
    # Fixed point of 1/α = μ² + Σ: α = 4/((y/2)²·4 − 1/β·…) solved by hand: 1/α = (y² − 1/β)/φ².
    assert 1 / post.precision[0] == pytest.approx((9 - 0.01) / 4, rel=1e-4)


def test_float32_stays_float32_and_is_right():
    problem = simulate.dct(512, 0)
    op = DCT(512, problem.phi.rows)
    for method in ("woodbury", "cofem"):
        post = cofem.fit(op, problem.y.astype(np.float32), method=method,
                         noise_precision=problem.noise_precision, max_iter=40, tol=0.0)  # fmt: skip
        assert post.mean.dtype == post.variance.dtype == post.precision.dtype == np.float32
        assert simulate.nrmse(post.mean, problem.z) < 3


def test_integers_and_lists_are_numbers():
    phi = [[1, 0, 1], [0, 2, 0]]
    a = cofem.fit(phi, [3, 4], noise_precision=10)
    b = cofem.fit(np.array(phi, float), np.array([3.0, 4.0]), noise_precision=10.0)
    np.testing.assert_array_equal(a.mean, b.mean)
    assert a.mean.dtype == np.float64


def test_every_form_of_phi_gives_the_same_answer():
    import scipy.sparse
    import scipy.sparse.linalg

    phi, y, beta, _ = small(0)
    forms = {
        "array": phi,
        "dense": Dense(phi),
        "sparse": scipy.sparse.csr_array(phi),
        "scipy": scipy.sparse.linalg.aslinearoperator(phi),
        "functions": cofem.operators.from_functions(
            lambda z: z @ phi.T, lambda v: v @ phi, phi.shape, float
        ),
    }
    for method in ("em", "woodbury", "cofem"):
        means = [
            cofem.fit(form, y, noise_precision=beta, method=method, max_iter=10, tol=0.0).mean
            for form in forms.values()
        ]
        for mean in means[1:]:
            np.testing.assert_allclose(mean, means[0], rtol=0, atol=1e-5)
