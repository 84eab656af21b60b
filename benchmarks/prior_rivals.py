"""The learned prior beside methods made for the same question, on the grid of ``grid.py``.

    python benchmarks/prior_rivals.py [--seeds 0 1] [--methods NAME …] [--kinds …] [--laws …]
                                      [--noise …] [--write FILE]

D = 512, five matrices, five laws, three noise levels; nobody is told the noise but exact EM.
Error: that of the posterior mean, beside exact EM's on the same problem. Calibration: the share of
the non-zeros, and of all coordinates, that 95 % intervals contain; and the share of zeros among the
coordinates with P(z ≠ 0) > 0.5, beside what those probabilities say it should be. A fit that ended
in no number is counted as diverged: its error is infinite, its β̂ not within any factor, and its
interval, where the method has one, contains nothing. bayesbridge
(Nishimura & Suchard 2022) does not build with Cython 3, so the horseshoe is sampled by a few lines
of our own.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import cofem
import grid
from common import Result, Table, describe_machine, finish, show
from prior_methods import Answer, horseshoe, vamp, variational

REACH = float(ndtri(0.975))


def ours(phi, y) -> Answer:
    post = cofem.fit(phi, y)
    return Answer(post.mean, *post.interval(0.95), post.probability, post.noise_precision)


def ours_ard(phi, y) -> Answer:
    post = cofem.fit(phi, y, prior="ard")
    return Answer(post.mean, *post.interval(0.95), None, post.noise_precision)


def lasso(phi, y) -> Answer:
    from sklearn.linear_model import LassoCV

    return Answer(LassoCV(fit_intercept=False).fit(phi, y).coef_)


def omp(phi, y) -> Answer:
    from sklearn.linear_model import OrthogonalMatchingPursuitCV

    most = min(phi.shape) // 2
    return Answer(OrthogonalMatchingPursuitCV(fit_intercept=False, max_iter=most).fit(phi, y).coef_)


def ard_regression(phi, y) -> Answer:
    from sklearn.linear_model import ARDRegression

    model = ARDRegression(fit_intercept=False).fit(phi, y)
    # sigma_ is the covariance of the features that were kept.
    std = np.zeros(phi.shape[1])
    kept = model.lambda_ < model.threshold_lambda
    if len(model.sigma_) == kept.sum():
        std[kept] = np.sqrt(np.diag(model.sigma_))
    mean = model.coef_
    return Answer(mean, mean - REACH * std, mean + REACH * std, None, float(model.alpha_))


METHODS: dict[str, Callable[..., Answer]] = {
    "cofem": ours,
    'cofem, prior="ard"': ours_ard,
    "VAMP, Bernoulli-Gaussian": vamp,
    "variational spike and slab": variational,
    "horseshoe, Gibbs": horseshoe,
    "ARDRegression": ard_regression,
    "LassoCV": lasso,
    "OMP-CV": omp,
}


def score(answer: Answer, z, beta, em, oracle, seconds) -> dict:
    """Return one problem's figures; NaN where the method says nothing, inf where it diverged."""
    error, nan = grid.relative(answer.mean, z), float("nan")
    diverged = not np.isfinite(error)
    error = float("inf") if diverged else error
    inside = np.full(len(z), nan)
    if answer.low is not None and answer.high is not None:
        slack = 1e-12 * np.max(np.abs(z))  # an interval that is the point zero contains zero
        inside = ((answer.low - slack <= z) & (z <= answer.high + slack)).astype(float)
    p = answer.probability
    named = None if p is None else p > 0.5
    return {
        "ratio": error / em, "oracle": error / oracle, "beta": answer.beta / beta,
        "inside": float(np.mean(inside)), "inside_nonzero": float(np.mean(inside[z != 0])),
        "named": 0 if named is None else int(named.sum()),
        "false": 0 if named is None else int((z[named] == 0).sum()),
        "said_false": 0.0 if p is None else float(np.sum(1 - p[named])),
        "seconds": seconds, "diverged": diverged,
    }  # fmt: skip


def row(name: str, scores: list[dict]) -> list:
    """Return a row of the table."""

    def of(key):
        return np.array([s[key] for s in scores])

    beta, named = of("beta"), of("named").sum()
    within = float("nan")  # a method that says nothing of the noise
    if np.any(np.isfinite(beta)):
        within = np.mean([np.isfinite(b) and max(b, 1 / b) <= 3 for b in beta])
    # The quantile that is one of the values: none is between a number and infinity.
    high = np.quantile(of("ratio"), 0.95, method="higher")
    return [
        name, len(scores), int(of("diverged").sum()), float(np.median(of("ratio"))), float(high),
        float(np.median(of("oracle"))), float(np.mean(of("ratio") > 3)),
        100 * float(within), 100 * float(np.mean(of("inside_nonzero"))),
        100 * float(np.mean(of("inside"))),
        100 * of("false").sum() / named if named else float("nan"),
        100 * of("said_false").sum() / named if named else float("nan"),
        float(np.median(of("seconds"))),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--methods", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--kinds", nargs="*", default=list(grid.MATRICES), help="of matrices")
    parser.add_argument("--laws", nargs="*", default=list(grid.LAWS))
    parser.add_argument("--noise", nargs="*", type=float, default=list(grid.NOISE))
    parser.add_argument("--write", type=Path, help="a Markdown file for the results")
    asked = parser.parse_args()
    machine, began = describe_machine(), time.perf_counter()
    methods = {n: f for n, f in METHODS.items()
               if not asked.methods or n.startswith(tuple(asked.methods))}  # fmt: skip
    scores: dict[str, list[dict]] = {name: [] for name in methods}
    for seed in range(*asked.seeds):
        for kind in asked.kinds:
            for law in asked.laws:
                for noise in asked.noise:
                    z, phi, y, beta = grid.problem(kind, law, noise, seed)
                    em = grid.relative(grid.exact_em(phi, y, beta), z)
                    oracle = grid.relative(grid.least_squares(phi, y, z != 0), z)
                    for name, method in methods.items():
                        start = time.perf_counter()
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            answer = method(phi, y)
                        seconds = time.perf_counter() - start
                        scores[name].append(score(answer, z, beta, em, oracle, seconds))
            for name in methods:
                print(
                    "  " + kind + ": " + " | ".join(map(show, row(name, scores[name]))),
                    file=sys.stderr,
                    flush=True,
                )
    columns = ["method", "problems", "diverged", "error / exact EM, median", "95 %",
               "error / oracle, median", "share above 3 × EM", "β̂ within 3, %",
               "non-zeros inside, %", "all inside, %", "false among p > ½, %", "said, %",
               "s, median"]  # fmt: skip
    table = Table("Rivals on the grid, D = 512", columns, [row(n, s) for n, s in scores.items()])
    result = Result("The learned prior beside rivals", [table], [])
    finish(result, began, machine, asked.write)


if __name__ == "__main__":
    main()
