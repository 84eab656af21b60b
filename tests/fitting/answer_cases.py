"""Simulated problems, and fits with one precision for every coordinate."""

import numpy as np

import cofem

EXACT = ["em", "woodbury"]


def ard(*data, **options):
    """Sparse Bayesian learning, whose formulas are checked here."""
    return cofem.fit(*data, prior="ard", **options)


def fitted(problem, method, **options):
    options = {"max_iter": 50, "tol": 0.0} | options
    return ard(
        problem.phi, problem.y, noise_precision=problem.noise_precision, method=method, **options
    )


def small(seed=0, n=40, d=80, nonzeros=5, noise=0.01):
    """A dense problem small enough for anything: Φ, y, β, z."""
    random = np.random.default_rng(seed)
    phi = random.standard_normal((n, d)) / n**0.5
    z = np.zeros(d)
    z[random.choice(d, nonzeros, replace=False)] = random.uniform(1, 3, nonzeros)
    return phi, phi @ z + noise * random.standard_normal(n), 1 / noise**2, z
