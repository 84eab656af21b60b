"""Expectation propagation with everything known, and problems drawn from that very prior."""

from dataclasses import dataclass

import numpy as np

from cofem.learning.loop import iterate
from cofem.learning.moments.registry import make_esteps
from cofem.learning.sites.findings import log_evidence, marginals_of
from cofem.learning.sites.mixture import MixturePrior
from cofem.learning.sites.propagation import Propagation
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense


class KnownPrior(MixturePrior):
    """Weights that are not learned, of components that are all in use."""

    def in_use(self, visible):
        return np.ones(len(self.scales), dtype=bool)

    def learned(self, shares, visible):
        return self


@dataclass
class Case:
    """Φ, y, β, the prior z_j ~ Σ_k weights[k] N(0, variances[k, j]), and the z that was drawn."""

    phi: np.ndarray
    y: np.ndarray
    beta: float
    weights: np.ndarray
    variances: np.ndarray
    z: np.ndarray

    @property
    def unit(self):
        """β θ, in which the library measures slabs."""
        return self.beta * np.sum(self.phi**2, axis=0)

    @property
    def scales(self):
        """Variances of the slabs times ``unit``: one number for all coordinates."""
        return self.variances[:, 0] * self.unit[0]


def drawn(n, d, weights, powers, noise_std, seed, correlation=0.0):
    """Draw z from the prior and y from the model; ``powers`` are slab variances × ‖φ_j‖²."""
    random = np.random.default_rng(seed)
    phi = random.normal(size=(n, d))
    for j in range(1, d):
        phi[:, j] = correlation * phi[:, j - 1] + np.sqrt(1 - correlation**2) * phi[:, j]
    phi /= np.sqrt(n)
    variances = np.asarray([0.0, *powers])[:, None] / np.sum(phi**2, axis=0)
    which = random.choice(len(weights), size=d, p=weights)
    z = np.sqrt(variances[which, np.arange(d)]) * random.normal(size=d)
    y = phi @ z + noise_std * random.normal(size=n)
    return Case(phi, y, noise_std**-2, np.asarray(weights), variances, z)


def propagated(case, max_iter=400, tol=1e-6):
    """Return the rule at rest, the verdict, the marginals, and the log evidence."""
    model = Model((Task(Dense(case.phi), case.y, case.beta),), Tie())
    esteps = make_esteps(model, EM(), 0)
    rule = Propagation(model, 10.0, given=True, tol=tol)
    first = case.weights
    rule.prior = KnownPrior(case.scales, case.weights, Tie(), 0.5, 1.0, first)
    found = iterate(model, esteps, rule, max_iter=max_iter, tol=tol)
    report = esteps[0].report(rule.precisions[0], found.moments[0])
    evidence = log_evidence(rule, found.moments, report.log_evidence)
    marginals = marginals_of(model, rule, *rule.prior.components(rule.visible))
    return rule, found, marginals.of_one_task(), evidence
