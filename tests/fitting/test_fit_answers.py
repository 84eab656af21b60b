"""What ``fit`` finds: exact EM's answer, in any units."""

import warnings

import numpy as np
import pytest
from answer_cases import EXACT, ard, fitted, small

import cofem
from cofem import simulate
from cofem.operators import DCT, Dense

PROBLEMS = {
    "gaussian": lambda seed: simulate.gaussian(512, seed),
    "dct": lambda seed: simulate.dct(512, seed, sparsity=0.12),
    "convolution": lambda seed: simulate.convolution(512, seed),
}


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
