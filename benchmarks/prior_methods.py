"""Small rivals of the learned prior, in NumPy: message passing, variational, and a sampler.

Each takes a dense Φ and y, is not told the noise, and returns an :class:`Answer`. They are
written from the papers for problems of a few hundred unknowns, not for speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, ndtr


@dataclass(frozen=True)
class Answer:
    """What a method says of the coefficients; None where it says nothing."""

    mean: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    probability: np.ndarray | None = None
    beta: float = float("nan")


def diverged(d: int) -> Answer:
    """Return the answer of a fit that ended in no number."""
    nothing = np.full(d, np.nan)
    return Answer(nothing, nothing, nothing, nothing)


def spike_and_slab_interval(probability, mean, std, level=0.95):
    """Return the central interval of (1 − p) δ_0 + p N(mean, std²) by halving."""

    def quantile(q):
        low, high = np.minimum(mean - 10 * std, 0.0), np.maximum(mean + 10 * std, 0.0)
        for _ in range(60):
            middle = (low + high) / 2
            mass = probability * ndtr((middle - mean) / std) + (1 - probability) * (middle >= 0)
            low, high = np.where(mass < q, middle, low), np.where(mass < q, high, middle)
        return high

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


def vamp(phi, y, iterations=200, damping=0.6) -> Answer:
    """Vector approximate message passing with a Bernoulli-Gaussian prior, all of it learned.

    Rangan, Schniter & Fletcher (2019), and Fletcher & Schniter (2017) for the learning.
    """
    n, d = phi.shape
    u, s, vt = np.linalg.svd(phi, full_matrices=False)
    uy, power = u.T @ y, float(y @ y)
    share, beta = 0.1 * min(n / d, 1.0), 11 * n / power
    slab = power / (share * np.sum(s**2))
    r = np.zeros(d)
    gamma = max(1 / slab, 1e-12)
    x1 = np.zeros(d)
    for t in range(iterations):
        pi, mean, var = _bernoulli_gaussian(r, gamma, share, slab)
        new = pi * mean
        spread = pi * (var + mean**2) - new**2
        x1 = new if t == 0 else damping * new + (1 - damping) * x1
        eta = 1 / max(float(np.mean(spread)), 1e-300)
        gamma2 = np.clip(eta - gamma, 1e-10 * beta, 1e12 * beta)
        r2 = (eta * x1 - gamma * r) / gamma2
        gain = beta * s / (beta * s**2 + gamma2)
        x2 = r2 + vt.T @ (gain * (uy - s * (vt @ r2)))
        kept = gamma2 / (beta * s**2 + gamma2)
        alpha = (np.sum(kept) + d - len(s)) / d
        gamma1 = np.clip(gamma2 / alpha - gamma2, 1e-10 * beta, 1e12 * beta)
        r1 = (gamma2 / alpha * x2 - gamma2 * r2) / gamma1
        r = r1 if t == 0 else damping * r1 + (1 - damping) * r
        gamma = gamma1 if t == 0 else damping * gamma1 + (1 - damping) * gamma
        if t > 3:
            share = float(np.clip(np.mean(pi), 1e-4, 0.5))
            slab = float(np.sum(pi * (var + mean**2)) / max(np.sum(pi), 1e-12))
            left = float(np.sum((y - phi @ x2) ** 2) + np.sum(s**2 / (beta * s**2 + gamma2)))
            beta = float(np.clip(n / left, beta / 1.5, beta * 1.5))
        if not np.all(np.isfinite(r)):
            return diverged(d)
    pi, mean, var = _bernoulli_gaussian(r, gamma, share, slab)
    low, high = spike_and_slab_interval(pi, mean, np.sqrt(var))
    return Answer(pi * mean, low, high, pi, beta)


def _bernoulli_gaussian(r, gamma, share, slab):
    """Return P(z ≠ 0), and mean and variance if it is not, of r = z + N(0, 1/γ)."""
    rho = slab * gamma
    gain = rho / (1 + rho)
    odds = np.log(share / (1 - share)) + 0.5 * (gamma * r**2 * gain - np.log1p(rho))
    return expit(odds), gain * r, np.full_like(r, gain / gamma)


def variational(phi, y, sweeps=300) -> Answer:
    """Fully factorised spike and slab by coordinate ascent (Carbonetto & Stephens 2012)."""
    n, d = phi.shape
    norms = np.sum(phi**2, axis=0)
    noise, share = float(y @ y) / n / 11, 0.1 * min(n / d, 1.0)
    slab = float(y @ y) / (share * np.sum(norms))
    pi, mean = np.zeros(d), np.zeros(d)
    left, columns = y.copy(), np.asfortranarray(phi)
    for sweep in range(sweeps):
        before = pi * mean
        var = noise / (norms + noise / slab)
        prior = np.log(share / (1 - share)) + 0.5 * np.log(var / slab)
        for j in range(d):
            column, old = columns[:, j], pi[j] * mean[j]
            mean[j] = var[j] / noise * (column @ left + norms[j] * old)
            pi[j] = expit(prior[j] + 0.5 * mean[j] ** 2 / var[j])
            step = pi[j] * mean[j] - old
            if step:
                left -= step * column
        second = pi * (var + mean**2)
        noise = float(left @ left + norms @ (second - (pi * mean) ** 2)) / n
        share = float(np.clip(np.mean(pi), 1e-4, 0.5))
        slab = float(np.sum(second) / max(np.sum(pi), 1e-12))
        if sweep > 5 and np.max(np.abs(pi * mean - before)) < 1e-6 * np.max(np.abs(mean)):
            break
    low, high = spike_and_slab_interval(pi, mean, np.sqrt(var))
    return Answer(pi * mean, low, high, pi, 1 / noise)


def horseshoe(phi, y, draws=600, burn=300, seed=0) -> Answer:
    """Sample the horseshoe: Makalic & Schmidt (2016), Bhattacharya et al. (2016)."""
    rng = np.random.default_rng(seed)
    n, d = phi.shape
    unit = np.linalg.norm(phi, axis=0)
    x = phi / unit
    local, aux, noise = np.ones(d), np.ones(d), float(y @ y) / n / 11
    overall = float(y @ y) / noise / d
    aux_overall, kept, precisions = 1.0, [], []
    for draw in range(draws):
        scale = np.maximum(local * overall, 1e-20)
        prior = np.sqrt(scale) * rng.normal(size=d)
        scaled = x * scale
        factor = cho_factor(scaled @ x.T + np.eye(n), lower=True)
        wanted = y / np.sqrt(noise) - x @ prior - rng.normal(size=n)
        z = np.sqrt(noise) * (prior + scaled.T @ cho_solve(factor, wanted))
        squared = z**2 / (2 * noise)
        local = 1 / rng.gamma(1.0, 1 / (1 / aux + squared / overall))
        aux = 1 / rng.gamma(1.0, 1 / (1 + 1 / local))
        overall = 1 / rng.gamma((d + 1) / 2, 1 / (1 / aux_overall + np.sum(squared / local)))
        aux_overall = 1 / rng.gamma(1.0, 1 / (1 + 1 / overall))
        rate = (np.sum((y - x @ z) ** 2) + np.sum(z**2 / (local * overall))) / 2
        noise = 1 / rng.gamma((n + d) / 2, 1 / rate)
        if draw >= burn:
            kept.append(z / unit)
            precisions.append(1 / noise)
    low, high = np.quantile(kept, [0.025, 0.975], axis=0)
    return Answer(np.mean(kept, axis=0), low, high, None, float(np.median(precisions)))
