"""The recursions over frames, forward for the evidence and backward for the posterior.

The rise is a second state, which would square the grid. Instead every state of calcium
carries mean and variance of the fluorescence f that belongs to it, as a Kalman filter does;
where paths meet their moments are mixed (one Gaussian per state, as in filters of interacting
models, Blom & Bar-Shalom 1988). Without rise this is exact. The backward pass takes the
likelihoods that the forward pass gave the states.

Only states above ``FAINT`` of the whole are followed, about twenty of some hundred and eighty,
and only these are kept for the way back.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cofem.calcium.jumps.states import START_DECAY, States
from cofem.solvers.compiled import compiled

# A jump in a frame starts with about this much of the weight, or more, and the next frames
# tell; what is below it is forgotten.
FAINT = 1e-7
# A state with less weight than this before its frame is seen is never worth the work.
NOTHING = 1e-13
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
    none = np.empty(1, np.float32)
    keep = (none, none, np.empty((1, 3), np.int64))
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
    # Room for all states; the pages that no frame reaches are never touched.
    weights = np.empty(n * len(states.calcium), np.float32)
    likelihoods = np.empty_like(weights)
    ranges = np.empty((n, 3), np.int64)
    arguments = _arguments(states, y, seen, (weights, likelihoods, ranges))
    evidence = _forward(*arguments)
    out = np.zeros((5, n))
    target, lower, upper = arguments[5:8]
    _backward(
        target, lower, upper, states.number, weights, likelihoods, ranges, states.calcium, out
    )
    count, square, active, calcium, calcium_square = out
    # The first frame's jump is not told from where calcium started: as unsure as ever.
    square[0] = states.weight @ states.number**2
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
    """Return what ``_forward`` takes; options of one state lie side by side in memory."""
    upper = states.weight[:, None] * states.share
    lower = states.weight[:, None] - upper
    return (
        np.where(seen, y, 0.0) / states.height, seen, states.calcium, states.height**-2.0,
        states.rise, *(np.ascontiguousarray(a.T) for a in (states.target, lower, upper)),
        states.rest, *keep,
    )  # fmt: skip


@compiled(**_LOOPS)
def _forward(
    y: np.ndarray,
    seen: np.ndarray,
    calcium: np.ndarray,
    noise: float,
    rise: float,
    target: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rest: int,
    weights: np.ndarray,
    likelihoods: np.ndarray,
    ranges: np.ndarray,
) -> float:
    """Filter; if ``ranges`` has a row per frame, keep weights and likelihoods.

    A row of ``ranges``: the lowest and the highest state, and where they begin in ``weights``.
    """
    (K, J), keep, kept = target.shape, len(ranges) == len(y), 0
    here, chance = np.zeros(K), np.zeros(K)
    mean, square = calcium.copy(), calcium * calcium  # of fluorescence, in every state
    gathered = np.zeros((K, 3))  # what arrives: weight, and weighted mean and square
    total = 0.0
    for k in range(K):  # at the start calcium may be anywhere, more probably near rest
        here[k] = math.exp(-START_DECAY * abs(k - rest))
        total += here[k]
    here /= total
    low, high, evidence = 0, K - 1, 0.0
    for t in range(len(y)):
        bottom, top = target[low, 0], min(target[high, J - 1] + 1, K - 1)
        for k in range(low, high + 1):
            mass, here[k] = here[k], 0.0
            if mass == 0.0:
                continue
            first, second = mass * mean[k], mass * square[k]
            for j in range(J):
                i, down, up = target[k, j], lower[k, j], upper[k, j]
                gathered[i, 0] += down * mass
                gathered[i, 1] += down * first
                gathered[i, 2] += down * second
                gathered[i + 1, 0] += up * mass
                gathered[i + 1, 1] += up * first
                gathered[i + 1, 2] += up * second
        best = -1e300
        for k in range(bottom, top + 1):
            mass = gathered[k, 0]
            if mass > NOTHING:
                share = 1 / mass
                centre = gathered[k, 1] * share
                spread = max(gathered[k, 2] * share - centre * centre, 0.0) * rise * rise
                centre = rise * centre + (1 - rise) * calcium[k]
                chance[k] = 0.0
                if seen[t]:
                    error, sharp = y[t] - centre, 1 / (spread + noise)
                    chance[k] = -0.5 * error * error * sharp
                    here[k] = math.sqrt(noise * sharp)
                    centre += spread * sharp * error
                    spread *= noise * sharp
                else:
                    here[k] = 1.0
                mean[k], square[k] = centre, centre * centre + spread
                best = max(best, chance[k])
        total = 0.0
        for k in range(bottom, top + 1):
            mass = gathered[k, 0]
            if mass > NOTHING:
                away = chance[k] - best
                chance[k] = here[k] * math.exp(away) if away > NEGLIGIBLE else 0.0
                here[k] = mass * chance[k]
                total += here[k]
            gathered[k, 0] = gathered[k, 1] = gathered[k, 2] = 0.0
        evidence += best + math.log(total)
        low, high = K, 0
        for k in range(bottom, top + 1):
            if here[k] > FAINT * total:
                here[k] /= total
                low, high = min(low, k), k
            else:
                here[k] = 0.0
        if keep:
            ranges[t, 0], ranges[t, 1], ranges[t, 2] = low, high, kept
            for k in range(low, high + 1):
                weights[kept], likelihoods[kept] = here[k], chance[k] if here[k] > 0.0 else 0.0
                kept += 1
    return evidence


@compiled(**_LOOPS)
def _backward(
    target: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    count: np.ndarray,
    weights: np.ndarray,
    likelihoods: np.ndarray,
    ranges: np.ndarray,
    calcium: np.ndarray,
    out: np.ndarray,
) -> None:
    """Smooth; rows of out: count, its square, active, calcium, its square."""
    K, J = target.shape
    later, ahead = np.ones(K), np.zeros(K)  # ahead is zero outside the frame's range
    for t in range(len(ranges) - 1, -1, -1):
        low, high, at = ranges[t, 0], ranges[t, 1], ranges[t, 2] - ranges[t, 0]
        total = 0.0
        for k in range(low, high + 1):
            mass = weights[at + k] * later[k]
            total += mass
            out[3, t] += mass * calcium[k]
            out[4, t] += mass * calcium[k] * calcium[k]
            ahead[k] = later[k] * likelihoods[at + k]
        out[3, t] /= total
        out[4, t] /= total
        if t == 0:
            break
        first, last, at = ranges[t - 1, 0], ranges[t - 1, 1], ranges[t - 1, 2] - ranges[t - 1, 0]
        total = still = largest = 0.0
        for k in range(first, last + 1):
            mass = weights[at + k]
            sum_all = sum_still = sum_count = sum_square = 0.0
            if mass > 0.0:
                for j in range(J):
                    i = target[k, j]
                    value = ahead[i] * lower[k, j] + ahead[i + 1] * upper[k, j]
                    sum_all += value
                    if count[j] == 0.0:
                        sum_still += value
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
        for k in range(low, high + 1):
            ahead[k] = 0.0
        for k in range(first, last + 1):
            later[k] /= largest
