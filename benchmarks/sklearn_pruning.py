"""What pruning is worth in SparseBayesRegressor, from very sparse to not sparse at all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from common import Table, note

NEW = 500


@dataclass(frozen=True)
class Kind:
    """A kind of problem: independent or correlated Gaussian features, Gaussian weights."""

    rows: int
    features: int
    relevant: int
    noise: float  # relative to the spread of the signal
    correlation: float = 0.0  # of neighbours

    @property
    def name(self) -> str:
        """For the table."""
        correlated = f", neighbours correlated at {self.correlation}" if self.correlation else ""
        return f"{self.rows} × {self.features}, {self.relevant} relevant{correlated}"

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return X and y, new rows included, and the weights."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(self.rows + NEW, self.features))
        for j in range(1, self.features if self.correlation else 0):
            rest = np.sqrt(1 - self.correlation**2)
            X[:, j] = self.correlation * X[:, j - 1] + rest * X[:, j]
        w = np.zeros(self.features)
        places = rng.choice(self.features, self.relevant, replace=False)
        w[places] = rng.normal(size=self.relevant)
        signal = X @ w
        return X, signal + self.noise * signal.std() * rng.normal(size=len(X)), w


KINDS = (
    Kind(256, 512, 20, 0.3),
    Kind(150, 300, 10, 0.3, correlation=0.9),
    Kind(300, 60, 12, 0.5),
    Kind(1000, 300, 90, 0.5),
    Kind(300, 60, 60, 0.5),
    Kind(150, 100, 50, 0.5),
    Kind(150, 200, 60, 0.5),
)


def pruning_table(seeds: int) -> Table:
    """Fit every kind with and without pruning."""
    columns = ["problem", "noise", "NRMSE %, prune=False", "prune=True", "R², prune=False",
               "prune=True", "coverage %, prune=False", "prune=True"]  # fmt: skip
    rows = []
    for kind in KINDS:
        note(f"sklearn_ard: pruning, {kind.name}")
        plain, pruned = (
            np.mean([_score(kind, seed, prune) for seed in range(seeds)], axis=0).tolist()
            for prune in (False, True)
        )
        both = [value for pair in zip(plain, pruned, strict=True) for value in pair]
        rows.append([kind.name, kind.noise, *both])
    return Table(f"Pruning, means of {seeds} problems each", columns, rows)


def _score(kind: Kind, seed: int, prune: bool) -> tuple[float, float, float]:
    """Return NRMSE, R² and coverage."""
    from cofem.sklearn import SparseBayesRegressor

    X, y, w = kind.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some do not settle without pruning
        model = SparseBayesRegressor(prune=prune).fit(X[: kind.rows], y[: kind.rows])
    mean, std = model.predict(X[kind.rows :], return_std=True)
    new = y[kind.rows :]
    return (
        float(100 * np.linalg.norm(model.coef_ - w) / np.linalg.norm(w)),
        float(1 - np.mean((new - mean) ** 2) / np.var(new)),
        float(100 * np.mean(np.abs(new - mean) < 1.96 * std)),
    )
