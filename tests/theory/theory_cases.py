"""Dictionaries, supports and precisions on which the bounds of the theory are tried."""

from __future__ import annotations

import math

import numpy as np

from cofem.operators import DCT, Convolution, Dense, Fourier


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
