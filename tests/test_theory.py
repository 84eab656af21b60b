"""The bounds of the theory, against Monte Carlo, dense algebra and the solver itself."""

import doctest
import math
from pathlib import Path

import numpy as np
import pytest

from cofem import CoFEM, fit, simulate, theory
from cofem.linalg import ShiftedGram, rademacher, solve
from cofem.operators import DCT, Convolution, Dense, Fourier, from_functions
from cofem.theory.advice import _range
from cofem.theory.scaling import minimise_departure


def dictionaries(d=60):
    random = np.random.default_rng(5)
    return {
        "gaussian": Dense(random.standard_normal((d // 2, d)) / math.sqrt(d // 2)),
        "uneven": Dense(random.standard_normal((d // 2, d)) * 10 ** random.uniform(-1, 1, d)),
        "dct": DCT(d, np.sort(random.choice(d, d // 2, replace=False))),
        "convolution": Convolution(0.9 ** np.arange(d), d),
        "fourier": Fourier(d, random.random(d) < 0.5),
    }


DICTIONARIES = dictionaries()


def dense(op):
    return op.to_dense(np.empty(0, complex) if op.is_complex else None)


def random_support(op, seed, size=12):
    return np.random.default_rng(seed).choice(op.shape[1], size, replace=False)


def covariance(op, alpha, beta):
    phi = dense(op)
    return np.linalg.inv(beta * phi.conj().T @ phi + np.diag(alpha))


def limit_of_em(op, support, seed):
    """α: finite where active, and far beyond everything else where not."""
    random = np.random.default_rng(seed)
    alpha = np.full(op.shape[1], 1e14)
    alpha[support] = 10 ** random.uniform(-2, 2, len(support))
    return alpha


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


# -- the best Θ ----------------------------------------------------------------


def lower_bound(gram, theta, reach=1e-3):
    """A certificate that no Θ has ‖Θ⁻¹G − I‖₂ below it, by duality.

    For ‖Z‖_* ≤ 1 the norm of diag(t)G − I is at least Re⟨Z, diag(t)G − I⟩ = Σ t_j c_j − tr Z,
    c_j = Re Σ_k conj(Z_jk) G_jk, hence at least −tr Z for all t > 0 once no c_j is negative.
    """
    left, values, right = np.linalg.svd(gram / theta[:, None] - np.eye(len(theta)))
    weight = np.exp((values - values[0]) / (reach * values[0]))
    Z = (left * (weight / weight.sum())) @ right
    c = np.sum((Z.conj() * gram).real, axis=1)
    Z = Z + np.diag(np.maximum(-c, 0) / np.diag(gram).real)
    return -np.trace(Z).real / np.linalg.norm(Z, "nuc")


@pytest.mark.parametrize("name", DICTIONARIES)
def test_the_best_theta_is_no_worse_than_the_others(name):
    op = DICTIONARIES[name]
    for seed in range(3):
        support = random_support(op, seed)
        best = theory.departure(op, support, "best")
        multiples = [theory.departure(op, support, c) for c in np.geomspace(0.01, 100, 60)]
        others = [theory.departure(op, support, "jacobi"), *multiples]
        assert best <= min(others) * (1 + 1e-12)
        assert best < 1  # t → 0 gives 1, and a step towards the columns is a descent
        theta = np.ones(op.shape[1])
        theta[np.sort(support)] = theory.best_theta(op, support)
        assert theory.departure(op, support, theta) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "dct", "uneven", "fourier"])
def test_the_best_theta_is_close_to_the_infimum(name):
    op = DICTIONARIES[name]
    for seed in range(3):
        phi = dense(op)[:, random_support(op, seed)]
        gram = phi.conj().T @ phi
        theta = minimise_departure(gram)
        reached = np.linalg.norm(gram / theta[:, None] - np.eye(12), 2)
        floor = max(lower_bound(gram, theta, reach) for reach in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2))
        assert floor <= reached * (1 + 1e-9)
        assert reached <= 1.02 * floor


def test_the_best_theta_of_two_columns_by_grid_search():
    gram = np.array([[4.0, 0.9], [0.9, 1.0]])
    grid = np.geomspace(0.2, 20, 400)
    first, second = np.meshgrid(grid, grid)
    scaled = np.stack([first, second], -1)[..., None]
    every = np.linalg.norm(gram / scaled - np.eye(2), ord=2, axis=(-2, -1))
    theta = minimise_departure(gram)
    reached = np.linalg.norm(gram / theta[:, None] - np.eye(2), 2)
    assert every.min() * (1 - 0.02) <= reached <= every.min() * (1 + 1e-9)


# -- Theorem 2 -----------------------------------------------------------------


def preconditioned(op, alpha, beta, theta):
    phi = dense(op)
    root = np.sqrt(beta * theta + alpha)
    return (beta * phi.conj().T @ phi + np.diag(alpha)) / (root[:, None] * root)


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("choice", ["identity", "jacobi", "best"])
def test_theorem_2_holds_on_random_supports(name, choice):
    op, beta = DICTIONARIES[name], 20.0
    for seed in range(3):
        support = np.sort(random_support(op, seed))
        alpha = limit_of_em(op, support, seed)
        theta = np.ones(op.shape[1])
        if choice == "jacobi":
            theta = op.column_norms_squared()
        elif choice == "best":
            theta[support] = theory.best_theta(op, support)
        A = preconditioned(op, alpha, beta, theta)
        values = np.linalg.eigvalsh(A)
        condition = theory.condition_bound(op, support, theta)
        assert values[-1] / values[0] <= condition * (1 + 1e-6)
        xi = theory.departure(op, support, theta)
        if xi < 1:
            assert condition <= (1 + xi) / (1 - xi) * (1 + 1e-9)
        b = np.random.default_rng(seed).standard_normal(op.shape[1])
        for steps, error in enumerate(cg_errors(A, b, 40)):
            assert error <= theory.residual_bound(op, support, steps, theta) * (1 + 1e-6)


def cg_errors(A, b, steps):
    """‖r‖/‖b‖ in the norm of A⁻¹ after 0, 1, … steps of textbook CG."""
    exact = np.linalg.solve(A, b)
    size = math.sqrt((exact.conj() @ b).real)
    x, r = np.zeros_like(exact), b.astype(exact.dtype)
    p, rho = r, (r.conj() @ r).real
    for _ in range(steps):
        e = exact - x
        yield math.sqrt(abs((e.conj() @ (A @ e)).real)) / size
        if rho < 1e-24 * (b @ b):
            return
        psi = A @ p
        gamma = rho / (p.conj() @ psi).real
        x, r = x + gamma * p, r - gamma * psi
        rho, old = (r.conj() @ r).real, rho
        p = r + (rho / old) * p


def test_steps_needed_are_enough_and_follow_the_formula():
    for seed in range(5):
        random = np.random.default_rng(seed)
        values = random.uniform(1.0, 200.0, 80)
        values[:2] = 1.0, 200.0
        Q = np.linalg.qr(random.standard_normal((80, 80)))[0]
        A, b = (Q * values) @ Q.T, random.standard_normal(80)
        U = theory.steps_needed(200.0, rtol=1e-5)
        root = math.sqrt(200.0)
        assert 2 * root * ((root - 1) / (root + 1)) ** U <= 1e-5
        assert 2 * root * ((root - 1) / (root + 1)) ** (U - 1) > 1e-5
        identity = ShiftedGram(Dense(np.linalg.cholesky(A).T), 1.0, np.zeros(80))
        found = solve(identity, b[None], rtol=1e-5, max_steps=U)
        assert found.converged.all()
    assert theory.steps_needed(1.0, 1e-6) == 1


def cg_steps_at(problem, iteration):
    """Steps for the mean at the α of that iteration: without a preconditioner, and with."""
    seen = {}

    def keep(state):
        if state.iteration == iteration:
            seen["alpha"] = np.array(state.precision)
        return state.iteration >= iteration

    fit(problem.phi, problem.y, noise_precision=problem.noise_precision,
        method=CoFEM(report_probes=0), max_iter=iteration + 1, tol=0.0, callback=keep)  # fmt: skip
    beta, alpha = problem.noise_precision, seen["alpha"]
    system = ShiftedGram(problem.phi, beta, alpha)
    rhs = beta * problem.phi.adjoint(problem.y)[None]
    jacobi = beta * problem.phi.column_norms_squared() + alpha
    return [
        int(solve(system, rhs, preconditioner=m, rtol=1e-4, max_steps=100_000).steps[0])
        for m in (None, jacobi)
    ]


def test_steps_grow_without_the_preconditioner_and_stay_flat_with_it():
    # With the iterations, at every size; with the size they do not grow where variances are
    # clipped to their bounds, as they are here: α then rises by at most β‖φ‖² an iteration.
    for D in (256, 1024):
        plain, with_it = np.transpose([
            np.mean([cg_steps_at(simulate.dct(D, seed), T) for seed in range(2)], axis=0)
            for T in (15, 40, 100)
        ])  # fmt: skip
        assert plain[1] > 1.5 * plain[0]
        assert plain[2] > 1.5 * plain[1]
        assert with_it.max() <= 1.3 * with_it[0]
        assert plain[2] > 3 * with_it[2]


def test_steps_with_the_preconditioner_do_not_grow_with_the_size():
    steps = [
        np.mean([cg_steps_at(simulate.dct(D, seed), 40)[1] for seed in range(2)])
        for D in (256, 1024, 4096)
    ]
    assert max(steps) <= 1.3 * steps[0]


# -- advice --------------------------------------------------------------------


def test_the_recommendation_follows_from_its_bounds():
    phi = DICTIONARIES["gaussian"]
    advice = theory.recommend(phi, 6, accuracy=0.1, rtol=1e-8, n_supports=4, seed=3)
    assert advice.n_probes == 25
    random = np.random.default_rng(3)
    worst = max(
        theory.condition_bound(phi, random.choice(60, size=6, replace=False)) for _ in range(4)
    )
    assert advice.condition == pytest.approx(worst, rel=1e-9)
    assert advice.cg_steps == theory.steps_needed(worst, 1e-8)
    assert f"K = {advice.n_probes}" in advice.reason
    assert f"U = {advice.cg_steps}" in advice.reason
    with pytest.raises(AttributeError):
        advice.n_probes = 3


def test_steps_do_not_grow_with_the_dimension_at_a_fixed_sparsity():
    steps = [theory.recommend(simulate.dct(D, 0).phi, D // 10).cg_steps for D in (256, 1024, 2048)]
    assert max(steps) <= 1.3 * min(steps)


@pytest.mark.parametrize("name", ["gaussian", "dct", "fourier"])
def test_large_supports_get_their_range_without_a_matrix(name, monkeypatch):
    op, support = DICTIONARIES[name], np.sort(random_support(DICTIONARIES[name], 1))
    formed = _range(op, support)
    monkeypatch.setattr("cofem.theory.advice.DENSE_UP_TO", 5)
    np.testing.assert_allclose(_range(op, support), formed, rtol=1e-2)


def test_functions_and_matrices_are_the_same_phi():
    op = DICTIONARIES["dct"]
    given = from_functions(op.forward, op.adjoint, op.shape, np.float64)
    support = random_support(op, 0)
    forms = [op, dense(op), dense(op).astype("float32"), given]
    values = [theory.std_bound(phi, support, 10.0, 2) for phi in forms]
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


def test_the_page_about_the_theory_runs():
    page = Path(__file__).parents[1] / "docs" / "theory.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 0
    assert failed == 0


# -- the door ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.probe_std(np.ones((2, 3)), 1), "matrix must be square"),
        (lambda: theory.probe_std(np.full((2, 2), np.nan), 1), "matrix must be finite"),
        (lambda: theory.probe_std(np.eye(2), 0), "n_probes must be at least 1"),
        (lambda: theory.std_bound(np.eye(3), [], 1.0, 1), "support is empty"),
        (lambda: theory.std_bound(np.eye(3), [3], 1.0, 1), "phi has columns 0 to 2"),
        (lambda: theory.std_bound(np.eye(3), [1, 1], 1.0, 1), "names a column twice"),
        (lambda: theory.std_bound(np.eye(3), [True], 1.0, 1), "mask of shape"),
        (lambda: theory.std_bound(np.eye(3), [0], 0.0, 1), "noise_precision must be positive"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, "worst"), "theta must be"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, [1.0]), "theta must have shape"),
        (lambda: theory.std_bound(np.eye(3), [0], 1.0, 1, -1.0), "theta must be positive"),
        (lambda: theory.std_bound_rip(1.0, 1.0, 1), "delta must be"),
        (lambda: theory.residual_bound(np.eye(3), [0], -1), "steps must be at least 0"),
        (lambda: theory.residual_bound(np.zeros((2, 2)), [0], 1, "jacobi"), "column of phi"),
        (lambda: theory.steps_needed(0.5, 0.1), "condition must be at least 1"),
        (lambda: theory.steps_needed(math.inf, 0.1), "linearly dependent"),
        (lambda: theory.steps_needed(2.0, 0.0), "rtol must lie"),
        (lambda: theory.recommend(np.eye(3), 4), "linearly dependent"),
        (lambda: theory.recommend(np.eye(3), 1, accuracy=1.0), "accuracy must lie"),
        (lambda: theory.assumption_free_std_bound(-1.0, 1), "precision must be positive"),
        (lambda: theory.assumption_free_std_bound(1.0, 1, 2.0), "must not exceed"),
        (lambda: theory.assumption_free_std_bound(1.0, 1, [0.1]), "variance has shape"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
