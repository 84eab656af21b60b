"""Estimators that are told how a problem was made: sums over all sets, or parallel tempering.

They know how many coefficients are non-zero, the noise, and that the values are ±1
(:func:`told_signs`) or normal of variance one (:func:`told_size`). Two runs are made, of which one
begins at the truth: where they agree, the chain that knew nothing has found all there is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from cofem.learning.supports.gains import gains, look
from cofem.solvers.compiled import compiled
from ordinary_problems import Problem

# Sets and signs up to which all are summed.
FEW = 100_000
# The evidence counts to powers from one down to where nothing can be seen, in such steps.
STEP = 1.6
# Configurations that are kept for the balls.
KEPT = 1500
# Matrices with more entries are not coherent in the problems here: one temperature, few sweeps.
LARGE, SETS = 500_000, 120


def enumerated(problem: Problem, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all sets of k and signs, the probable ones, with their probabilities."""
    phi, d = problem.phi, len(problem.z)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=k)))
    found, logs = [], []
    for places in itertools.combinations(range(d), k):
        left = problem.y - signs @ phi[:, places].T
        found += [(places, s) for s in signs]
        logs.append(-0.5 * problem.beta * np.sum(left**2, axis=1))
    log = np.concatenate(logs)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    best = np.argsort(-weights)[:KEPT]
    rows = np.zeros((len(best), d))
    for row, i in zip(rows, best, strict=True):
        places, s = found[i]
        row[list(places)] = s
    return rows, weights[best]


