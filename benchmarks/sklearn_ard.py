"""SparseBayesRegressor beside ARDRegression and BayesianRidge: error, coverage, time, memory."""

from __future__ import annotations

import importlib.util
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from common import GIB, Claim, Result, Table, median, note
from isolated import Outcome, isolated

OURS, ARD, RIDGE = "SparseBayesRegressor", "ARDRegression", "BayesianRidge"
SCALED = "StandardScaler, ARDRegression"
ESTIMATORS = (OURS, ARD, RIDGE)
# One thread each, and CPU seconds: a busy machine changes them little.
ENVIRONMENT = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "COFEM_NUM_THREADS"), "1"
)
MEMORY_LIMIT = 16 * GIB
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


def run(quick: bool) -> Result:
    if importlib.util.find_spec("sklearn") is None:
        raise RuntimeError('scikit-learn is not installed: pip install -e ".[bench]"')
    seeds = 2 if quick else 5
    limit = 60 if quick else 300
    sizes = (512, 2048, 20_000) if quick else tuple(SIMULATED)
    tables, claims, notes = [], [], []
    small = [_small_rows(case, seeds) for case in (DIABETES, CALIFORNIA)]
    tables.append(
        Table(
            "More samples than features",
            ["data", "estimator", "splits", "R²", "coverage %", "CPU s"],
            [row for rows in small for row in rows],
        )
    )
    for rows in small:
        ours, best = rows[0], max(rows[1:], key=lambda row: row[3])
        claims.append(
            Claim(f"{ours[0]}: R² within 0.005 of the best other", ours[3] > best[3] - 0.005,
                  f"{ours[3]:.4f} and {best[3]:.4f}")
        )  # fmt: skip
    measured = {D: _measure(SIMULATED[D], limit) for D in sizes}
    columns = ["data", "N × D", "estimator", "NRMSE %", "R²", "coverage %", "CPU s", "peak MB"]
    rows = [row for D in sizes for row in _rows(SIMULATED[D], measured[D], limit)]
    tables.append(Table("More features than samples", columns, rows))
    for D in sizes:
        claims += _claims(SIMULATED[D], measured[D], limit)
        notes += [
            f"{name} at D = {D}: {outcome.error}."
            for name, outcome in measured[D].items()
            if outcome.error
        ]
    notes += [
        "All with their defaults, the noise learned, one BLAS thread, a fresh process for every "
        "large fit; one problem per size. NRMSE is of the weights. R² and coverage (of 95 % "
        f"intervals for new observations) are on held-out rows, {TEST_ROWS} for the simulated.",
        "California-like: 20,640 × 8 as in that data set; log-normal and correlated features, "
        "two of them without effect, and noise of Student's t with three degrees of freedom. "
        "It is simulated: nothing is downloaded. ARDRegression prunes by a threshold in the "
        "units of the data, hence the second row for it.",
        "Simulated: independent Gaussian entries (CSR: 50 per row), Gaussian weights, noise of "
        "0.3 times the signal's spread, and an intercept.",
    ]
    return Result("Beside scikit-learn's ARDRegression", tables, claims, notes)


# -- data --------------------------------------------------------------------------------


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
        X: Any = scipy.sparse.csr_array((rng.normal(size=len(rows)), (rows, columns)), shape=(n, d))
    else:
        X = rng.normal(size=(n, d))
    w = np.zeros(d)
    w[rng.choice(d, case.relevant, replace=False)] = rng.normal(size=case.relevant)
    signal = X @ w
    y = 5 + signal + case.noise * signal.std() * rng.normal(size=n)
    return {"X": X[: case.rows], "y": y[: case.rows], "X_new": X[case.rows :],
            "y_new": y[case.rows :], "w": w}  # fmt: skip


# -- fits --------------------------------------------------------------------------------


def _estimator(name: str) -> Any:
    if name == OURS:
        from cofem.sklearn import SparseBayesRegressor

        return SparseBayesRegressor()
    import sklearn.linear_model

    if name == SCALED:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), sklearn.linear_model.ARDRegression())
    return getattr(sklearn.linear_model, name)()


