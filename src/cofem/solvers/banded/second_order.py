"""Recursions of order 2: c_t = g₁ c_{t−1} + g₂ c_{t−2} + z_t, y_t = c_t + noise.

The same three passes as for order 1, with the pair (c_t, c_{t−1}) as state. A 2×2
matrix is carried as its entries *and its determinant*: every update of a positive
definite pair (observe, marginalise, move in time) can then be written as sums of
products of positive numbers. Forward, with [[a, b], [b, d]] the covariance of the
state before y_t and Δ its determinant, D = 1 + β_t a:

    observe:  a/D,  b/D,  (d + β_t Δ)/D,  Δ/D
    move:     u = g₁a + g₂b,  [[(u² + g₂²Δ)/a + s, u], [u, a]],  g₂²Δ + a s.

Backward, for the information matrix of the state in y from t on, the same with the
roles of s and β exchanged. The one difference of numbers that remains, u, is rounded
like the coefficients themselves are. What the data say about z_t is

    w = (B₁₁ + |B| P₂₂) / (1 + tr(PB) + |P||B|),

with P the covariance that the past predicts before z_t enters and B the information
of y from t on; tr(PB) is summed as squares.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.solvers.banded.first_order import EXACT, LARGE
from cofem.solvers.compiled import compiled


@compiled(**EXACT)
def filter_row(
    coefficients: np.ndarray, y: np.ndarray, s: np.ndarray, beta: np.ndarray, work: np.ndarray
) -> tuple[float, float]:
    """Run forward; return log|C_y| and yᵀC_y⁻¹y of one trace.

    ``work`` (7, n) receives P₁₁, P₁₂, P₂₂, |P| of the state that the past predicts
    for t without z_t, the scaled innovation, and the two factors of the dual.
    """
    g1, g2 = coefficients[0], coefficients[1]
    log_det, product, quadratic = 0.0, 1.0, 0.0
    a = b = d = determinant = 0.0  # of (c_{t−1}, c_{t−2}) given y up to t−1
    mean, before = 0.0, 0.0
    for t in range(len(y)):
        u = g1 * a + g2 * b
        moved = g2 * g2 * determinant
        first = (u * u + moved) / a if a > 0 else g2 * g2 * d
        work[0, t], work[1, t], work[2, t], work[3, t] = first, u, a, moved
        total = first + s[t]
        inverse = 1 / (1 + beta[t] * total)
        predicted = g1 * mean + g2 * before
        innovation = y[t] - predicted
        scaled = beta[t] * innovation * inverse
        work[4, t] = scaled
        work[5, t] = (g1 - g2 * (beta[t] * u)) * inverse
        work[6, t] = g2 * inverse
        quadratic += innovation * scaled
        if beta[t] > 0:
            product *= inverse * beta[t]
            if not 1 / LARGE < product < LARGE:
                log_det -= math.log(product)
                product = 1.0
        before = mean + u * scaled
        mean = predicted + total * scaled
        determinant = moved + a * s[t]
        d = (a + beta[t] * determinant) * inverse
        determinant *= inverse
        b = u * inverse
        a = total * inverse
    return log_det - math.log(product), quadratic


@compiled(**EXACT)
def dual_row(coefficients: np.ndarray, work: np.ndarray, dual: np.ndarray) -> None:
    """Run backward over what the filter left: r_t, whose s_t-fold is the mean of z_t."""
    later = last = 0.0  # r_{t+1} and r_{t+2}
    for t in range(len(dual) - 1, -1, -1):
        r = work[5, t] * later + work[6, t] * last + work[4, t]
        last = later
        later = r
        dual[t] = r


@compiled(**EXACT)
def _before(
    coefficients: np.ndarray, beta: float, e: float, f: float, h: float, determinant: float
) -> tuple[float, float, float, float]:
    """Move the information (e, f, h, determinant) a step back and add an observation."""
    g1, g2 = coefficients[0], coefficients[1]
    u = g1 * e + f
    first = (u * u + determinant) / e if e > 0 else h
    return first + beta, g2 * u, g2 * g2 * e, g2 * g2 * (determinant + beta * e)


@compiled(**EXACT)
def _without_innovation(
    s: float, e: float, f: float, h: float, determinant: float
) -> tuple[float, float, float, float]:
    """Marginalise z_t, of prior variance s, out of the information."""
    inverse = 1 / (1 + e * s)
    return e * inverse, f * inverse, (h + s * determinant) * inverse, determinant * inverse


@compiled(**EXACT)
def variance_row(
    coefficients: np.ndarray,
    s: np.ndarray,
    beta: np.ndarray,
    work: np.ndarray,
    variance: np.ndarray,
) -> float:
    """Run backward; write the variances of z, return Σ_t (1 − α_t Σ_tt)."""
    freedom = 0.0
    e = f = h = determinant = 0.0
    for t in range(len(s) - 1, -1, -1):
        e, f, h, determinant = _before(coefficients, beta[t], e, f, h, determinant)
        first, u, a, moved = work[0, t], work[1, t], work[2, t], work[3, t]
        if a > 0 and e > 0:
            crossed = e * u + f * a
            trace = (crossed * crossed / e + moved * e) / a + determinant * a / e
        else:
            trace = first * e + a * h
        seen = (e + determinant * a) / (1 + trace + moved * determinant)
        share = 1 / (1 + s[t] * seen)
        variance[t] = s[t] * share
        freedom += s[t] * seen * share
        e, f, h, determinant = _without_innovation(s[t], e, f, h, determinant)
    return freedom


@compiled(**EXACT)
def draw_rows(
    coefficients: np.ndarray, s: np.ndarray, beta: np.ndarray, normal: np.ndarray, z: np.ndarray
) -> None:
    """Turn rows of standard normals into draws of z − mean.

    Given (c_{t−1}, c_{t−2}) and the data from t on, z_t has precision α_t + B₁₁ and
    mean −(B₁₁ k₁ + B₁₂ c_{t−1})/(α_t + B₁₁), with k₁ = g₁c_{t−1} + g₂c_{t−2}.
    """
    g1, g2 = coefficients[0], coefficients[1]
    n = len(s)
    information = np.empty((2, n))
    e = f = h = determinant = 0.0
    for t in range(n - 1, -1, -1):
        e, f, h, determinant = _before(coefficients, beta[t], e, f, h, determinant)
        information[0, t], information[1, t] = e, f
        e, f, h, determinant = _without_innovation(s[t], e, f, h, determinant)
    for row in range(len(normal)):
        c = before = 0.0
        for t in range(n):
            e, f = information[0, t], information[1, t]
            inverse = 1 / (1 + e * s[t])
            moved = math.sqrt(s[t] * inverse) * normal[row, t]
            predicted = g1 * c + g2 * before
            pulled = s[t] * f * inverse * c
            z[row, t] = moved - s[t] * e * inverse * predicted - pulled
            before = c
            c = predicted * inverse - pulled + moved
