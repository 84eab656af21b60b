"""Diagonals by random probes: their mean, their variance, their memory."""

import tracemalloc

import numpy as np
import pytest
from linalg_cases import DTYPES, dct_system, draw, random_system

from cofem.solvers import ExtraSystems, estimate_diagonal, rademacher
from cofem.solvers.probes import DiagonalEstimate


def gaussian(number, dimension, like, seed):
    return draw(np.random.default_rng(seed), (number, dimension), like.dtype)


def uniform(number, dimension, like, seed):
    """A law that is neither: uniform on (−1, 1), E p² = 1/3."""
    return np.random.default_rng(seed).uniform(-1, 1, (number, dimension)).astype(like.dtype)


def estimate(system, scaling, n_probes, seed, probes=rademacher, **options) -> DiagonalEstimate:
    dtype = np.result_type(system.gram.operator.matrix.dtype)
    return estimate_diagonal(
        system.gram, scaling, like=np.empty(0, dtype), n_probes=n_probes, seed=seed,
        preconditioner=system.jacobi, rtol=options.pop("rtol", 1e-10), max_steps=500,
        block=options.pop("block", 64), probes=probes, **options,
    )  # fmt: skip


def small(seed, dtype="float64"):
    return random_system(seed, dtype, n=8, d=12, scale=30.0, decades=1.5)


def scaled_inverse(system, scaling):
    return scaling[:, None] * np.linalg.inv(system.dense) * scaling


