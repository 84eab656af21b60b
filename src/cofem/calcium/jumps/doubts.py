"""What makes a trace doubtful: frames that no calcium explains, and traces that are not like it.

Nothing here changes what is fitted, except that single impossible frames are left out, and that
nothing is found where nothing was seen. Every finding is a sentence for the cell's message, so
that no nonsense is silent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cofem.calcium.jumps.passes import Jumps, log_evidence
from cofem.calcium.jumps.recording import cut, drifts
from cofem.calcium.jumps.search import Found
from cofem.calcium.jumps.states import States, build_states
from cofem.calcium.traces import HALF_NORMAL_MEDIAN, maximin_baseline

# A lone frame stands this many noises above or below both neighbours, which differ by less
# than this share of that: noise never does, and no indicator is back after one frame.
LONE_NOISES, LONE_SHARE = 20.0, 0.1
# The fastest decay there is, in seconds. Frames must be shorter, or an event may be one frame.
FASTEST_DECAY = 0.1
# What the fit leaves is white in traces as they come from the microscope (neighbouring frames
# correlate by −0.2 to 0.2); a mean over three frames gives 0.5.
WHITE_BELOW = 0.4
# It must also lie this many standard errors above zero, so that short traces raise no alarm.
SURE = 4.0
# Calcium rises abruptly and falls slowly. An event makes a trace more probable than the same
# trace upside down by 1 to 100 in log evidence, in recordings with known spikes; walks and
# noise with a memory of a second, of which the model makes as many events, by 0.2.
GAIN_PER_EVENT = 0.3
# A cell with fewer events than this is silent, and its constants say nothing anyway.
SOME_EVENTS = 3.0
# Counts are mostly the usual ones where these have more than half of the weight.
MOSTLY = 0.5
# What more cells of a field than this have in common is said once.
FEW = 3


def lone_frames(dff: np.ndarray, framerate: float) -> np.ndarray:
    """Return which frames stand alone, far above or below both neighbours (bool, (n,)).

    Motion, a cosmic ray or a lost line does that; calcium, which decays, does not.

    Examples
    --------
    >>> trace = 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> trace[50] += 80.0
    >>> np.flatnonzero(lone_frames(trace, 30.0))
    array([50])
    """
    lone = np.zeros(len(dff), dtype=bool)
    steps = np.abs(np.diff(dff))
    if not np.isfinite(steps).any():
        return lone
    noise = float(np.nanmedian(steps)) / HALF_NORMAL_MEDIAN / math.sqrt(2)
    before, after = dff[1:-1] - dff[:-2], dff[1:-1] - dff[2:]
    far = np.minimum(np.abs(before), np.abs(after))
    back = (before * after > 0) & (np.abs(before - after) < LONE_SHARE * far)
    if framerate * FASTEST_DECAY < 1:
        back &= before < 0
    lone[1:-1] = back & (far > LONE_NOISES * noise) & (noise > 0)
    return lone


def told(jumps: Jumps, states: States, seen: np.ndarray) -> Jumps:
    """Return the jumps, in missing frames only as far as the others tell more than the prior.

    Where nothing is seen every frame has a jump as often as in the rest of the trace; summed
    over a long gap that would be many events which nobody saw.

    Examples
    --------
    >>> from cofem.calcium.jumps.passes import posterior
    >>> from cofem.calcium.jumps.states import Constants
    >>> states = build_states(Constants(0.7, 0.0, 0.0, 1.0, 0.5, 0.0), 30.0)
    >>> y, seen = np.random.default_rng(0).standard_normal(900), np.arange(900) < 200
    >>> found = posterior(states, y, seen)
    >>> float(found.active[300:].sum().round()), float(told(found, states, seen).active[300:].sum())
    (20.0, 0.0)
    """
    some = states.number > 0
    number, active = states.weight @ states.number, states.weight[some].sum()
    return jumps._replace(
        number=np.where(seen, jumps.number, np.maximum(jumps.number - number, 0.0)),
        active=np.where(seen, jumps.active, np.maximum(jumps.active - active, 0.0)),
    )


def upright_gain(
    y: np.ndarray, seen: np.ndarray, framerate: float, window: float, found: Found
) -> float:
    """Return by how much a trace is more probable than upside down, in log evidence.

    Both under the constants that were found for it. The idea is that of decoys (Elias & Gygi
    2007): a model finds in noise what it finds in noise turned around.

    Parameters
    ----------
    y, seen : ndarray (n,)
        The trace above its baseline, in units of its noise, and which frames are there.
    framerate, window : float
        Window of the baseline, in seconds.
    found : Found
        By the search in this very trace.
    """
    turned = np.where(seen, -y, np.nan)
    turned -= maximin_baseline(turned, framerate, window)
    states, level = build_states(found.constants, framerate), found.constants.level
    up, down = (log_evidence(states, x - level, seen) for x in (y, turned))
    return up - down


class Signs(NamedTuple):
    """What there is to see in a cell that was fitted.

    Attributes
    ----------
    lone : int
        How many frames were left out, as they stand alone.
    tau_d, at_limit : float, bool
        The decay time, and whether it is at an end of the search.
    correlation, error : float
        Of neighbouring frames in what the fit leaves; see :func:`neighbours`.
    expected, gain : float
        The expected number of jumps where the constants were searched, and
        :func:`upright_gain` of that stretch.
    reach, steady, large : float
        Of the baseline, and the height of a large event, in units of the noise at 30 Hz; see
        :func:`cofem.calcium.jumps.recording.drifts`. A given baseline does not move.
    top, top_error : float
        See :func:`cofem.calcium.jumps.recording.top_noise`.
    lost : float
        How far spikes are lost in the noise; see :func:`cofem.calcium.jumps.unsure`.
    """

    lone: int
    tau_d: float
    at_limit: bool
    correlation: float
    error: float
    expected: float
    gain: float
    reach: float
    steady: float
    large: float
    top: float
    top_error: float
    lost: float


def doubts(signs: Signs) -> str:
    """Say what in a trace is not like calcium; nothing, if nothing is.

    Examples
    --------
    >>> fine = Signs(
    ...     0, 0.7, False, correlation=0.1, error=0.02, expected=10.0, gain=80.0,
    ...     reach=2.0, steady=0.1, large=20.0, top=1.3, top_error=0.1, lost=0.0,
    ... )
    >>> doubts(fine), doubts(fine._replace(gain=1.0)).split(",")[0]
    ('', 'upside down the trace is as probable')
    """
    found = []
    if signs.lone:
        alone = "1 frame stands" if signs.lone == 1 else f"{signs.lone} frames stand"
        found.append(f"{alone} alone, far from both neighbours: left out")
    if signs.at_limit and signs.expected >= SOME_EVENTS:
        found.append(
            f"the decay time ({signs.tau_d:.2g} s) is at an end of what is searched: the trace "
            "does not tell it"
        )
    if signs.correlation > max(WHITE_BELOW, SURE * signs.error):
        found.append(
            "what the fit leaves is not white: neighbouring frames correlate by "
            f"{signs.correlation:.2f}, as in a trace that was smoothed or has slow artefacts, and "
            "there may be too many events"
        )
    if signs.expected >= SOME_EVENTS and signs.gain < GAIN_PER_EVENT * signs.expected:
        found.append(
            "upside down the trace is as probable, which calcium is not: most events may be "
            "slow noise or motion (or the sign is wrong)"
        )
    if drifts(signs.reach, signs.steady, signs.large):
        found.append(
            f"the level of silence moves by {signs.reach / max(signs.large, 1.0):.1f} times a "
            "large event: drift, bleaching or focus, and events may be missed or invented"
        )
    if cut(signs.top, signs.top_error):
        found.append(
            f"the top of the trace has {signs.top:.2f} times the noise of rest: the detector or "
            "the file is saturated there, and large events are too small"
        )
    if signs.lost > MOSTLY:
        found.append(
            "no spikes stand clear of the noise: those that are counted may be few of many, and "
            "the interval of counts is mostly what cells usually fire"
        )
    return "; ".join(found)


def in_a_field(messages: Mapping[int, str], names: Sequence[int] | range) -> str:
    """Return one sentence on the messages of all cells; what many have in common is said once.

    Parameters
    ----------
    messages : mapping
        By the index of the cell.
    names : sequence of int
        What the cells are called.

    Examples
    --------
    >>> in_a_field({1: "the trace is constant"}, range(3))
    'cells with problems: 1 (the trace is constant)'
    >>> in_a_field({i: f"{i} frames stand alone" for i in range(4)}, range(9))
    'cells with problems: 4 of 9, such as 0 (0 frames stand alone)'
    """
    kinds: dict[str, list[int]] = {}
    for i, text in messages.items():
        for part in text.split("; "):
            kinds.setdefault(_kind(part), []).append(i)
    common = sorted((k for k in kinds if len(kinds[k]) > FEW), key=lambda k: -len(kinds[k]))
    said = []
    for kind in common:
        i = kinds[kind][0]
        part = next(part for part in messages[i].split("; ") if _kind(part) == kind)
        said.append(f"{len(kinds[kind])} of {len(names)}, such as {names[i]} ({part})")
    rest = {
        i: "; ".join(part for part in text.split("; ") if _kind(part) not in common)
        for i, text in messages.items()
    }
    rare = [f"{names[i]} ({text})" for i, text in rest.items() if text]
    more = [f"and {len(rare) - FEW} more"] if len(rare) > FEW else []
    return f"cells with problems: {', '.join(said + rare[:FEW] + more)}"


def _kind(text: str) -> str:
    """Return a sentence without its numbers."""
    return re.sub(r"\d[\d.]*", "#", text)


def neighbours(left: np.ndarray) -> tuple[float, float]:
    """Return the correlation of neighbouring frames, and its standard error.

    Examples
    --------
    >>> neighbours(np.array([1.0, -1.0, 1.0, np.nan, -1.0]))
    (-1.0, 0.7071067811865475)
    """
    left = left - np.nanmean(left)
    products = left[1:] * left[:-1]
    number = np.count_nonzero(np.isfinite(products))
    power = float(np.nanmean(left**2))
    if number == 0 or power == 0:
        return 0.0, 1.0
    return float(np.nanmean(products)) / power, 1 / math.sqrt(number)
