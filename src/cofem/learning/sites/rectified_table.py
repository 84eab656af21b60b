"""The second moment of a normal truncated to z > 0, compiled, by a table.

The same number as :func:`cofem.learning.sites.rectified.rectified_second_moment`, for
loops that are compiled as a whole. E[z²]/σ² depends on t = μ/σ alone and is smooth;
it is interpolated by polynomials on equal pieces of u = c/(c − t) for t ≤ 0, where
(1 + t²/2) E[z²]/σ² goes from 1 to 1 as t falls to −∞, and of t for 0 < t < 8.5; above,
1 + t² is exact in double precision. The values at the nodes are quadratures of the
definition: sums of positive terms, so there is no cancellation at any t.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from cofem.solvers.compiled import compiled

PIECES, DEGREE = 64, 8
# Where u = 1/2, and beyond which truncation changes nothing.
HALF, FAR = 3.0, 8.5
# Where the quadratures' panels begin and end, and their nodes: exact to rounding against mpmath.
# Below zero in units of the tail's length, above in standard deviations; what lies beyond the last
# edge is less than rounding.
TAIL_PANELS, PANELS, NODES = (0.0, 6.0, 15.0, 44.0), (0.0, 4.0, 8.0, 12.0, 18.5), 40


@functools.cache
def second_moment_table() -> np.ndarray:
    """Return the coefficients (2, PIECES, DEGREE + 1), in rising powers of −1 … 1."""
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    fit = np.linalg.inv(np.vander(nodes, increasing=True))
    edges = (np.arange(PIECES)[:, None] + (nodes + 1) / 2) / PIECES  # in (0, 1)
    x = HALF * (1 / edges - 1)
    below = _tail_second_moment(x) * (1 + x * x / 2)
    above = _second_moment(FAR * edges)
    return np.ascontiguousarray(np.stack([below, above]) @ fit.T)


def _tail_second_moment(x: np.ndarray) -> np.ndarray:
    """∫z² e^(−xz − z²/2) dz / ∫e^(−xz − z²/2) dz over z > 0, for x = −t ≥ 0."""
    scale = 1 / (1 + x[..., None])
    s, weights = _panels(TAIL_PANELS)
    z = s * scale
    density = weights * np.exp(-x[..., None] * z - z * z / 2)
    moment: np.ndarray = np.sum(density * z * z, axis=-1) / np.sum(density, axis=-1)
    return moment


def _second_moment(t: np.ndarray) -> np.ndarray:
    """Return the same for 0 ≤ t ≤ 8.5, around the mode."""
    z, weights = _panels(PANELS)
    density = weights * np.exp(-((z - t[..., None]) ** 2) / 2)
    moment: np.ndarray = np.sum(density * z * z, axis=-1) / np.sum(density, axis=-1)
    return moment


def _panels(edges: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights on consecutive intervals."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    middle = np.add(edges[:-1], edges[1:])[:, None] / 2
    return (middle + half * nodes).ravel(), (half * weights).ravel()


@compiled(error_model="numpy")
def second_moment(mean: float, variance: float, table: np.ndarray) -> float:
    """E[z²] of N(mean, variance) truncated to z > 0; zero if the variance is."""
    if variance == 0.0:
        return 0.0
    t = mean / math.sqrt(variance)
    if t >= FAR:
        return mean * mean + variance
    if t <= 0:
        position = PIECES * (HALF / (HALF - t))
        side, scale = 0, 1 / (1 + 0.5 * t * t)
    else:
        position = PIECES * (t / FAR)
        side, scale = 1, 1.0
    piece = min(int(position), PIECES - 1)
    local = 2 * (position - piece) - 1
    total = float(table[side, piece, DEGREE])
    for k in range(DEGREE - 1, -1, -1):
        total = total * local + table[side, piece, k]
    return variance * (total * scale)


@compiled(error_model="numpy")
def second_moments(mean: np.ndarray, variance: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the second moments of every coordinate, (n,)."""
    out = np.empty_like(mean)
    for j in range(len(mean)):
        out[j] = second_moment(mean[j], variance[j], table)
    return out


def compiled_second_moment(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E[z²] of N(mean, variance) truncated to z > 0, for NumPy arrays of one shape.

    Computed in double precision and returned in that of ``mean``.

    Examples
    --------
    >>> import numpy as np
    >>> compiled_second_moment(np.array([0.0, 3.0]), np.array([1.0, 1e-6])).round(6)
    array([1.      , 9.000001])
    """
    flat = np.ascontiguousarray(mean, dtype=np.float64).reshape(-1)
    spread = np.ascontiguousarray(variance, dtype=np.float64).reshape(-1)
    if flat.shape != spread.shape:
        raise ValueError(
            f"mean and variance must have one shape, got {mean.shape} and {variance.shape}"
        )
    found: np.ndarray = second_moments(flat, spread, second_moment_table())
    return found.reshape(mean.shape).astype(mean.dtype, copy=False)