def _score(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    mean, std = model.predict(X, return_std=True)
    coverage = 100 * np.mean(np.abs(y - mean) < 1.96 * std)
    return float(1 - np.mean((y - mean) ** 2) / np.var(y)), float(coverage)


def _splits(case: Case, seeds: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield training and test data: folds of diabetes, or data drawn anew."""
    if case is DIABETES:
        from sklearn.datasets import load_diabetes
        from sklearn.model_selection import RepeatedKFold

        X, y = load_diabetes(return_X_y=True)
        for train, test in RepeatedKFold(n_splits=5, n_repeats=seeds, random_state=0).split(X):
            yield X[train], y[train], X[test], y[test]
        return
    for seed in range(seeds):
        X, y = california_like(seed)
        half = len(X) // 2
        yield X[:half], y[:half], X[half:], y[half:]


def _small_rows(case: Case, seeds: int) -> list[list[Any]]:
    note(f"sklearn_ard: {case.name}")
    names = (OURS, ARD, SCALED, RIDGE)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for X, y, X_new, y_new in _splits(case, seeds):
        for name in names:  # in turn, so that the machine's mood is shared
            began = time.process_time()
            model = _estimator(name).fit(X, y)
            seconds = time.process_time() - began
            found[name].append((*_score(model, X_new, y_new), seconds))
    label = f"{case.name}, {case.rows} × {case.features}"
    return [
        [label, name, len(values), *(float(v) for v in np.mean(values, axis=0)[:2]),
         median(v[2] for v in values)]
        for name, values in found.items()
    ]  # fmt: skip


def _out_of_time(*_: Any) -> None:
    raise TimeoutError


def fit_once(name: str, D: int, limit: int) -> dict[str, float] | None:
    """Fit the simulated problem of this size, in a process of its own; None: over the limit.

    The limit is of CPU time, like what is measured.
    """
    case = SIMULATED[D]
    data = simulated(case, seed=0)
    model = _estimator(name)
    began = time.process_time()
    signal.signal(signal.SIGXCPU, _out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (int(began) + limit, resource.RLIM_INFINITY))
    try:
        model.fit(data["X"], data["y"])
    except TimeoutError:
        return None
    seconds = time.process_time() - began
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    r2, coverage = _score(model, data["X_new"], data["y_new"])
    error = 100 * np.linalg.norm(model.coef_ - data["w"]) / np.linalg.norm(data["w"])
    return {"nrmse": float(error), "r2": r2, "coverage": coverage, "seconds": seconds}


def _measure(case: Case, limit: int) -> dict[str, Outcome]:
    found = {}
    for name in ESTIMATORS:
        note(f"sklearn_ard: {name}, D = {case.features}")
        if name != OURS and case.sparse:
            needs = f"takes no sparse X, and its covariance needs {case.ard_bytes / GIB:.0f} GiB"
            if case.ard_bytes > MEMORY_LIMIT / 4:
                found[name] = Outcome(None, 0, error=needs)
                continue
        preload = ["scipy.linalg", "scipy.sparse", "sklearn.linear_model", "cofem.sklearn"]
        found[name] = isolated(
            fit_once, environment=ENVIRONMENT, preload=preload, name=name, D=case.features,
            limit=limit,
        )  # fmt: skip
    return found


def _rows(case: Case, measured: dict[str, Outcome], limit: int) -> list[list[Any]]:
    size = f"{case.rows} × {case.features}"
    rows: list[list[Any]] = []
    for name, outcome in measured.items():
        if outcome.error:
            rows.append([case.name, size, name, "", "", "", "not run", ""])
        elif outcome.value is None:
            rows.append([case.name, size, name, "", "", "", f"over {limit}",
                         outcome.peak / 1e6])  # fmt: skip
        else:
            value = outcome.value
            rows.append([case.name, size, name, value["nrmse"], value["r2"], value["coverage"],
                         value["seconds"], outcome.peak / 1e6])  # fmt: skip
    return rows


def _claims(case: Case, measured: dict[str, Outcome], limit: int) -> list[Claim]:
    ours, ard = measured[OURS], measured[ARD]
    where = f"{case.rows} × {case.features}"
    if ours.value is None:
        return [Claim(f"{where}: ours ran", False, ours.error or f"over {limit} s")]
    if ard.error:
        return [Claim(f"{where}: ours runs where ARDRegression cannot", True, ard.error)]
    lower = "at least " if ard.value is None else ""
    seconds = limit if ard.value is None else ard.value["seconds"]
    gain = seconds / ours.value["seconds"]
    claims = [
        Claim(f"{where}: faster than ARDRegression", gain > 1, f"{lower}{gain:.1f} times"),
        Claim(f"{where}: less memory than ARDRegression", ours.peak < ard.peak,
              f"peaks of {ours.peak / 1e6:.0f} and {ard.peak / 1e6:.0f} MB"),
    ]  # fmt: skip
    if ard.value is not None:
        ours_error, theirs = ours.value["nrmse"], ard.value["nrmse"]
        claims.append(
            Claim(f"{where}: smaller error of the weights than ARDRegression's",
                  ours_error < theirs, f"{ours_error:.1f} % and {theirs:.1f} %")
        )  # fmt: skip
    return claims
