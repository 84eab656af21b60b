"""From jumps to numbers of spikes, and from frames to events.

**Segments.** Frames that follow each other with more than ``FLOOR`` expected jumps per second
share one event, or several.

**Trust.** Not every jump of fluorescence is a spike of this cell: neuropil, neighbours and
motion jump up as well, and not down, so that neither the noise nor the trace turned upside
down tells them. They are small. A share 1 − exp(−h/h₀) of the jumps of height h is taken for
real, with h in units of the cell's jump: where the evidence makes that smaller, small ones are
what there is.

**The size of one spike.** A trace tells heights, not numbers. Two things are known of cells:
calcium buffers lower the response and prolong it by the same factor, so that height times
decay time varies less than either (Helmchen, Imoto & Sakmann 1996); and cells fire some spikes
a second, more or less. Each gives the size of a spike with a spread, and their weighted mean
of logarithms has a smaller one. Two things are read from the events: heights that hardly
differ are single spikes, so that the size is larger than thought; and where the lower half of
them is narrow and far above what can just be seen, it is the size itself, the first tooth of
the comb. It is a factor of two, which is said with every number.

**Events.** With p the probability of any spike in a segment and ν the expected number if there
is one, the number is log-normal with mean ν and the spread of the size of a spike: there are k
or more with probability p Φ((log ν − σ²/2 − log(k − ½))/σ). They are laid evenly over the
height of the segment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

# log(height × decay time) in units of the noise at 30 Hz and seconds, log(spikes per second),
# and the weight of the first, from 104 cells of 13 sets with electrically recorded spikes. The
# median of the first is 0.50 in these cells; it stands nearer to where events and probabilities
# are best, which is below it: too many spikes in a cell cost less than too few.
LOG_AREA, LOG_FIRING, AREA_WEIGHT = 0.4, 0.26, 0.67
SIZE_SPREAD = 0.7
# The standard deviation of log(spikes per second) in the same cells: what is known of the number
# of spikes where they are lost in the noise.
FIRING_SPREAD = 1.2
# With a larger spread than this the number is mostly what is usual, not what was seen.
MOSTLY_LOST = math.sqrt((SIZE_SPREAD**2 + FIRING_SPREAD**2) / 2)
# A sum of jumps below this per second is silence, whose size of a spike would be zero.
LEAST_PER_SECOND = 0.02
# h₀ of the trust in a jump, in jumps, which are four noises at 30 Hz in most cells: in the median
# set of the same cells three quarters of the sure jumps around 2.6 noises have a spike, 90 % of
# those around 3.6, 96 % of those around 5.
TRUST_HEIGHT = 0.375
# Frames below this many expected jumps per second belong to no event. With twice as much one
# jump of uncertain time falls into two events, each too improbable (seen in simulations).
FLOOR = 0.6
# Events below this probability are not listed.
LEAST_PROBABILITY = 0.05
# The distance of median and lower quartile of the log heights in the median cell, the largest
# that counts, and how many events tell it.
USUAL_DISTANCE, LARGEST_DISTANCE, ENOUGH_EVENTS = 0.24, 0.7, 5
# The first tooth: a lower quartile above this many noises at 30 Hz (events of 3.5 can just be
# seen), and the median this near to it, in the logarithm: a spike's own response varies so.
TOOTH_ABOVE, TOOTH_WIDTH = 4.5, 0.25
# The quantiles that are compared, and what is sure enough to be among the events.
TOOTH, SURE = (0.25, 0.5), 0.5
# Numbers of spikes up to this many times the expected one: three standard deviations.
MOST_SPIKES = 8


class Segments(NamedTuple):
    """Runs of frames with an event; arrays (n_segments,).

    Attributes
    ----------
    start, stop : ndarray of int
        First frame, and the one after the last.
    chance : ndarray
        The probability that there is any jump.
    height : ndarray
        The expected height if there is one, in units of the noise at 30 Hz.
    """

    start: np.ndarray
    stop: np.ndarray
    chance: np.ndarray
    height: np.ndarray


def segments(active: np.ndarray, height: np.ndarray, framerate: float) -> Segments:
    """Find the runs of frames that share events.

    Parameters
    ----------
    active, height : ndarray (n,)
        The probability of a jump, and the expected height in units of the noise at 30 Hz.
    framerate : float

    Examples
    --------
    >>> active, height = np.zeros(9), np.zeros(9)
    >>> active[4:6], height[4:6] = (0.3, 0.2), (1.2, 0.8)
    >>> segments(active, height, 30.0)
    Segments(start=array([4]), stop=array([6]), chance=array([0.5]), height=array([4.]))
    """
    on = np.concatenate([[False], active > FLOOR / framerate, [False]]).astype(np.int8)
    start, stop = (np.flatnonzero(np.diff(on) == sign) for sign in (1, -1))
    chance, total = (
        sums[stop] - sums[start]
        for sums in (np.concatenate([[0.0], np.cumsum(x)]) for x in (active, height))
    )
    kept = (chance >= LEAST_PROBABILITY) & (total > 0)
    start, stop, total = start[kept], stop[kept], total[kept]
    chance = np.minimum(chance[kept], 1.0)
    return Segments(start, stop, chance, total / chance)


def trust(height: np.ndarray, jump: float) -> np.ndarray:
    """Return the share of jumps of this height that are spikes; ``jump`` is the cell's own.

    Examples
    --------
    >>> trust(np.array([2.6, 10.0]), jump=4.0).round(2)
    array([0.82, 1.  ])
    """
    return np.asarray(-np.expm1(-np.asarray(height) / (TRUST_HEIGHT * jump)))


def trust_of_frames(found: Segments, n: int, jump: float) -> np.ndarray:
    """Return the trust in every frame's jump (n,); outside of segments that of one noise."""
    out = np.full(n, float(trust(np.ones(()), jump)))
    shares = trust(found.height, jump)
    for start, stop, share in zip(found.start, found.stop, shares, strict=True):
        out[start:stop] = share
    return out


