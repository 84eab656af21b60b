"""Distributions of relaxation times from impedance: cofem beside ridge regression.

Impedance Z(ω) = R∞ + ∫ γ(ln τ) / (1 + iωτ) d ln τ is measured at some frequencies; γ is
smooth and non-negative. The field's way (DRTtools; Wan et al. 2015) is a ridge penalty on
γ'' with γ ≥ 0, its weight by cross-validation of real against imaginary parts (Saccoccio
et al. 2014). Ours is a sum of bumps of several widths with sparse weights. With γ ≥ 0 it is
the most probable non-negative γ, with the error bars of the Gaussian posterior: the bumps are
so much alike that weights cut off one by one, as ``post.mean`` has them, say nothing together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize

import cofem
from common import Claim, Result, Table
from fields_common import compare

FREQUENCIES = np.logspace(-2, 6, 81)
LOG_TAU = np.linspace(np.log(1e-7), np.log(1e3), 161)
WIDTHS = (0.4, 0.8, 1.6)  # of the bumps, in ln τ
H = LOG_TAU[1] - LOG_TAU[0]


@dataclass(frozen=True)
class Spectrum:
    """Impedances (F,), and the true γ on the grid."""

    z: np.ndarray
    gamma: np.ndarray
    sigma: float


def zarc(tau: float, exponent: float, resistance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return impedance and exact γ of a ZARC, a resistor beside a constant-phase element."""
    omega = 2 * np.pi * FREQUENCIES
    impedance = resistance / (1 + (1j * omega * tau) ** exponent)
    turn = (1 - exponent) * np.pi
    gamma = (
        resistance
        / (2 * np.pi)
        * np.sin(turn)
        / (np.cosh(exponent * (LOG_TAU - np.log(tau))) - np.cos(turn))
    )
    return impedance, gamma


def simulate(seed: int, noise: float) -> Spectrum:
    """Draw two processes of one ohm or so, and noise of a share of |Z| at every frequency."""
    rng = np.random.default_rng([seed, 23])
    slow = zarc(10 ** rng.uniform(-1, 1), rng.uniform(0.75, 0.9), 1.0)
    fast = zarc(10 ** rng.uniform(-4, -3), rng.uniform(0.75, 0.9), rng.uniform(0.5, 1.5))
    clean = 0.2 + slow[0] + fast[0]
    sigma = noise * np.abs(clean).max()
    draws = rng.standard_normal((2, clean.size))
    return Spectrum(clean + sigma * (draws[0] + 1j * draws[1]), slow[1] + fast[1], sigma)


def kernel() -> np.ndarray:
    """Return the matrix from γ on the grid to Z, with a first column for R∞."""
    omega = 2 * np.pi * FREQUENCIES[:, None]
    columns = H / (1 + 1j * omega * np.exp(LOG_TAU))
    return np.concatenate([np.ones((FREQUENCIES.size, 1)), columns], axis=1)


def bumps() -> np.ndarray:
    """Return Gaussian bumps of several widths around every place, (grid, bumps)."""
    offsets = LOG_TAU[:, None] - LOG_TAU[None, ::4]
    return np.concatenate(
        [np.exp(-0.5 * (offsets / w) ** 2) / (w * np.sqrt(2 * np.pi)) for w in WIDTHS], axis=1
    )


