"""Longer steps of EM: they save iterations, and neither the answer nor tol=0 notices."""

import numpy as np
import pytest

import cofem
from cofem.learning.sites import extrapolation
from cofem.learning.sites.extrapolation import FARTHEST, FIRST, GROWS, LONGEST, Extrapolation


def wide_kernel(seed, n=100, d=100, width=0.04, sigma=0.01, dtype=float, signs=(-1.0, 1.0)):
    """Radial basis functions on a line: EM creeps for hundreds of iterations."""
    random = np.random.default_rng(seed)
    x, centres = np.sort(random.uniform(size=n)), np.linspace(0, 1, d)
    phi = np.exp(-((x[:, None] - centres) ** 2) / (2 * width**2)).astype(dtype)
    z = np.zeros(d, dtype)
    z[random.choice(d, 5, replace=False)] = random.choice(signs, 5)
    if dtype is complex:
        phi *= np.exp(2j * np.pi * x)[:, None]
        z *= np.exp(2j * np.pi * random.random(d))
    noise = random.normal(size=n) if dtype is float else random.normal(size=(n, 2)) @ [1, 1j]
    return phi, phi @ z + sigma * noise, sigma**-2


def ard(problem, **options):
    phi, y, beta = problem
    return cofem.fit(phi, y, noise_precision=beta, prior="ard", **options)


def runs(rule, alphas, worths):
    """Give the rule places of EM one after another; return where it went."""
    went = []
    for i, (alpha, new, worth) in enumerate(zip(alphas, alphas[1:], worths, strict=False)):
        went.append(rule.step(FIRST - 1 + i, alpha, new, worth))
    return went


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_a_geometric_series_is_summed(library, rate):
    ways = np.array([1.0, -2.0, 0.5])  # where the series lead, from log α = 0
    alphas = [np.exp(ways * (1 - rate**i)) for i in range(3)]
    if library == "torch":
        torch = pytest.importorskip("torch")
        alphas = [torch.from_numpy(a) for a in alphas]
    rule = Extrapolation()
    first, far = runs(rule, alphas, [0.0, 1.0])
    assert first is alphas[1]
    assert not rule.plain
    np.testing.assert_allclose(np.log(np.asarray(far)), ways, rtol=1e-12)


def test_no_step_is_longer_than_allowed():
    # The second step is hardly shorter: the series would lead 10⁶ steps away.
    alphas = [np.exp(np.array([x])) for x in (0.0, 0.01, 0.02 - 1e-8)]
    rule = Extrapolation()
    far = runs(rule, alphas, [0.0, 1.0])[-1]
    assert np.log(far)[0] == pytest.approx(2 * LONGEST * 0.01, rel=1e-4)
    rule.step(FIRST + 1, far, 1.01 * far, 2.0)
    assert rule.longest == GROWS * LONGEST
    jumps = [np.exp(np.array([x])) for x in (0.0, 3.0, 5.9)]
    assert runs(Extrapolation(), jumps, [0.0, 1.0])[-1] == pytest.approx(FARTHEST)


def test_a_step_that_lowers_the_worth_is_taken_back():
    alphas = [np.exp(np.array([x])) for x in (0.0, 0.01, 0.019)]
    rule = Extrapolation()
    far = runs(rule, alphas, [0.0, 1.0])[-1]
    assert rule.step(FIRST + 1, far, 1.2 * far, 0.99) is alphas[2]
    assert not rule.plain  # the next movement is not one of EM
    assert rule.longest == 1.0
    assert rule.step(FIRST + 2, alphas[2], 1.005 * alphas[2], 1.1) == 1.005 * alphas[2]
    assert rule.plain


@pytest.mark.parametrize("worth", [np.nan, np.inf])
def test_without_a_worth_em_is_as_it_is(worth):
    alphas = [np.exp(np.array([x])) for x in (0.0, 0.01, 0.019, 0.0271)]
    assert runs(Extrapolation(), alphas, [worth] * 3) == alphas[1:]


@pytest.mark.parametrize("kind", ["real", "complex", "nonnegative"])
def test_it_ends_where_plain_em_ends_in_fewer_iterations(kind, monkeypatch):
    dtype = complex if kind == "complex" else float
    saved = []
    signs = (1.0,) if kind == "nonnegative" else (-1.0, 1.0)
    for seed in range(3):
        problem = wide_kernel(seed, dtype=dtype, signs=signs)
        options = {"tol": 1e-5, "max_iter": 4000, "nonnegative": kind == "nonnegative"}
        fast = ard(problem, **options)
        with monkeypatch.context() as patch:
            patch.setattr(extrapolation, "FIRST", 10**9)
            slow = ard(problem, **options)
        assert fast.converged
        assert slow.converged
        saved.append(len(slow.history["iteration"]) / len(fast.history["iteration"]))
        if kind != "nonnegative":  # EM's maximum may be another one, but it is no worse
            assert fast.log_evidence > slow.log_evidence - 1.0
        misfit = [np.linalg.norm(problem[0] @ p.mean - problem[1]) for p in (fast, slow)]
        assert misfit[0] < 1.05 * misfit[1]
    assert np.median(saved) > 2


def test_iterations_between_are_those_of_em_and_the_evidence_rises():
    phi, y, beta = wide_kernel(0)
    states = []
    post = ard((phi, y, beta), tol=1e-6, max_iter=150,
               callback=lambda s: states.append(s.precision.copy()))  # fmt: skip
    evidence = np.array(post.history["log_evidence"])
    assert np.all(np.diff(evidence[: FIRST + 1]) > 0)
    plain = 0
    for i in range(FIRST, len(states)):
        solved = cofem.posterior(phi, y, precision=states[i - 1], noise_precision=beta)
        of_em = 1 / (solved.mean**2 + solved.variance)
        plain += np.allclose(np.log(states[i]), np.log(of_em), atol=1e-6)
    assert plain >= (len(states) - FIRST) // 3  # a half, and fewer where steps are taken back
    # What was tried and taken back aside, it only rises.
    kept = np.maximum.accumulate(evidence)
    assert np.mean(evidence < kept) < 0.2
    assert evidence[-1] > evidence[FIRST]


def test_without_a_tolerance_em_is_as_it_is(monkeypatch):
    problem = wide_kernel(0)
    as_it_is = ard(problem, tol=0, max_iter=80)
    monkeypatch.setattr(extrapolation, "FIRST", 10**9)
    plain = ard(problem, tol=0, max_iter=80)
    np.testing.assert_array_equal(as_it_is.mean, plain.mean)


@pytest.mark.parametrize("stop", [FIRST + 4, FIRST + 5, FIRST + 6])
def test_it_resumes_bit_for_bit(tmp_path, stop):
    problem = wide_kernel(1)
    whole = ard(problem, tol=1e-6, max_iter=120)
    file = tmp_path / "c.npz"
    ard(problem, tol=1e-6, max_iter=120, checkpoint=file,
        callback=lambda s: s.iteration == stop)  # fmt: skip
    again = ard(problem, tol=1e-6, max_iter=120, checkpoint=file)
    assert len(again.history["iteration"]) == len(whole.history["iteration"])
    np.testing.assert_array_equal(again.mean, whole.mean)
