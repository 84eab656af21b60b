"""A second view of a trace in much noise: that spikes are smaller and more frequent.

In much noise, and where a cell fires densely, a spike is lost among others. The most probable
constants then have hardly any jumps, and leave the rest to the walk, which moves up as well as
down. Cells fire about a spike a second, so that many small jumps and less of a walk are more
probable before the data are seen. Where these say little against it the posterior is a mixture
of both views; where jumps are large enough to be told, as in cells that are silent in little
noise, the second view is improbable by hundreds and counts for nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem.calcium.jumps.passes import Jumps
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
# those as they are, nine in ten below −30. The posterior is shared in the narrow range, so that
# recordings as they are keep theirs; the interval of counts widens in the wide one.
POSTERIOR, INTERVAL = (-20.0, -40.0), (-20.0, -60.0)
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


def share_of_second(found: Found, evidence: float, rough: float) -> tuple[float, float]:
    """Return the share of the second view in the posterior, and in the interval of counts.

    Parameters
    ----------
    found : Found
        What the search found, with its log evidence.
    evidence : float
        Of the second view, in the same frames.
    rough : float
        See :func:`roughness`.

    Examples
    --------
    >>> found = Found(second_view(Constants(0.7, 0, 0, 1, 1, 0)), 0.0, False, 1, -100.0, True)
    >>> [share_of_second(found, evidence, 1.0) for evidence in (-105.0, -120.0, -140.0, -400.0)]
    [(1.0, 1.0), (0.5, 1.0), (0.0, 0.5), (0.0, 0.0)]
    >>> share_of_second(found, -105.0, rough=0.5)
    (0.0, 1.0)
    """
    if not found.small:
        return 0.0, 0.0
    away = evidence - found.log_evidence
    share, lost = (
        min(1.0, max(0.0, (away - none) / (whole - none))) for whole, none in (POSTERIOR, INTERVAL)
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


def mixed(first: Jumps, second: Jumps, share: float) -> Jumps:
    """Return the posterior that is the second view with probability ``share``.

    Both are of one trace, and the evidence is the first's; a jump of the second is ``SMALLER``.

    Examples
    --------
    >>> one, none = np.ones(2), np.zeros(2)
    >>> a = Jumps(0.0, one, none, one, one, none)
    >>> b = Jumps(0.0, 2 * one, none, none, none, none)
    >>> both = mixed(a, b, 0.5)
    >>> both.number, both.spread, both.active, both.calcium_spread
    (array([1., 1.]), array([0., 0.]), array([0.5, 0.5]), array([0.5, 0.5]))
    """
    number, spread = moments_of_mixture(
        first.number, first.spread, SMALLER * second.number, SMALLER * second.spread, share
    )
    calcium, calcium_spread = moments_of_mixture(
        first.calcium, first.calcium_spread,
        SMALLER * second.calcium, SMALLER * second.calcium_spread, share,
    )  # fmt: skip
    return Jumps(
        log_evidence=first.log_evidence,
        number=number,
        spread=spread**0.5,
        active=(1 - share) * first.active + share * second.active,
        calcium=calcium,
        calcium_spread=calcium_spread**0.5,
    )


def moments_of_mixture(
    mean: Any, std: Any, other: Any, other_std: Any, share: Any
) -> tuple[Any, Any]:
    """Return mean and variance of a mixture of two; arrays of any library.

    Examples
    --------
    >>> moments_of_mixture(0.0, 1.0, 2.0, 1.0, 0.5)
    (1.0, 2.0)
    """
    rest = 1 - share
    variance = rest * std**2 + share * other_std**2 + rest * share * (other - mean) ** 2
    return rest * mean + share * other, variance
