"""Dictionaries of every kind, and the E-step's matrix in dense algebra."""

import numpy as np

from cofem.model.model import Model, Task, Tie
from cofem.operators import DCT, Convolution, Dense, Fourier


def dictionaries(d=48):
    random = np.random.default_rng(1)
    correlated = random.standard_normal((24, 6)) @ random.standard_normal((6, d))
    return {
        "gaussian": Dense(random.standard_normal((d // 3, d)) / 4),
        "tall": Dense(random.standard_normal((2 * d, d)) / 10),
        "dct": DCT(d, np.sort(random.choice(d, d // 3, replace=False))),
        "convolution": Convolution(0.96 ** np.arange(d), d),
        "correlated": Dense(correlated + 0.1 * random.standard_normal((24, d))),
        "fourier": Fourier(d, random.random(d) < 0.5),
    }


DICTIONARIES = dictionaries()


def family(op, y, beta):
    return Model((Task(op, y, beta),), Tie()).families[0]


def task_on(op, seed, beta=100.0):
    random = np.random.default_rng(seed)
    y = random.standard_normal(op.shape[0])
    if op.is_complex:
        y = y + 1j * random.standard_normal(op.shape[0])
    return family(op, y, beta), np.empty(0, y.dtype), 10 ** random.uniform(-1, 3, op.shape[1])
