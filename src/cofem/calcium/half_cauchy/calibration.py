"""How probable it is that an estimated event is real, from the trace turned upside down.

Calcium only jumps up; noise of every colour jumps down as often. Fitting the trace with
its sign changed gives events of which none is real (decoys), with the amplitudes that
this cell's own noise brings forth under this very model. (The trace must be zero where
the cell is silent.) In a class of amplitude x the
trace has true and false events, the decoys estimate the false ones, and the odds are

    o(x) = (events − decoys)/decoys,

estimated as exp(a + b x) for x in units of one event's standard error: given that one of
the two fits has an event of amplitude x, it is the upright one with probability
(1 + o)/(2 + o). Two numbers per cell, found by maximum likelihood with a weak prior
that speaks only when there are hardly any events. (The idea is that of target and decoy,
Elias & Gygi 2007, and of sign flips, Barber & Candès 2015.)
"""

from __future__ import annotations

import numpy as np

# Amplitudes below two standard errors are not told from noise, and there are so many of
# them that the odds would be fitted to them alone; classes reach up to where noise never does.
LEAST = 2.0
EDGES = np.concatenate([np.arange(LEAST, 12.0, 0.5), [14.0, 17.0, 20.0, 30.0, np.inf]])
_CENTRES = np.concatenate([(EDGES[:-2] + EDGES[1:-1]) / 2, [30.0]])
# Mean and standard deviation of the prior of a and b, weak: at four standard errors the odds
# are even.
PRIOR = ((-3.0, 2.0), (0.75, 1.0))
# Newton's method on two numbers ends long before so many steps: when a step gains less than
# this in log probability, or must be shorter than this share of itself.
NEWTON_STEPS, LEAST_GAIN, LEAST_STEP = 50, 1e-9, 1e-6
# Odds are cut off where exp is finite, and in the sums where p is 1 or 1/2 to rounding.
LARGEST_LOG_ODDS, LARGEST_IN_SUMS = 700.0, 50.0


def event_odds(events: np.ndarray, decoys: np.ndarray) -> tuple[float, float]:
    """Return a and b of the odds exp(a + b x) that an event of amplitude x is real.

    Parameters
    ----------
    events, decoys : ndarray
        Amplitudes in units of their standard error; those below 2 are not counted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise, decoys = rng.exponential(size=(2, 1000))
    >>> a, b = event_odds(np.concatenate([noise, rng.uniform(6, 12, size=100)]), decoys)
    >>> (probability(np.array([1.5, 10.0]), a, b) > 0.5).tolist()
    [False, True]
    """
    up = np.histogram(events, EDGES)[0].astype(np.float64)
    down = np.histogram(decoys, EDGES)[0].astype(np.float64)
    position = np.array([PRIOR[0][0], PRIOR[1][0]])
    value, slope, curvature = _log_posterior(position, up, down)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(curvature, slope)
        scale = 1.0
        while scale > LEAST_STEP:  # Newton's step, halved until it climbs
            there = _log_posterior(position + scale * step, up, down)
            if there[0] >= value:
                break
            scale /= 2
        else:
            break
        position = position + scale * step
        gain, (value, slope, curvature) = there[0] - value, there
        if gain < LEAST_GAIN:
            break
    return float(position[0]), float(max(position[1], 0.0))


def probability(amplitude: np.ndarray, a: float, b: float) -> np.ndarray:
    """Return the probability that events are real; amplitude in standard errors.

    Below two standard errors, where nothing is counted, the odds fall to zero with the
    amplitude.

    Examples
    --------
    >>> probability(np.array([0.0, 4.0]), a=-4.0, b=1.0)
    array([0. , 0.5])
    """
    odds = np.exp(np.minimum(a + b * amplitude, LARGEST_LOG_ODDS)) * np.minimum(
        amplitude / LEAST, 1.0
    )
    return np.asarray(odds / (1 + odds))


def _log_posterior(
    position: np.ndarray, up: np.ndarray, down: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the value, the gradient and a positive curvature (Fisher's information)."""
    centre = np.array([PRIOR[0][0], PRIOR[1][0]])
    weight = np.array([PRIOR[0][1] ** -2, PRIOR[1][1] ** -2])
    away = position - centre
    exponent = position[0] + position[1] * _CENTRES
    odds = np.exp(np.clip(exponent, -LARGEST_IN_SUMS, LARGEST_IN_SUMS))
    p = (1 + odds) / (2 + odds)
    value = float(np.sum(up * np.log(p) - down * np.log(2 + odds)) - 0.5 * weight @ away**2)
    # p = (1 + o)/(2 + o), 1 − p = 1/(2 + o), dp = o/(2 + o)² d(a + b x): quotients in o.
    share = odds / (2 + odds)
    pull = (up / (1 + odds) - down) * share
    information = (up + down) * share**2 / (1 + odds)
    features = np.stack([np.ones_like(_CENTRES), _CENTRES])
    slope = features @ pull - weight * away
    curvature = (features * information) @ features.T + np.diag(weight)
    return value, slope, curvature
