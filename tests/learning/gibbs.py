"""A Gibbs sampler for spike and slabs with known weights and noise: an oracle that is not EP.

Every coordinate in turn is drawn given all others, its component and its value together. What
is averaged are the conditional means and probabilities, not the draws themselves
(Rao–Blackwell). Chains are independent and start at different places, so that their spread is
the Monte-Carlo error, whatever the correlation along each.
"""

import math
from dataclasses import dataclass

import numba
import numpy as np


@dataclass
class Sampled:
    """Averages over all chains, (D,) each, and their Monte-Carlo errors."""

    mean: np.ndarray
    mean_error: np.ndarray
    variance: np.ndarray
    probability: np.ndarray
    probability_error: np.ndarray
    draws: np.ndarray
    """The last state of every chain, (chains, D): independent draws of the posterior."""


def gibbs(case, chains=40, sweeps=1000, burn_in=200, seed=0):
    """Sample z given y in ``case`` (see ``learning_cases.Case``)."""
    random = np.random.default_rng(seed)
    gram, correlation = case.phi.T @ case.phi, case.phi.T @ case.y
    start = np.zeros((chains, len(correlation)))
    # Half of the chains begin at zero, half at a draw of the prior.
    which = random.choice(len(case.weights), size=start.shape, p=case.weights)
    prior = np.sqrt(case.variances[which, np.arange(start.shape[1])])
    start[::2] = (prior * random.normal(size=start.shape))[::2]
    first, second, inside, draws = _run(
        gram, correlation, case.beta, np.log(case.weights), case.variances, start, sweeps,
        burn_in, int(random.integers(2**31)),
    )  # fmt: skip
    mean, probability = first.mean(axis=0), inside.mean(axis=0)
    root = math.sqrt(chains)
    return Sampled(
        mean, first.std(axis=0, ddof=1) / root, second.mean(axis=0) - mean**2,
        probability, inside.std(axis=0, ddof=1) / root, draws,
    )  # fmt: skip


@numba.njit
def _run(gram, correlation, beta, log_weights, variances, start, sweeps, burn_in, seed):
    np.random.seed(seed)  # noqa: NPY002 (numba knows no other generators from a seed)
    chains, d = start.shape
    k = len(log_weights)
    first, second, inside = np.zeros((chains, d)), np.zeros((chains, d)), np.zeros((chains, d))
    logs, gains = np.empty(k), np.empty(k)
    for chain in range(chains):
        z = start[chain]
        left = correlation - gram @ z
        for sweep in range(burn_in + sweeps):
            for j in range(d):
                precision = beta * gram[j, j]
                value = (left[j] + gram[j, j] * z[j]) * beta / precision
                for i in range(k):
                    # N(value; 0, s + 1/c), and the mean and variance of z_j under the slab
                    total = variances[i, j] + 1 / precision
                    gains[i] = variances[i, j] / total
                    logs[i] = log_weights[i] - 0.5 * (math.log(total) + value**2 / total)
                shares = np.exp(logs - logs.max())
                shares /= shares.sum()
                if sweep >= burn_in:
                    centre = np.sum(shares * gains) * value
                    first[chain, j] += centre
                    second[chain, j] += np.sum(shares * (gains / precision + (gains * value) ** 2))
                    inside[chain, j] += 1 - shares[0]
                u, chosen = np.random.random(), 0  # noqa: NPY002
                while chosen < k - 1 and u >= shares[chosen]:
                    u -= shares[chosen]
                    chosen += 1
                new = gains[chosen] * value
                step = np.random.normal()  # noqa: NPY002
                new += math.sqrt(gains[chosen] / precision) * step
                left -= gram[:, j] * (new - z[j])
                z[j] = new
    return first / sweeps, second / sweeps, inside / sweeps, start
