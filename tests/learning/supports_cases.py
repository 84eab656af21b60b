"""A small set of non-zeros for the formulas of the chains, and its likelihood by dense matrices."""

import math

import numpy as np

from cofem.learning.supports import equal

# Six columns, two of them alike and the last one zero; three non-zeros, the third of equal
# magnitude.
N, D, K = 7, 6, 3
PLACES, SLABS = np.array([4, 0, 2, 99]), np.array([1, 0, 2, 99])
SCALES = np.array([3.0, 60.0, 0.5, 0.5])
MEANS = np.array([0.0, 0.0, 1.3, -1.3])
LOG_ODDS = np.array([-1.0, -2.0, -3.0, -4.0])
FREE = np.array([False, True, False, True, False, True])


def problem(seed=0):
    random = np.random.default_rng(seed)
    phi = random.normal(size=(N, D))
    phi[:, 1] = phi[:, 0] + 0.3 * random.normal(size=N)
    phi /= np.linalg.norm(phi, axis=0)
    phi[:, 5] = 0.0
    return phi, phi @ np.array([1.5, 0, 1.2, 0, -2.0, 0]) + 0.3 * random.normal(size=N)


def lists(phi, y):
    gram = np.zeros((len(PLACES), D))
    gram[:K] = phi[:, PLACES[:K]].T @ phi
    return gram, np.sum(phi**2, axis=0), phi.T @ y, float(y @ y)


def dense(phi, y, places, slabs, scales=SCALES, means=MEANS):
    """Return C and what the means leave of y."""
    columns = phi[:, places]
    return np.eye(N) + (columns * scales[slabs]) @ columns.T, y - columns @ means[slabs]


def log_likelihood(phi, y, places, slabs, beta, heat=1.0, **law):
    """log p(y | S, v), the noise integrated out where beta is zero, up to a constant."""
    c, left = dense(phi, y, places, slabs, **law)
    q = left @ np.linalg.solve(c, left)
    power = 0.5 * beta * q if beta else 0.5 * N * math.log(q)
    return heat * (-0.5 * np.linalg.slogdet(c)[1] - power)


def seen(phi, y, k=K, means=MEANS):
    gram, squares, correlation, power = lists(phi, y)
    s, t = np.empty(D), np.empty(D)
    q = equal.see(
        gram, squares, correlation, power, means, SCALES, PLACES, SLABS, k, s, t
    )  # fmt: skip
    return s, t, q
