"""The mixture's sums over NumPy vectors, compiled: one pass over the coordinates."""

from __future__ import annotations

import math

import numpy as np

from cofem.linalg.compiled import compiled


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
    shrinkage, spread, spike = np.empty_like(precision), np.empty_like(precision), np.empty_like(
        precision
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
