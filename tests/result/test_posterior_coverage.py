"""Error bars: intervals hold the truth as often as they say."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.operators import DCT, Convolution, Dense, Fourier

BETA = 100.0


def dictionary(name, random):
    if name == "gaussian":
        return Dense(random.standard_normal((100, 200)) / 10)
    if name == "dct":
        return DCT(200, np.sort(random.choice(200, 70, replace=False)))
    if name == "convolution":
        return Convolution(0.9 ** np.arange(200), 200)
    return Fourier(200, random.random(200) < 0.5)


def drawn(name, seed):
    """z ~ N(0, 1/α) with α over six decades, y = Φz + noise: the model itself."""
    random = np.random.default_rng(seed)
    op = dictionary(name, random)
    complex_ = op.is_complex

    def normal(n):
        if complex_:
            return (random.standard_normal(n) + 1j * random.standard_normal(n)) / 2**0.5
        return random.standard_normal(n)

    alpha = 10 ** random.uniform(-2, 4, 200)
    z = normal(200) / np.sqrt(alpha)
    y = op.forward(z) + normal(op.shape[0]) / BETA**0.5
    return op, y, z, alpha


# 20 draws of 200 coordinates: 4000 intervals, correlated within a draw; were they
# independent, the share would have a standard error of 0.0034. Two per cent is what the
# issue allows; it is five of these, and three if a draw counted for 70 coordinates.
DRAWS = 20


@pytest.mark.parametrize("name", ["gaussian", "dct", "convolution"])
@pytest.mark.parametrize("method", ["em", "cofem"])
def test_intervals_cover(name, method):
    inside = {0.95: [], 0.5: []}
    for seed in range(DRAWS):
        op, y, z, alpha = drawn(name, seed)
        post = cofem.posterior(op, y, precision=alpha, noise_precision=BETA, method=method)
        for level, found in inside.items():
            low, high = post.interval(level)
            found.append((low <= z) & (z <= high))
    share = np.mean(inside[0.95])
    assert 0.93 <= share <= 0.97
    assert 0.46 <= np.mean(inside[0.5]) <= 0.54


@pytest.mark.parametrize("method", ["em", "cofem"])
def test_complex_errors_are_exponential(method):
    within = []
    for seed in range(DRAWS):
        op, y, z, alpha = drawn("fourier", seed)
        post = cofem.posterior(op, y, precision=alpha, noise_precision=BETA, method=method)
        within.append(abs(z - post.mean) ** 2 / post.variance < np.log(20))
    assert 0.93 <= np.mean(within) <= 0.97  # P(|z − μ|² < Σ log 20) = 0.95


@pytest.mark.parametrize("name", ["gaussian", "dct", "convolution"])
def test_errors_have_the_size_of_std_at_every_scale(name):
    # Not only on the whole: for small and for large α alike.
    scores, ratios, precisions = [], [], []
    for seed in range(DRAWS):
        op, y, z, alpha = drawn(name, seed)
        exact, ours = (
            cofem.posterior(op, y, precision=alpha, noise_precision=BETA, method=method)
            for method in ("em", "cofem")
        )
        scores.append((z - exact.mean) / exact.std)
        ratios.append(ours.variance / exact.variance)
        precisions.append(alpha)
    scores, ratios, precisions = map(np.concatenate, (scores, ratios, precisions))
    for low in (1e-2, 1e0, 1e2):
        chosen = (precisions >= low) & (precisions < 100 * low)
        # About 1300 squared scores, mean 1, standard error √(2/1300) = 0.04 (more for
        # correlated ones): four of them.
        assert np.mean(scores[chosen] ** 2) == pytest.approx(1.0, abs=0.16)
        # CoFEM's variances are right on average, to the few per cent that their bounds,
        # which cut on one side where Σ_jj is near 1/α_j, take from them.
        assert np.mean(ratios[chosen]) == pytest.approx(1.0, abs=0.07)


def test_learned_precisions_cover_as_exact_em_does():
    # With α learned the coverage is EM's business; ours is to be the same, on the
    # non-zeros, within two points.
    shares = {"woodbury": [], "cofem": []}
    for seed in range(4):
        problem = simulate.dct(512, seed, sparsity=0.12)
        for method, found in shares.items():
            post = cofem.fit(problem.phi, problem.y, noise_precision=problem.noise_precision,
                             method=method, max_iter=50, tol=0.0)  # fmt: skip
            low, high = post.interval()
            active = problem.z != 0
            found.append(((low <= problem.z) & (problem.z <= high))[active])
    exact, ours = (np.mean(np.concatenate(s)) for s in shares.values())
    assert abs(exact - ours) < 0.02
