"""Problems for one coordinate at a time, and their evidence by dense algebra."""

from __future__ import annotations

import numpy as np
from rival_cases import draw

from cofem.model.model import Model, Task, Tie
from cofem.operators import DCT, Convolution, Dense, Fourier
from cofem.rivals import sequential
from cofem.rivals.sequential import Sequential


def sparse_task(op, random, beta=400.0, nonzeros=5, complex_=False):
    z = np.zeros(op.shape[1], complex if complex_ else float)
    chosen = random.choice(op.shape[1], nonzeros, replace=False)
    z[chosen] = draw(random, nonzeros, complex_=complex_) + 1
    noise = draw(random, op.shape[0], complex_=complex_ or op.is_complex)
    return Task(op, op.forward(z) + noise / beta**0.5, beta)


def dense(op, complex_):
    return op.to_dense(np.empty(0, complex if complex_ else float))


def evidence(phi, y, gamma, beta):
    """log p(y) by Cholesky of the data's covariance."""
    root = np.linalg.cholesky(np.eye(len(y)) / beta + (phi * gamma) @ phi.conj().T)
    log_det = 2 * np.sum(np.log(np.diag(root).real))
    quadratic = np.linalg.norm(np.linalg.solve(root, y)) ** 2
    if np.iscomplexobj(phi) or np.iscomplexobj(y):
        return -(len(y) * np.log(np.pi) + log_det + quadratic)
    return -0.5 * (len(y) * np.log(2 * np.pi) + log_det + quadratic)


CASES = {
    "dense": (lambda random: Dense(random.standard_normal((20, 35))), False),
    "complex": (lambda random: Dense(draw(random, 20, 35, complex_=True)), True),
    "real phi, complex y": (lambda random: Dense(random.standard_normal((20, 35))), True),
    "dct": (lambda random: DCT(40, np.sort(random.choice(40, 18, replace=False))), False),
    "fourier": (lambda random: Fourier((36,), random.random(36) < 0.5), True),
    "convolution": (lambda random: Convolution(0.9 ** np.arange(30), 30), False),
}


def case(name, seed, n_tasks=1):
    random = np.random.default_rng(seed)
    make, complex_ = CASES[name]
    op = make(random)
    tasks = tuple(sparse_task(op, random, complex_=complex_) for _ in range(n_tasks))
    return Model(tasks, Tie()), dense(op, complex_)


def gammas(learner, n_unknowns):
    out = np.zeros(n_unknowns)
    out[learner.active.members] = 1 / learner.active.alphas()
    return out


def run(model, options=None, *, max_iter=200, tol=1e-9, **keywords):
    options = options or Sequential()
    like = np.zeros(
        model.n_unknowns,
        np.float32 if model.like.dtype in (np.float32, np.complex64) else np.float64,
    )
    return sequential.run(model, options, like, seed=0, max_iter=max_iter, tol=tol, **keywords)
