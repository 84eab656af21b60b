"""SparseBayesRegressor beside ARDRegression, BayesianRidge and LassoCV: error, coverage, cost."""

from __future__ import annotations

import importlib.util
import resource
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from common import GIB, Claim, Result, Table, median, note
from isolated import Outcome, isolated
from sklearn_problems import (
    CALIFORNIA,
    DIABETES,
    SIMULATED,
    TEST_ROWS,
    Case,
    california_like,
    simulated,
)

OURS, ARD, RIDGE = "SparseBayesRegressor", "ARDRegression", "BayesianRidge"
SCALED = "StandardScaler, ARDRegression"
PLAIN, LASSO = 'the same, prior="ard"', "LassoCV"
ORACLE = "least squares, told the relevant"
ESTIMATORS = (OURS, PLAIN, ARD, RIDGE, LASSO, ORACLE)
SPARSE_TOO = (OURS, PLAIN, LASSO, ORACLE)
# One thread each, and CPU seconds: a busy machine changes them little.
ENVIRONMENT = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "COFEM_NUM_THREADS"), "1"
)
MEMORY_LIMIT = 16 * GIB
MANY = 4096  # features from which on LassoCV tries 20 penalties in 3 folds, not 100 in 5


def run(quick: bool) -> Result:
    if importlib.util.find_spec("sklearn") is None:
        raise RuntimeError('scikit-learn is not installed: pip install -e ".[bench]"')
    seeds = 2 if quick else 5
    limit = 60 if quick else 150
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
        ours, best = rows[0], max(rows[2:], key=lambda row: row[3])
        claims.append(
            Claim(f"{ours[0]}: R² within 0.005 of the best other", ours[3] > best[3] - 0.005,
                  f"{ours[3]:.4f} and {best[3]:.4f}")
        )  # fmt: skip
    measured = {D: _measure(SIMULATED[D], limit) for D in sizes}
    columns = ["data", "N × D", "estimator", "NRMSE %", "in units of the data %", "R²",
               "coverage %", "CPU s", "peak MB"]  # fmt: skip
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
        "large fit; one problem per size. NRMSE is of the weights; in units of the data it is of "
        "the weights times the length of their features. R² and coverage (of 95 % intervals for "
        f"new observations) are on held-out rows, {TEST_ROWS} for the simulated.",
        "California-like: 20,640 × 8 as in that data set; log-normal and correlated features, "
        "two of them without effect, and noise of Student's t with three degrees of freedom. "
        "It is simulated: nothing is downloaded. ARDRegression prunes by a threshold in the "
        "units of the data, hence the second row for it.",
        "Simulated: independent Gaussian entries (CSR: 50 per row), Gaussian weights, noise of "
        "0.3 times the signal's spread, and an intercept. Of the 500 relevant features among "
        "200,000, 3 occur in no training row, which alone is an NRMSE of 15 %, and 18 in one.",
        f"LassoCV has its default of 100 penalties and 5 folds up to D = {MANY}, and 20 and 3 "
        "above.",
    ]
    return Result("Beside scikit-learn's ARDRegression", tables, claims, notes)


# -- data --------------------------------------------------------------------------------


# -- fits --------------------------------------------------------------------------------


class Oracle:
    """Least squares on the features that matter: what nobody can do better than, by much."""

    def __init__(self, relevant: np.ndarray) -> None:
        self.relevant = np.flatnonzero(relevant)

    def fit(self, X: Any, y: np.ndarray) -> None:
        """Fit weights and intercept."""
        part = X[:, self.relevant]
        part = part.toarray() if scipy.sparse.issparse(part) else part
        full = np.column_stack([part, np.ones(len(y))])
        found = np.linalg.lstsq(full, y, rcond=None)[0]
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), found[-1]
        self.coef_[self.relevant] = found[:-1]

    def predict(self, X: Any) -> np.ndarray:
        """Predict without a deviation."""
        return np.asarray(X @ self.coef_ + self.intercept_)


def _estimator(name: str, relevant: np.ndarray | None = None) -> Any:
    import sklearn.linear_model

    if name in (OURS, PLAIN):
        from cofem.sklearn import SparseBayesRegressor

        return SparseBayesRegressor(prior="auto" if name == OURS else "ard")
    if name == ORACLE:
        assert relevant is not None
        return Oracle(relevant)
    if name == LASSO and relevant is not None and len(relevant) > MANY:
        return sklearn.linear_model.LassoCV(alphas=20, cv=3)
    if name == SCALED:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), sklearn.linear_model.ARDRegression())
    return getattr(sklearn.linear_model, name)()


def _score(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    try:
        mean, std = model.predict(X, return_std=True)
        coverage = 100 * np.mean(np.abs(y - mean) < 1.96 * std)
    except TypeError:  # it does not say how sure it is
        mean, coverage = model.predict(X), np.nan
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
    names = (OURS, PLAIN, ARD, SCALED, RIDGE)
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
    model = _estimator(name, data["w"])
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
    error, unit = model.coef_ - data["w"], _lengths(data["X"])
    return {
        "nrmse": float(100 * np.linalg.norm(error) / np.linalg.norm(data["w"])),
        "unit": float(100 * np.linalg.norm(unit * error) / np.linalg.norm(unit * data["w"])),
        "r2": r2,
        "coverage": None if np.isnan(coverage) else coverage,
        "seconds": seconds,
    }


def _lengths(X: Any) -> np.ndarray:
    """Return the length of every feature: a weight times it is what the data can tell."""
    if scipy.sparse.issparse(X):
        return np.sqrt(np.asarray(X.power(2).sum(axis=0)).ravel())
    return np.asarray(np.linalg.norm(X, axis=0))


def _measure(case: Case, limit: int) -> dict[str, Outcome]:
    found = {}
    for name in ESTIMATORS:
        note(f"sklearn_ard: {name}, D = {case.features}")
        if name not in SPARSE_TOO and case.sparse:
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
            rows.append([case.name, size, name, "", "", "", "", "not run", ""])
        elif outcome.value is None:
            rows.append([case.name, size, name, "", "", "", "", f"over {limit}",
                         outcome.peak / 1e6])  # fmt: skip
        else:
            value = outcome.value
            coverage = "" if value["coverage"] is None else value["coverage"]
            rows.append([case.name, size, name, value["nrmse"], value["unit"], value["r2"],
                         coverage, value["seconds"], outcome.peak / 1e6])  # fmt: skip
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
