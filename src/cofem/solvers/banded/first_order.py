"""Recursions of order 1: c_t = γ c_{t−1} + z_t, y_t = c_t + noise.

With s_t = 1/α_t the prior variance of z_t (zero pins z_t at zero) and β_t the noise
precision (zero: sample missing), three passes over a trace give everything:

- forward, the variance V_t of c_t given y up to t: V_t = S_t/D_t with
  S_t = γ²V_{t−1} + s_t, D_t = 1 + β_t S_t, and the innovations of the data;
- backward, the dual r_t = (γ r_{t+1} + β_t × innovation_t)/D_t; the mean is s_t r_t,
  a product, so that it keeps its digits where s_t is tiny;
- backward, the information about c_t in y from t on: b_t = β_t + γ² b_{t+1}/(1 + b_{t+1}
  s_{t+1}); what the data say about z_t is w_t = b_t/(1 + b_t γ²V_{t−1}), its variance
  s_t/(1 + s_t w_t).

All terms of the variances are positive: nothing is lost to cancellation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem.solvers.compiled import compiled

# A product and a sum may be fused; no reordering, which could bring subtractions back.
EXACT: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
LARGE = 1e100


@compiled(**EXACT)
def filter_row(
    coefficients: np.ndarray, y: np.ndarray, s: np.ndarray, beta: np.ndarray, work: np.ndarray
) -> tuple[float, float]:
    """Run forward; return log|C_y| and yᵀC_y⁻¹y of one trace.

    ``work`` (3, n) receives γ²V_{t−1}, the scaled innovation and the dual's factor.
    """
    gamma = coefficients[0]
    log_det, product, quadratic = 0.0, 1.0, 0.0
    spread, predicted = 0.0, 0.0
    for t in range(len(y)):
        work[0, t] = spread
        total = spread + s[t]
        inverse = 1 / (1 + beta[t] * total)
        innovation = y[t] - predicted
        scaled = beta[t] * innovation * inverse
        work[1, t] = scaled
        work[2, t] = gamma * inverse
        quadratic += innovation * scaled
        if beta[t] > 0:  # D/β is the variance of the innovation
            product *= inverse * beta[t]
            if not 1 / LARGE < product < LARGE:
                log_det -= math.log(product)
                product = 1.0
        predicted = gamma * (predicted + total * scaled)
        spread = gamma * gamma * (total * inverse)
    return log_det - math.log(product), quadratic


@compiled(**EXACT)
def dual_row(coefficients: np.ndarray, work: np.ndarray, dual: np.ndarray) -> None:
    """Run backward over what the filter left: r_t, whose s_t-fold is the mean of z_t."""
    r = 0.0
    for t in range(len(dual) - 1, -1, -1):
        r = work[2, t] * r + work[1, t]
        dual[t] = r


@compiled(**EXACT)
def variance_row(
    coefficients: np.ndarray,
    s: np.ndarray,
    beta: np.ndarray,
    work: np.ndarray,
    variance: np.ndarray,
) -> float:
    """Run backward; write the variances of z, return Σ_t (1 − α_t Σ_tt)."""
    square = coefficients[0] * coefficients[0]
    freedom, later = 0.0, 0.0
    for t in range(len(s) - 1, -1, -1):
        b = beta[t] + square * later
        seen = b / (1 + b * work[0, t])
        share = 1 / (1 + s[t] * seen)
        variance[t] = s[t] * share
        freedom += s[t] * seen * share
        later = b / (1 + b * s[t])
    return freedom


@compiled(**EXACT)
def draw_rows(
    coefficients: np.ndarray, s: np.ndarray, beta: np.ndarray, normal: np.ndarray, z: np.ndarray
) -> None:
    """Turn rows of standard normals into draws of z − mean.

    Given c_{t−1} and the data from t on, z_t has precision α_t + b_t and mean
    −b_t γ c_{t−1}/(α_t + b_t) (y = 0: the deviations do not depend on the data).
    """
    gamma = coefficients[0]
    n = len(s)
    b = np.empty(n)
    later = 0.0
    for t in range(n - 1, -1, -1):
        b[t] = beta[t] + gamma * gamma * later
        later = b[t] / (1 + b[t] * s[t])
    for row in range(len(normal)):
        c = 0.0
        for t in range(n):
            inverse = 1 / (1 + b[t] * s[t])
            moved = math.sqrt(s[t] * inverse) * normal[row, t]
            predicted = gamma * c
            z[row, t] = moved - b[t] * s[t] * inverse * predicted
            c = predicted * inverse + moved
