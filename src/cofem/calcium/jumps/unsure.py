"""A second view of a trace in much noise: that spikes are smaller and more frequent.

In much noise, and where a cell fires densely, a spike is lost among others. The most probable
constants then have hardly any jumps, and leave the rest to the walk, which moves up as well as
down. Cells fire about a spike a second, so that many small jumps and less of a walk are more
probable before the data are seen. Where these say little against it ``spikes`` is a mean of both
views; where jumps are large enough to be told, the second view is improbable by hundreds and
counts for nothing. Events and counts are of the first view: in mere noise the second finds what
is usual. But the interval of counts takes in what is usual as well.
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
