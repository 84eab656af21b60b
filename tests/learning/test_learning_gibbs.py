"""Expectation propagation against a Gibbs sampler for the same prior, noise and data."""

import numpy as np
import pytest
from enumeration import enumerated
from gibbs import gibbs
from learning_cases import Case, drawn, propagated

import cofem
from cofem.learning.ends.held_shares import HeldShares


def test_the_oracle_itself_is_right():
    case = drawn(12, 9, [0.7, 0.3], [1.0], 0.3, 0)
    found = gibbs(case, chains=40, sweeps=500)
    mean, probability, _ = enumerated(case)
    # Beyond four standard errors (Student, 39 degrees of freedom): 18 numbers, once in 200.
    np.testing.assert_array_less(abs(found.mean - mean), 4 * found.mean_error)
    np.testing.assert_array_less(abs(found.probability - probability), 4 * found.probability_error)
    assert found.probability_error.max() < 0.01


# The distance of EP from the truth, measured on 27 problems like these: means up to 0.05 of a
# posterior standard deviation (root mean square), up to 0.2 at the worst coordinate;
# probabilities up to 0.06.
SETTINGS = {
    "one slab": (40, 60, [0.9, 0.1], [1.0], 0.2, 0.0),
    "two slabs": (40, 60, [0.9, 0.05, 0.05], [0.3, 4.0], 0.2, 0.0),
    "correlated": (40, 60, [0.9, 0.1], [1.0], 0.2, 0.7),
    "noisy": (40, 60, [0.9, 0.1], [1.0], 0.5, 0.0),
}


def distances(case, mean, probability, chains, sweeps):
    """Root mean square and largest distance of the means in error bars, largest of P, MC error."""
    sampled = gibbs(case, chains, sweeps)
    std = np.sqrt(sampled.variance)
    # Where P(zero) is nearly one both are nearly zero: no share of next to nothing.
    apart = (mean - sampled.mean) / np.maximum(std, 1e-3 * std.max())
    error = sampled.mean_error / np.maximum(std, 1e-3 * std.max())
    return (
        np.sqrt(np.mean(apart**2)), abs(apart).max(),
        abs(probability - sampled.probability).max(), np.sqrt(np.mean(error**2)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SETTINGS)
def test_means_and_probabilities_are_those_of_the_sampler(name, seed):
    n, d, weights, powers, noise_std, correlation = SETTINGS[name]
    case = drawn(n, d, weights, powers, noise_std, seed, correlation)
    _, _, marginals, _ = propagated(case)
    rms, largest, probability, noise = distances(
        case, marginals.mean, marginals.probability, chains=20, sweeps=600
    )
    assert noise < 0.02  # the oracle is sharper than what it judges
    assert rms < 0.08
    assert largest < 0.35
    assert probability < 0.08


def learned_case(problem, monkeypatch):
    """What ``fit`` has learned, noise included, as a case for the sampler; at one share alone."""
    monkeypatch.setattr(HeldShares, "around", lambda *_: ([], []))
    post = cofem.fit(problem.phi, problem.y, method="em", prior="mixture")
    m = post.marginals
    variances = m.scales[:, None] / m.unit
    return post, Case(problem.phi, problem.y, post.noise_precision, m.weights, variances, problem.z)


def test_a_fit_is_right_for_what_it_has_learned(monkeypatch):
    post, case = learned_case(drawn(50, 60, [0.9, 0.1], [1.0], 0.1, 3), monkeypatch)
    rms, largest, probability, noise = distances(case, post.mean, post.probability, 20, 600)
    assert noise < 0.02
    assert rms < 0.08
    assert largest < 0.35
    assert probability < 0.08


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "largest"), [(0.0, 0.08), (0.7, 0.15)])
def test_two_hundred_coordinates(correlation, largest, monkeypatch):
    """Four problems. Where two sets of columns explain y alike, single probabilities are wrong.

    Of 20 problems (``docs/notes/prior.md``) four had a probability that was wrong by more than
    .15. So that is asked of half of them; the means are near the sampler's in all.
    """
    found = []
    for seed in range(4):
        problem = drawn(120, 200, [0.94, 0.06], [1.0], 0.1, seed, correlation)
        post, case = learned_case(problem, monkeypatch)
        found.append(distances(case, post.mean, post.probability, 20, 1500))
    rms, _, probability, noise = np.array(found).T
    assert noise.max() < 0.02
    assert rms.max() < 0.08
    assert np.median(probability) < largest


QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


@pytest.fixture(scope="module")
def calibration():
    """Sixty problems drawn from the prior: truth, P(not zero), interval, quantiles."""
    rows = []
    for seed in range(60):
        case = drawn(40, 60, [0.9, 0.05, 0.05], [0.3, 4.0], 0.2, 100 + seed, 0.3)
        _, _, m, _ = propagated(case, tol=1e-4)
        rows.append([case.z, m.probability, *(m.quantile(p) for p in (0.025, 0.975, *QUANTILES))])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def test_probabilities_are_frequencies(calibration):
    z, probability = calibration[:2]
    for low, high in ((0.0, 0.05), (0.05, 0.15), (0.15, 0.5), (0.5, 0.95), (0.95, 1.1)):
        inside = (probability >= low) & (probability < high)
        n = inside.sum()
        assert n >= 20
        expected, found = probability[inside].mean(), (z[inside] != 0).mean()
        # Four standard errors of a binomial share, and 0.03 for the approximation.
        assert abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / n) + 0.03


def test_intervals_cover(calibration):
    z, probability, low, high = calibration[:4]
    covered = (low <= z) & (z <= high)
    n = len(z)
    assert covered.mean() > 0.95 - 3 * np.sqrt(0.05 * 0.95 / n)
    clear = probability > 0.9
    assert clear.sum() > 100
    error = np.sqrt(0.05 * 0.95 / clear.sum())
    assert 0.95 - 3 * error - 0.01 < covered[clear].mean() < 0.95 + 3 * error + 0.01


def test_quantiles_are_where_the_truth_lies_below_as_often(calibration):
    z, probability = calibration[:2]
    clear = probability > 0.99  # no atom to speak of
    n = clear.sum()
    for p, at in zip(QUANTILES, calibration[4:], strict=True):
        share = (z[clear] <= at[clear]).mean()
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / n)
