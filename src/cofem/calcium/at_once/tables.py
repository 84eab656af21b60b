"""The transitions of many cells at once: what ``jumps.states`` builds for one.

All cells share one grid, the longest there is. A cell's own begins at its ``floor``, below which
nothing leads; so that one index means the same calcium in every cell. Cells without a walk get
its three steps with the length and the probability zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.jumps.states import (
    COUNT_POWER,
    HEIGHT,
    HEIGHT_RATE,
    LOWEST,
    MOST_PER_FRAME,
    SIZES,
    SPACING,
    START_DECAY,
    WALK_REACH,
    WEIGHTS,
    Constants,
    grid_from,
    response_gain,
)

# Options: three steps of the walk, then the jumps.
STILL = 3
NUMBER = np.concatenate([np.zeros(STILL), SIZES**COUNT_POWER])


@dataclass(frozen=True)
class Tables:
    """Constants and transitions of C cells on K states with J options.

    Attributes
    ----------
    calcium : array (K,)
    number : array (J,)
        As in ``jumps.states.States``.
    target : int32 array (C, J, K)
        The lower of the two states that an option leads to.
    share : array (C, J, K)
        Of the upper one.
    weight : array (C, J)
        Prior probabilities of the options.
    begin : array (C, K)
        Probabilities of the states before the first frame.
    height, rise, level, rest_square : array (C,)
        A jump's height and the level in units of the noise, ρ, and the mean square of what a
        frame's jump counts for.
    floor : int32 array (C,)
        The lowest state of the cell.
    """

    calcium: Array
    number: Array
    target: Array
    share: Array
    weight: Array
    begin: Array
    height: Array
    rise: Array
    level: Array
    rest_square: Array
    floor: Array


def build_tables(constants: Sequence[Constants], framerate: float, like: Array) -> Tables:
    """Build the transitions of cells on the device of ``like``.

    Examples
    --------
    >>> one = Constants(0.7, 0.05, 0.0, 1.0, 0.5, 0.0)
    >>> tables = build_tables([one, one._replace(walk=0.0)], 30.0, np.zeros(1))
    >>> tables.target.shape[:2], tables.weight.sum(axis=1).round(6).tolist()
    ((2, 10), [1.0, 1.0])
    """
    rows = np.array(constants, dtype=np.float64)
    tau_d, tau_r, curvature, rate, walk, level, jump = rows.T
    height = jump * math.sqrt(HEIGHT_RATE / framerate)
    walk = walk / height
    decay = np.exp(-1 / (tau_d * framerate))
    std = walk * np.sqrt(1 - decay * decay)
    reach = np.where(std > 0, np.maximum(math.sqrt(3) * std, SPACING), 0.0)
    chance = std**2 / (2 * np.where(std > 0, reach, 1.0) ** 2)
    active = np.minimum(rate / framerate, MOST_PER_FRAME)[:, None]
    steps = np.stack([chance, 1 - 2 * chance, chance], axis=1)
    weight = np.concatenate([(1 - active) * steps, active * WEIGHTS / WEIGHTS.sum()], axis=1)
    below = np.minimum(WALK_REACH * walk, LOWEST) / SPACING
    most = int(LOWEST / SPACING)
    grid, floor = grid_from(most), most - below.astype(np.int32)
    near = np.exp(-START_DECAY * np.abs(np.arange(len(grid)) - most))
    begin = np.where(np.arange(len(grid)) >= floor[:, None], near, 0.0)
    begin /= begin.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        rise = np.where(tau_r > 0, np.exp(-1 / (tau_r * framerate)), 0.0)

    def there(values: np.ndarray) -> Array:
        return backend.from_numpy(np.ascontiguousarray(values), like)

    calcium = there(np.array(grid))
    bend = there(curvature * jump / HEIGHT)
    still = there(np.stack([-reach, 0 * reach, reach], axis=1))
    target, share = _between(calcium, there(floor), there(decay), bend, still, there(SIZES.copy()))
    return Tables(
        calcium=calcium, number=there(NUMBER), target=target, share=share, weight=there(weight),
        begin=there(begin), height=there(height), rise=there(rise), level=there(level.copy()),
        rest_square=there(weight @ NUMBER**2), floor=there(floor),
    )  # fmt: skip


def _between(
    grid: Array, floor: Array, decay: Array, bend: Array, still: Array, sizes: Array
) -> tuple[Array, Array]:
    """Return the state below each goal, and the share of the way to the next one."""
    xp = backend.namespace(grid)
    left = decay[:, None] * grid[None, :]
    size = sizes[None, :, None]
    above = xp.maximum(left, 0 * left)[:, None, :]
    jump = size * response_gain(bend[:, None, None], above, size, xp)
    goal = xp.concat([left[:, None, :] + still[:, :, None], left[:, None, :] + jump], axis=1)
    lowest = xp.take(grid, floor)[:, None, None]
    goal = xp.minimum(xp.maximum(goal, lowest), 0 * goal + grid[-1])
    found = xp.searchsorted(grid, xp.reshape(goal, (-1,)), side="right") - 1
    found = xp.reshape(found, goal.shape)
    least = xp.astype(floor, found.dtype)[:, None, None] + 0 * found
    found = xp.minimum(xp.maximum(found, least), 0 * found + (grid.shape[0] - 2))
    flat = xp.reshape(found, (-1,))
    low = xp.reshape(xp.take(grid, flat), goal.shape)
    high = xp.reshape(xp.take(grid, flat + 1), goal.shape)
    share = (goal - low) / (high - low)
    share = xp.minimum(xp.maximum(share, 0 * share), 0 * share + 1)
    return xp.astype(found, xp.int32), share


def first_sources(target: Array) -> Array:
    """Return the first state that an option leads to state i or above, int32 (C, J, K + 1).

    Targets never fall from state to state, so that the sources of i are those from the first
    of i to before the first of i + 1.

    Examples
    --------
    >>> first_sources(np.array([[[0, 0, 2, 2]]], dtype=np.int32)).tolist()
    [[[0, 2, 2, 4, 4]]]
    """
    xp = backend.namespace(target)
    cells, options, K = target.shape
    device = backend.device_of(target)
    # In one sorted list: every row a good way above the last.
    row = xp.reshape(xp.arange(cells * options, device=device), (-1, 1))
    sorted_ = xp.reshape(xp.reshape(target, (-1, K)) + row * (K + 1), (-1,))
    asked = xp.reshape(xp.arange(K + 1, device=device)[None, :] + row * (K + 1), (-1,))
    found = xp.reshape(xp.searchsorted(sorted_, asked), (-1, K + 1)) - row * K
    return xp.astype(xp.reshape(found, (cells, options, K + 1)), xp.int32)
