"""From jumps to numbers of spikes, and from frames to events.

**The size of one spike.** A trace tells heights, not numbers. Two things are known of cells:
calcium buffers lower the response and prolong it by the same factor, so that height times
decay time varies less than either (Helmchen, Imoto & Sakmann 1996); and cells fire some spikes
a second, more or less. Each gives the size of a spike with a spread, and their weighted mean
of logarithms has a smaller one. It is a factor of two, which is said with every number.

**Events.** Frames that follow each other with a probability above ``FLOOR`` are one event, or
several: with p the probability of any jump in it and ν the expected number of spikes if there
is one, the number is taken as geometric with mean ν (its standard deviation is about its
mean, as the size of a spike is known to a factor of two), so that there are k spikes or more
with probability p (1 − 1/ν)^(k − 1). They are laid where the jumps lie.
"""

from __future__ import annotations

import math

import numpy as np

# log(height × decay time) in units of the noise at 30 Hz and seconds, log(spikes per second),
# and the weight of the first. Medians and spreads over 52 cells of 13 sets with electrically
# recorded spikes, half of those at hand; the other half has the same spread of what is left.
LOG_AREA, LOG_FIRING, AREA_WEIGHT = 0.32, 0.26, 0.67
SIZE_SPREAD = 0.7
# A sum of jumps below this per second is silence, whose size of a spike would be zero.
LEAST_PER_SECOND = 0.02
# Frames below this many expected jumps per second belong to no event.
FLOOR = 0.6
# Events below this probability are not listed.
LEAST_PROBABILITY = 0.05


def spike_size(heights_per_second: float, tau_d: float) -> float:
    """Return the most probable height of one spike, in units of the noise at 30 Hz.

    Parameters
    ----------
    heights_per_second : float
        The sum of all jumps' heights, in the same units, divided by the seconds.
    tau_d : float
        Decay time in seconds.

    Examples
    --------
    >>> round(spike_size(2.5, 0.7), 2)
    1.95
    """
    by_area = LOG_AREA - math.log(tau_d)
    by_firing = math.log(max(heights_per_second, LEAST_PER_SECOND)) - LOG_FIRING
    return math.exp(AREA_WEIGHT * by_area + (1 - AREA_WEIGHT) * by_firing)


def split(
    active: np.ndarray, counts: np.ndarray, framerate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return events: their frame (with fractions), probability and segment.

    Parameters
    ----------
    active, counts : ndarray (n,)
        The probability of a jump and the expected number of spikes, per frame.
    framerate : float

    Returns
    -------
    frame, probability : ndarray (n_events,)
    segment : ndarray of int (n_events, 2)
        First frame, and the one after the last, of the run an event belongs to.

    Examples
    --------
    >>> active, counts = np.zeros(9), np.zeros(9)
    >>> active[4:6] = 0.6, 0.4
    >>> counts[4:6] = 1.2, 0.8
    >>> split(active, counts, 30.0)[1].round(3)
    array([1.   , 0.5  , 0.25 , 0.125, 0.062])
    """
    on = np.concatenate([[False], active > FLOOR / framerate, [False]]).astype(np.int8)
    edges = np.diff(on)
    frames, chances, segments = [], [], []
    for start, stop in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        chance = min(1.0, float(active[start:stop].sum()))
        mass = np.concatenate([[0.0], np.cumsum(counts[start:stop])])
        if chance < LEAST_PROBABILITY or mass[-1] <= 0:
            continue
        number = max(1.0, mass[-1] / chance)
        listed = chance * (1 - 1 / number) ** np.arange(int(8 * number) + 1)
        listed = listed[listed >= LEAST_PROBABILITY]
        k = np.arange(len(listed))
        # Spread over the mass; those that are more than expected crowd at its end.
        place = np.minimum((k + 0.5) / number, 1 - 0.5 / max(number, len(listed)))
        where = np.interp(place, mass / mass[-1], np.arange(len(mass))) + start - 0.5
        frames.append(where)
        chances.append(listed)
        segments.append(np.tile([start, stop], (len(listed), 1)))
    if not frames:
        return np.empty(0), np.empty(0), np.empty((0, 2), np.int64)
    return np.concatenate(frames), np.concatenate(chances), np.concatenate(segments)
