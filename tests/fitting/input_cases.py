"""One small problem, and errors."""

import numpy as np

import cofem

PHI = np.random.default_rng(0).standard_normal((6, 9))
Y = np.random.default_rng(1).standard_normal(6)


def fit(phi=PHI, y=Y, **options):
    options = {"noise_precision": 10.0, "max_iter": 3, "tol": 0.0} | options
    return cofem.fit(phi, y, **options)
