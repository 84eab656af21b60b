"""The exact posterior under spike and slabs, by the sum over all choices of components."""

import itertools

import numpy as np


def enumerated(case):
    """Return means (D,), probabilities of not being zero (D,) and the log evidence, exactly."""
    n, d = case.phi.shape
    choices = np.array(list(itertools.product(range(len(case.weights)), repeat=d)))
    logs, means = np.empty(len(choices)), np.empty((len(choices), d))
    for i, choice in enumerate(choices):
        variances = case.variances[choice, np.arange(d)]
        covariance = np.eye(n) / case.beta + (case.phi * variances) @ case.phi.T
        solved = np.linalg.solve(covariance, case.y)
        log_det = np.linalg.slogdet(covariance)[1]
        logs[i] = -0.5 * (n * np.log(2 * np.pi) + log_det + case.y @ solved)
        logs[i] += np.sum(np.log(case.weights[choice]))
        means[i] = variances * (case.phi.T @ solved)
    top = logs.max()
    shares = np.exp(logs - top)
    evidence = top + np.log(shares.sum())
    shares /= shares.sum()
    return shares @ means, shares @ (choices > 0), evidence