def spike_size(
    heights_per_second: float, tau_d: float, found: Segments, in_noise: bool = False
) -> float:
    """Return the most probable height of one spike, in units of the noise at 30 Hz.

    Parameters
    ----------
    heights_per_second : float
        The sum of all jumps' heights, in the same units, divided by the seconds.
    tau_d : float
        Decay time in seconds.
    found : Segments
        The events.
    in_noise : bool
        Whether single spikes are lost in the noise: an area in units of that noise is then too
        large by as much as the noise is, and what cells usually fire has half of the weight.

    Examples
    --------
    >>> none = Segments(*(np.empty(0) for _ in range(4)))
    >>> round(spike_size(2.5, 0.7, none), 2)
    2.06
    >>> alike = Segments(np.arange(9), np.arange(9) + 1, np.ones(9), np.linspace(6.5, 7.5, 9))
    >>> spike_size(2.5, 0.7, alike)  # nothing smaller was seen, though it could have been
    6.75
    """
    by_area = LOG_AREA - math.log(tau_d)
    by_firing = math.log(max(heights_per_second, LEAST_PER_SECOND)) - LOG_FIRING
    size = AREA_WEIGHT * by_area + (1 - AREA_WEIGHT) * by_firing
    sure = found.height[found.chance > SURE]
    if len(sure) >= ENOUGH_EVENTS:
        lower, middle = np.quantile(sure, TOOTH)
        distance = math.log(middle / lower)
        if lower > TOOTH_ABOVE and distance < TOOTH_WIDTH:
            return float(lower)
        size += USUAL_DISTANCE - min(distance, LARGEST_DISTANCE)
    return math.exp((size + by_firing) / 2 if in_noise else size)


def size_spread(lost: float) -> float:
    """Return the standard deviation of the logarithm of the size of a spike.

    Examples
    --------
    >>> size_spread(0.0), size_spread(1.0)
    (0.7, 1.2)
    """
    return math.sqrt((1 - lost) * SIZE_SPREAD**2 + lost * FIRING_SPREAD**2)


