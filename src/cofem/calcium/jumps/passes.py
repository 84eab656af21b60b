"""The recursions over frames, forward for the evidence and backward for the posterior.

The rise is a second state, which would square the grid. Instead every state of calcium
carries mean and variance of the fluorescence f that belongs to it, as a Kalman filter does;
where paths meet their moments are mixed (one Gaussian per state, as in filters of interacting
models, Blom & Bar-Shalom 1988). Without rise this is exact. The backward pass takes the
likelihoods that the forward pass gave the states.

Only states above ``FAINT`` of the whole are followed, a few dozen of some hundred and fifty.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cofem.calcium.jumps.states import States
from cofem.solvers.compiled import compiled

# A jump in a frame starts with about this much of the weight, or more, and the next frames
# tell; what is below it is forgotten.
FAINT = 1e-7
# exp of less than this changes no sum.
NEGLIGIBLE = -30.0
_LOOPS: dict[str, Any] = {"error_model": "numpy", "fastmath": True}


class Jumps(NamedTuple):
    """The posterior of a trace; arrays (n,).

    Attributes
    ----------
    log_evidence : float
    number, spread : ndarray
        Mean and standard deviation of what a frame's jump counts for.
    active : ndarray
        The probability that there is one.
    calcium, calcium_spread : ndarray
        Mean and standard deviation of calcium, in jumps.
    """

    log_evidence: float
    number: np.ndarray
    spread: np.ndarray
    active: np.ndarray
    calcium: np.ndarray
    calcium_spread: np.ndarray


def log_evidence(states: States, y: np.ndarray, seen: np.ndarray) -> float:
    """Return log p(y) of a trace in units of its noise, up to a constant of the trace.

    Examples
    --------
    >>> from cofem.calcium.jumps.states import Constants, build_states
    >>> y = np.zeros(100)
    >>> y[50:] = 8 * np.exp(-np.arange(50) / 21.0)
    >>> seen = np.ones(100, bool)
    >>> fast, right = (
    ...     log_evidence(build_states(Constants(tau, 0.0, 0, 1.0, 0.5, 0), 30.0), y, seen)
    ...     for tau in (0.1, 0.7)
    ... )
    >>> right > fast
    True
    """
    none = np.empty((1, 1), np.float32)
    keep = (none, none, np.empty((1, 2), np.int64))
    return float(_forward(*_arguments(states, y, seen, keep)))


def posterior(states: States, y: np.ndarray, seen: np.ndarray) -> Jumps:
    """Return the posterior of one trace in units of its noise.

    Examples
    --------
    >>> from cofem.calcium.jumps.states import Constants, build_states
    >>> y = np.random.default_rng(0).standard_normal(300)
    >>> y[100:] += 9 * np.exp(-np.arange(200) / 21.0)
    >>> states = build_states(Constants(0.7, 0.0, 0.0, 1.0, 0.5, 0.0), 30.0)
    >>> found = posterior(states, y, np.ones(300, bool))
    >>> int(np.argmax(found.active))
    100
    """
    n = len(y)
    weights = np.zeros((n, len(states.calcium)), np.float32)
    likelihoods = np.zeros_like(weights)
    ranges = np.empty((n, 2), np.int64)
    keep = (weights, likelihoods, ranges)
    evidence = _forward(*_arguments(states, y, seen, keep))
    out = np.zeros((5, n))
    _backward(
        likelihoods, states.target, states.share, states.weight, states.number, weights, ranges,
        states.calcium, out,
    )  # fmt: skip
    count, square, active, calcium, calcium_square = out
    return Jumps(
        log_evidence=float(evidence),
        number=count,
        spread=np.sqrt(np.maximum(square - count**2, 0.0)),
        active=np.clip(active, 0.0, 1.0),
        calcium=calcium,
        calcium_spread=np.sqrt(np.maximum(calcium_square - calcium**2, 0.0)),
    )


def _arguments(
    states: States, y: np.ndarray, seen: np.ndarray, keep: tuple[np.ndarray, ...]
) -> tuple[Any, ...]:
    return (
        np.where(seen, y, 0.0) / states.height, seen, states.calcium, states.height**-2.0,
        states.rise, states.target, states.share, states.weight, states.rest,
        *keep,
    )  # fmt: skip


@compiled(**_LOOPS)
def _forward(
    y: np.ndarray,
    seen: np.ndarray,
    calcium: np.ndarray,
    noise: float,
    rise: float,
    target: np.ndarray,
    share: np.ndarray,
    weight: np.ndarray,
    rest: int,
    weights: np.ndarray,
    likelihoods: np.ndarray,
    ranges: np.ndarray,
) -> float:
    """Filter; with arrays of n rows, keep weights, likelihoods and ranges of states."""
    K, J, keep = len(calcium), len(weight), len(weights) == len(y)
    here, there, chance = np.zeros(K), np.zeros(K), np.zeros(K)
    mean, variance = calcium.copy(), np.zeros(K)
    first, second = np.zeros(K), np.zeros(K)
    total = 0.0
    for k in range(K):  # at the start calcium may be anywhere, more probably near rest
        here[k] = math.exp(-0.1 * abs(k - rest))
        total += here[k]
    here /= total
    low, high, evidence = 0, K - 1, 0.0
    for t in range(len(y)):
        bottom, top = target[0, low], min(target[J - 1, high] + 1, K - 1)
        for k in range(low, high + 1):
            mass, here[k] = here[k], 0.0
            if mass < FAINT:
                continue
            square = mean[k] * mean[k] + variance[k]
            for j in range(J):
                i = target[j, k]
                up = mass * weight[j]
                part = up * share[j, k]
                up -= part
                there[i] += up
                there[i + 1] += part
                first[i] += up * mean[k]
                first[i + 1] += part * mean[k]
                second[i] += up * square
                second[i + 1] += part * square
        best = -1e300
        for k in range(bottom, top + 1):
            chance[k] = 0.0
            if there[k] > 1e-13:
                centre = first[k] / there[k]
                spread = max(second[k] / there[k] - centre * centre, 0.0) * rise * rise
                centre = rise * centre + (1 - rise) * calcium[k]
                if seen[t]:
                    error, total = y[t] - centre, spread + noise
                    chance[k] = -0.5 * (math.log(total / noise) + error * error / total)
                    centre += spread / total * error
                    spread *= noise / total
                mean[k], variance[k] = centre, spread
                best = max(best, chance[k])
            else:
                there[k] = 0.0
            first[k] = second[k] = 0.0
        total = 0.0
        for k in range(bottom, top + 1):
            if there[k] > 0.0:
                away = chance[k] - best
                chance[k] = math.exp(away) if away > NEGLIGIBLE else 0.0
                there[k] *= chance[k]
                total += there[k]
        evidence += best + math.log(total)
        low, high = K, 0
        for k in range(bottom, top + 1):
            mass, there[k] = there[k] / total, 0.0
            if mass > FAINT:
                here[k] = mass
                low, high = min(low, k), k
                if keep:
                    weights[t, k], likelihoods[t, k] = mass, chance[k]
        if keep:
            ranges[t, 0], ranges[t, 1] = low, high
    return evidence


@compiled(**_LOOPS)
def _backward(
    likelihoods: np.ndarray,
    target: np.ndarray,
    share: np.ndarray,
    weight: np.ndarray,
    count: np.ndarray,
    weights: np.ndarray,
    ranges: np.ndarray,
    calcium: np.ndarray,
    out: np.ndarray,
) -> None:
    """Smooth; rows of out: count, its square, active, calcium, its square."""
    K, J = len(calcium), len(weight)
    later, ahead = np.ones(K), np.zeros(K)
    for t in range(len(weights) - 1, -1, -1):
        low, high = ranges[t, 0], ranges[t, 1]
        total = 0.0
        for k in range(low, high + 1):
            mass = weights[t, k] * later[k]
            total += mass
            out[3, t] += mass * calcium[k]
            out[4, t] += mass * calcium[k] * calcium[k]
        out[3, t] /= total
        out[4, t] /= total
        if t == 0:
            break
        for k in range(low, high + 1):
            ahead[k] = later[k] * likelihoods[t, k]
        total = still = largest = 0.0
        for k in range(ranges[t - 1, 0], ranges[t - 1, 1] + 1):
            mass = weights[t - 1, k]
            sum_all = sum_still = sum_count = sum_square = 0.0
            if mass > 0.0:
                for j in range(J):
                    i, value = target[j, k], 0.0
                    if low <= i <= high:
                        value += ahead[i] * (1 - share[j, k])
                    if low <= i + 1 <= high:
                        value += ahead[i + 1] * share[j, k]
                    value *= weight[j]
                    sum_all += value
                    if count[j] == 0.0:
                        sum_still += value
                    else:
                        sum_count += value * count[j]
                        sum_square += value * count[j] * count[j]
            later[k] = sum_all
            largest = max(largest, sum_all)
            total += mass * sum_all
            still += mass * sum_still
            out[0, t] += mass * sum_count
            out[1, t] += mass * sum_square
        out[0, t] /= total
        out[1, t] /= total
        out[2, t] = 1 - still / total
        for k in range(ranges[t - 1, 0], ranges[t - 1, 1] + 1):
            later[k] /= largest