SCALINGS = {
    "one": lambda s: np.ones_like(s.jacobi),
    "sqrt alpha": lambda s: np.sqrt(s.gram.diagonal),
    "sqrt diagonal": lambda s: np.sqrt(s.jacobi),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rademacher_probes_have_modulus_one_and_mean_zero(dtype):
    p = rademacher(4000, 6, np.empty(0, dtype), seed=3)
    assert p.dtype == np.dtype(dtype)
    np.testing.assert_allclose(abs(p), 1, rtol=1e-6)
    second = (p.T @ p.conj()) / 4000
    # 21 means with standard deviation at most 1/√4000: all within 5, so 1e-5 error rate.
    assert (abs(second - np.eye(6)) < 5 / 4000**0.5).all()
    assert (abs(p.mean(axis=0)) < 5 / 4000**0.5).all()
    np.testing.assert_array_equal(p, rademacher(4000, 6, np.empty(0, dtype), seed=3))
    assert not np.array_equal(p, rademacher(4000, 6, np.empty(0, dtype), seed=4))


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("probes", [rademacher, gaussian], ids=["rademacher", "gaussian"])
def test_unbiased(scaling, dtype, probes):
    system = small(1, dtype)
    scale = SCALINGS[scaling](system)
    draws = np.array([estimate(system, scale, 3, seed, probes).diagonal for seed in range(400)])
    exact = scale**2 * np.diag(np.linalg.inv(system.dense)).real
    z = (draws.mean(axis=0) - exact) / (draws.std(axis=0, ddof=1) / 20)
    # Twelve standard scores, all within 4.5: an error rate of 1e-4 (Bonferroni), for
    # the ratio of Gaussian probes with its heavy tails (K − 2 = 1) too.
    assert (abs(z) < 4.5).all()
    assert abs(z).max() > 0.3  # the scores are scores: the draws do vary


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("seed", range(3))
def test_variance_of_one_probe_is_lemma_1(scaling, dtype, seed):
    system = small(seed, dtype)
    scale = SCALINGS[scaling](system)
    M = scaled_inverse(system, scale)
    expected = (abs(M) ** 2).sum(axis=1) - np.diag(M).real ** 2
    if dtype == "complex128":
        expected = expected / 2  # Re(p̄_j M_jj' p_j') has half the power
    found = estimate(system, scale, 6000, seed, block=6000)
    # A sample variance of 6000 has a relative error of at most √(κ/6000) with
    # kurtosis κ ≤ 9 for a quadratic form in signs: 0.039; five of them.
    np.testing.assert_allclose(found.variance, expected, rtol=0.19)


@pytest.mark.parametrize("n_probes", [2, 8])
def test_variance_falls_as_the_number_of_probes(n_probes):
    system = small(2)
    scale = np.sqrt(system.jacobi)
    M = scaled_inverse(system, scale)
    expected = ((M**2).sum(axis=1) - np.diag(M) ** 2) / n_probes
    draws = np.array([estimate(system, scale, n_probes, s).diagonal for s in range(600)])
    # Mean over the twelve coordinates; relative error of each about √(2…8/600).
    ratio = (draws.var(axis=0, ddof=1) / expected).mean()
    assert ratio == pytest.approx(1.0, abs=0.2)


def test_gaussian_probes_are_normalised():
    # Prop. 1: dividing by Σp² leaves Σ_{j'≠j} M_jj'² E[1/Σp²] = …/(K − 2) for normal
    # probes; without it 2 M_jj²/K would be added, more than everything else here.
    system = random_system(0, n=8, d=12, scale=0.5, decades=1)
    scale = np.sqrt(system.jacobi)
    M = scaled_inverse(system, scale)
    off = (M**2).sum(axis=1) - np.diag(M) ** 2
    draws = np.array([estimate(system, scale, 12, s, gaussian).diagonal for s in range(600)])
    ratio = draws.var(axis=0, ddof=1) / (off / 10)
    # Each ratio has a standard error of about √(3/600) = 0.07: five of them.
    np.testing.assert_allclose(ratio, 1, atol=0.35)
    assert (2 * np.diag(M) ** 2 / 12 > 3 * off / 10).all()


@pytest.mark.parametrize("probes", [gaussian, uniform], ids=["gaussian", "uniform"])
def test_stated_variance_of_other_probes(probes):
    # ``variance / K`` must be the variance of ``diagonal`` for every law of probes.
    system = random_system(0, n=8, d=12, scale=0.5, decades=1)
    scale = np.sqrt(system.jacobi)
    found = [estimate(system, scale, 24, s, probes) for s in range(400)]
    stated = np.mean([f.variance for f in found], axis=0) / 24
    actual = np.var([f.diagonal for f in found], axis=0, ddof=1)
    # Standard error of a ratio about 0.08; 1/K against E[1/Σp²] another tenth.
    np.testing.assert_allclose(stated / actual, 1, atol=0.4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_diagonal_matrix_needs_one_probe(dtype):
    from cofem.operators import Diagonal
    from cofem.solvers import ShiftedGram

    gram = ShiftedGram(Diagonal(np.array([1.0, 2.0, 3.0])), 2.0, np.ones(3))
    found = estimate_diagonal(
        gram, np.array([1.0, 2.0, 3.0]), like=np.empty(0, dtype), n_probes=1, seed=5,
        preconditioner=None, rtol=1e-12, max_steps=50,
    )  # fmt: skip
    np.testing.assert_allclose(found.diagonal, [1 / 3, 4 / 9, 9 / 19], rtol=1e-10)
    np.testing.assert_array_equal(found.variance, 0)


def test_blocks_and_seeds():
    system = small(0)
    scale = np.ones(12)
    a, b = estimate(system, scale, 20, 1), estimate(system, scale, 20, 1)
    np.testing.assert_array_equal(a.diagonal, b.diagonal)
    assert not np.array_equal(a.diagonal, estimate(system, scale, 20, 2).diagonal)
    blocked = estimate(system, scale, 20, 1, block=8)
    assert blocked.steps.shape == blocked.status.shape == (20,)
    assert blocked.n_probes == 20
    # Blocks have their own streams: no probe is drawn twice.
    first = estimate(system, scale, 8, 1, block=8)
    assert not np.allclose(blocked.diagonal, first.diagonal)


@pytest.mark.parametrize("warm", [False, True])
def test_extra_systems_are_solved_beside_the_probes(warm):
    system = random_system(0)
    rhs = draw(np.random.default_rng(0), (2, 40), "float64")
    exact = system.solutions(rhs)
    extra = ExtraSystems(rhs, exact * 1.001 if warm else None, 1e-9)
    found = estimate(system, np.ones(40), 20, 0, block=8, rtol=1e-2, extra=extra)
    alone = estimate(system, np.ones(40), 20, 0, block=8, rtol=1e-2)
    residual = system.residual(found.extra, rhs, system.jacobi)
    assert (residual <= 1.001e-9).all()
    assert found.extra_steps.shape == found.extra_status.shape == (2,)
    assert (found.extra_status == 0).all()
    # The probes do not notice: they are in the same batch only for speed.
    np.testing.assert_array_equal(found.steps, alone.steps)
    np.testing.assert_allclose(found.diagonal, alone.diagonal, rtol=1e-6)
    assert found.rows > alone.rows


def test_threads_do_not_change_a_bit(monkeypatch):
    system = dct_system(0)

    def with_threads(count):
        monkeypatch.setenv("COFEM_NUM_THREADS", count)
        return estimate_diagonal(
            system.gram, np.sqrt(system.jacobi), like=np.empty(0), n_probes=150, seed=0,
            preconditioner=system.jacobi, rtol=1e-3, max_steps=500, block=150,
        )  # fmt: skip

    one, two = with_threads("1"), with_threads("2")
    np.testing.assert_array_equal(one.diagonal, two.diagonal)
    np.testing.assert_array_equal(one.variance, two.variance)


def test_memory_does_not_grow_with_the_number_of_probes(monkeypatch):
    monkeypatch.setenv("COFEM_NUM_THREADS", "1")
    d, n, block = 4096, 64, 8
    from cofem.operators import DCT
    from cofem.solvers import ShiftedGram

    gram = ShiftedGram(DCT(d, np.arange(n)), 1.0, np.ones(d))

    def peak(n_probes):
        tracemalloc.start()
        estimate_diagonal(
            gram, np.ones(d), like=np.empty(0), n_probes=n_probes, seed=0,
            preconditioner=None, rtol=1e-2, max_steps=100, block=block,
        )  # fmt: skip
        _, high = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return high

    peak(block)  # caches are filled once
    few, many = peak(2 * block), peak(32 * block)
    assert many < few + 8 * d * 2  # less than two vectors more, for 240 probes more
    assert few < 16 * 8 * d * block  # a few arrays of a block, not a matrix
