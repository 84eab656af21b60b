"""The methods with a loop of their own, and the sparse problems they are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import array_api_strict
import numpy as np
import pytest

from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import Dense
from cofem.rivals import amp, vi

LIBRARIES = {
    "torch": lambda x: pytest.importorskip("torch").from_numpy(np.array(x)),
    "strict": lambda x: array_api_strict.asarray(np.array(x)),
}


def draw(random, *shape, complex_=False):
    """Standard normal numbers; if complex, real and imaginary parts are."""
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if complex_ else x


@dataclass(frozen=True)
class Rival:
    """A method, and the size of the problems on which it is tried by default."""

    run: Callable
    options: type
    n: int
    d: int
    nonzeros: int
    beta: float

    def task(self, seed, n=None, d=None, *, complex_=False, beta=None):
        """A sparse problem with independent entries."""
        n, d, beta = n or self.n, d or self.d, beta or self.beta
        random = np.random.default_rng(seed)
        phi = draw(random, n, d, complex_=complex_) / n**0.5
        z = np.zeros(d, phi.dtype)
        values = draw(random, self.nonzeros, complex_=complex_) + 2
        z[random.choice(d, self.nonzeros, replace=False)] = values
        y = phi @ z + draw(random, n, complex_=complex_) / beta**0.5
        return Task(Dense(phi), y, beta)

    def fit(
        self, task, options=None, *, tie=None, max_iter=30, tol=0.0, alpha=None, seed=0, **keywords
    ):
        model = Model((task,), tie or Tie())
        if alpha is None:
            real = np.float32 if task.y.dtype in (np.float32, np.complex64) else np.float64
            alpha = np.full(model.n_unknowns, initial_precision(model), real)
        options = options or self.options()
        return self.run(model, options, alpha, seed=seed, max_iter=max_iter, tol=tol, **keywords)


RIVALS = {
    "amp": Rival(amp.run, amp.AMP, n=80, d=120, nonzeros=6, beta=400.0),
    "vi": Rival(vi.run, vi.VI, n=25, d=40, nonzeros=4, beta=100.0),
}
