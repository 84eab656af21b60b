"""The mixture's sums over NumPy vectors, compiled: one pass over the coordinates."""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.sites.truncated_normal import standard_moments
from cofem.solvers.compiled import compiled

# E z² − (E z)² cancels if z is nearly known: the smallest variance, relative to that of the cavity.
LEAST_VARIANCE = 1e-14


@compiled
def compiled_shares(
    power: np.ndarray,
    precision: np.ndarray,
    unit: np.ndarray,
    scales: np.ndarray,
    log_weights: np.ndarray,
    ratio: float,
    half: float,
    tasks: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Return 1 − E g, Var g, P(zero), the mean probabilities and the evidence.

    Parameters
    ----------
    power : array (M,)
        Σ |v|² c over the tasks.
    precision, unit : array (M,)
        c and θ.
    scales, log_weights : array (K + 1,)
        Times ``ratio``, the scales; the first is the spike.
    """
    n, k = len(power), len(scales)
    shrinkage, spread, spike = (
        np.empty_like(precision),
        np.empty_like(precision),
        np.empty_like(precision),
    )
    weights, logs, kept = np.zeros(k), np.empty(k), np.empty(k)
    evidence = 0.0
    for j in range(n):
        over, size = precision[j] / unit[j], half * ratio * power[j]
        largest = -np.inf
        for i in range(k):
            rho = scales[i] * over
            kept[i] = 1 / (1 + rho)
            logs[i] = log_weights[i] + size * (rho * kept[i]) - half * tasks * math.log1p(rho)
            largest = max(largest, logs[i])
        total = first = 0.0
        for i in range(k):
            logs[i] = math.exp(logs[i] - largest)
            total += logs[i]
        for i in range(k):
            logs[i] /= total
            weights[i] += logs[i]
            first += logs[i] * kept[i]
        second = 0.0
        for i in range(k):
            second += logs[i] * (kept[i] - first) ** 2
        shrinkage[j], spread[j], spike[j] = first, second, logs[0]
        evidence += largest + math.log(total)
    return shrinkage, spread, spike, weights / n, evidence


@compiled
def truncated_shares(
    value: np.ndarray,
    precision: np.ndarray,
    unit: np.ndarray,
    scales: np.ndarray,
    log_weights: np.ndarray,
    labels: np.ndarray,
    n_groups: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Return mean, variance, P(zero), the mean probabilities and the evidence for z ≥ 0.

    A half-normal slab times the normal law of what is seen is a normal law N(g v, g/c) cut off
    at zero; its evidence is that of the whole slab times 2Φ(t), t = g v/√(g/c).

    Parameters
    ----------
    value, precision, unit : array (L, M)
        v, c and θ of every task.
    scales, log_weights : array (K + 1,)
    labels : array of int (M,)
        Coordinates with the same label share their scale.
    """
    tasks, n = value.shape
    k = len(scales)
    logs = np.zeros((n_groups, k))
    for j in range(n):
        for i in range(1, k):
            for row in range(tasks):
                c, v = precision[row, j], value[row, j]
                rho = scales[i] * c / unit[row, j]
                g = rho / (1 + rho)
                t = v * math.sqrt(g * c)
                # log Φ(t) = log φ(t) − log λ(t); the φ cancels the slab's own exponent.
                if t > 0:
                    cut = 0.5 * t * t + math.log(0.5 * math.erfc(-t / math.sqrt(2)))
                else:
                    cut = -0.5 * math.log(2 * math.pi) - math.log(standard_moments(t)[0])
                logs[labels[j], i] += math.log(2.0) + cut - 0.5 * math.log1p(rho)
    evidence = 0.0
    for group in range(n_groups):
        largest = -np.inf
        for i in range(k):
            logs[group, i] += log_weights[i]
            largest = max(largest, logs[group, i])
        total = 0.0
        for i in range(k):
            logs[group, i] = math.exp(logs[group, i] - largest)
            total += logs[group, i]
        for i in range(k):
            logs[group, i] /= total
        evidence += largest + math.log(total)
    mean, variance = np.empty((tasks, n)), np.empty((tasks, n))
    spike, weights = np.empty(n), np.zeros(k)
    for j in range(n):
        shares = logs[labels[j]]
        spike[j] = shares[0]
        for i in range(k):
            weights[i] += shares[i] / n
        for row in range(tasks):
            c, v = precision[row, j], value[row, j]
            first = second = 0.0
            for i in range(1, k):
                rho = scales[i] * c / unit[row, j]
                g = rho / (1 + rho)
                sigma = math.sqrt(g / c)
                t = v * math.sqrt(g * c)
                _, one, spread = standard_moments(t)
                first += shares[i] * sigma * one
                second += shares[i] * sigma * sigma * (spread + one * one)
            mean[row, j] = first
            variance[row, j] = max(second - first * first, LEAST_VARIANCE / c)
    return mean, variance, spike, weights, evidence
