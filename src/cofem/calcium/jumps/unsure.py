"""A second view of a trace in much noise: that spikes are smaller and more frequent.

In much noise, and where a cell fires densely, a spike is lost among others. The most probable
constants then have hardly any jumps, and leave the rest to the walk, which moves up as well as
down. Cells fire about a spike a second, so that many small jumps and less of a walk are more
probable before the data are seen. Where these say little against it ``spikes`` is a mean of both
views; where jumps are large enough to be told, the second view is improbable by hundreds and
counts for nothing.

In mere noise the second view finds what is usual, and events would be invented. Mere noise is
told by a third view, that nothing jumps at all: where the first is far more probable than that,
and the second has the whole of ``spikes``, events and counts are of the second as well. In other
traces events and counts are of the first, but the interval of counts takes in what is usual.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.calcium.jumps.search import HIGHEST, Found
from cofem.calcium.jumps.states import Constants
from cofem.calcium.traces import HALF_NORMAL_MEDIAN

# The second view: the height of a jump, its rate and the walk, by what was found. Jumps are then
# twice as small as the smallest that single frames tell, their rate is raised by two steps of
# the search, from one in 6 or 15 s, as it is found in much noise, to about one a second.
SMALLER, MORE, LESS_WALK = 0.5, 6.25, 0.5
# By how much less probable it may be (log evidence of the stretch in which constants are
# searched): the first has the whole of what is asked, the second nothing, linear between. With
# noise added up to CASCADE's ν = 8 nine in ten recordings lie above −60 and half above −15; of
# those as they are, nine in ten below −30. ``spikes`` are shared in the narrow range, so that
# recordings as they are keep theirs; the interval of counts widens in the wide one.
SPIKES, INTERVAL = (-20.0, -40.0), (-20.0, -60.0)
# In so many frames: what a wrong model loses grows with them.
IN_FRAMES = 2000
# Noise with a memory would be small spikes: steps between frames must be at least this large,
# beside those of white noise. With white noise added they are .92 and more of it, in recordings
# that are smooth or interpolated .47 to .72.
ROUGH = 0.8
# Jumps are told if the first view is so much more probable than none at all (log evidence).
# In 160 traces of noise the search climbs to −3 in the median; those whose second view may be the
# answer reach 3 at 30 Hz, or 9 with heavy tails.
TOLD = 10.0
# Jumps per second in the view that there are none.
NEVER = 1e-5


def second_view(constants: Constants) -> Constants:
    """Return the constants of smaller and more frequent spikes.

    Examples
    --------
    >>> second_view(Constants(0.7, 0.03, 0.0, rate=0.16, walk=0.5, level=0.5)).rate
    1.0
    """
    return constants._replace(
        height=constants.height * SMALLER,
        rate=min(constants.rate * MORE, HIGHEST.rate),
        walk=constants.walk * LESS_WALK,
    )


def quiet_views(constants: Constants) -> tuple[Constants, Constants]:
    """Return the constants without jumps: with the walk that was found, and the largest.

    Examples
    --------
    >>> [one.walk for one in quiet_views(Constants(0.7, 0.03, 0.0, rate=0.16, walk=0.5, level=0.5))]
    [0.5, 1.0]
    """
    never = constants._replace(rate=NEVER)
    return never, never._replace(walk=HIGHEST.walk)


def decided(
    found: Found, second: float, quiet: float, frames: int, rough: float
) -> tuple[Found, float, float]:
    """Return what is found, the second view's share in ``spikes``, and in the interval of counts.

    Where the second view is the answer its constants are what is found, and its share nothing.

    Parameters
    ----------
    found : Found
        What the search found, with its log evidence.
    second, quiet : float
        Log evidence of the second view, and of the more probable of those without jumps.
    frames : int
        In which these were computed.
    rough : float
        See :func:`roughness`.

    Examples
    --------
    >>> found = Found(second_view(Constants(0.7, 0, 0, 1, 1, 0)), 0.0, False, 1, -100.0, True)
    >>> one, share, lost = decided(found, -105.0, -120.0, 2000, 1.0)
    >>> one.second, one.constants.height, share, lost
    (True, 1.0, 0.0, 1.0)
    >>> decided(found, -105.0, -102.0, 2000, 1.0)[1:]  # it may be mere noise
    (1.0, 1.0)
    """
    share, lost = share_of_second(found, second, frames, rough)
    if share == 1 and found.log_evidence - quiet > TOLD:
        return found._replace(constants=second_view(found.constants), second=True), 0.0, lost
    return found, share, lost


def share_of_second(
    found: Found, evidence: float, frames: int, rough: float
) -> tuple[float, float]:
    """Return the share of the second view in ``spikes``, and in the interval of counts.

    Parameters
    ----------
    found : Found
        What the search found, with its log evidence.
    evidence : float
        Of the second view, in the same frames.
    frames : int
        How many these are.
    rough : float
        See :func:`roughness`.

    Examples
    --------
    >>> found = Found(second_view(Constants(0.7, 0, 0, 1, 1, 0)), 0.0, False, 1, -100.0, True)
    >>> seen = (-105.0, -130.0, -140.0, -400.0)
    >>> [share_of_second(found, evidence, 2000, 1.0) for evidence in seen]
    [(1.0, 1.0), (0.5, 0.75), (0.0, 0.5), (0.0, 0.0)]
    >>> share_of_second(found, -105.0, 2000, rough=0.5)
    (0.0, 1.0)
    """
    if not found.small:
        return 0.0, 0.0
    away = (evidence - found.log_evidence) * IN_FRAMES / frames
    share, lost = (
        min(1.0, max(0.0, (away - none) / (whole - none))) for whole, none in (SPIKES, INTERVAL)
    )
    return share if rough > ROUGH else 0.0, lost


def roughness(y: np.ndarray) -> float:
    """Return the steps between the frames of a trace, in units of its noise, beside white noise.

    NaN where a frame is missing; 1 where no two frames lie side by side.

    Examples
    --------
    >>> round(roughness(np.random.default_rng(0).standard_normal(4000)), 1)
    1.0
    """
    steps = np.abs(np.diff(y))
    steps = steps[np.isfinite(steps)]
    return float(np.median(steps)) / HALF_NORMAL_MEDIAN / math.sqrt(2) if len(steps) else 1.0
