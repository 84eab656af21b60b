"""The noise precision from the data: how close, for which models, and where it gives up."""

import math
import warnings

import numpy as np
import pytest

import cofem
from cofem import operators, simulate
from cofem.operators import from_functions

PROBLEMS = {
    "gaussian": lambda seed, std: simulate.gaussian(512, seed, noise_std=std),
    "dct": lambda seed, std: simulate.dct(512, seed, noise_std=std),
    "convolution": lambda seed, std: simulate.convolution(256, seed, noise_std=std),
}


def found(phi, y, **options):
    """The noise precision alone, whether or not the end of the fit is certified."""
    options.setdefault("method", "cofem")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        return float(np.max(cofem.fit(phi, y, **options).noise_precision))


def searched(phi, y, **options):
    """The same for models that search for it before the fit, which is kept short."""
    return found(phi, y, max_iter=2, tol=0, **options)


def close(value, truth, factor=3.0):
    return 1 / factor < value / truth < factor


# -- how close ---------------------------------------------------------------------


@pytest.mark.parametrize("noise_std", [0.01, 0.1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_within_a_factor_of_three(name, noise_std):
    # Deterministic for these seeds; benchmarks/noise.py counts over more problems.
    for seed in range(2):
        problem = PROBLEMS[name](seed, noise_std)
        assert close(found(problem.phi, problem.y), problem.noise_precision)


@pytest.mark.parametrize("seed", range(3))
def test_near_the_phase_transition_too(seed):
    # Where EM at too high a β never recovers z, and what it does not recover looks like noise.
    problem = simulate.dct(1024, seed, sparsity=0.14)
    assert close(found(problem.phi, problem.y), problem.noise_precision)


@pytest.mark.parametrize("name", PROBLEMS)
def test_clean_data_are_called_clean(name):
    problem = PROBLEMS[name](0, 1e-4)  # 74 to 99 dB
    assert close(found(problem.phi, problem.y), problem.noise_precision)


@pytest.mark.parametrize("shape", [(200, 100), (100, 400), (150, 150)])
def test_noise_alone_is_all_noise(shape):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        phi = rng.normal(size=shape) / math.sqrt(shape[0])
        assert close(found(phi, rng.normal(size=shape[0]), method="em"), 1.0, factor=2.0)


@pytest.mark.parametrize("noise_std", [0.1, 1.0])
def test_many_data_give_the_variance_of_the_residual(noise_std):
    # N = 5 D and nothing sparse: least squares is the oracle. At σ = 1 most coordinates
    # are lost in the noise.
    for seed in range(3):
        rng = np.random.default_rng(seed)
        phi = rng.normal(size=(500, 100)) / math.sqrt(500)
        y = phi @ rng.normal(size=100) + noise_std * rng.normal(size=500)
        residual = y - phi @ np.linalg.lstsq(phi, y, rcond=None)[0]
        assert close(found(phi, y, method="em"), 400 / (residual @ residual), factor=1.3)


# -- for which models --------------------------------------------------------------


def sparse(rng, size, number):
    z = np.zeros(size)
    z[rng.choice(size, size=number, replace=False)] = rng.normal(size=number)
    return z


@pytest.mark.parametrize("noise_std", [0.1, pytest.param(0.01, marks=pytest.mark.slow)])
def test_every_kind_of_model(noise_std):
    rng = np.random.default_rng(5)
    n, d, k, truth = 120, 300, 18, 1 / noise_std**2

    def noise(*shape):
        return noise_std * rng.normal(size=shape)

    phi = rng.normal(size=(n, d)) / math.sqrt(n)
    rotated = phi * np.exp(2j * np.pi * rng.random(size=(n, d)))
    z = sparse(rng, d, k)
    complex_noise = (noise(n) + 1j * noise(n)) / math.sqrt(2)
    phases = np.exp(2j * np.pi * rng.random(size=d))
    results = {
        "complex": found(rotated, rotated @ (z * phases) + complex_noise),
        "real z, complex data": found(rotated, rotated @ z + complex_noise, real=True),
        "nonnegative": searched(phi, phi @ abs(z) + noise(n), nonnegative=True),
        "float32": found(phi.astype(np.float32), (phi @ z + noise(n)).astype(np.float32)),
    }
    several = (z != 0) * rng.normal(size=(5, d))
    results["joint tasks"] = found(phi, several @ phi.T + noise(5, n))
    others = [phi, rng.normal(size=(n, d)) / math.sqrt(n)]
    data = [a @ x + noise(n) for a, x in zip(others, several, strict=False)]
    results["joint tasks, each its Φ"] = found(others, data)
    grouped = np.repeat(sparse(rng, d // 4, 6), 4) * rng.normal(size=d)
    results["groups"] = found(phi, phi @ grouped + noise(n), groups=np.arange(d) // 4)
    trace = operators.Autoregressive([0.95], 400)
    results["banded"] = found(
        trace, trace.forward(sparse(rng, 400, 30)) + noise(400), method="banded"
    )
    steps = np.repeat(2 * rng.normal(size=8), 20)
    difference = np.eye(160) - np.eye(160, k=-1)
    results["sparsifier"] = searched(
        np.eye(160), steps + noise(160), method="em", sparsifier=difference
    )
    assert {name: b / truth for name, b in results.items() if not close(b, truth, 2.0)} == {}


def test_a_function_is_enough():
    problem = simulate.dct(512, 2)
    phi = from_functions(problem.phi.forward, problem.phi.adjoint, problem.phi.shape, float)
    assert close(found(phi, problem.y), problem.noise_precision)


def test_exact_methods_can_be_asked_too():
    problem = simulate.dct(256, 0)
    assert close(found(problem.phi, problem.y, method="woodbury"), problem.noise_precision)


# -- what fit makes of it ----------------------------------------------------------


def test_the_fit_is_that_with_the_estimate_given():
    problem = simulate.dct(512, 0)
    options = {"method": "cofem", "max_iter": 8, "tol": 0}
    options["prior"] = "ard"
    post = cofem.fit(problem.phi, problem.y, **options)
    given = cofem.fit(problem.phi, problem.y, noise_precision=post.noise_precision, **options)
    np.testing.assert_array_equal(post.mean, given.mean)
    # The search is counted.
    assert post.history["products"][0] > given.history["products"][0]


def test_units_do_not_matter():
    problem = simulate.dct(512, 1)
    one, other = found(problem.phi, problem.y), found(problem.phi, 1e5 * problem.y)
    assert other * 1e10 == pytest.approx(one, rel=1e-3)


def test_zero_data_have_no_scale_and_no_nan():
    post = cofem.fit(np.eye(4), np.zeros(4))
    assert np.all(post.mean == 0)
    assert np.all(np.isfinite(post.variance))
    assert math.isfinite(post.noise_precision)


@pytest.mark.parametrize("seed", range(3))
def test_unequal_coefficients_are_all_signal(seed):
    # Three of 100 and twenty of 1: the three alone are described well, too.
    rng = np.random.default_rng(seed)
    phi, z = simulate.dct(512, seed).phi, np.zeros(512)
    places = rng.choice(512, size=23, replace=False)
    z[places[:3]], z[places[3:]] = 100.0, rng.choice([-1.0, 1.0], size=20)
    y = phi.forward(z) + 0.05 * rng.normal(size=phi.shape[0])
    assert close(found(phi, y), 400.0, factor=2.0)


def test_few_data_are_enough():
    for seed in range(3):
        problem = simulate.gaussian(120, seed)  # 7 coordinates from 30 data
        value = found(problem.phi, problem.y, method="woodbury")
        assert close(value, problem.noise_precision)


# -- joint tasks -----------------------------------------------------------------------


def joint_problem(sigmas, seed, D=256, N=100, nonzero=20, one_phi=False):
    """Tasks with one support, and noise of their own."""
    rng = np.random.default_rng(seed)
    z = np.zeros((len(sigmas), D))
    z[:, rng.choice(D, nonzero, replace=False)] = rng.normal(size=(len(sigmas), nonzero))
    phis = [operators.DCT(D, rows=np.sort(rng.choice(D, N, replace=False))) for _ in sigmas]
    if one_phi:
        phis = [phis[0]] * len(sigmas)
    ys = [
        phi.forward(row) + sigma * rng.normal(size=N)
        for phi, row, sigma in zip(phis, z, sigmas, strict=True)
    ]
    return phis, ys, z


@pytest.mark.parametrize(
    ("method", "one_phi"), [("woodbury", True), ("woodbury", False), ("cofem", True)]
)
def test_every_task_has_noise_of_its_own(method, one_phi):
    sigmas = [0.01, 0.1, 0.01]
    for seed in range(2):
        phis, ys, _ = joint_problem(sigmas, seed, one_phi=one_phi)
        beta = cofem.fit(phis, ys, method=method).noise_precision
        assert all(close(b, s**-2) for b, s in zip(beta, sigmas, strict=True))
        assert beta[0] == beta[2]  # alike: they share their covariance


def test_a_clean_task_is_no_worse_for_a_noisy_one_beside_it():
    errors = []
    for seed in range(4):
        phis, ys, z = joint_problem([0.01, 0.1], seed, one_phi=True)
        options = {"method": "woodbury", "max_iter": 500}
        joint = cofem.fit(phis, ys, **options)
        given = cofem.fit(phis, ys, noise_precision=[1e4, 1e2], **options)
        alone = [cofem.fit(p, y, **options) for p, y in zip(phis, ys, strict=True)]
        means = zip(joint.mean, [a.mean for a in alone], given.mean, strict=True)
        errors.append([[simulate.nrmse(m, z[i]) for m in of] for i, of in enumerate(means)])
    joint, alone, given = np.median(errors, axis=0).T
    assert (joint < alone).all()
    assert (joint < 1.25 * given).all()


def test_tasks_that_are_alike_share_one_noise_precision():
    for seed in range(3):
        phis, ys, _ = joint_problem([0.02] * 4, seed, one_phi=True)
        beta = cofem.fit(phis, ys, method="woodbury").noise_precision
        assert len(set(beta)) == 1
        assert close(beta[0], 2500.0)


def test_a_strong_task_is_not_taken_for_a_noisy_one():
    phis, ys, z = joint_problem([0.02, 0.02], 0, one_phi=True)
    ys[1] = ys[1] + phis[1].forward(99 * z[1])
    beta = cofem.fit(phis, ys, method="woodbury").noise_precision
    assert all(close(b, 2500.0) for b in beta)


def test_a_task_of_nothing_but_zeros_goes_with_the_others():
    phis, ys, _ = joint_problem([0.02] * 3, 0, one_phi=True)
    ys[1] = 0 * ys[1]
    beta = cofem.fit(phis, ys, method="em").noise_precision
    assert np.all(np.isfinite(beta))
    assert all(close(b, 2500.0) for b in beta)