@compiled
def temper(
    gram: np.ndarray,
    correlation: np.ndarray,
    places: np.ndarray,
    signs: np.ndarray,
    beta: float,
    powers: np.ndarray,
    sweeps: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Run parallel tempering over k places and signs; return those of power one (sweeps, k).

    In a sweep every effect of every temperature moves to a place and sign drawn from its exact
    conditional, and neighbouring temperatures propose to change their states.
    """
    rungs, k = places.shape
    d = len(correlation)
    left, kept = np.empty((rungs, d)), np.empty((sweeps, k), np.int64)
    kept_signs = np.empty((sweeps, k))
    free = np.ones((rungs, d), np.bool_)
    energy = np.zeros(rungs)  # ½‖y − Φz‖² without ½‖y‖²
    logs = np.empty((2, d))
    for r in range(rungs):
        left[r] = correlation
        for i in range(k):
            left[r] -= signs[r, i] * gram[places[r, i]]
            free[r, places[r, i]] = False
    for sweep in range(sweeps):
        for r in range(rungs):
            power = beta * powers[r]
            for i in range(k):
                left[r] += signs[r, i] * gram[places[r, i]]
                free[r, places[r, i]] = True
                top = -math.inf
                for j in range(d):
                    half = 0.5 * gram[j, j]
                    logs[0, j] = power * (-left[r, j] - half)
                    logs[1, j] = power * (left[r, j] - half)
                    if free[r, j]:
                        top = max(top, logs[0, j], logs[1, j])
                total = 0.0
                for j in range(d):
                    for a in range(2):
                        seen = free[r, j] and logs[a, j] - top > -40
                        logs[a, j] = math.exp(logs[a, j] - top) if seen else 0.0
                        total += logs[a, j]
                luck, at, sign = random.random() * total, -1, 1.0
                for j in range(d):
                    for a in range(2):
                        if luck >= 0 and logs[a, j] > 0:
                            at, sign = j, 2.0 * a - 1
                            luck -= logs[a, j]
                places[r, i], signs[r, i], free[r, at] = at, sign, False
                left[r] -= sign * gram[at]
            energy[r] = 0.0
            for i in range(k):  # ½zᵀGz − zᵀc = −½ zᵀ(c + left)
                energy[r] -= 0.5 * signs[r, i] * (correlation[places[r, i]] + left[r, places[r, i]])
        for r in range(sweep % 2, rungs - 1, 2):
            gain = beta * (powers[r] - powers[r + 1]) * (energy[r] - energy[r + 1])
            if math.log(random.random()) < gain:
                for i in range(k):
                    places[r, i], places[r + 1, i] = places[r + 1, i], places[r, i]
                    signs[r, i], signs[r + 1, i] = signs[r + 1, i], signs[r, i]
                for j in range(d):
                    left[r, j], left[r + 1, j] = left[r + 1, j], left[r, j]
                    free[r, j], free[r + 1, j] = free[r + 1, j], free[r, j]
        kept[sweep], kept_signs[sweep] = places[0], signs[0]
    return kept, kept_signs


def tempered(problem: Problem, k: int, sweeps: int, from_truth: bool, seed: int) -> np.ndarray:
    """Return draws (n, D) of the second half of a run."""
    rng, d, powers = (
        np.random.default_rng([20, seed, from_truth]),
        len(problem.z),
        powers_for(problem),
    )
    places = np.array([rng.choice(d, k, replace=False) for _ in powers])
    signs = rng.choice([-1.0, 1.0], places.shape)
    if from_truth:
        places[:] = np.flatnonzero(problem.z)
        signs[:] = problem.z[places]
    phi = problem.phi
    at, how = temper(
        phi.T @ phi, phi.T @ problem.y, places, signs, problem.beta, powers, sweeps, rng
    )
    draws = np.zeros((sweeps - sweeps // 2, d))
    np.put_along_axis(draws, at[sweeps // 2 :], how[sweeps // 2 :], axis=1)
    return draws


@compiled
def temper_sets(
    phi: np.ndarray,
    y: np.ndarray,
    beta: float,
    places: np.ndarray,
    powers: np.ndarray,
    sweeps: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Run parallel tempering over sets of k with standard normal values, which are integrated out.

    Return E z given the set, averaged over the second half of the sweeps, and draws of z.
    """
    (d, n), (rungs, k) = phi.shape, places.shape
    slabs, scales, log_odds = np.zeros(k, np.int64), np.array([beta]), np.zeros(1)
    gram, free = np.empty((rungs, k, d)), np.ones((rungs, d), np.bool_)
    for r in range(rungs):
        for i in range(k):
            gram[r, i], free[r, places[r, i]] = phi @ phi[places[r, i]], False
    correlation, power, squares = phi @ y, y @ y, np.sum(phi * phi, axis=1)
    s, t, logs, mean = np.empty(d), np.empty(d), np.empty((d, 1)), np.zeros(d)
    evidence, draws = np.empty(rungs), np.zeros((sweeps - sweeps // 2, d))
    for sweep in range(sweeps):
        for r in range(rungs):
            for i in range(k):
                free[r, places[r, i]] = True
                places[r, i], places[r, k - 1] = places[r, k - 1], places[r, i]
                row = gram[r, i].copy()
                gram[r, i] = gram[r, k - 1]
                look(gram[r], squares, correlation, power, scales, places[r], slabs, k - 1, s, t)
                total, top = gains(
                    scales, log_odds, np.zeros(1), s, t, 1.0, free[r], beta, n, powers[r], logs
                )
                luck, at = random.random() * total, -1
                for j in range(d):
                    if luck >= 0 and logs[j, 0] - top > -40:
                        at = j
                        luck -= math.exp(logs[j, 0] - top)
                gram[r, k - 1] = row if at == places[r, k - 1] else phi @ phi[at]
                places[r, k - 1], free[r, at] = at, False
            inner = _inner(gram[r], places[r], beta)
            right = np.linalg.solve(inner, correlation[places[r]])
            evidence[r] = 0.5 * beta * (correlation[places[r]] @ right)
            evidence[r] -= 0.5 * np.linalg.slogdet(inner)[1]
        for r in range(sweep % 2, rungs - 1, 2):
            gain = (powers[r] - powers[r + 1]) * (evidence[r + 1] - evidence[r])
            if math.log(random.random()) < gain:
                row, old, was = gram[r].copy(), places[r].copy(), free[r].copy()
                gram[r], places[r], free[r] = gram[r + 1], places[r + 1], free[r + 1]
                gram[r + 1], places[r + 1], free[r + 1] = row, old, was
        if sweep >= sweeps // 2:
            inner = _inner(gram[0], places[0], beta)
            right = np.linalg.solve(inner, correlation[places[0]])
            noise = np.empty(k)
            for i in range(k):
                noise[i] = random.standard_normal()
            factor = np.ascontiguousarray(np.linalg.cholesky(inner).T)
            drawn = right + np.linalg.solve(factor, noise) / math.sqrt(beta)
            for i in range(k):
                mean[places[0, i]] += right[i]
                draws[sweep - sweeps // 2, places[0, i]] = drawn[i]
    return mean / (sweeps - sweeps // 2), draws


@compiled
def _inner(gram: np.ndarray, places: np.ndarray, beta: float) -> np.ndarray:
    found = np.empty((len(places), len(places)))
    for i in range(len(places)):
        for m in range(len(places)):
            found[i, m] = gram[i, places[m]]
        found[i, i] += 1 / beta
    return found


def powers_for(problem: Problem) -> np.ndarray:
    """Return the powers of a ladder that ends where one effect hardly counts."""
    top = problem.beta * float(np.max(np.sum(problem.phi**2, axis=0)))
    return np.geomspace(1, 1 / top, max(2, 1 + math.ceil(math.log(top) / math.log(STEP))))


@dataclass(frozen=True)
class Told:
    """What somebody who is told a law makes of a problem."""

    mean: np.ndarray
    mode: np.ndarray | None
    apart: float  # the means of two runs, beside the truth
    draws: np.ndarray
    weights: np.ndarray


def told_signs(problem: Problem, sweeps: int, seed: int) -> Told:
    """Be told the number, the noise, and that all are ±1."""
    k, d = int(np.sum(problem.z != 0)), len(problem.z)
    if math.comb(d, k) * 2**k <= FEW:
        rows, weights = enumerated(problem, k)
        return Told(weights @ rows, rows[0], 0.0, rows, weights)
    runs = [tempered(problem, k, sweeps, truth, seed) for truth in (False, True)]
    kept, apart = _which_count(problem, runs)
    rows, counts = np.unique(kept.astype(np.int8), axis=0, return_counts=True)
    best = np.argsort(-counts)[:KEPT]
    rows, weights = rows[best].astype(float), counts[best] / len(kept)
    mode = rows[np.argmin(np.sum((problem.y - rows @ problem.phi.T) ** 2, axis=1))]
    return Told(kept.mean(axis=0), mode, apart, rows, weights)


def told_size(problem: Problem, sweeps: int, seed: int) -> Told:
    """Be told the number, the noise, and that values are normal of variance one."""
    where = np.flatnonzero(problem.z)
    rng, phi = np.random.default_rng([21, seed]), np.ascontiguousarray(problem.phi.T)
    large = problem.phi.size > LARGE  # there columns are not coherent, and a sweep takes long
    powers = np.ones(1) if large else powers_for(problem)
    sweeps = SETS if large else sweeps // 4
    means, runs = [], []
    for truth in (False, True):
        draw = [rng.choice(len(problem.z), len(where), replace=False) for _ in powers]
        places = np.array([where] * len(powers) if truth else draw, dtype=np.int64)
        mean, draws = temper_sets(phi, problem.y, problem.beta, places, powers, sweeps, rng)
        means.append(mean)
        runs.append(draws)
    kept, apart = _which_count(problem, runs)
    mean = np.mean(means, axis=0) if len(kept) > len(runs[0]) else kept.mean(axis=0)
    kept = kept[:: -(-len(kept) // KEPT)]
    return Told(mean, None, apart, kept, np.full(len(kept), 1 / len(kept)))


def _which_count(problem: Problem, runs: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the draws of both runs, or of the one that fits better by far, and how far apart.

    A run that never left a place of far lower probability says nothing about the posterior.
    """
    apart = np.linalg.norm(runs[0].mean(axis=0) - runs[1].mean(axis=0)) / np.linalg.norm(problem.z)
    fits = [0.5 * problem.beta * np.sum((problem.y - r @ problem.phi.T) ** 2, axis=1) for r in runs]
    centres, spreads = [f.mean() for f in fits], [f.std() for f in fits]
    if abs(centres[0] - centres[1]) > 3 * sum(spreads) + 3:
        return runs[int(np.argmin(centres))], float(apart)
    return np.concatenate(runs), float(apart)
