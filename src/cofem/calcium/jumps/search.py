"""A cell's own constants by evidence: decay, rise, curvature, rate, walk and level of silence.

One constant at a time is moved, up or down while the evidence climbs, until none moves.
Evidence differs by hundreds between wrong and right constants, so that the priors, which are
wide, speak only in traces that say nothing. A named indicator moves their middle: a name is a
prior, not a verdict.

This is a driver: it compares ends of the recursions of ``passes``, which are exact and have
nothing to iterate, and chooses among them. The choice is a generator that asks for evidence and
does not know who computes it: one cell after the other here, many at a time on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

import numpy as np

from cofem.calcium.indicators import Indicator
from cofem.calcium.jumps.passes import log_evidence
from cofem.calcium.jumps.states import HEIGHT, HEIGHT_RATE, Constants, build_states

# The response starts linear: a curve is then there because the trace asks for it.
START = Constants(tau_d=0.7, tau_r=0.03, curvature=0.0, rate=1.0, walk=0.5, level=0.5)
# How far a constant may go, and by how much at once, in proportion or not.
LOWEST = Constants(0.1, 0.005, curvature=-0.3, rate=0.05, walk=0.0, level=-4.0, height=1.0)
# Jumps may be smaller than they start in a trace that does not reach three of them; in others
# smaller ones would explain noise that is not white, and larger ones bursts.
REACHED, REACHED_SHARE = 3.0, 0.995
HIGHEST = Constants(3.0, 0.13, curvature=0.3, rate=20.0, walk=1.0, level=8.0, height=HEIGHT)
FACTORS = {"tau_d": math.sqrt(2), "tau_r": math.sqrt(2), "rate": 2.5, "height": math.sqrt(2)}
STEPS = {"curvature": 0.1, "walk": 0.25, "level": 0.5}
ORDER = ("tau_d", "tau_r", "curvature", "level", "rate", "walk", "height")
SWEEPS = 4
# Standard deviations of the logarithms of decay and rise time. Cells of one indicator differ in
# decay by a factor of 1.4 (see the notes), and the rise is known within a factor of two:
# expression and temperature move both. A name moves the middle of the prior and makes it no
# narrower: a trace with a handful of spikes would take whatever the name says.
DECAY_SPREAD, RISE_SPREAD = 0.4, 0.7
# A curved response, of either sign, must be 20 times as probable as a linear one: strong
# evidence (Kass & Raftery 1995). A trace that says nothing would take it as soon as another.
LOG_CURVED = -math.log(20)
# In longer frames than these (Hz) several spikes add up, and what their sum lacks is taken for a
# curve: at 8 Hz correlations with true spikes fell by .005.
SATURATION_RATE = 15.0
# A rise must be this many times shorter than the decay: of nearly equal times either may be
# the rise, and the height of the response goes to nothing.
DECAY_BY_RISE = 1.5
# A decay shorter than this many frames is not told from a single bright frame.
LEAST_FRAMES = 1.5


class Found(NamedTuple):
    """The constants, what is held of them, and how the search ended.

    Attributes
    ----------
    constants : Constants
    score : float
        Log evidence and prior.
    at_limit : bool
        Whether the decay time is at an end of its range.
    evaluations : int
    log_evidence : float
        Without the prior.
    small : bool
        Whether the trace does not reach three jumps.
    second : bool
        Whether these are the constants of the second view; see ``jumps.unsure``.
    """

    constants: Constants
    score: float
    at_limit: bool
    evaluations: int
    log_evidence: float
    small: bool
    second: bool = False


def search(
    y: np.ndarray,
    seen: np.ndarray,
    framerate: float,
    fixed: Mapping[str, float],
    indicator: Indicator | None = None,
) -> Found:
    """Find the constants of a trace in units of its noise.

    Parameters
    ----------
    y, seen : ndarray (n,)
        The trace above its baseline, and which frames are there.
    framerate : float
    fixed : mapping
        Constants that are given, by name.
    indicator : Indicator, optional
        What is probable.

    Examples
    --------
    >>> from cofem.calcium.simulation import simulate
    >>> dff, _ = simulate(1, 1200, tau_d=0.3, tau_r=0.01, noise_std=0.03, drift=1e-9, seed=0)
    >>> found = search(dff[0] / 0.03, np.ones(1200, bool), 30.0, {"level": 0.0})
    >>> bool(0.15 < found.constants.tau_d < 0.6)
    True
    """
    reached = float(np.quantile(y[seen], REACHED_SHARE))
    asking = climbing(reached, framerate, fixed, indicator)
    at = next(asking)
    while True:
        evidence = log_evidence(build_states(at, framerate), y - at.level, seen)
        try:
            at = asking.send(evidence)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


# What is asked for, what is told, and the answer at the end.
Climb = Generator[Constants, float, Found]
Part = Generator[Constants, float, Constants]
Score = Generator[Constants, float, float]


def climbing(
    reached: float,
    framerate: float,
    fixed: Mapping[str, float],
    indicator: Indicator | None = None,
) -> Climb:
    """Yield constants, be sent the log evidence of the trace under them, return the best.

    Parameters
    ----------
    reached : float
        The quantile ``REACHED_SHARE`` of the trace, in units of its noise.
    framerate, fixed, indicator
        As for :func:`search`.

    Examples
    --------
    >>> asking = climbing(20.0, 30.0, {"level": 0.0, "curvature": 0.0})
    >>> next(asking).tau_d  # the first step, longer than where it starts
    0.989949494
    """
    low = LOWEST._replace(tau_d=max(LOWEST.tau_d, LEAST_FRAMES / framerate))
    if framerate < SATURATION_RATE:
        low = low._replace(curvature=0.0)
    # From the same place with a name and without: only then is the name no more than a prior.
    start = START._replace(tau_d=max(START.tau_d, low.tau_d))._replace(**fixed)
    small = reached / math.sqrt(HEIGHT_RATE / framerate) < REACHED * HEIGHT
    held = {*fixed} if small else {*fixed, "height"}
    free = [name for name in ORDER if name not in held]
    known: dict[Constants, float] = {}

    def score(at: Constants) -> Score:
        if at not in known:
            evidence = yield at
            known[at] = evidence + _log_prior(at, indicator, fixed)
        return known[at]

    best = start
    for _ in range(SWEEPS):
        before = best
        for name in free:
            for sign in (1, -1):
                tried = yield from _climb(best, name, sign, low, score)
                if tried != best:
                    best = tried
                    break
        if best == before:
            break
    room = FACTORS["tau_d"]
    limit = "tau_d" not in fixed and not (low.tau_d * room <= best.tau_d <= HIGHEST.tau_d / room)
    final = yield from score(best)
    evidence = final - _log_prior(best, indicator, fixed)
    return Found(best, final, limit, len(known), evidence, small)


def _climb(
    at: Constants, name: str, sign: int, low: Constants, score: Callable[[Constants], Score]
) -> Part:
    """Move one constant in one direction while the score climbs."""
    while True:
        value = getattr(at, name)
        moved = value * FACTORS[name] ** sign if name in FACTORS else value + sign * STEPS[name]
        moved = round(moved, 9)  # so that a step and a step back is the same place
        if not getattr(low, name) <= moved <= getattr(HIGHEST, name):
            return at
        there = at._replace(**{name: moved})
        if there.tau_r > there.tau_d / DECAY_BY_RISE:
            return at
        above = yield from score(there)
        here = yield from score(at)
        if above <= here:
            return at
        at = there


def _log_prior(at: Constants, indicator: Indicator | None, fixed: Mapping[str, float]) -> float:
    centre = START if indicator is None else indicator
    prior = LOG_CURVED if "curvature" not in fixed and at.curvature != 0 else 0.0
    if "tau_d" not in fixed:
        prior -= 0.5 * (math.log(at.tau_d / centre.tau_d) / DECAY_SPREAD) ** 2
    if "tau_r" not in fixed:
        prior -= 0.5 * (math.log(at.tau_r / centre.tau_r) / RISE_SPREAD) ** 2
    return prior
