"""Data sets for the comparison with scikit-learn: made anew in the process that fits them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

TEST_ROWS = 250


@dataclass(frozen=True)
class Case:
    """A data set, made anew in the process that fits it."""

    name: str
    rows: int
    features: int
    nonzeros: int = 0  # per row; 0: dense
    relevant: int = 0
    noise: float = 0.3  # relative to the spread of the signal

    @property
    def sparse(self) -> bool:
        """Whether X is CSR, which ARDRegression does not take."""
        return self.nonzeros > 0

    @property
    def ard_bytes(self) -> int:
        """The covariance and a copy of it, and X written out: the least that ARD holds."""
        return 8 * (2 * self.features**2 + self.rows * self.features)


DIABETES = Case("diabetes", 442, 10)


CALIFORNIA = Case("California-like", 20_640, 8)


SIMULATED = {
    512: Case("simulated", 256, 512, relevant=20),
    2048: Case("simulated", 1024, 2048, relevant=80),
    8192: Case("simulated", 2048, 8192, relevant=120),
    20_000: Case("simulated, CSR", 5000, 20_000, nonzeros=50, relevant=200),
    200_000: Case("simulated, CSR", 20_000, 200_000, nonzeros=50, relevant=500),
}


def california_like(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features that are skewed and correlated, and noise with heavy tails."""
    rng = np.random.default_rng(seed)
    n, d = CALIFORNIA.rows, CALIFORNIA.features
    mixing = np.eye(d) + 0.5 * rng.normal(size=(d, d))
    latent = rng.normal(size=(n, d)) @ mixing
    X = np.where(np.arange(d) % 2, np.exp(0.5 * latent), latent) * 10.0 ** rng.uniform(-2, 3, d)
    w = rng.normal(size=d) * (np.arange(d) < d - 2) / X.std(axis=0)
    signal = X @ w
    return X, 2 + signal + 0.8 * signal.std() * rng.standard_t(3, size=n) / np.sqrt(3)


def simulated(case: Case, seed: int) -> dict[str, Any]:
    """Draw a sparse regression with an intercept, and rows to test it on."""
    rng = np.random.default_rng(seed)
    n, d = case.rows + TEST_ROWS, case.features
    if case.sparse:
        rows = np.repeat(np.arange(n), case.nonzeros)
        columns = rng.integers(0, d, size=len(rows))
        rows, columns = rows.astype(np.int32), columns.astype(np.int32)  # all that LassoCV takes
        X: Any = scipy.sparse.csr_array((rng.normal(size=len(rows)), (rows, columns)), shape=(n, d))
    else:
        X = rng.normal(size=(n, d))
    w = np.zeros(d)
    w[rng.choice(d, case.relevant, replace=False)] = rng.normal(size=case.relevant)
    signal = X @ w
    y = 5 + signal + case.noise * signal.std() * rng.normal(size=n)
    return {"X": X[: case.rows], "y": y[: case.rows], "X_new": X[case.rows :],
            "y_new": y[case.rows :], "w": w}  # fmt: skip