def interval(
    total: np.ndarray, seconds: float, spread: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest number of spikes, from the expected number that was seen.

    Where spikes are lost in the noise, which ``spread`` tells, the middle is a mean of what was
    seen and of what is usual.

    Examples
    --------
    >>> low, high = interval(np.array([60.0, 2.0]), 60.0, np.array([0.7, 1.2]), 0.5)
    >>> low.round(), high.round()
    (array([37., 35.]), array([ 96., 175.]))
    """
    lost = (spread**2 - SIZE_SPREAD**2) / (FIRING_SPREAD**2 - SIZE_SPREAD**2)
    usual = math.exp(LOG_FIRING) * seconds
    with np.errstate(divide="ignore"):
        middle = np.where(lost < 1, total ** (1 - lost), 1.0) * usual**lost
    factor = np.exp(spread * ndtri((1 + level) / 2))
    return middle / factor, middle * factor


def split(
    active: np.ndarray, height: np.ndarray, real: np.ndarray, size: float, framerate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return events: their frame (with fractions), probability and segment.

    Parameters
    ----------
    active, height : ndarray (n,)
        The probability of a jump, and the expected height in units of the noise at 30 Hz.
    real : ndarray (n,)
        The trust in a frame's jump.
    size : float
        Of one spike, in the same units.
    framerate : float

    Returns
    -------
    frame, probability : ndarray (n_events,)
    segment : ndarray of int (n_events, 2)
        First frame, and the one after the last, of the run an event belongs to.

    Examples
    --------
    >>> active, height = np.zeros(9), np.zeros(9)
    >>> active[4:6], height[4:6] = (0.6, 0.4), (12.0, 8.0)
    >>> split(active, height, np.ones(9), 10.0, 30.0)[1].round(2)
    array([1.  , 0.52, 0.25, 0.13, 0.07])
    """
    found = segments(active, height, framerate)
    frames, chances, runs = [], [], []
    for start, stop, chance, total in zip(*found, strict=True):
        listed = at_least(max(1.0, total / size))
        evenly = max(1, int(np.count_nonzero(listed >= 0.5)))
        listed = chance * real[start:stop].mean() * listed
        listed = listed[listed >= LEAST_PROBABILITY]
        mass = np.concatenate([[0.0], np.cumsum(height[start:stop])])
        # Those that are more than expected begin again at the front.
        place = (np.arange(len(listed)) % evenly + 0.5) / evenly
        where = np.interp(place, mass / mass[-1], np.arange(len(mass))) + start - 0.5
        frames.append(where)
        chances.append(listed)
        runs.append(np.tile([start, stop], (len(listed), 1)))
    if not frames:
        return np.empty(0), np.empty(0), np.empty((0, 2), np.int64)
    return np.concatenate(frames), np.concatenate(chances), np.concatenate(runs)


def at_least(expected: float) -> np.ndarray:
    """Return the probability of k = 1, 2, … spikes or more, given that there is one.

    Examples
    --------
    >>> at_least(1.0)[:3].round(2)
    array([1.  , 0.18, 0.05])
    """
    k = np.arange(1, int(MOST_SPIKES * expected) + 2)
    middle = math.log(expected) - SIZE_SPREAD**2 / 2
    chance = ndtr((middle - np.log(k - 0.5)) / SIZE_SPREAD)
    chance[0] = 1.0
    return np.asarray(chance)


def in_words(counts: tuple[float, float, float], size: float, spread: float) -> str:
    """Return a sentence on a number of spikes and its interval at 95 %.

    Examples
    --------
    >>> in_words((38.0, 9.6, 150.0), size=0.2, spread=1.2)[:37]
    'About 38 spikes, between 9.6 and 150 '
    """
    about, low, high = (f"{float(f'{x:.2g}'):g}" for x in counts)
    sure = f"About {about} spikes, between {low} and {high} with 95 % probability: "
    if spread > MOSTLY_LOST:
        return (
            f"{sure}no spikes stand clear of the noise, and the interval is mostly what cells "
            "usually fire."
        )
    return (
        f"{sure}a trace does not tell the height of one spike, here taken for {size:.2g}, better "
        f"than to a factor of {math.exp(spread):.1f} (one standard deviation)."
    )
