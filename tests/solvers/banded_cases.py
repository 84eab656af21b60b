"""Kernels, priors of twenty orders of magnitude, and dense algebra in 60 digits."""

import mpmath
import numpy as np
from scipy.signal import lfilter

KERNELS = {
    "fast": (0.5,),
    "slow": (0.9999,),
    "alternating": (-0.9,),
    "double pole": (2 * 0.95, -(0.95**2)),
    "double pole near one": (2 * 0.9999, -(0.9999**2)),
    "double pole at one": (2.0, -1.0),
    "rise and decay": (0.99 + 0.5, -0.99 * 0.5),
    "complex near one": (2 * 0.9999 * np.cos(0.001), -(0.9999**2)),
    "complex": (2 * 0.97 * np.cos(0.7), -(0.97**2)),
    "quarter turn": (0.0, -0.9),
    "opposite signs": (0.1, 0.72),
    "both negative": (-1.7, -0.72),
    "order one in disguise": (0.9, 0.0),
}


def draw(kernel, seed, n, kind):
    """α over twenty orders of magnitude, β over eight, and data from the model."""
    random = np.random.default_rng(seed)
    alpha = 10 ** random.uniform(-6, 14, n)
    if kind == "events":  # mostly silent, the case that sparse learning ends in
        alpha = np.where(random.random(n) < 0.15, 10 ** random.uniform(-6, 0, n), 1e14)
    beta = np.full(n, 10 ** random.uniform(-2, 6))
    if kind == "uneven":
        beta = 10 ** random.uniform(-2, 6, n) * (random.random(n) < 0.8)
    z = random.standard_normal(n) / np.sqrt(alpha)
    noise = random.standard_normal(n) / np.sqrt(np.where(beta > 0, beta, 1))
    return lfilter([1.0], np.append(1.0, -np.array(kernel)), z) + noise, alpha, beta


def exact_precision(kernel, alpha, beta):
    """Φ and A = ΦᵀBΦ + diag(α) in 60 digits; call it inside their workdps."""
    n = len(alpha)
    g = [mpmath.mpf(float(c)) for c in kernel]
    k = [mpmath.mpf(1)]
    for t in range(1, n):
        k.append(mpmath.fsum(c * k[t - 1 - i] for i, c in enumerate(g) if t > i))
    phi = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(i + 1):
            phi[i, j] = k[i - j]
    alpha, beta = (mpmath.diag([mpmath.mpf(float(x)) for x in v]) for v in (alpha, beta))
    return phi, phi.T * beta * phi + alpha


# -- in double precision, where dense algebra is good enough -------------------


def tame(kernel, seed, n=40):
    random = np.random.default_rng(seed)
    alpha, beta = 10 ** random.uniform(-1, 2, n), 10 ** random.uniform(0, 2, n)
    z = random.standard_normal(n) / np.sqrt(alpha)
    clean = lfilter([1.0], np.append(1.0, -np.array(kernel)), z)
    return clean + random.standard_normal(n) / np.sqrt(beta), alpha, beta


def dense(kernel, n):
    return lfilter([1.0], np.append(1.0, -np.array(kernel)), np.eye(n), axis=0)


BOTH_ORDERS = [(0.95,), (0.95 + 0.6, -0.95 * 0.6)]