def by_cofem(problem: Spectrum, known: bool, nonnegative: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return γ and its standard deviation."""
    K, B = kernel(), bumps()
    phi = np.concatenate([K[:, :1], K[:, 1:] @ B], axis=1)
    to_gamma = np.concatenate([np.zeros((len(B), 1)), B], axis=1)
    precision = 1 / (2 * problem.sigma**2) if known else None  # E|noise|² of both parts
    post = cofem.fit(
        phi, problem.z, noise_precision=precision, real=True, nonnegative=nonnegative,
        prior="ard" if nonnegative else "auto",  # the mode is that of one precision a weight
        max_iter=300,
    )  # fmt: skip
    if not nonnegative:
        return to_gamma @ post.mean, np.sqrt(post.variance_of(to_gamma))
    gaussian = cofem.posterior(
        phi, problem.z, precision=post.precision, noise_precision=post.noise_precision, real=True
    )
    # q = 1/2: every weight whose Gaussian mean is positive may take part.
    return to_gamma @ post.filtered_mode(q=0.5), np.sqrt(gaussian.variance_of(to_gamma))


def by_ridge(problem: Spectrum, weight: float | None = None) -> tuple[np.ndarray, None]:
    """Return ridge regression on γ'' with γ ≥ 0, by default weighted by cross-validation."""
    K = kernel()
    second = np.diff(np.eye(LOG_TAU.size), 2, axis=0) / H**2 * np.sqrt(H)
    penalty = np.concatenate([np.zeros((len(second), 1)), second], axis=1)

    def solve(weight: float, A: np.ndarray, y: np.ndarray) -> np.ndarray:
        tall = np.concatenate([A, np.sqrt(weight) * penalty])
        return scipy.optimize.nnls(tall, np.concatenate([y, np.zeros(len(penalty))]))[0]

    def discrepancy(weight: float) -> float:
        from_real = solve(weight, K.real, problem.z.real)
        from_imaginary = solve(weight, K.imag, problem.z.imag)
        # Imaginary parts do not see R∞.
        real = K.real[:, 1:] @ from_imaginary[1:]
        offset = np.mean(problem.z.real - real)
        return float(np.sum((problem.z.imag - K.imag @ from_real) ** 2)
                     + np.sum((problem.z.real - offset - real) ** 2))  # fmt: skip

    best = min(np.logspace(-7, 0, 8), key=discrepancy) if weight is None else weight
    both = np.concatenate([K.real, K.imag])
    return solve(best, both, np.concatenate([problem.z.real, problem.z.imag]))[1:], None


def judge(problem: Spectrum, answer: tuple[np.ndarray, np.ndarray | None]) -> tuple[float, ...]:
    """Error of γ in per cent, number of peaks, and how often two deviations cover γ."""
    gamma, std = answer
    error = 100 * np.linalg.norm(gamma - problem.gamma) / np.linalg.norm(problem.gamma)
    inner = (gamma[1:-1] > gamma[:-2]) & (gamma[1:-1] >= gamma[2:])
    n_peaks = np.sum(inner & (gamma[1:-1] > 0.05 * gamma.max()))
    large = problem.gamma > 0.05 * problem.gamma.max()
    covered = (
        np.nan
        if std is None
        else 100 * np.mean(np.abs(gamma - problem.gamma)[large] <= 2 * std[large])
    )
    return error, n_peaks, covered


def run(quick: bool) -> Result:
    """Measure two levels of noise."""
    methods = {
        "cofem, noise known": lambda p: by_cofem(p, True, False),
        "cofem, γ ≥ 0, noise known": lambda p: by_cofem(p, True, True),
        "ridge on γ'', γ ≥ 0, cross-validated": by_ridge,
        "ridge on γ'', γ ≥ 0, weight 1e-3 (DRTtools' default)": lambda p: by_ridge(p, 1e-3),
    }
    if not quick:
        methods["cofem, noise unknown"] = lambda p: by_cofem(p, False, False)
        methods["cofem, γ ≥ 0, noise unknown"] = lambda p: by_cofem(p, False, True)
    measures = ("error of γ (%)", "peaks (2 are right)", "covered by 2 std (%)")
    tables: list[Table] = []
    for noise in (0.002, 0.01)[: 1 if quick else 2]:
        problems = [simulate(seed, noise) for seed in range(2 if quick else 4)]
        title = f"Two ZARCs, noise {100 * noise:g} %"
        tables.append(compare(title, measures, methods, problems, judge))
    ours = [float(table.rows[0][1]) for table in tables]
    theirs = [min(float(row[1]) for row in table.rows if "ridge" in row[0]) for table in tables]
    claim = Claim("cofem's γ is nearer to the truth than that of the better ridge regression",
                  all(a <= b for a, b in zip(ours, theirs, strict=True)),
                  ", ".join(f"{a:g} % and {b:g} %" for a, b in zip(ours, theirs, strict=True)),
                  )  # fmt: skip
    return Result("Distribution of relaxation times", tables, [claim])
