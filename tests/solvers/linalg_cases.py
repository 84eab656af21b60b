"""Small systems A = βΦᴴΦ + diag(α) with their dense matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cofem.operators import DCT, Dense
from cofem.solvers import ShiftedGram

DTYPES = ("float32", "float64", "complex64", "complex128")


def draw(random, shape, dtype):
    """Standard normal numbers, circular if complex."""
    x = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = (x + 1j * random.standard_normal(shape)) / np.sqrt(2)
    return x.astype(dtype)


def eps(dtype):
    return float(np.finfo(dtype).eps)


@dataclass(frozen=True)
class System:
    """The operator form, and the matrix in double precision made without it."""

    gram: ShiftedGram
    dense: np.ndarray
    jacobi: np.ndarray

    def solutions(self, rhs):
        """Return the rows x with A x = b, by LAPACK."""
        return np.linalg.solve(self.dense, rhs.astype(self.dense.dtype).T).T

    def residual(self, x, rhs, preconditioner=None):
        """‖b − Ax‖/‖b‖ in the norm of M⁻¹, evaluated in double precision."""
        weight = 1.0 if preconditioner is None else 1 / preconditioner.astype(float)
        r = rhs.astype(self.dense.dtype) - x.astype(self.dense.dtype) @ self.dense.T
        top = (weight * abs(r) ** 2).sum(axis=1)
        bottom = (weight * abs(rhs.astype(self.dense.dtype)) ** 2).sum(axis=1)
        return np.sqrt(top / np.where(bottom > 0, bottom, 1))


def random_system(seed, dtype="float64", n=30, d=40, scale=20.0, decades=3.0):
    """Φ with N(0, 1/n) entries, α spread over ``decades`` powers of ten."""
    random = np.random.default_rng(seed)
    phi = draw(random, (n, d), dtype) / np.sqrt(np.asarray(n, np.dtype(dtype).type(0).real.dtype))
    real = np.dtype(dtype).type(0).real.dtype
    alpha = (10 ** random.uniform(0, decades, d)).astype(real)
    wide = phi.astype(np.result_type(phi.dtype, np.float64))
    dense = scale * wide.conj().T @ wide + np.diag(alpha.astype(float))
    jacobi = np.diag(dense).real.astype(real)
    return System(ShiftedGram(Dense(phi), scale, alpha), dense, jacobi)


def dct_system(seed, d=512, n=170, scale=100.0, decades=2.0, dtype="float64"):
    """A transform: its rows may be split over blocks and threads."""
    random = np.random.default_rng(seed)
    rows = np.sort(random.choice(d, n, replace=False))
    op = DCT(d, rows)
    alpha = (10 ** random.uniform(0, decades, d)).astype(dtype)
    phi = op.to_dense()
    dense = scale * phi.T @ phi + np.diag(alpha.astype(float))
    return System(ShiftedGram(op, scale, alpha), dense, np.diag(dense).astype(dtype))
