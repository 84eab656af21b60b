"""The table of site rules: a name, and how to make the rule for a model.

A new rule gets a row here; ``test_site_rules.py`` then checks what the loop asks of every rule.
"""

import numpy as np

from cofem.learning.noise import LearnedNoise
from cofem.learning.sites.ard import Ard
from cofem.learning.sites.propagation import Propagation
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense

TOL = 1e-4


def start(model):
    return np.full(model.n_precisions, 0.1)


RULES = {
    "ard": lambda model: Ard(model, start(model), TOL),
    "ard, pruned, noise learned": lambda model: Ard(
        model, start(model), TOL, pruning=True, noise=LearnedNoise(model.families, 10.0)
    ),
    "mixture": lambda model: Propagation(model, 10.0, given=True, tol=TOL),
    "mixture, noise learned": lambda model: Propagation(model, 10.0, given=False, tol=TOL),
}


def sparse_model(n_tasks=1, seed=0, n=30, d=50, noise_std=0.1):
    """Three of d coordinates are not zero; tasks share them, and Φ."""
    random = np.random.default_rng(seed)
    phi = Dense(random.normal(size=(n, d)) / np.sqrt(n))
    z = np.zeros((n_tasks, d))
    z[:, random.choice(d, 3, replace=False)] = 3 + random.normal(size=(n_tasks, 3))
    y = phi.forward(z) + noise_std * random.normal(size=(n_tasks, n))
    return Model(tuple(Task(phi, row, noise_std**-2) for row in y), Tie()), z
