"""The states of calcium and how they follow each other.

Calcium c is the fluorescence that the indicator is heading for, in units of a jump. From one
frame to the next it decays, wanders a little, and now and then jumps:

    c_t = γ c_{t−1} + walk + s (1 + κ γ c_{t−1}),     s one of a few sizes, mostly 0,
    f_t = ρ f_{t−1} + (1 − ρ) c_t,                    y_t = A f_t + noise of variance 1.

κ is the curvature of the response: with κ > 0 a spike adds more where calcium is high (GCaMPs
bind several ions), while the decay stays exponential; with κ < 0 it adds less, as in a dye that
saturates (see :func:`response_gain`). Were the curve applied to calcium itself, it would be
chosen for the shape of the decay and not for the sizes of the jumps.
The walk stands for what is no spike: neuropil, motion, drift; it has the decay's own time.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

# Sizes of jumps and how frequent they are, around one: from half of it, for a spike's response
# varies, to the spikes that fall into one frame.
SIZES = np.array([0.5, 0.75, 1.0, 1.5, 2.2, 3.2, 4.7])
WEIGHTS = np.array([0.15, 0.25, 0.3, 0.15, 0.1, 0.05, 0.03])
# What a jump counts for: a little less than its size, for a part of the curve of a response is
# left over where a trace is too quiet, or too busy, to tell it.
COUNT_POWER = 0.8
# The height of a jump in units of the noise at 30 Hz: the smallest event that one or two frames
# tell from noise. The noise of a frame falls with the root of its duration.
HEIGHT, HEIGHT_RATE = 4.0, 30.0
# The grid: a tenth of a jump near rest, wider in proportion beyond six jumps.
SPACING, EVEN_UP_TO, HIGHEST = 0.1, 6.0, 100.0
# Below rest calcium goes no further than four standard deviations of its walk, or three jumps.
WALK_REACH, LOWEST = 4.0, 3.0
# At the start calcium may be anywhere, with every step of the grid away from rest by this less
# probable (in the logarithm): a tenth as probable 2.3 jumps away. A few frames outweigh it.
START_DECAY = 0.1
# A frame has a jump with at most this probability; more are not told apart.
MOST_PER_FRAME = 0.5


class Constants(NamedTuple):
    """What is the cell's own.

    Attributes
    ----------
    tau_d, tau_r : float
        Decay and rise time in seconds.
    curvature : float
        κ, per four times the noise at 30 Hz.
    rate : float
        Jumps per second.
    walk : float
        Standard deviation of the walk at rest, in units of the noise.
    level : float
        Of silence above the baseline, in units of the noise.
    height : float
        A, of a jump of size 1, in units of the noise at 30 Hz.
    """

    tau_d: float
    tau_r: float
    curvature: float
    rate: float
    walk: float
    level: float
    height: float = HEIGHT


class States(NamedTuple):
    """The grid and its transitions.

    Attributes
    ----------
    calcium : ndarray (K,)
        In units of a jump; ``rest`` is the index of zero.
    height : float
        A, of a jump, in units of the noise.
    rise : float
        ρ, of a frame.
    target, share : ndarray (J, K)
        Where option j leads from a state: to ``target`` and, with ``share``, its upper
        neighbour.
    weight : ndarray (J,)
        Prior probabilities of the options.
    number : ndarray (J,)
        What they count for, in jumps of size 1; 0 where there is none.
    """

    calcium: np.ndarray
    rest: int
    height: float
    rise: float
    target: np.ndarray
    share: np.ndarray
    weight: np.ndarray
    number: np.ndarray


def build_states(constants: Constants, framerate: float) -> States:
    """Lay the grid and the transitions between its states.

    Examples
    --------
    >>> states = build_states(Constants(0.7, 0.05, 0.0, 1.0, 0.5, 0.0), 7.5)
    >>> float(states.calcium[states.rest]), states.weight.sum().round(6).item()
    (0.0, 1.0)
    >>> states.height  # a frame of four times the duration has half the noise
    8.0
    """
    height = constants.height * math.sqrt(HEIGHT_RATE / framerate)
    walk = constants.walk / height
    calcium, rest = _grid(walk)
    decay = math.exp(-1 / (constants.tau_d * framerate))
    steps, chances = _walk_steps(walk * math.sqrt(1 - decay * decay))
    active = min(constants.rate / framerate, MOST_PER_FRAME)
    left = decay * calcium
    bend = constants.curvature * constants.height / HEIGHT
    gain = response_gain(bend, np.maximum(left, 0.0), SIZES[:, None], np)
    goal = np.concatenate([left + steps[:, None], left + SIZES[:, None] * gain])
    target, share = _between(calcium, goal)
    return States(
        calcium=calcium,
        rest=rest,
        height=height,
        rise=math.exp(-1 / (constants.tau_r * framerate)) if constants.tau_r > 0 else 0.0,
        target=target,
        share=share,
        weight=np.concatenate([(1 - active) * chances, active * WEIGHTS / WEIGHTS.sum()]),
        number=np.concatenate([np.zeros(len(steps)), SIZES**COUNT_POWER]),
    )


def response_gain(bend: Any, calcium: Any, size: Any, xp: Any) -> Any:
    """Return by how much a jump is larger at some calcium than from rest.

    1 + κ c for κ > 0. For κ = −a < 0 the response saturates, (1 + a s)/(1 + a (s + c)): like
    fluorescence that goes as c/(1 + a c). More calcium then never ends below less calcium.

    Examples
    --------
    >>> [float(response_gain(bend, 2.0, 1.0, np)) for bend in (0.5, -0.5)]
    [2.0, 0.6]
    """
    up, down = xp.maximum(bend, 0 * bend), xp.maximum(-bend, 0 * bend)
    return (1 + up * calcium) * (1 + down * size) / (1 + down * (size + calcium))


def noise_at_30(noise: Any, framerate: float) -> Any:
    """Return what the noise of a frame would be at 30 Hz."""
    return noise * math.sqrt(HEIGHT_RATE / framerate)


def _grid(walk: float) -> tuple[np.ndarray, int]:
    below = int(min(WALK_REACH * walk, LOWEST) / SPACING)
    return grid_from(below), below


@functools.lru_cache(maxsize=64)
def grid_from(below: int) -> np.ndarray:
    """Return the calcium of all states, ``below`` of which lie below rest."""
    ratio = SPACING / EVEN_UP_TO
    above = int(math.log1p(HIGHEST / EVEN_UP_TO) / ratio) + 2
    grid = EVEN_UP_TO * np.expm1(ratio * np.arange(above))
    calcium = np.concatenate([-SPACING * np.arange(below, 0, -1), grid])
    calcium.flags.writeable = False  # it is shared by all cells
    return calcium


def _walk_steps(std: float) -> tuple[np.ndarray, np.ndarray]:
    """Return three steps and their probabilities: mean 0, the walk's variance in a frame."""
    if std == 0:
        return np.zeros(1), np.ones(1)
    reach = max(math.sqrt(3) * std, SPACING)  # a step below the spacing would be blurred
    chance = std**2 / (2 * reach**2)
    return np.array([-reach, 0.0, reach]), np.array([chance, 1 - 2 * chance, chance])


def _between(grid: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the state below each goal, and the share of the way to the next one."""
    goal = np.clip(goal, grid[0], grid[-1])
    target = np.clip(np.searchsorted(grid, goal, side="right") - 1, 0, len(grid) - 2)
    share = (goal - grid[target]) / (grid[target + 1] - grid[target])
    return target, np.clip(share, 0.0, 1.0)
