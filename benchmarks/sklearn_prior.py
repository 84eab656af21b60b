"""SparseBayesRegressor beside scikit-learn's own: predictions, and whether intervals hold."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import Claim, Result, Table, note

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
    Kind(60, 50, 50, 0.5),
    Kind(60, 50, 20, 0.5),
    Kind(60, 50, 5, 0.5),
)
# Few rows of few features that correlate by a half, as linnerud has them: rows, features, relevant.
SMALL = ((16, 3, 3), (16, 3, 1), (30, 8, 8), (30, 8, 1))
EXPLAINED = (0.0, 0.15, 0.4)  # the share of the variance of y
SIMULATED = {
    "ours": lambda: _ours(),
    "ours, ard": lambda: _ours(prior="ard"),
    "ARDRegression": lambda: _theirs("ARDRegression"),
    "BayesianRidge": lambda: _theirs("BayesianRidge"),
    "LassoCV": lambda: _theirs("LassoCV"),
}


def run(quick: bool) -> Result:
    """Measure both; the claims are those of the documentation."""
    seeds, repeats = (3, 1) if quick else (10, 4)
    carried, simulated = carried_table(repeats), simulated_table(seeds)
    small = small_table(range(3) if quick else range(60))
    claims = []
    for data in dict.fromkeys(row[0] for row in carried.rows):
        rows = [row for row in carried.rows if row[0] == data]
        best = min(rows[1:], key=lambda row: row[2])
        claims.append(Claim(
            f"{data}: no worse than the best other within a standard error",
            rows[0][2] <= best[2] + best[3],
            f"{rows[0][2]:.4f}; {best[1]} {best[2]:.4f} ± {best[3]:.4f}",
        ))  # fmt: skip
    for row in simulated.rows:
        if row[2] == "ours":
            held = 92 <= row[5] <= 97
            claims.append(Claim(f"{row[0]}: intervals cover 92 to 97 %", held, f"{row[5]:.1f}"))
    means = small.rows[-1][3:]
    claims.append(Claim(
        "few rows of few features: nearer to the signal than each of the others, on average",
        means[0] < min(means[1:-1]), f"{means[0]:.3f}; best other {min(means[1:-1]):.3f}",
    ))  # fmt: skip
    tables = [carried, simulated, small]
    return Result("SparseBayesRegressor on the learned prior", tables, claims)


def small_table(seeds: range) -> Table:
    """Mean squared error of the predicted signal over the variance of y, few rows."""
    names = ("ours", "BayesianRidge", "LassoCV", "ARDRegression")
    rows: list[list[Any]] = []
    for n, features, relevant in SMALL:
        for explained in EXPLAINED:
            errors = np.array([
                _small_errors(n, features, relevant, explained, seed, names) for seed in seeds
            ])  # fmt: skip
            rows.append([f"{n} × {features}", relevant, explained, *errors.mean(axis=0).tolist()])
    rows.append(["mean", "", "", *np.mean([row[3:] for row in rows], axis=0).tolist()])
    columns = ["rows × features", "relevant", "R² of the truth", *names, "the mean of y"]
    return Table(f"Few rows: error of the signal, {len(seeds)} problems each", columns, rows)


def _small_errors(
    n: int, features: int, relevant: int, explained: float, seed: int, names: tuple[str, ...]
) -> list[float]:
    rng = np.random.default_rng([seed, n, relevant, round(100 * explained)])
    X = rng.normal(size=(n + NEW, features)) + rng.normal(size=(n + NEW, 1))
    signal = X[:, :relevant] @ rng.normal(size=relevant)
    signal *= np.sqrt(explained) / signal.std()
    y = signal[:n] + np.sqrt(1 - explained) * rng.normal(size=n)
    errors = []
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = SIMULATED[name]().fit(X[:n], y).predict(X[n:])
        errors.append(float(np.mean((found - signal[n:]) ** 2)))
    return [*errors, float(np.mean((y.mean() - signal[n:]) ** 2))]


def simulated_table(seeds: int) -> Table:
    """Error of the weights, R² and coverage on every kind."""
    columns = ["problem", "noise", "estimator", "error of the weights %", "R²", "coverage %"]
    rows: list[list[Any]] = []
    for kind in KINDS:
        note(f"sklearn_prior: {kind.name}")
        for name, make in SIMULATED.items():
            scores = np.array([_score(kind, seed, make()) for seed in range(seeds)])
            rows.append([kind.name, kind.noise, name, *scores.mean(axis=0).tolist()])
    return Table(f"Simulated, means of {seeds} problems of {NEW} new rows each", columns, rows)


def _score(kind: Kind, seed: int, model: Any) -> tuple[float, float, float]:
    """Return the error of the weights, R² and coverage."""
    X, y, w = kind.draw(seed)
    r2, coverage = _judged(model, X[: kind.rows], y[: kind.rows], X[kind.rows :], y[kind.rows :])
    error = float(100 * np.linalg.norm(model.coef_ - w) / np.linalg.norm(w))
    return error, r2, coverage


def _judged(
    model: Any, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, y_new: np.ndarray
) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    r2 = float(1 - np.mean((y_new - model.predict(X_new)) ** 2) / np.var(y_new))
    if type(model).__name__ == "LassoCV":  # it has no intervals
        return r2, float("nan")
    mean, std = model.predict(X_new, return_std=True)
    return r2, float(100 * np.mean(np.abs(y_new - mean) < 1.96 * std))


def carried_table(repeats: int) -> Table:
    """Measure on what scikit-learn carries: folds of diabetes, linnerud, and make_regression."""
    columns = ["data", "estimator", "mean squared error", "± difference to ours", "coverage %"]
    rows: list[list[Any]] = []
    for data, folds in _carried(repeats).items():
        note(f"sklearn_prior: {data}")
        errors: dict[str, np.ndarray] = {}
        for name in ("ours", "ARDRegression", "BayesianRidge", "LassoCV"):
            found = np.array([_fold(SIMULATED[name](), *fold) for fold in folds])
            errors[name] = found[:, 0]
            difference = found[:, 0] - errors["ours"]
            deviation = difference.std(ddof=1) / np.sqrt(len(folds)) if name != "ours" else 0.0
            rows.append([data, name, found[:, 0].mean(), deviation, found[:, 1].mean()])
    return Table("Carried by scikit-learn; errors relative to the variance", columns, rows)


def _fold(
    model: Any, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, y_new: np.ndarray, scale: float
) -> tuple[float, float]:
    """Return the squared error over the variance of all data, and the coverage."""
    _, coverage = _judged(model, X, y, X_new, y_new)
    return float(np.mean((y_new - model.predict(X_new)) ** 2) / scale), coverage


def _carried(repeats: int) -> dict[str, list[tuple[Any, ...]]]:
    from sklearn.datasets import load_diabetes, load_linnerud, make_regression
    from sklearn.model_selection import RepeatedKFold
    from sklearn.preprocessing import PolynomialFeatures

    data = {"diabetes, 442 × 10": load_diabetes(return_X_y=True)}
    X, y = data["diabetes, 442 × 10"]
    squares = PolynomialFeatures(2, include_bias=False).fit_transform(X)
    data["diabetes with products, 442 × 65"] = (squares, y)
    exercise, body = load_linnerud(return_X_y=True)
    for i, name in enumerate(("weight", "waist", "pulse")):
        data[f"linnerud {name}, 20 × 3"] = (exercise, body[:, i])
    for n, d, k in ((100, 100, 10), (200, 50, 50), (80, 200, 5), (100, 80, 40)):
        made = make_regression(n, d, n_informative=k, noise=50.0, bias=100.0, random_state=n + d)
        data[f"make_regression, {n} × {d}, {k} informative"] = made
    made = make_regression(100, 60, n_informative=10, noise=20.0, effective_rank=8, random_state=7)
    data["make_regression, 100 × 60, effective rank 8"] = made
    folds = RepeatedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    return {
        name: [(X[a], y[a], X[b], y[b], float(np.var(y))) for a, b in folds.split(X)]
        for name, (X, y) in data.items()
    }


def _ours(**options: Any) -> Any:
    from cofem.sklearn import SparseBayesRegressor

    return SparseBayesRegressor(**options)


def _theirs(name: str) -> Any:
    from sklearn import linear_model

    if name == "LassoCV":
        return linear_model.LassoCV(max_iter=20_000)
    return getattr(linear_model, name)()
