"""What the walk holds of the spikes, where jumps are not sure.

In much noise, and where a cell fires densely, a spike is lost among others: the posterior
spreads it between a small jump and the walk, which moves up as well as down. Spikes only move
calcium up. So where the jumps that are found are unsure, what the walk rises counts as well,
in ``spikes`` alone: it has no frame that could be an event. With sure jumps the walk is
neuropil, motion and drift, and nothing of it is added.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import gaussian_filter1d

from cofem.calcium.jumps.counting import Segments
from cofem.calcium.jumps.doubts import SOME_EVENTS, SURE, WHITE_BELOW
from cofem.calcium.jumps.passes import Jumps
from cofem.calcium.jumps.states import HEIGHT, Constants

# Above the first certainty of the jumps nothing of the walk is added, below the second all of
# what it rises. Recordings with little noise have .85 to 1, the same with as much noise as
# CASCADE's ν = 8 have .3 to .9; where exactly the limits lie matters little (see the notes).
NOTHING_ABOVE, ALL_BELOW = 0.85, 0.75
# Ups and downs of the walk within this many seconds cancel: a walk has no sharper times.
WALK_SECONDS = 0.1


def certainty(found: Segments) -> float:
    """Return how probable jumps are, in the mean over all height that is expected.

    Examples
    --------
    >>> two = Segments(np.arange(2), np.arange(2) + 1, np.array([1.0, 0.5]), np.array([4.0, 4.0]))
    >>> round(certainty(two), 3)
    0.833
    """
    total = float(np.sum(found.height * found.chance))
    return float(np.sum(found.height * found.chance**2)) / total if total > 0 else 0.0


def share_of_walk(sure: float, expected: float, correlation: float, error: float) -> float:
    """Return the share of what the walk rises that is taken for spikes.

    Parameters
    ----------
    sure : float
        See :func:`certainty`.
    expected : float
        The expected number of jumps: a cell with hardly any is silent, and its walk no spikes.
    correlation, error : float
        Of neighbouring frames in what the fit leaves, and its standard error: slow noise would
        be spikes.

    Examples
    --------
    >>> share_of_walk(0.95, 30.0, 0.0, 0.02), share_of_walk(0.5, 30.0, 0.0, 0.02)
    (0.0, 1.0)
    >>> share_of_walk(0.5, 1.0, 0.0, 0.02), share_of_walk(0.5, 30.0, 0.6, 0.02)
    (0.0, 0.0)
    """
    if expected < SOME_EVENTS or correlation > max(WHITE_BELOW, SURE * error):
        return 0.0
    return min(1.0, max(0.0, (NOTHING_ABOVE - sure) / (NOTHING_ABOVE - ALL_BELOW)))


def walk_upward(jumps: Jumps, constants: Constants, framerate: float) -> np.ndarray:
    """Return by how much the walk rises in every frame, in jumps of size 1.

    That is what calcium gains from frame to frame beyond its decay and its jumps.

    Examples
    --------
    >>> calcium = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    >>> nothing = np.zeros(6)
    >>> jumps = Jumps(0.0, nothing, nothing, nothing, calcium, nothing)
    >>> walk_upward(jumps, Constants(1.0, 0.0, 0.0, 1.0, 0.5, 0.0), 5.0).round(1)
    array([0. , 0. , 0.1, 0.8, 0.3, 0.2])
    """
    decay = math.exp(-1 / (constants.tau_d * framerate))
    before = np.concatenate([jumps.calcium[:1], jumps.calcium[:-1]])
    bend = max(constants.curvature, 0.0) * constants.height / HEIGHT
    gain = 1 + bend * decay * np.maximum(before, 0.0)
    rise = jumps.calcium - decay * before - gain * jumps.number
    rise[:2] = 0.0  # where calcium started is not told from a jump
    return np.asarray(np.maximum(gaussian_filter1d(rise, WALK_SECONDS * framerate), 0.0))
