"""Are the error bars right: coverage, samples, and the stated error of the variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import cofem
from cofem.operators import LinearOperator
from common import Claim, Result, Table, note
from problems import CONVOLUTION, DCT, GAUSSIAN, Dictionary, fit_of

COVERAGE = (93.0, 97.0)
POINTS = 2.0
NOISE_PRECISION = 1e4
DECADES = (0.0, 4.0)  # log10 of the smallest and largest prior precision


@dataclass(frozen=True)
class Known:
    """A posterior under known hyperparameters, held against truth, samples and Cholesky.

    Attributes
    ----------
    coverage, exact_coverage : float
        Percentage of all coordinates in their 95 % interval, and in the exact one.
    low, high : float
        Smallest and largest ratio of the samples' standard deviation to ``std``.
    sample_scatter : float
        Root mean square of (sample variance − variance) over its standard error: 1 is right.
    error_scatter : float
        The same for variance − exact variance over ``variance_error``.
    within_two : float
        Percentage of variances within two stated errors of the exact one.
    stated : float
        Median of ``variance_error`` over ``variance``, in percent.
    """

    coverage: float
    exact_coverage: float
    low: float
    high: float
    sample_scatter: float
    error_scatter: float
    within_two: float
    stated: float


def run(quick: bool) -> Result:
    D, n_seeds, n_samples = (512, 3, 200) if quick else (2048, 5, 400)
    learned_D, learned_seeds = (512, 2) if quick else (1024, 5)
    known = {d: [_known(d, D, s, n_samples) for s in range(n_seeds)] for d in (DCT, GAUSSIAN)}
    learned = {
        d: [_learned(d, learned_D, s) for s in range(learned_seeds)]
        for d in (DCT, GAUSSIAN, CONVOLUTION)
    }
    return Result(
        "Error bars",
        [_known_table(known, D, n_samples), _learned_table(learned, learned_D)],
        [*_known_claims(known), *_learned_claims(learned)],
        [
            "Scatter is the root mean square of a difference over its standard error: 1 when the "
            "stated errors are right.",
            "Std ratio: the standard deviation of the samples over std. Stated error: the median "
            "of variance_error over variance. Exact: coverage with the variances of Cholesky.",
            f"The extreme ratios are over {D} coordinates and every seed; {n_samples} samples and "
            "32 probes alone spread them.",
        ],
    )


# -- hyperparameters known -----------------------------------------------------


def _known(dictionary: Dictionary, D: int, seed: int, n_samples: int) -> Known:
    note(f"error_bars: α known, {dictionary.name}, D = {D}, seed {seed}")
    phi = dictionary.problem(D, seed).phi
    z, y, alpha = _draw(phi, seed)
    given = {"precision": alpha, "noise_precision": NOISE_PRECISION}
    post = cofem.posterior(phi, y, method="cofem", seed=seed, **given)
    exact = cofem.posterior(phi, y, method=dictionary.exact, **given)
    draws = post.sample(n_samples, seed=seed)
    spread = draws.var(axis=0, ddof=1)
    ratio = np.sqrt(spread / post.variance)
    # Both sides are estimates: n samples on one, the reporting step's probes on the other.
    error = np.hypot(post.variance * np.sqrt(2 / (n_samples - 1)), post.variance_error)
    off = (post.variance - exact.variance) / post.variance_error
    return Known(
        coverage=_covered(post, z),
        exact_coverage=_covered(exact, z),
        low=float(ratio.min()),
        high=float(ratio.max()),
        sample_scatter=_rms((spread - post.variance) / error),
        error_scatter=_rms(off),
        within_two=float(100 * np.mean(np.abs(off) <= 2)),
        stated=float(100 * np.median(post.variance_error / post.variance)),
    )


def _covered(post: cofem.Posterior, z: np.ndarray) -> float:
    low, high = post.interval(0.95)
    return float(100 * np.mean((low <= z) & (z <= high)))


def _draw(phi: LinearOperator, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw α log-uniform, z from the prior it makes, and y from the model."""
    random = np.random.default_rng([seed, 1])
    n_rows, n_columns = phi.shape
    alpha = 10 ** random.uniform(*DECADES, size=n_columns)
    z = random.standard_normal(n_columns) / np.sqrt(alpha)
    y = phi.forward(z) + random.standard_normal(n_rows) / np.sqrt(NOISE_PRECISION)
    return z, y, alpha


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _known_table(known: dict[Dictionary, list[Known]], D: int, n_samples: int) -> Table:
    columns = ["dictionary", "seeds", "coverage %", "exact %", "least std ratio", "largest",
               "scatter of samples", "stated error %", "scatter of variance",
               "within 2 errors %"]  # fmt: skip
    rows = [
        [d.name.partition(",")[0], len(runs), _mean(runs, "coverage"),
         _mean(runs, "exact_coverage"), min(r.low for r in runs), max(r.high for r in runs),
         _mean(runs, "sample_scatter"), _mean(runs, "stated"), _mean(runs, "error_scatter"),
         _mean(runs, "within_two")]
        for d, runs in known.items()
    ]  # fmt: skip
    return Table(f"α known, D = {D}: all coordinates; {n_samples} samples", columns, rows)


