"""Ordinary problems: what users bring, and what coherent columns, units and few data do to it.

Every kind is a function of a seed. The plain one has a 100 × 250 Gaussian matrix with columns of
length about one, ten coefficients of ±1 and σ = 0.05; the others change one thing about it, or
bring a matrix of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import idct

import cofem


@dataclass(frozen=True)
class Problem:
    """Data, the truth, and the coordinates and units in which an error is counted."""

    phi: np.ndarray
    y: np.ndarray
    z: np.ndarray
    sigma: float
    counted: np.ndarray = field(default_factory=lambda: np.empty(0))
    operator: Any = None  # the same as phi without its matrix, if a user would have that

    @property
    def given(self) -> Any:
        """What a user of cofem has: the operator, or the matrix."""
        return self.phi if self.operator is None else self.operator

    @property
    def beta(self) -> float:
        """The noise precision; without noise that of data at 120 dB."""
        least = 1e-6 * np.sqrt(np.mean(self.y**2))
        return float(1 / max(self.sigma, least) ** 2)

    def error(self, mean: np.ndarray) -> float:
        """Return ‖(mean − z)·counted‖ / ‖z·counted‖."""
        weight = self.counted if len(self.counted) else np.ones_like(self.z)
        size = np.linalg.norm(weight * self.z) or 1.0
        return float(np.linalg.norm(weight * (mean - self.z)) / size)

    def oracle(self) -> np.ndarray:
        """Return least squares on the true support."""
        mean, where = np.zeros_like(self.z), self.z != 0
        if where.any():
            mean[where] = np.linalg.lstsq(self.phi[:, where], self.y, rcond=None)[0]
        return mean


def _observed(rng, phi, z, sigma, decibels=None) -> Problem:
    clean = phi @ z
    if decibels is not None:
        sigma = 10 ** (-decibels / 20) * float(np.sqrt(np.mean(clean**2)))
    return Problem(phi, clean + sigma * rng.normal(size=len(clean)), z, float(sigma))


def _sparse(rng, d, k, law="sign") -> np.ndarray:
    z = np.zeros(d)
    where = rng.choice(d, k, replace=False)
    z[where] = rng.choice([-1.0, 1.0], k) if law == "sign" else rng.normal(size=k)
    return z


def _gaussian(rng, n, d) -> np.ndarray:
    return rng.normal(size=(n, d)) / np.sqrt(n)


def plain(seed, sigma=0.05, n=100, d=250, k=10) -> Problem:
    rng = np.random.default_rng([1, seed])
    return _observed(rng, _gaussian(rng, n, d), _sparse(rng, d, k), sigma)


def offset(seed) -> Problem:
    """Add a column of ones and 300 to y; the offset itself is not counted."""
    p = plain(seed)
    ones, counted = np.ones((len(p.y), 1)), np.append(np.ones(len(p.z)), 0.0)
    return Problem(np.hstack([p.phi, ones]), p.y + 300, np.append(p.z, 300.0), p.sigma, counted)


def giant(seed, size=1000.0) -> Problem:
    """One coefficient of 1000 beside the ten; it is not counted."""
    p = plain(seed)
    where = np.flatnonzero(p.z == 0)[0]
    z, counted = p.z.copy(), np.ones(len(p.z))
    z[where], counted[where] = size, 0.0
    return replace(p, y=p.y + size * p.phi[:, where], z=z, counted=counted)


def units(seed, decades=1.5) -> Problem:
    """Columns in units of their own; errors are counted in the units of the data."""
    p = plain(seed)
    scale = 10 ** np.random.default_rng([2, seed]).uniform(-decades, decades, len(p.z))
    return Problem(p.phi * scale, p.y, p.z / scale, p.sigma, scale)


def needles(seed, law="normal", n=1000, d=3000, k=20, sigma=0.1) -> Problem:
    rng = np.random.default_rng([3, seed])
    rows = np.sort(rng.choice(d, n, replace=False))
    length = float(np.sqrt(d / n))
    phi = idct(np.eye(d), norm="ortho", axis=0)[rows] * length
    problem = _observed(rng, phi, _sparse(rng, d, k, law), sigma)
    return replace(problem, operator=length * cofem.operators.DCT(d, rows=rows))


def leadfield(seed, decibels, sensors=60, sources=800, k=3) -> Problem:
    """Potentials of radial dipoles in a ball, at sensors on its upper half: coherent columns."""
    rng = np.random.default_rng([4, seed])
    at = _directions(rng, sensors)
    places = _directions(rng, sources) * rng.uniform(0.6, 0.85, sources)[:, None]
    way = at[:, None] - places
    out = places / np.linalg.norm(places, axis=1, keepdims=True)
    phi = np.sum(way * out, axis=2) / np.linalg.norm(way, axis=2) ** 3
    phi -= phi.mean(axis=0)  # the average of the sensors is the reference
    return _observed(rng, phi / np.linalg.norm(phi, axis=0), _sparse(rng, sources, k), 0, decibels)


def _directions(rng, n) -> np.ndarray:
    x = rng.normal(size=(n, 3))
    x[:, 2] = np.abs(x[:, 2])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def measured_leadfield(seed, path, decibels=20.0, k=3) -> Problem:
    """Three sources of a leadfield of magnetoencephalography, read from a file."""
    rng = np.random.default_rng([5, seed])
    with np.load(path) as file:
        phi = file["leadfield"].astype(np.float64)
    z = _sparse(rng, phi.shape[1], k) / np.linalg.norm(phi, axis=0)
    p = _observed(rng, phi, z, 0, decibels)
    return replace(p, counted=np.linalg.norm(phi, axis=0))


def kernel(seed, width=0.01, n=200, d=200, k=8, sigma=0.01) -> Problem:
    """Radial basis functions on a line; of the width .01 neighbours correlate by .94."""
    rng = np.random.default_rng([6, seed])
    x, centres = np.sort(rng.uniform(size=n)), np.linspace(0, 1, d)
    phi = np.exp(-((x[:, None] - centres) ** 2) / (2 * width**2))
    return _observed(rng, phi, _sparse(rng, d, k), sigma)


def blur(seed, width, n=200, k=10, sigma=0.01) -> Problem:
    rng = np.random.default_rng([7, seed])
    apart = np.arange(n)[:, None] - np.arange(n)
    phi = np.exp(-(apart**2) / (2 * width**2))
    phi /= np.sqrt(np.sum(phi[n // 2] ** 2))
    return _observed(rng, phi, _sparse(rng, n, k), sigma)


def vandermonde(seed, n=100, d=20, k=3, sigma=0.05) -> Problem:
    """Polynomials with few terms."""
    rng = np.random.default_rng([8, seed])
    phi = np.vander(rng.uniform(-1, 1, n), d, increasing=True)
    phi /= np.linalg.norm(phi, axis=0)
    return _observed(rng, phi, _sparse(rng, d, k), sigma)


def duplicates(seed, r=0.999, n=100, d=250, k=10, sigma=0.005) -> Problem:
    """Columns in pairs that correlate by r; at most one of a pair is non-zero."""
    rng = np.random.default_rng([9, seed])
    first = _gaussian(rng, n, d // 2)
    second = r * first + np.sqrt(1 - r**2) * _gaussian(rng, n, d // 2)
    phi, z = np.empty((n, d)), np.zeros(d)
    phi[:, ::2], phi[:, 1::2] = first, second
    pairs = rng.choice(d // 2, k, replace=False)
    z[2 * pairs + rng.integers(0, 2, k)] = rng.choice([-1.0, 1.0], k)
    return _observed(rng, phi, z, sigma)


def equicorrelated(seed, r=0.99, n=100, d=250, k=10, sigma=0.005) -> Problem:
    rng = np.random.default_rng([10, seed])
    phi = np.sqrt(r) * _gaussian(rng, n, 1) + np.sqrt(1 - r) * _gaussian(rng, n, d)
    return _observed(rng, phi, _sparse(rng, d, k), sigma)


def dense(seed, ratio, d=200, sigma=0.05) -> Problem:
    """No zeros at all, N = ratio × D."""
    rng = np.random.default_rng([11, seed])
    return _observed(rng, _gaussian(rng, int(ratio * d), d), rng.normal(size=d), sigma)


def degenerate(seed, which) -> Problem:
    """Φ = 0, a zero column, or y = 0."""
    p = plain(seed)
    if which == "phi":
        noise = p.sigma * np.random.default_rng([12, seed]).normal(size=len(p.y))
        return replace(p, phi=np.zeros_like(p.phi), y=noise, z=np.zeros_like(p.z))
    if which == "column":
        phi = p.phi.copy()
        phi[:, np.flatnonzero(p.z == 0)[0]] = 0.0
        return replace(p, phi=phi)
    return replace(p, y=np.zeros_like(p.y), z=np.zeros_like(p.z))


Maker = Callable[[int], Problem]

ORDINARY: dict[str, Maker] = {
    "plain, σ = .05": plain,
    "offset of 300": offset,
    "a coefficient of 1000": giant,
    "columns in other units": units,
    "needles, normal": needles,
    "needles, ±1": partial(needles, law="sign"),
    "20 × 30, σ = .3": partial(plain, sigma=0.3, n=20, d=30, k=3),
    "20 × 30, σ = .05": partial(plain, sigma=0.05, n=20, d=30, k=3),
    "leadfield, 40 dB": partial(leadfield, decibels=40),
    "leadfield, 10 dB": partial(leadfield, decibels=10),
    "RBF kernel": kernel,
    "RBF kernel, wide": partial(kernel, width=0.03),
    "blur of width 1": partial(blur, width=1),
    "blur of width 2": partial(blur, width=2),
    "blur of width 5": partial(blur, width=5),
    "Vandermonde": vandermonde,
    "pairs, r = .999": duplicates,
    "equicorrelated .99": equicorrelated,
    "no noise": partial(plain, sigma=0.0),
    **{f"σ = {s:g}": partial(plain, sigma=s) for s in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)},
}  # fmt: skip

# Where today's answer must not get worse: beside the coherent ones of the list above.
AWKWARD: dict[str, Maker] = {
    "dense, N = D/2": partial(dense, ratio=0.5),
    "dense, N = D": partial(dense, ratio=1),
    "dense, N = 2 D": partial(dense, ratio=2),
    "a coefficient of 10⁵": partial(giant, size=1e5),
    "Φ = 0": partial(degenerate, which="phi"),
    "a zero column": partial(degenerate, which="column"),
    "y = 0": partial(degenerate, which="y"),
}


def with_measured_leadfield(path: Path | None) -> dict[str, Maker]:
    """Return the ordinary problems, and those on a leadfield that was measured if one is given."""
    if path is None:
        return ORDINARY
    return {**ORDINARY, "measured leadfield, 20 dB": partial(measured_leadfield, path=path)}
