"""A prior that prunes, as strict as the data are sparse.

EM's α_j = 1/E z_j² keeps every weight that stands one error bar above zero, and a third of
all irrelevant features do: with many of them, what they pick up of the noise is the largest
part of the error. With α_j = (1 + κ)/E z_j², EM under a prior on α that favours large ones, a
weight stays if it stands t = √κ + √(1 + κ) error bars above zero. For k relevant features
among D the right t is √(2 log(D/k)) (Donoho & Johnstone 1994; Abramovich, Benjamini, Donoho &
Johnstone 2006): nothing is pruned where most features matter, and 4.9 error bars are asked of
a single one among 200,000. k is Σ(1 − α_jΣ_jj), as EM goes.

From the start such a prior would prune what it has not seen yet. It begins when EM without
it has nearly settled.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from cofem.operators import LinearOperator


def strictness(n_features: int, n_relevant: float) -> float:
    """Return κ for k relevant features among D.

    Examples
    --------
    >>> strictness(10, 7), round(strictness(200_000, 500), 2)
    (0.0, 2.52)
    """
    t_squared = 2 * math.log(max(n_features, 1) / max(n_relevant, 1.0))
    if t_squared <= 1:
        return 0.0
    t = math.sqrt(t_squared)
    return ((t - 1 / t) / 2) ** 2


@final
class Pruning(LinearOperator):
    """1/(1 + κ) times the identity: what ``coupling`` makes of second moments.

    Parameters
    ----------
    varies : array (D,) of bool
        Features that can be relevant at all.
    n_outputs : int
        How many weights share one α; the prior's pull is divided among them.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> pruning = Pruning(np.full(100, True), 1)
    >>> pruning.forward(np.ones(100))[0]
    np.float64(1.0)
    >>> alpha = np.r_[1.0, np.full(99, 1e6)]  # one weight that is not zero
    >>> state = SimpleNamespace(mean=np.r_[1.0, np.zeros(99)], precision=alpha)
    >>> pruning.on = True
    >>> pruning.update(state), pruning.update(state), round(pruning.kappa, 2)
    (None, None, 1.83)
    """

    trusted = True
    exact_column_norms = True

    def __init__(self, varies: np.ndarray, n_outputs: int) -> None:
        self.shape = (len(varies), len(varies))
        self.varies, self.n_outputs = varies, n_outputs
        self.on, self.kappa = False, 0.0
        self.last: Any = None

    def _forward(self, x: Any) -> Any:
        return x / (1 + self.kappa)

    def _adjoint(self, y: Any) -> Any:
        return y / (1 + self.kappa)

    def _column_norms_squared(self, like: Any) -> Any:
        return np.full(self.shape[1], (1 + self.kappa) ** -2)

    def update(self, state: Any) -> None:
        """Learn κ from two iterations in a row: the second one's α tells the first one's Σ."""
        last, self.last = self.last, state
        if last is None or not self.on:
            return
        second_moment = (1 + self.kappa) / state.precision
        variance = second_moment - np.mean(np.atleast_2d(last.mean) ** 2, axis=0)
        relevance = np.clip(1 - last.precision * variance, 0.0, 1.0)
        found = float(np.sum(relevance, where=self.varies))
        self.kappa = strictness(int(np.sum(self.varies)), found) / self.n_outputs