def _mean(runs: list[Known], name: str) -> float:
    return float(np.mean([getattr(r, name) for r in runs]))


def _known_claims(known: dict[Dictionary, list[Known]]) -> list[Claim]:
    claims = []
    for dictionary, runs in known.items():
        name = dictionary.name.partition(",")[0]
        covered = _mean(runs, "coverage")
        inside = COVERAGE[0] <= covered <= COVERAGE[1]
        text = f"{name}, α known: 95 % intervals cover {COVERAGE[0]:g}–{COVERAGE[1]:g} %"
        claims.append(Claim(text, inside, f"{covered:.2f} %"))
        scatter = _mean(runs, "sample_scatter")
        text = f"{name}: the samples' standard deviation is std, within sampling error"
        claims.append(Claim(text, 0.8 <= scatter <= 1.2, f"scatter {scatter:.2f}"))
        share = _mean(runs, "within_two")
        text = f"{name}: at least 93 % of variances are within two stated errors of the exact one"
        claims.append(Claim(text, share >= COVERAGE[0], f"{share:.1f} %"))
    return claims


# -- hyperparameters learned ---------------------------------------------------


def _learned(dictionary: Dictionary, D: int, seed: int) -> tuple[float, float]:
    """Coverage of the non-zeros by CoFEM and by exact EM."""
    note(f"error_bars: α learned, {dictionary.name}, D = {D}, seed {seed}")
    ours = fit_of(dictionary, D, seed, "cofem")
    return ours.coverage, fit_of(dictionary, D, seed, dictionary.exact).coverage


def _learned_table(learned: dict[Dictionary, list[tuple[float, float]]], D: int) -> Table:
    rows = []
    for dictionary, pairs in learned.items():
        ours, exact = np.mean(pairs, axis=0)
        each = max(abs(a - b) for a, b in pairs)
        rows.append([dictionary.name, len(pairs), ours, exact, ours - exact, each])
    columns = ["dictionary", "seeds", "CoFEM %", "exact EM %", "difference", "largest of a seed"]
    return Table(f"α learned, D = {D}: coverage of the non-zeros, 50 iterations", columns, rows)


def _learned_claims(learned: dict[Dictionary, list[tuple[float, float]]]) -> list[Claim]:
    claims = []
    for dictionary, pairs in learned.items():
        difference = float(np.mean([a - b for a, b in pairs]))
        text = f"{dictionary.name}, α learned: coverage within {POINTS:g} points of exact EM's"
        evidence = f"{difference:+.2f} points over {len(pairs)} seeds"
        claims.append(Claim(text, abs(difference) <= POINTS, evidence))
    return claims
